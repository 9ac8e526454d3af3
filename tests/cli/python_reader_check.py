# SPDX-License-Identifier: GPL-3.0-or-later
"""Run by python_reader_test.py with an interpreter that has numpy and zstandard: the Python reader against what `spanscope export`
and `spanscope info` say of the same session, bit by bit; and against damage."""
import json
import random
import struct
import sys
from pathlib import Path

import numpy as np
import spanscope
from spanscope.container import DTYPES


def tensors(path):
    data = Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    header.pop("__metadata__", None)
    return {k: np.frombuffer(data[8 + n:][slice(*v["data_offsets"])], DTYPES[v["dtype"]]).reshape(v["shape"]) for k, v in header.items()}


def same(a, b, what):
    assert a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes(), what


def against_export(folder):
    s = spanscope.open(folder / "talk.span")
    assert s.finished and not [f for f in s.findings if f.grade in ("loss", "error")], s.findings
    exported = {what: tensors(folder / f"{what}.safetensors") for what in ("mass", "layer", "head", "events", "routing")}
    compared = 0
    for t in s.turns:
        p, mass = f"t{t.turn + 1:02}.", t.arrays["mass"]
        pairs = [("mass", "leaves", np.ascontiguousarray(t.layout[:, 0])), ("mass", "q_leaves", mass["query_leaves"])]
        pairs += [("mass", n, mass[n]) for n in ("rows_q", "mass_qk", "uniform_qk", "learned_sink", "unattributed", "spike")]
        pairs += [("layer", "spans", mass["profile_spans"]), ("layer", "layer", mass["layer_mass"])]
        pairs += [("head", "spans", mass["profile_spans"]), ("head", "head", t.arrays["profile"]["head_mass"])]
        pairs += [("events", "event_" + n, t.events[n]) for n in ("row", "leaf", "layer", "head", "mass", "habit")]
        r = t.arrays["routing"]
        pairs += [("routing", "route_ids", r["ids"]), ("routing", "route_weights", r["weights"]), ("routing", "route_margin", r["margin"]),
                  ("routing", "phase", t.phase)]
        for what, name, array in pairs:
            same(array, exported[what].pop(p + name), p + name)
            compared += 1
    # What is kept beyond views: every array of every layer.
    for what, kind in (("tokens", "tokenstat"), ("rows", "rows"), ("pairs", "pairs")):
        details = tensors(folder / f"{what}.safetensors")
        for t in s.turns:
            layers = s.details(t, kind)
            assert sorted(layers) == list(range(s.header["layers"]))
            for layer, arrays in layers.items():
                for name, array in arrays.items():
                    same(array, details.pop(f"t{t.turn + 1:02}.l{layer:02}.{name}"), (what, t.turn, layer, name))
                    compared += 1
            for name, array in (s.details(t, "residual")[-1] if what == "tokens" else {}).items():
                same(array, details.pop(f"t{t.turn + 1:02}.residual.{name}"), name)
        assert all(k.endswith("leaves") for k in details), list(details)
    assert s.details(s.turns[0], "keys") == {}
    assert compared > 100 and not any(exported.values()), {k: list(v) for k, v in exported.items()}

    info = json.loads((folder / "info.json").read_text("utf-8"))
    assert info["session_id"] == s.session_id and info["bytes"] == s.file_bytes and info["model"]["digest"] == s.header["model_digest"]
    assert [(m["role"], m["name"], m["id"]) for m in info["messages"]] == [(m.role, m.name, m.id) for m in s.messages]
    assert len(info["spans"]) == len(s.spans)
    for a, b in zip(info["spans"], s.spans):
        assert (a["id"], a["kind"], a["role"], a["name"], a["message"], a["parent"], a["attached_to"], a["tokens"], a["birth_turn"] - 1, a["digest"],
                a["producer"], a["field"], tuple(a["source"]), a["pinned"], a["replaces"]) == \
               (b.id, b.kind, b.role, b.name, b.message, b.parent, b.attached_to, b.tokens, b.birth, b.digest, b.producer, b.field, b.source, b.pinned, b.replaces), a
    assert len(info["turns"]) == len(s.turns)
    for a, t in zip(info["turns"], s.turns):
        assert a["turn"] == t.turn + 1 and a["events"] == len(t.events["row"]) and a["executed"] == [t.data["executed_begin"], t.data["executed_end"]]
        assert [[x["span"], x["slot"], x["len"], x["position"]] for x in a["layout"]] == t.layout.tolist()
        assert a["answer_rows"] == int((t.phase == 1).sum()) and a["prompt_rows"] == int((t.phase == 0).sum())
    frames = info["frames"]
    assert [(f["seq"], f["kind"], f["version"], f["turn"], f["offset"], f["bytes"]) for f in frames] == \
           [(f.seq, f.kind, f.version, None if f.turn is None else f.turn + 1, f.offset, f.compressed) for f in s.frames]
    total = sum(sum(a.nbytes for a in arrays.values()) for _, _, arrays in s.arrays())
    assert total > 0
    chat = json.loads((folder / "chat.json").read_text("utf-8"))
    chat = chat["messages"] if isinstance(chat, dict) else chat
    texts = 0
    for span in s.spans:
        if span.kind == "parent" and span.parent is None and span.message is not None and isinstance(chat[span.message]["content"], str):
            text = s.text(span.id)
            assert text is not None and text.decode("utf-8").strip() == chat[span.message]["content"].strip(), (span, text)
            texts += 1
    assert texts > 5
    return s


def against_damage(folder, whole):
    """Cut and flipped: the turns that are read are the ones that were written, and every loss is named."""
    data = (folder / "talk.span").read_bytes()
    images = {t.turn: {k: {n: a.tobytes() for n, a in v.items()} for k, v in t.arrays.items()} for t in whole.turns}
    rng = random.Random(5)
    path = folder / "damaged.span"

    def check(blob, what):
        path.write_bytes(blob)
        try:
            s = spanscope.open(path)
        except spanscope.SpanscopeError as error:
            assert str(error).startswith("SPAN-"), error
            return None
        for t in s.turns:
            assert {k: {n: a.tobytes() for n, a in v.items()} for k, v in t.arrays.items()} == images[t.turn], (what, t.turn)
        if len(s.turns) < len(whole.turns) or len(s.spans) < len(whole.spans):
            assert s.findings, what
        return s

    ends = [f.offset + f.compressed for f in whole.frames if f.kind == "turn_end"]
    for _ in range(60):
        size = rng.randrange(1, len(data))
        s = check(data[:size], ("cut", size))
        assert s is None or not s.finished
        if s is not None:
            assert len(s.turns) == sum(e <= size for e in ends), size
    for _ in range(120):
        bit = rng.randrange(len(data) * 8)
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        check(bytes(flipped), ("bit", bit))
    for _ in range(60):
        blob = bytearray(data)
        at, n = rng.randrange(len(data)), rng.randrange(1, 2000)
        piece = bytes(blob[at:at + n])
        if rng.random() < 0.5:
            del blob[at:at + n]
        to = rng.randrange(len(blob))
        blob[to:to] = piece
        check(bytes(blob), ("moved", at, n, to))
    for junk in (b"x", b"no session at all, only text" * 9, data[:16], b"\x28\xb5\x2f\xfd" * 100):
        assert check(junk, "junk") is None


def against_golden(data):
    sys.path.insert(0, str(data / "golden"))
    import describe
    files = sorted((data / "golden").glob("v*.span"))
    assert files
    for file in files:
        found, expected = describe.describe(file), json.loads(file.with_suffix(".json").read_text("utf-8"))
        assert found == expected, file


def against_gc(folder, whole):
    """What gc dropped is missing, in the same places as the program says; everything else is what it was."""
    s = against_export(folder)
    info = json.loads((folder / "info.json").read_text("utf-8"))["gc"]
    assert s.gc is not None and s.gc["spans"].tolist() == info["spans"] and (s.gc["until"] + 1).tolist() == info["until_turn"]
    assert {k: s.gc_policy[k] for k in ("theta", "turns", "measure")} == {k: info[k] for k in ("theta", "turns", "measure")} and info["spans"]
    assert s.gc_policy["last"] == s.turns[-1].turn
    gone = 0
    for a, b in zip(whole.turns, s.turns):
        columns = np.array([s.dropped(int(leaf), b.turn) for leaf in b.layout[:, 0]])
        assert np.isnan(b.arrays["mass"]["mass_qk"][:, :, columns]).all()
        assert np.array_equal(b.arrays["mass"]["mass_qk"][:, :, ~columns], a.arrays["mass"]["mass_qk"][:, :, ~columns])
        if columns.any():
            folded = a.arrays["mass"]["mass_qk"][:, :, columns].astype("f8").sum(axis=2)
            assert np.allclose(b.arrays["mass"]["gc_mass_qk"], folded, rtol=1e-6, atol=1e-7)
        profiles = np.array([s.dropped(int(span), b.turn) for span in b.arrays["mass"]["profile_spans"]])
        assert np.isnan(b.arrays["mass"]["layer_mass"][:, :, profiles]).all() and not np.isnan(b.arrays["mass"]["layer_mass"][:, :, ~profiles]).any()
        gone += int(columns.sum())
    assert gone > 0


if __name__ == "__main__":
    work, data = Path(sys.argv[1]), Path(sys.argv[2])
    session = against_export(work)
    against_damage(work, session)
    against_golden(data)
    against_gc(work / "gc", session)
    print("the same everywhere")
