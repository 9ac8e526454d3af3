# SPDX-License-Identifier: GPL-3.0-or-later
"""model heads, lab criteria, record --heads and gc as typed: what they print, keep and refuse."""
import json
import unittest

from program import DEMO, ProgramTest, spanscope
from session_outputs_test import check, schema

DENSE, MOE = DEMO / "relay-dense.gguf", DEMO / "relay-moe.gguf"


class HeadMaps(ProgramTest):
    def setUp(self):
        super().setUp()
        self.env = {"XDG_DATA_HOME": str(self.folder / "data")}

    def run_json(self, *arguments):
        return json.loads(self.check_ok(spanscope(*arguments, "--json", env=self.env)).stdout)

    def test_a_map_is_made_kept_used_and_shown(self):
        self.check_error(spanscope("model", "heads", "--model", DENSE, "--show", env=self.env), "SPAN-NO-HEAD-MAP")
        session = self.folder / "all.span"
        done = self.check_ok(spanscope("record", "--model", DENSE, "--chat", DEMO / "demo12.json", "--detail", "head", "-o", session, env=self.env))
        self.assertIn("all 16 heads kept", done.err)
        made = self.run_json("model", "heads", "--model", DENSE)
        self.assertTrue(made["path"].startswith(str(self.folder / "data")) and made["path"].endswith(made["model_digest"] + ".json"))
        self.assertEqual([(h["layer"], h["head"]) for h in made["top"]["copy"]], [(1, 3)])
        self.assertIn("the fed tokens count", made["copy"]["source"])  # a demo model copies no arbitrary words, and the map says so
        self.assertNotIn("gate", made)
        gates = self.folder / "full_attention_heads.tsv"
        gates.write_text("".join(f"{0.25 * layer}\t1.0\n" for layer in range(4)))
        both = self.run_json("model", "heads", "--model", DENSE, "--import", gates)
        self.assertEqual(both["gate"]["value"][2], [0.5, 0.5, 1.0, 1.0])
        self.assertEqual(both["copy"], made["copy"])  # what was measured before stays
        counted = self.run_json("model", "heads", "--model", DENSE, "--session", session)
        self.assertEqual([(h["layer"], h["head"]) for h in counted["top"]["session_reads"]], [(1, 3)])
        self.assertEqual({k: v for k, v in self.run_json("model", "heads", "--model", DENSE, "--show").items()}, counted)
        text = self.check_ok(spanscope("model", "heads", "--model", DENSE, "--show", env=self.env)).out
        self.assertIn("L1H3", text)
        # Head detail keeps the map's heads now, and says so; all and a list still can be asked for.
        for name, more, kept, says in (("map", [], 1, "the model's head map"), ("every", ["--heads", "all"], 16, "all 16 heads kept"),
                                       ("list", ["--heads", "1.3,2.*"], 5, "as listed")):
            path = self.folder / f"{name}.span"
            done = self.check_ok(spanscope("record", "--model", DENSE, "--chat", DEMO / "demo12.json", "--detail", "head", *more, "-o", path, env=self.env))
            self.assertIn(says, done.err)
            table = self.folder / f"{name}.json"
            self.check_ok(spanscope("export", path, "--what", "head", "-o", table))
            self.assertEqual(len({(r["layer"], r["head"]) for r in json.loads(table.read_text())}), kept)
        criteria = self.run_json("lab", "criteria", session)["head_profile"]
        self.assertEqual(criteria["heads"], 16)
        self.assertIn("needle prompts", criteria["copy_source"])
        self.assertGreater(criteria["profile_bytes"], 0)
        self.assertGreater(criteria["shares"][0]["reads"], 0.2)
        self.assertIsNone(self.run_json("lab", "criteria", self.folder / "map.span")["head_profile"]["retrieval_mass"])  # few heads: missing, not 0
        self.assertIn("heads", self.check_ok(spanscope("lab", "criteria", session, env=self.env)).out)

    def test_what_is_refused(self):
        made = self.folder / "dense.json"
        self.check_ok(spanscope("model", "heads", "--model", DENSE, "--prompts", "2", "-o", made))
        self.check_error(spanscope("model", "heads", "--model", DENSE, "--prompts", "2", "-o", made), "SPAN-EXISTS")
        self.check_ok(spanscope("model", "heads", "--model", DENSE, "--prompts", "2", "-o", made, "--force"))
        self.check_error(spanscope("model", "heads", "--model", MOE, "-o", made, "--force"), "SPAN-HEAD-MAP", "another model")
        bad = self.folder / "bad.tsv"
        bad.write_text("1 1\n1 1 1\n")
        self.check_error(spanscope("model", "heads", "--model", DENSE, "--import", bad, "-o", self.folder / "x.json"), "SPAN-HEAD-MAP", "bad.tsv:2", "expected 2 key/value heads, found 3")
        self.assertFalse((self.folder / "x.json").exists())
        session = self.folder / "moe.span"
        self.check_ok(spanscope("record", "--model", MOE, "--chat", DEMO / "demo12.json", "-o", session))
        self.check_error(spanscope("model", "heads", "--model", DENSE, "--session", session, "-o", self.folder / "x.json"), "SPAN-HEAD-MAP", "another model")
        self.check_error(spanscope("lab", "criteria", session, "--map", made), "SPAN-HEAD-MAP", "another model")
        self.check_error(spanscope("lab", "criteria", session, "--map", self.folder / "none.json"), "SPAN-NO-HEAD-MAP")
        self.check_error(spanscope("record", "--model", DENSE, "--chat", DEMO / "demo12.json", "--detail", "head", "--heads", "map", "-o", self.folder / "y.span"), "SPAN-NO-HEAD-MAP")
        self.check_error(spanscope("record", "--model", DENSE, "--chat", DEMO / "demo12.json", "--detail", "head", "--heads", "9.0", "-o", self.folder / "y.span"), "SPAN-USAGE", "9.0", status=2)


class Gc(ProgramTest):
    def test_a_smaller_session_that_says_what_it_lacks(self):
        whole, small = self.folder / "whole.span", self.folder / "small.span"
        self.check_ok(spanscope("record", "--model", MOE, "--chat", DEMO / "demo64.json", "--routing", "--detail", "head", "-o", whole))
        report = json.loads(self.check_ok(spanscope("gc", whole, "-o", small, "--theta", "0", "--turns", "8", "--json")).stdout)
        self.assertEqual((report["input_bytes"], report["output_bytes"]), (whole.stat().st_size, small.stat().st_size))
        self.assertLess(report["output_bytes"], 0.7 * report["input_bytes"])
        self.assertGreater(report["cold_messages"], 50)
        for kind in ("mass", "profile", "routing"):
            self.assertLess(report["bytes_by_kind"][kind]["after"], report["bytes_by_kind"][kind]["before"])
        self.assertIn("clean", self.check_ok(spanscope("verify", small)).out)
        info = json.loads(self.check_ok(spanscope("info", small, "--json")).stdout)
        check(schema("info"), info)
        self.assertEqual(info["gc"]["turns"], 8)
        self.assertIn("gc", self.check_ok(spanscope("info", small)).out)
        until = dict(zip(info["gc"]["spans"], info["gc"]["until_turn"]))
        self.assertEqual(set(until.values()), {64 - 8 + 1})
        tables = {}
        for name, path in (("whole", whole), ("small", small)):
            for what in ("reads", "routing"):
                out = self.folder / f"{name}.{what}.json"
                self.check_ok(spanscope("export", path, "--what", what, "-o", out))
                tables[name, what] = json.loads(out.read_text())
        for what in ("reads", "routing"):
            check(schema(f"export_{what}"), tables["small", what])
        missing = 0
        for a, b in zip(tables["whole", "reads"], tables["small", "reads"]):
            gone = b["span"] in until and b["turn"] < until[b["span"]]
            missing += gone
            self.assertEqual({k: v for k, v in b.items()}, {**a, "share": None, "lift": None} if gone else a)
        self.assertGreater(missing, 1000)
        picks = sum(r["weight"] is None for r in tables["small", "routing"])
        self.assertGreater(picks, 0)
        self.assertEqual(picks, sum(r["expert"] is None for r in tables["small", "routing"]))
        self.check_ok(spanscope("export", small, "--what", "mass", "-o", self.folder / "mass.csv"))
        lines = (self.folder / "mass.csv").read_text().splitlines()
        self.assertTrue(any(",,," in line for line in lines) and not any("null" in line or "nan" in line.lower() for line in lines if not line.startswith("#")))
        # A view of a turn long ago: those spans are missing, with the reason; the last turn is whole.
        view = json.loads(self.check_ok(spanscope("view", small, "missing(share) or share >= 0", "--turn", "20", "--rows", "answer", "--json")).stdout)
        whys = {r["why"] for r in view["refs"]}
        self.assertIn("missing: gc", whys)
        now = [json.loads(self.check_ok(spanscope("view", p, "cumulative > 0", "--rows", "answer", "--json")).stdout)["refs"] for p in (whole, small)]
        self.assertEqual([r["span"] for r in now[0]], [r["span"] for r in now[1]])
        for a, b in zip(*now):
            self.assertAlmostEqual(a["value"], b["value"], delta=1e-9 * abs(a["value"]) + 1e-12)
        dead = [[r["span"] for r in json.loads(self.check_ok(spanscope("view", p, "--preset", "dead-weight", "--json")).stdout)["refs"]] for p in (whole, small)]
        self.assertEqual(dead[0], dead[1])
        self.check_error(spanscope("gc", whole, "-o", small), "SPAN-EXISTS")
        self.check_error(spanscope("gc", whole, "-o", whole, "--force"), "SPAN-SAME-FILE")
        self.check_error(spanscope("gc", whole, "-o", self.folder / "z.span", "--turns", "64"), "SPAN-GC-TURNS", "64")
        self.assertEqual(spanscope("gc", whole, "-o", self.folder / "z.span", "--theta", "-1").returncode, 2)


if __name__ == "__main__":
    unittest.main()
