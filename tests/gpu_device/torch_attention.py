# SPDX-License-Identifier: GPL-3.0-or-later
"""The shapes of bench.cpp through torch's scaled_dot_product_attention, as a measure of what else there is: 32 heads of 128 on 8,
512 rows or 1 row over a context, no mask (the rows at the end of a context see nearly all of it). Medians of nine, by CUDA events.
It returns no masses: recording with it would take a second pass over the keys."""
import statistics

import torch

HEADS, KV_HEADS, DIM = 32, 8, 128


def milliseconds(work):
    times = []
    for i in range(11):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        if i >= 2:
            times.append(begin.elapsed_time(end))
    return statistics.median(times)


print(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}")
print(f"{'kernel':8} {'type':9} {'context':>8} {'ms':>10} {'TFLOP/s':>9}")
for slots in (1024, 8192, 32768, 131072):
    for rows in (512, 1):
        for kind in (torch.float32, torch.bfloat16):
            q = torch.randn(1, HEADS, rows, DIM, device="cuda", dtype=kind)
            k, v = (torch.randn(1, KV_HEADS, slots, DIM, device="cuda", dtype=kind).repeat_interleave(HEADS // KV_HEADS, dim=1) for _ in "kv")
            try:
                ms = milliseconds(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v))
            except torch.cuda.OutOfMemoryError:
                print(f"{'prefill' if rows > 1 else 'decode':8} {str(kind)[6:]:9} {slots:8} out of memory")
                continue
            flop = 4 * rows * slots * HEADS * DIM
            print(f"{'prefill' if rows > 1 else 'decode':8} {str(kind)[6:]:9} {slots:8} {ms:10.3f} {flop / ms * 1e-9:9.2f}", flush=True)
            del q, k, v
