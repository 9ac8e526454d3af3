#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes vectors.safetensors: stored blocks of every weight format and the numbers they mean.

The numbers come from the `gguf` Python package (gguf.quants), an implementation of the formats that shares
nothing with this project. Blocks have random bytes; their scales are what is hard: zero, negative zero, the
least and largest subnormal, the least normal, the largest f16, both signs, and ordinary ones.

    pip install gguf==0.19.0 numpy && python3 make_vectors.py

Two tensors a format: NAME.blocks u8 [blocks][bytes], NAME.values f32 [blocks][elements].
"""
import json
import pathlib
import struct
import sys

import numpy as np
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType as Type

# Where the f16 numbers of a block lie, in bytes.
HALVES = {
    "F16": [0], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
EXTREME = [0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x83FF, 0x0400, 0x8400, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00]
EXPONENTS = [0, 1, 2, 3, 126, 127, 128, 253, 254, 255]
NAMES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL", "MXFP4",
         "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_XS"]


def ordinary_half(random):
    """A finite f16 of any size."""
    bits = int(random.integers(0, 0x7C00))
    return bits | (0x8000 if random.integers(2) else 0)


def blocks_of(name, random):
    elements, size = GGML_QUANT_SIZES[Type[name]]
    count = {1: 1024, 32: 96, 256: 40}[elements]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    # Quants at both ends of their range.
    blocks[0], blocks[1] = 0x00, 0xFF
    if name == "F32":
        values = random.standard_normal(count).astype(np.float32)
        values[:6] = [0.0, -0.0, 1e-45, -1e-38, 3.4e38, -3.4e38]
        return values.view(np.uint8).reshape(count, 4)
    if name == "BF16":
        bits = random.integers(0, 0x7F80, count).astype(np.uint16) | (random.integers(0, 2, count) << 15).astype(np.uint16)
        bits[:8] = [0x0000, 0x8000, 0x0001, 0x8001, 0x007F, 0x0080, 0x7F7F, 0xFF7F]
        return bits.view(np.uint8).reshape(count, 2)
    if name == "MXFP4":
        for b in range(count):
            blocks[b, 0] = EXPONENTS[b % len(EXPONENTS)] if b < 3 * len(EXPONENTS) else random.integers(0, 256)
        return blocks
    at = HALVES[name]
    for b in range(count):
        for i, offset in enumerate(at):
            # With two halves all pairs of neighbours in the list, first one extreme, then both.
            bits = EXTREME[(b * (1 + 4 * i)) % len(EXTREME)] if b < 2 * len(EXTREME) else ordinary_half(random)
            blocks[b, offset:offset + 2] = np.frombuffer(struct.pack("<H", bits), np.uint8)
    return blocks


def main():
    random = np.random.default_rng(20250117)
    tensors, at, data = {}, 0, []
    for name in NAMES:
        elements, size = GGML_QUANT_SIZES[Type[name]]
        blocks = np.ascontiguousarray(blocks_of(name, random))
        with np.errstate(over="ignore", invalid="ignore"):
            values = quants.dequantize(blocks.reshape(1, -1), Type[name]) if name != "F32" else blocks.view(np.float32)
        values = np.ascontiguousarray(values, dtype=np.float32).reshape(len(blocks), elements)
        assert not np.isnan(values).any(), name
        for key, kind, array in ((name + ".blocks", "U8", blocks), (name + ".values", "F32", values)):
            raw = array.tobytes()
            tensors[key] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [at, at + len(raw)]}
            at += len(raw)
            data.append(raw)
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    out = pathlib.Path(__file__).with_name("vectors.safetensors")
    out.write_bytes(struct.pack("<Q", len(header)) + header + b"".join(data))
    print(out.name, out.stat().st_size, "bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
