#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes mixtral-mixed.gguf: the small F32 model ../oracles/tiny/mixtral with its matrices in every format that
the `gguf` Python package can quantise to, one after another, and mixtral-mixed.json: for each tensor its format
and the SHA-256 of the f32 numbers that the package reads back from it.

    pip install gguf==0.19.0 numpy && python3 make_model.py
"""
import hashlib
import json
import pathlib

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, quants
from gguf.constants import GGMLQuantizationType as Type

HERE = pathlib.Path(__file__).parent
WANTED = ["Q8_0", "Q4_0", "Q5_1", "Q4_1", "Q5_0", "BF16", "F16", "MXFP4", "IQ4_NL"]


def quantised(data, name):
    try:
        return quants.quantize(data, Type[name])
    except NotImplementedError:
        return None


def main():
    reader = GGUFReader(HERE.parent / "oracles" / "tiny" / "mixtral" / "model.gguf")
    target = HERE / "mixtral-mixed.gguf"
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    types = [name for name in WANTED if quantised(np.zeros((1, 32), np.float32), name) is not None]
    said, turn = {}, 0
    for tensor in reader.tensors:
        name, data = "F32", np.array(tensor.data, dtype=np.float32)
        if data.ndim >= 2 and "ffn_gate_inp" not in tensor.name:
            for _ in types:  # the next format whose blocks divide the rows
                candidate = types[turn % len(types)]
                turn += 1
                if data.shape[-1] % 32 == 0 or candidate in ("F16", "BF16"):
                    name = candidate
                    break
        stored = data if name == "F32" else quants.quantize(data, Type[name])
        writer.add_tensor(tensor.name, stored, raw_dtype=None if name == "F32" else Type[name])
        read = data if name == "F32" else quants.dequantize(stored, Type[name])
        digest = hashlib.sha256(np.ascontiguousarray(read, dtype="<f4").tobytes()).hexdigest()
        said[tensor.name] = {"type": name, "f32_sha256": digest}
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (HERE / "mixtral-mixed.json").write_text(json.dumps(said, indent=1) + "\n")
    print(target.name, target.stat().st_size, "bytes;", ", ".join(types))


if __name__ == "__main__":
    main()
