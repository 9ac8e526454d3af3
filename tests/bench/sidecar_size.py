#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""How large sessions are: predicted and real bytes by detail level and context length, beside the KV cache they describe.

  tests/bench/sidecar_size.py --program build/release/bin/spanscope --model MODEL [--tokens 1000,8000] [--details span,head,token]

The context: --turns turns of --answer answer tokens, --leaves leaves in all (a shorter context has proportionally fewer of
both). Its tokens are this project's own text and code, so that attention looks like attention. KV bytes are those of an f16
cache. Prints one line per recording; exits 1 when a prediction is off by more than 15 %.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

OPTIONS = {
    "span": [], "head": ["--detail", "head"], "token": ["--detail", "token"], "rows": ["--rows"], "rows-heads": ["--rows", "heads"],
    "pairs": ["--pairs"], "keys": ["--keys"], "keys0": ["--keys", "layer0"], "values": ["--values"],
    # Several kinds in one recording, for contexts that take long: the last column has each kind by itself.
    "head+rows+pairs": ["--detail", "head", "--rows", "--pairs"], "token+keys": ["--detail", "token", "--keys"],
    "token-layers": ["--detail", "token", "--layers", "0..1"],
}


def source_text(root: str, least: int) -> str:
    out = []
    size = 0
    for folder, folders, files in sorted(os.walk(root)):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "data", "resources"))
        for name in sorted(files):
            if name.endswith((".md", ".h", ".cpp", ".py")):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    out.append(file.read())
                size += len(out[-1])
                if size > least:
                    return "".join(out)
    return "".join(out)


def spans(tokens: int, turns: int, answer: int, leaves: int) -> dict:
    """Turns of equal length: a few prompt leaves, one answer leaf each; leaf 0 is the sink."""
    spans, layout, out = [], [], []
    at, executed = 0, 0

    def leaf(kind: str, role: str, length: int, birth: int) -> None:
        nonlocal at
        spans.append({"id": len(spans), "kind": kind, "role": role, "name": f"{role} {len(spans)}", "tokens": length, "birth": birth})
        layout.append({"span": len(spans) - 1, "slot": at, "len": length, "pos": at})
        at += length

    for turn in range(1, turns + 1):
        end = tokens * turn // turns
        if turn == 1:
            leaf("sink", "sink", 4, 1)
        prompt = end - at - answer
        pieces = max(2, leaves * turn // turns - len(spans) - 1)
        wrap = min(4, prompt - 1)  # what a chat template puts in
        for piece in range(pieces - 1):
            length = (prompt - wrap) * (piece + 1) // (pieces - 1) - (prompt - wrap) * piece // (pieces - 1)
            if length:
                leaf("content", "user", length, turn)
        leaf("template", "template", wrap, turn)
        begin = at
        leaf("content", "assistant", answer, turn)
        last = at - 1  # the last token of an answer is not run in its turn
        out.append({"turn": turn, "context": at, "executed": [executed, last], "answer_tokens": [begin, answer],
                    "prompt_rows": list(range(executed, begin - 1)), "answer_rows": list(range(begin - 1, last)), "recompute_rows": [],
                    "layout": list(layout)})
        executed = last
    return {"spans": spans, "turns": out}


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--tokens", default="1000,8000")
    p.add_argument("--details", default="span,head,token")
    p.add_argument("--turns", type=int, default=64)
    p.add_argument("--leaves", type=int, default=200)
    p.add_argument("--answer", type=int, default=16)
    a = p.parse_args()
    info = json.loads(subprocess.run([a.program, "--json", "model", "info", a.model], check=True, stdout=subprocess.PIPE).stdout)
    of_token = 2 * 2 * info["layers"] * info["kv_heads"] * info["head_dim"]
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    off = False
    print(f"{'tokens':>7} {'turns':>5} {'leaves':>6} {'detail':<13} {'predicted':>12} {'real':>12} {'off':>7} {'of KV':>8}  by kind")
    with tempfile.TemporaryDirectory() as folder:
        file = {n: os.path.join(folder, n) for n in ("text", "ids", "spans", "session")}
        most = max(int(t) for t in a.tokens.split(","))
        with open(file["text"], "w", encoding="utf-8") as out:
            out.write(source_text(root, 6 * most))
        ids = json.loads(subprocess.run([a.program, "--json", "model", "tokenize", a.model, "--file", file["text"]], check=True, stdout=subprocess.PIPE).stdout)["ids"]
        longest = max(int(t) for t in a.tokens.split(","))
        for tokens in (int(t) for t in a.tokens.split(",")):
            turns = max(1, min(a.turns, round(a.turns * tokens / longest)))
            leaves = max(3, round(a.leaves * turns / a.turns))
            with open(file["ids"], "w", encoding="utf-8") as out:
                json.dump(ids[:tokens], out)
            with open(file["spans"], "w", encoding="utf-8") as out:
                json.dump(spans(tokens, turns, a.answer, leaves), out)
            for detail in a.details.split(","):
                command = [a.program, "--json", "record", "--model", a.model, "--ids", file["ids"], "--spans", file["spans"], "--no-text", *OPTIONS[detail]]
                predicted = json.loads(subprocess.run([*command, "--dry-run"], check=True, stdout=subprocess.PIPE).stdout)
                real = json.loads(subprocess.run([*command, "-o", file["session"], "--force"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
                error = predicted["predicted_file_bytes"] / real["bytes"] - 1
                off = off or abs(error) > 0.15
                kinds = " ".join(f"{k} {predicted['predicted_bytes_by_kind'].get(k, 0)}/{n}" for k, n in sorted(real["bytes_by_kind"].items()))
                print(f"{tokens:>7} {turns:>5} {leaves:>6} {detail:<13} {predicted['predicted_file_bytes']:>12} {real['bytes']:>12} "
                      f"{100 * error:>+6.1f}% {100 * real['bytes'] / (tokens * of_token):>7.3f}%  {kinds}", flush=True)
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
