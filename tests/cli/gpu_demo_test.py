# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo models on the GPU module, both modes, on the host layer where there is no card: the same greedy answers as the CPU's
and as the truth says; in fast mode (16 bits) the distributions stay close."""
import json
import math
import os
import time
import unittest
from array import array
from pathlib import Path

from program import BIN, DEMO, ProgramTest, read_safetensors, spanscope

MODULE = Path(os.environ.get("SPANSCOPE_TEST_GPU_MODULE", BIN.parent / "tests" / "libspanscope_gpu_host_module.so"))
MEAN_KL, TOP1 = 0.01, 0.96  # what fast mode must hold


class Demo(ProgramTest):
    def on_gpu(self, *arguments):
        done = self.check_ok(spanscope(*arguments, "--device", "cuda", timeout=1000, env={"SPANSCOPE_CUDA_MODULE": str(MODULE)}))
        return done

    def logits(self, run, model, *arguments):
        out = self.folder / "logits.safetensors"
        run("model", "eval", "--model", DEMO / model, "--chat", DEMO / "demo12.json", "--what", "logits", "-o", out, "--force", *arguments)
        dtype, (rows, vocabulary), raw = read_safetensors(out)[0]["logits"]
        self.assertEqual(dtype, "F32")
        values = array("f", raw)
        return [values[r * vocabulary:(r + 1) * vocabulary] for r in range(rows)]

    def test_fast_mode_stays_close(self):
        for model in ("relay-dense.gguf", "relay-moe.gguf"):
            with self.subTest(model):
                begun = time.monotonic()
                expected = self.logits(lambda *a: self.check_ok(spanscope(*a)), model, "--path", "reference")
                found = self.logits(self.on_gpu, model, "--gpu-math", "fast")
                self.assertEqual(len(found), len(expected))
                self.assertGreater(len(expected), 400)
                divergence, same, different = 0.0, 0, 0
                for p, q in zip(expected, found):
                    p_most, q_most = max(p), max(q)
                    p_all, q_all = sum(math.exp(x - p_most) for x in p), sum(math.exp(x - q_most) for x in q)
                    shift = (q_most + math.log(q_all)) - (p_most + math.log(p_all))
                    divergence += sum(math.exp(a - p_most) / p_all * (a - b + shift) for a, b in zip(p, q))
                    same += p.index(p_most) == q.index(q_most)
                    different += p != q
                print(f"{model}: mean KL {divergence / len(expected):.2e}, top-1 {same} of {len(expected)}, {time.monotonic() - begun:.0f} s", flush=True)
                self.assertLessEqual(divergence / len(expected), MEAN_KL)
                self.assertGreaterEqual(same, TOP1 * len(expected))
                self.assertGreater(different, 0, "fast mode computed the CPU's bits: it was not used")

    def test_greedy_answers(self):
        facts = json.loads((DEMO / "demo12.facts.json").read_text())["questions"]
        arguments = ("record", "--model", DEMO / "relay-dense.gguf", "--chat", DEMO / "demo12.json", "--generate", "all", "--force", "-o", self.folder / "g.span")
        expected = self.check_ok(spanscope(*arguments)).out
        for question in facts:
            self.assertIn(question["answer"], expected)
        for mode in ("exact", "fast"):
            with self.subTest(mode):
                begun = time.monotonic()
                self.assertEqual(self.on_gpu(*arguments, "--gpu-math", mode).out, expected)
                print(f"{mode}: {len(expected.splitlines())} answers in {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    unittest.main()
