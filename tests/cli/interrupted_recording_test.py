# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings that end badly: killed at random moments, a full disk, a folder taken away, a place that cannot be written. The file
opens every time, every closed turn is in it with the numbers of an undisturbed recording, and what is missing is named.
SPANSCOPE_KILL_ROUNDS (default 8) says how often to kill, SPANSCOPE_KILL_CHAT which conversation to record (default demo64);
SPANSCOPE_KILL_SEED makes the moments repeatable."""
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from program import BIN, DEMO, ProgramTest, read_safetensors, spanscope

MODEL = DEMO / "relay-dense.gguf"
CHAT = os.environ.get("SPANSCOPE_KILL_CHAT", DEMO / "demo64.json")
PREAMBLE = 16


def recording(session, **more):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPANSCOPE_")}
    return subprocess.Popen([str(BIN / "spanscope"), "record", "--model", str(MODEL), "--chat", str(CHAT), "-o", str(session), "--progress", "lines"],
                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, **more)


def begun(running, session):
    """Waits until there is something in the file (or the recorder is gone)."""
    while running.poll() is None and not (os.path.exists(session) and os.stat(session).st_size > PREAMBLE):
        time.sleep(0.001)


def closed_turns(stderr):
    """Turns that the recorder said were closed (it says so after they are on disk)."""
    return max([int(n) for n in re.findall(r"^turn (\d+)/\d+ ", stderr, re.M)], default=0)


class InterruptedRecording(ProgramTest):
    reference = None

    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.keep = tempfile.TemporaryDirectory(prefix="spanscope-test-")
        session = cls.keep.name + "/reference.span"
        running = recording(session)
        begun(running, session)
        start = time.monotonic()
        cls.stderr = running.communicate(timeout=600)[1].decode()
        cls.seconds = time.monotonic() - start
        assert running.returncode == 0, cls.stderr
        cls.reference = cls.arrays(session, cls.keep.name + "/reference.safetensors")
        cls.turns = closed_turns(cls.stderr)
        assert cls.turns > 5, cls.stderr

    @classmethod
    def tearDownClass(cls):
        cls.keep.cleanup()

    @staticmethod
    def arrays(session, output):
        done = spanscope("export", session, "--what", "mass", "-o", output, "--force")
        assert done.returncode in (0, 3), done.err
        return read_safetensors(output)[0]

    def json_of(self, *arguments, statuses=(0, 3)):
        done = spanscope(*arguments, "--json")
        self.assertIn(done.returncode, statuses, f"{arguments}\n{done.out[:3000]}\n{done.err}")
        return json.loads(done.stdout), done.returncode

    def check_readable(self, session, at_least, what):
        """Opens, holds the closed turns with the right numbers, says what is missing. Returns the number of turns."""
        info, status = self.json_of("info", session)
        self.assertEqual(status, 0 if info["finished"] and not any(f["grade"] in ("loss", "error") for f in info["findings"]) else 3)
        turns = [t["turn"] for t in info["turns"]]
        self.assertEqual(turns, list(range(1, len(turns) + 1)), what)
        self.assertGreaterEqual(len(turns), at_least, what)
        if not info["finished"]:
            self.assertIn("SPAN-UNFINISHED", [f["tag"] for f in info["findings"]], what)
            self.assertIn(f"{len(turns)} closed turn", info["findings"][0]["message"], what)
        if turns:
            arrays = self.arrays(session, self.folder / "killed.safetensors")
            expected = {n: a for n, a in self.reference.items() if int(n[1:n.index(".")]) <= len(turns)}
            self.assertEqual(sorted(arrays), sorted(expected), what)
            for name, array in arrays.items():
                self.assertEqual(array, expected[name], (what, name))
        verified, status = self.json_of("verify", session)
        self.assertEqual(verified["frames"], verified["frames_readable"], what)
        self.assertEqual(status == 0, info["finished"], what)
        return len(turns)

    def test_killed_at_random_moments(self):
        seed = int(os.environ.get("SPANSCOPE_KILL_SEED", random.SystemRandom().randrange(1 << 30)))
        print(f"seed {seed}, an undisturbed recording takes {self.seconds:.2f} s from its first frame", file=sys.stderr)
        rng = random.Random(seed)
        rounds = int(os.environ.get("SPANSCOPE_KILL_ROUNDS", "8"))
        inside, before = 0, 0
        for n in range(rounds):
            session = self.folder / f"killed{n}.span"
            running = recording(session)
            if n % 10:  # every tenth is killed at any moment of its start
                begun(running, session)
            time.sleep(rng.uniform(0, self.seconds))
            running.kill()
            closed = closed_turns(running.communicate(timeout=60)[1].decode())
            what = f"seed {seed} round {n}: {closed} turns were said to be closed"
            if not session.exists() or session.stat().st_size <= PREAMBLE or spanscope("info", session).returncode == 1:
                # Killed before the session's header was on disk: nothing had been recorded.
                self.assertEqual(closed, 0, what)
                before += 1
                continue
            turns = self.check_readable(session, closed, what)
            inside += turns < self.turns
            # What is left can be made whole, and says for ever that it was not finished.
            whole = self.folder / "whole.span"
            repaired, _ = self.json_of("repair", session, "-o", whole, "--force")
            info, _ = self.json_of("info", whole)
            self.assertTrue(info["finished"], what)
            self.assertEqual(len(info["turns"]), turns, what)
            if not repaired["was_finished"]:
                self.assertIn("SPAN-LOSS", [f["tag"] for f in info["findings"]], what)
            session.unlink()
        print(f"{rounds} recordings killed: {before} before anything was recorded, {inside} inside, the rest at their end", file=sys.stderr)
        self.assertGreater(inside, 0)

    def full(self, session, **more):
        running = recording(session, **more)
        err = running.communicate(timeout=600)[1].decode()
        self.assertEqual(running.returncode, 1, err)
        lines = [l for l in err.splitlines() if l.startswith("spanscope: SPAN-")]
        self.assertEqual(len(lines), 1, err)
        self.assertIn("SPAN-WRITE", lines[0])
        turns = self.check_readable(session, closed_turns(err), "full disk")
        self.assertGreater(turns, 2)
        self.assertLess(turns, self.turns)
        info, status = self.json_of("info", session)
        self.assertEqual(status, 3)
        return lines[0], info

    def test_a_limit_on_the_file(self):
        size = os.stat(self.keep.name + "/reference.span").st_size

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 3, size // 3))
        line, info = self.full(self.folder / "limited.span", preexec_fn=limit)
        self.assertIn("too large", line)

    def test_a_full_disk(self):
        small = self.folder / "small"
        small.mkdir()
        size = os.stat(self.keep.name + "/reference.span").st_size
        if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size // 2 // 4096 * 4096}", "tmpfs", str(small)],
                                               capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        try:
            line, info = self.full(small / "full.span")
            self.assertIn("No space left", line)
        finally:
            subprocess.run(["umount", str(small)], check=True)

    def test_a_folder_that_is_taken_away(self):
        folder = self.folder / "going"
        folder.mkdir()
        running = recording(folder / "gone.span")
        for line in running.stderr:
            if line.startswith(b"turn 3/"):
                break
        shutil.rmtree(folder)
        err = running.communicate(timeout=600)[1].decode()
        self.assertEqual(running.returncode, 1, err)
        self.assertIn("SPAN-REMOVED", err)
        self.assertIn("removed", err)
        self.assertFalse(folder.exists())

    def test_places_that_cannot_be_written(self):
        closed = self.folder / "closed"
        closed.mkdir()
        theirs = closed / "there.span"
        theirs.write_bytes(b"precious")
        theirs.chmod(0o444)
        closed.chmod(0o555)
        self.folder.chmod(0o755)
        more = {}
        if os.geteuid() == 0:
            # Root may write everywhere: be nobody.
            more = {"preexec_fn": lambda: os.setuid(65534)}
            try:
                usable = subprocess.run([str(BIN / "spanscope"), "model", "info", str(MODEL)], capture_output=True, **more).returncode == 0
            except (OSError, subprocess.SubprocessError):
                usable = False
            if not usable:
                self.skipTest("another user than root cannot run the program here")
        try:
            for path, force in ((closed / "new.span", []), (theirs, ["--force"]), (theirs, [])):
                done = subprocess.run([str(BIN / "spanscope"), "record", "--model", str(MODEL), "--chat", str(DEMO / "demo12.json"), "-o", str(path), *force],
                                      capture_output=True, **more)
                done.out, done.err = done.stdout.decode(), done.stderr.decode()
                self.check_error(done, path.name)
            self.assertEqual(theirs.read_bytes(), b"precious")
            self.assertEqual([p.name for p in closed.iterdir()], ["there.span"])
        finally:
            closed.chmod(0o755)


if __name__ == "__main__":
    unittest.main()
