# SPDX-License-Identifier: GPL-3.0-or-later
"""describe.py FILE.span: what a session holds, as JSON, read with packaging/python. One session per released version lies here with
its description; both readers, this one and the program's own, must find the same in it for ever. To add one: record it with the
released program, run this once, look at it, never change it again."""
import hashlib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "packaging" / "python"))
import spanscope  # noqa: E402


def sha(array):
    return hashlib.sha256(array.tobytes()).hexdigest()


def describe(path):
    s = spanscope.open(path)
    turns = []
    for t in s.turns:
        m, e = t.arrays["mass"], t.events
        turns.append({
            "turn": t.turn, "context": t.data["context"], "message": t.data["message"], "executed": [t.data["executed_begin"], t.data["executed_end"]],
            "answer": [t.data["answer_begin"], t.data["answer_len"]], "phase": sha(t.phase), "layout": t.layout.tolist(),
            "ids": sha(t.arrays["turn_begin"]["ids"]), "query_leaves": m["query_leaves"].tolist(), "rows_q": m["rows_q"].reshape(-1).tolist(),
            "mass_sum": float(m["mass_qk"].astype("f8").sum()),
            "sha256": {name: sha(m[name]) for name in ("mass_qk", "uniform_qk", "learned_sink", "unattributed", "spike", "spike_layer", "spike_head",
                                                       "spike_row", "layer_mass")},
            "profile_spans": m["profile_spans"].tolist(),
            "events": [{"row": int(e["row"][i]), "leaf": int(e["leaf"][i]), "layer": int(e["layer"][i]), "head": int(e["head"][i]),
                        "mass": float(e["mass"][i]), "habit": float(e["habit"][i])} for i in range(len(e["row"]))],
            "routing": {name: sha(a) for name, a in t.arrays["routing"].items()} if "routing" in t.arrays else None})
    spans = [{"id": x.id, "kind": x.kind, "role": x.role, "name": x.name, "message": x.message, "parent": x.parent, "tokens": x.tokens,
              "birth": x.birth, "digest": x.digest, "text": (s.text(x.id) or b"").decode("utf-8", "replace")} for x in s.spans]
    header = {k: s.header[k] for k in ("program_version", "model_name", "model_digest", "layers", "query_heads", "detail", "routing", "lambda", "theta_rec")}
    return {"finished": s.finished, "session_id": s.session_id, "findings": [[f.grade, f.tag] for f in s.findings], "header": header,
            "messages": [[m.role, m.name, m.id] for m in s.messages], "spans": spans, "turns": turns,
            "closing": {name: sha(a) for name, a in s.closing.items()}}


if __name__ == "__main__":
    json.dump(describe(sys.argv[1]), sys.stdout, indent=1, ensure_ascii=False)
    print()
