# SPDX-License-Identifier: GPL-3.0-or-later
"""Re-attention from the command line against the reference: modes E and A, subsets s0 and s1, masses and last logits."""
import json
import unittest

from program import DEMO, ProgramTest, floats, oracle, read_safetensors, spanscope


class Reattend(ProgramTest):
    def reference(self):
        folder = oracle("derived/reattend/llama-gqa")
        if folder is None:
            self.skipTest("SKIPPED: no reference data for derived/reattend/llama-gqa")
        return json.loads((folder / "reattend.json").read_text()), read_safetensors(folder / "reattend.safetensors")[0]

    def test_against_reference(self):
        ref, arrays = self.reference()
        model = oracle("tiny/llama-gqa/model.gguf")
        spans = [{"id": s["id"], "kind": "sink" if s["id"] == ref["sink"] else "content",
                  "role": "sink" if s["id"] == ref["sink"] else "user", "name": f"span-{s['id']}", "parent": None,
                  "attached_to": None, "tokens": s["end"] - s["begin"], "birth": 1} for s in ref["spans"]]
        n = len(ref["context"])
        turn = {"turn": 1, "context": n, "executed": [0, n], "answer_tokens": None, "prompt_rows": list(range(n)),
                "answer_rows": [], "recompute_rows": [],
                "layout": [{"span": s["id"], "slot": s["begin"], "len": s["end"] - s["begin"], "pos": s["begin"]}
                           for s in ref["spans"]]}
        (self.folder / "spans.json").write_text(json.dumps({"spans": spans, "turns": [turn]}))
        (self.folder / "ids.json").write_text(json.dumps(ref["context"]))
        (self.folder / "ask.json").write_text(json.dumps(ref["question"]))
        for path in ("reference", "fast"):
            session = self.folder / f"{path}.span"
            self.check_ok(spanscope("record", "--model", model, "--ids", self.folder / "ids.json", "--spans",
                                    self.folder / "spans.json", "-o", session, "--path", path))
            runs = [("E", "E.", None, ref["E"]["answer"])]
            for i, subset in enumerate(ref["subsets"][:2]):
                runs.append(("A", f"s{i}.A.", subset["spans"], subset["modes"]["A"]["answer"]))
            for mode, prefix, subset, answer in runs:
                out = self.folder / f"{path}-{prefix}safetensors"
                more = ["--spans", ",".join(map(str, subset))] if subset else []
                done = self.check_ok(spanscope("reattend", session, "--model", model, "--ask-ids", self.folder / "ask.json",
                                               "--mode", mode, "--answer", len(answer), "--path", path, "-o", out, "--json",
                                               *more))
                got, _ = read_safetensors(out)
                self.assertEqual(json.loads(done.out)["answer_ids"], answer, (path, prefix))
                self.assertEqual(got["mass"][1], arrays[prefix + "mass"][1])
                worst = max(abs(a - b) for a, b in zip(floats(got["mass"]), floats(arrays[prefix + "mass"])))
                self.assertLessEqual(worst, 1e-5, (path, prefix, "mass"))
                logits = max(abs(a - b) for a, b in zip(floats(got["logits_last"]), floats(arrays[prefix + "logits_last"])))
                self.assertLessEqual(logits, 5e-5, (path, prefix, "logits"))
                print(f"{path} {prefix} largest mass difference {worst:.2e}, logits {logits:.2e}")

    def test_question_through_the_template(self):
        """Asking what the demo already knows: the new question's answer names the fact, and everything-mode rows sum to 1."""
        model, session = DEMO / "relay-dense.gguf", self.folder / "demo.span"
        self.check_ok(spanscope("record", "--model", model, "--chat", DEMO / "demo12.json", "-o", session))
        facts = json.loads((DEMO / "demo12.facts.json").read_text())["questions"]
        chat = json.loads((DEMO / "demo12.json").read_text())["messages"]
        right = 0
        for fact in facts:
            done = self.check_ok(spanscope("reattend", session, "--model", model, "--ask", chat[fact["question"]]["content"],
                                           "--answer", 24, "--json"))
            result = json.loads(done.out)
            total = sum(s["question_share"] for s in result["spans"]) + result["new_tokens"]["question_share"]
            self.assertAlmostEqual(total, 1.0, places=4)
            right += fact["answer"] in result["answer"]
        print(f"asked again at the end: {right} of {len(facts)} answers hold the fact")
        self.assertGreater(right, 0)

    def test_errors(self):
        model, session = DEMO / "relay-dense.gguf", self.folder / "demo.span"
        self.check_ok(spanscope("record", "--model", model, "--chat", DEMO / "demo12.json", "-o", session))
        other = DEMO / "relay-moe.gguf"
        self.check_error(spanscope("reattend", session, "--model", other, "--ask", "x"), "SPAN-OTHER-MODEL")
        self.check_error(spanscope("reattend", session, "--model", model, "--ask", "x", "--mode", "A"), "subset", status=2)
        self.check_error(spanscope("reattend", session, "--model", model, "--ask", "x", "--mode", "B"), "SPAN-MODE")
        self.check_error(spanscope("reattend", session, "--model", model, "--ask", "x", "--spans", "99999", "--mode", "A"),
                         "99999")
        (self.folder / "ask.json").write_text("[1, 99999]")
        self.check_error(spanscope("reattend", session, "--model", model, "--ask-ids", self.folder / "ask.json"), "99999")


if __name__ == "__main__":
    unittest.main()
