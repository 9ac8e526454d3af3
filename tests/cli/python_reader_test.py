# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python reader (packaging/python) against the program's own output. Needs an interpreter with numpy and zstandard."""
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from program import DEMO, SOURCE, ProgramTest, spanscope


def interpreter():
    for python in (sys.executable, "python3", "/usr/bin/python3"):
        try:
            if subprocess.run([python, "-c", "import numpy, zstandard"], capture_output=True, timeout=60).returncode == 0:
                return python
        except OSError:
            pass
    return None


class PythonReader(ProgramTest):
    def test_everything(self):
        python = interpreter()
        if not python:
            self.skipTest("no Python with numpy and zstandard")
        session = self.folder / "talk.span"
        self.check_ok(spanscope("record", "--model", DEMO / "relay-moe.gguf", "--chat", DEMO / "demo12.json", "--routing", "--detail", "token", "--rows", "--pairs", "-o", session))
        shutil.copy(DEMO / "demo12.json", self.folder / "chat.json")
        for what in ("mass", "layer", "head", "events", "routing", "tokens", "rows", "pairs"):
            self.check_ok(spanscope("export", session, "--what", what, "-o", self.folder / f"{what}.safetensors"))
        (self.folder / "info.json").write_bytes(self.check_ok(spanscope("info", session, "--frames", "--json")).stdout)
        small = self.folder / "gc"
        small.mkdir()
        self.check_ok(spanscope("gc", session, "-o", small / "talk.span", "--turns", "3"))
        shutil.copy(DEMO / "demo12.json", small / "chat.json")
        for what in ("mass", "layer", "head", "events", "routing", "tokens", "rows", "pairs"):
            self.check_ok(spanscope("export", small / "talk.span", "--what", what, "-o", small / f"{what}.safetensors"))
        (small / "info.json").write_bytes(self.check_ok(spanscope("info", small / "talk.span", "--frames", "--json")).stdout)
        environment = dict(os.environ, PYTHONPATH=str(SOURCE / "packaging" / "python"), PYTHONDONTWRITEBYTECODE="1")
        check = Path(__file__).with_name("python_reader_check.py")
        done = subprocess.run([python, "-B", str(check), str(self.folder), str(SOURCE / "tests" / "data")], capture_output=True, text=True,
                              timeout=900, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
