# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads a session with nothing of ours: zstd frames one after another, one safetensors blob in each. Prints what is there."""
import json
import struct
import sys

import zstandard


def blobs(path):
    f = zstandard.ZstdDecompressor().stream_reader(open(path, "rb"), read_across_frames=True)
    while n := f.read(8):
        h = json.loads(f.read(struct.unpack("<Q", n)[0]))
        m = h.pop("__metadata__", {})
        body = f.read(max((t["data_offsets"][1] for t in h.values()), default=0))
        yield m, {k: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for k, t in h.items()}


SIZE = {"U8": 1, "I8": 1, "BOOL": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4,
        "U64": 8, "I64": 8, "F64": 8}
sessions = set()
for number, (meta, tensors) in enumerate(blobs(sys.argv[1])):
    assert int(meta["seq"]) == number, (meta, number)
    sessions.add(meta["session"])
    for name, (dtype, shape, data) in tensors.items():
        count = 1
        for d in shape:
            count *= d
        assert len(data) == count * SIZE[dtype], (name, dtype, shape, len(data))
        print(number, meta["kind"], name, dtype, shape)
assert len(sessions) == 1, sessions
