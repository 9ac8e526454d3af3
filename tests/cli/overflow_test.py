# SPDX-License-Identifier: GPL-3.0-or-later
"""record --on-overflow: contexts stay below their limit, files are whole, and what cannot work is refused by name."""
import json
import unittest

from program import DEMO, ProgramTest, spanscope

LIMIT = 600


class Overflow(ProgramTest):
    def record(self, *more, model="relay-dense.gguf", limit=LIMIT):
        return spanscope("record", "--model", DEMO / model, "--chat", DEMO / "demo64.json", "--context", limit, *more)

    def turns(self, session):
        return json.loads(self.check_ok(spanscope("info", session, "--turns", "--json")).stdout)["turns"]

    def check(self, session, compact):
        verified = spanscope("verify", session)
        self.assertEqual(verified.returncode, 0, verified.out)
        turns = self.turns(session)
        self.assertEqual(len(turns), 64)
        apart = 0
        for before, turn in zip([None] + turns, turns):
            self.assertLessEqual(turn["tokens"], LIMIT)
            self.assertEqual(turn["recompute_rows"], 0)
            self.assertEqual(sum(e["len"] for e in turn["layout"]), turn["tokens"])
            apart += any(e["slot"] != e["position"] for e in turn["layout"])
        left = {e["span"] for t in turns for e in t["layout"]} - {e["span"] for e in turns[-1]["layout"]}
        self.assertGreater(len(left), 100)
        self.assertEqual({span for t in turns for span in t["evicted"]} & {e["span"] for e in turns[-1]["layout"]}, set())
        self.assertGreater(sum(len(t["evicted"]) for t in turns), 100)
        self.assertEqual(apart == 0, compact)

    def test_policies_and_positions(self):
        for model in ("relay-dense.gguf", "relay-moe.gguf"):
            for policy in ("slide", "evict-coldest"):
                for positions in ("compact", "keep"):
                    with self.subTest(model=model, policy=policy, positions=positions):
                        session = self.folder / f"{model}-{policy}-{positions}.span"
                        self.check_ok(self.record("--on-overflow", policy, "--evict-positions", positions, "-o", session, model=model))
                        self.check(session, positions == "compact")

    def test_answers_that_the_model_gives(self):
        session = self.folder / "generated.span"
        self.check_ok(self.record("--on-overflow", "slide", "--generate", "all", "--max-tokens", 40, "-o", session))
        self.check(session, True)

    def test_a_context_that_lost_spans_is_not_asked_again_as_if_it_had_not(self):
        session, ids = self.folder / "asked.span", self.folder / "ids.json"
        self.check_ok(self.record("--on-overflow", "slide", "-o", session))
        ids.write_text("[5, 6, 7]", "utf-8")
        ask = ("reattend", session, "--model", DEMO / "relay-dense.gguf", "--ask-ids", ids, "--mode", "E")
        first = next(t["turn"] for t in self.turns(session) if t["evicted"])
        self.check_ok(spanscope(*ask, "--turn", first - 1))
        for turn in (first, 64):
            result = spanscope(*ask, "--turn", turn)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"SPAN-MOVED", result.stderr)

    def test_refused(self):
        session = self.folder / "no.span"
        for more, limit, words in (((), LIMIT, b"SPAN-CONTEXT"), (("--on-overflow", "slide"), 40, b"the limit is 40")):
            result = self.record(*more, "-o", session, limit=limit)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(words, result.stderr)


if __name__ == "__main__":
    unittest.main()
