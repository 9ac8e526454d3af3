# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the built programs for the tests in this folder."""
import json
import os
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

BIN = Path(os.environ.get("SPANSCOPE_TEST_BIN", "build/release/bin"))
SOURCE = Path(os.environ.get("SPANSCOPE_TEST_SOURCE", Path(__file__).resolve().parents[2]))
DEMO = SOURCE / "resources" / "demo"
ORACLES = Path(os.environ.get("SPANSCOPE_TEST_ORACLES", SOURCE / ".." / "shared" / "oracles"))


def oracle(relative):
    """The full reference data where it is (then it must be complete), else the small copy, else None."""
    full = ORACLES / relative
    if ORACLES.is_dir():
        assert full.exists(), f"reference data is here, but {full} is missing"
        return full
    small = SOURCE / "tests" / "data" / "oracles" / relative
    return small if small.exists() else None


def spanscope(*arguments, stdin=None, timeout=300, env=None):
    """Runs spanscope; never raises on failure. Output is bytes decoded leniently: it may hold any text."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPANSCOPE_")}
    # Head maps that somebody keeps for the demo models decide what is recorded; a test has its own place for them.
    environment["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / f"spanscope-test-data-{os.getpid()}")
    environment["SPANSCOPE_DEVICE"] = "cpu"  # also where there is a card; device_test.py says otherwise
    environment.update(env or {})
    done = subprocess.run([str(BIN / "spanscope"), *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=timeout, env=environment)
    done.out = done.stdout.decode("utf-8", "replace")
    done.err = done.stderr.decode("utf-8", "replace")
    return done


def read_safetensors(path):
    """{name: (dtype, shape, bytes)}, metadata"""
    data = Path(path).read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    meta = header.pop("__metadata__", {})
    body = data[8 + n:]
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}, meta


def floats(entry):
    dtype, _, raw = entry
    kind = {"F32": "f", "F64": "d", "I32": "i", "U32": "I", "U8": "B", "I64": "q"}[dtype]
    return struct.unpack("<%d%s" % (len(raw) // struct.calcsize(kind), kind), raw)


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="spanscope-test-")
        self.folder = Path(self._folder.name)

    def tearDown(self):
        self._folder.cleanup()

    def check_ok(self, done):
        self.assertEqual(done.returncode, 0, f"{done.args}\n{done.out}\n{done.err}")
        return done

    def check_error(self, done, *words, status=1):
        """One clear error: a line that starts with the program's name and a tag, and holds the words."""
        self.assertEqual(done.returncode, status, f"{done.args}\n{done.out[:2000]}\n{done.err[:2000]}")
        lines = [l for l in done.err.splitlines() if l and not l.startswith("spanscope: note:")]
        self.assertTrue(lines and lines[0].startswith("spanscope: SPAN-"), done.err)
        self.assertLessEqual(len(lines), 3, done.err)
        for word in words:
            self.assertIn(word, lines[0], done.err)
        return done
