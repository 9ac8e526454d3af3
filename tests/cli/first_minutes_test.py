# SPDX-License-Identifier: GPL-3.0-or-later
"""A newcomer's first five minutes: the README's commands as they stand there, and what it promises of each."""
import json
import os
import re
import shlex
import struct
import subprocess
import time
import unittest
import zlib

from program import BIN, SOURCE, ProgramTest, spanscope

README = (SOURCE / "README.md").read_text(encoding="utf-8")


def commands(heading):
    """The command lines of the first code block below a heading, without comments."""
    section = README.split(f"## {heading}\n", 1)[1]
    block = re.search(r"```sh\n(.*?)```", section, re.S).group(1)
    return [shlex.split(line, comments=True) for line in block.splitlines() if line.strip()]


def png_pixels(path):
    """Width, height, and how many different bytes the picture's rows hold (an empty window has few)."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n"), path
    width, height = struct.unpack(">II", data[16:24])
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += 12 + size
    return width, height, len(set(zlib.decompress(packed)))


class FirstMinutes(ProgramTest):
    def setUp(self):
        super().setUp()
        # The commands are typed in the repository; here in a folder that looks like it, so that nothing is left there.
        (self.folder / "resources").symlink_to(SOURCE / "resources")
        self.environment = {k: v for k, v in os.environ.items()
                            if not k.startswith("SPANSCOPE_") and k not in ("DISPLAY", "WAYLAND_DISPLAY")}
        self.environment["PATH"] = f"{BIN}:{os.environ['PATH']}"
        self.environment["QT_QPA_PLATFORM"] = "offscreen"

    def type(self, words, **options):
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, timeout=600, text=True,
                              **options)
        self.assertEqual(done.returncode, 0, f"{words}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_the_first_session(self):
        session = self.folder / "demo64.span"
        done = set()
        for words in commands("A first session"):
            if words[0] == "export":
                continue
            self.assertEqual(words[0], "spanscope", words)
            kind = words[1]
            if kind == "open":
                self.check_open(words)
                done.add(kind)
                continue
            out = self.type(words)
            if kind == "record":
                self.assertTrue(session.stat().st_size > 10000)
                self.check_ok(spanscope("verify", session))
                info = json.loads(self.check_ok(spanscope("info", session, "--json")).out)
                answered = [t for t in info["turns"] if t["answer_rows"]]
                self.assertEqual(len(answered), 64)
            elif kind == "view":
                view = json.loads(self.type([*words, "--json"]))
                self.assertTrue(view["refs"], out)
                for ref in view["refs"]:
                    self.assertIn(str(ref["span"]), out)
                if "total_reads >= 40" in words:
                    reads = json.loads(self.type(["spanscope", "view", "demo64.span", "total_reads >= 1", "--json"]))
                    self.assertLess(len(view["refs"]), len(reads["refs"]))
            elif kind == "report":
                self.check_report(self.folder / words[words.index("-o") + 1])
            done.add(kind)
        self.assertEqual(done, {"record", "open", "view", "report"})

    def check_open(self, words):
        if not (BIN / "spanscope-gui").exists():
            print("SKIPPED: built without the window (SPANSCOPE_GUI=OFF)")
            return
        window = subprocess.Popen(words, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE)
        try:
            time.sleep(5)
            self.assertIsNone(window.poll(), "the window closed by itself")
        finally:
            window.kill()
            window.communicate()

    def check_report(self, path):
        page = path.read_text(encoding="utf-8")
        self.assertTrue(page.lstrip().lower().startswith("<!doctype html"))
        self.assertIn("<svg", page)
        self.assertIsNone(re.search(r"""(src|href)\s*=\s*["'](https?:)?//""", page), "the report fetches something")

    def test_what_the_two_commands_are(self):
        for words in commands("Two commands"):
            self.assertTrue(os.access(SOURCE / words[0], os.X_OK), words)

    def test_demo(self):
        if BIN.resolve() != (SOURCE / "build" / "release" / "bin").resolve() or not (BIN / "spanscope-gui").exists():
            print("SKIPPED: packaging/demo.sh works in build/release, this is another build")
            return
        for run in (1, 2):
            done = subprocess.run([str(SOURCE / "packaging" / "demo.sh")], cwd=self.folder, env=self.environment,
                                  capture_output=True, timeout=900, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            said = dict(re.findall(r"^(Session|Report|Picture)\s+(\S.*)$", done.stdout, re.M))
            self.assertEqual(set(said), {"Session", "Report", "Picture"}, done.stdout)
        self.assertIn("Already recorded", done.stdout)
        out = SOURCE / "build" / "demo"
        self.check_ok(spanscope("verify", said["Session"]))
        self.check_report(out / "demo64.html")
        width, height, values = png_pixels(out / "demo64.png")
        self.assertGreaterEqual(width * height, 800 * 500)
        self.assertGreater(values, 50, "the picture is empty")


if __name__ == "__main__":
    unittest.main(verbosity=2)
