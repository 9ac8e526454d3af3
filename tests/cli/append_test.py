# SPDX-License-Identifier: GPL-3.0-or-later
"""record --append: a session that goes on with a longer conversation holds what one recording of all of it holds."""
import json
import unittest

from program import DEMO, ProgramTest, spanscope


class Append(ProgramTest):
    def chat(self, name, messages):
        chat = json.loads((DEMO / "demo12.json").read_text("utf-8"))
        listed = chat["messages"] if isinstance(chat, dict) else chat
        path = self.folder / name
        path.write_text(json.dumps({"messages": listed[:messages]}), "utf-8")
        return path

    def record(self, chat, *more, model="relay-moe.gguf"):
        return spanscope("record", "--model", DEMO / model, "--chat", chat, "--detail", "head", "--heads", "all", "--routing", *more)

    def tables(self, session):
        out = {}
        for what in ("reads", "events", "mass", "layer", "head", "routing", "spans"):
            rows = json.loads(self.check_ok(spanscope("export", session, "--what", what, "-o", "-", "--json")).stdout)
            out[what] = rows
        return out

    def test_in_pieces_and_in_one_go(self):
        whole, pieces = self.folder / "whole.span", self.folder / "pieces.span"
        self.check_ok(self.record(DEMO / "demo12.json", "-o", whole))
        messages = json.loads(self.check_ok(spanscope("info", whole, "--json")).stdout)["messages"]
        answers = [i + 1 for i, m in enumerate(messages) if m["role"] == "assistant"]
        for piece, end in enumerate(answers[2::3]):
            chat = self.chat(f"{end}.json", end)
            self.check_ok(self.record(chat, *(("-o", pieces) if piece == 0 else ("--append", pieces))))
        self.check_ok(self.record(DEMO / "demo12.json", "--append", pieces))  # nothing new: nothing is lost
        verified = spanscope("verify", pieces)
        self.assertEqual(verified.returncode, 0, verified.stdout)
        self.assertEqual(self.tables(whole), self.tables(pieces))

    def test_after_a_kill(self):
        whole, cut = self.folder / "whole.span", self.folder / "cut.span"
        self.check_ok(self.record(DEMO / "demo12.json", "-o", whole))
        # Ends inside a turn: what a killed recorder leaves.
        frames = json.loads(self.check_ok(spanscope("info", whole, "--frames", "--json")).stdout)["frames"]
        at = [f for f in frames if f["kind"] == "mass" and f["turn"] == 6][0]
        cut.write_bytes(whole.read_bytes()[:at["offset"] + at["bytes"]])
        self.check_ok(self.record(DEMO / "demo12.json", "--append", cut))
        self.assertEqual(self.tables(whole), self.tables(cut))

    def test_what_does_not_fit_is_refused_and_nothing_is_written(self):
        session = self.folder / "s.span"
        self.check_ok(self.record(self.chat("short.json", 5), "-o", session))
        before = session.read_bytes()

        def refused(result, words):
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn(b"SPAN-APPEND", result.stderr)
            self.assertIn(words, result.stderr)
        refused(self.record(DEMO / "demo12.json", "--append", session, model="relay-dense.gguf"), b"the model")
        refused(self.record(DEMO / "demo12.json", "--append", session, "--rows"), b"--rows")
        refused(self.record(DEMO / "demo12.json", "--append", session, "--lambda", "0.5"), b"--lambda")
        refused(self.record(self.chat("two.json", 3), "--append", session), b"message 3")
        chat = json.loads((self.folder / "short.json").read_text("utf-8"))
        chat["messages"][0]["content"] += " And more."
        other = self.folder / "other.json"
        other.write_text(json.dumps(chat), "utf-8")
        refused(self.record(other, "--append", session), b"turn 1")
        self.assertEqual(session.read_bytes()[:len(before)], before)
        verified = spanscope("verify", session)
        self.assertIn(verified.returncode, (0, 3))
        self.assertEqual(self.record(DEMO / "demo12.json", "--append", session, "-o", self.folder / "x").returncode, 2)


if __name__ == "__main__":
    unittest.main()
