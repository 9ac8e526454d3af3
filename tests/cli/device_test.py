# SPDX-License-Identifier: GPL-3.0-or-later
"""--device, SPANSCOPE_CUDA_MODULE and env. Where there is no card, the module's host layer stands in for one: the same kernels,
the same module interface, every access checked (tests/gpu_host)."""
import json
import math
import os
import shutil
import unittest
from pathlib import Path

from program import BIN, DEMO, ProgramTest, floats, oracle, read_safetensors, spanscope

MODULE = Path(os.environ.get("SPANSCOPE_TEST_GPU_MODULE", BIN.parent / "tests" / "libspanscope_gpu_host_module.so"))
CARD = os.environ.get("SPANSCOPE_TEST_GPU_NAME", "host execution layer")  # tests/gpu_device.sh: a real one
# Issue of the GPU core: logits of the exact mode, span mass relative.
LOGITS, MASS = 2e-3, 1e-4
CHAT = [{"role": "user", "content": "The code for the gate is 7 4 1."}, {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "What is the code?"}, {"role": "assistant", "content": "7 4 1"}]


class Device(ProgramTest):
    def on_gpu(self, *arguments, module=MODULE, **more):
        return spanscope(*arguments, env={"SPANSCOPE_DEVICE": "auto", "SPANSCOPE_CUDA_MODULE": str(module), **more})

    def chat(self):
        path = self.folder / "chat.json"
        path.write_text(json.dumps(CHAT))
        return path

    def record(self, name, *arguments, **more):
        session = self.folder / name
        done = self.on_gpu("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", session, *arguments, **more)
        return session, done

    def test_env_names_module_devices_and_memory(self):
        report = json.loads(self.check_ok(self.on_gpu("env", "--json", GPU_HOST_LAYER_MEMORY="1000000000")).out)["gpu"]
        self.assertEqual(report["module"], str(MODULE))
        self.assertEqual(report["runtime"], "host execution layer")
        self.assertEqual([(d["index"], d["memory_bytes"], d["free_bytes"]) for d in report["devices"]], [(0, 10**9, 10**9)])
        text = self.check_ok(self.on_gpu("env")).out
        self.assertIn("cuda:0 host execution layer", text)
        without = json.loads(self.check_ok(self.on_gpu("env", "--json", module=self.folder / "none.so")).out)["gpu"]
        self.assertIn("SPAN-GPU-MODULE", without)
        self.assertIn("none.so", without)

    def test_a_recording_is_the_cpus(self):
        """Every mass of the session within the tolerance of the exact mode, every read the same."""
        cpu, _ = self.record("cpu.span", "--device", "cpu")
        gpu, done = self.record("gpu.span", "--device", "cuda:0")
        self.check_ok(done)
        self.assertNotIn("the CPU is used", done.err)
        header = json.loads(self.check_ok(spanscope("info", gpu, "--json")).out)
        self.assertIn(CARD, json.dumps(header))
        compared = 0
        for what in ("mass", "layer", "reads", "events", "spans"):
            with self.subTest(what):
                tables = []
                for session in (cpu, gpu):
                    out = session.with_suffix(f".{what}.json")
                    self.check_ok(spanscope("export", session, "--what", what, "-o", out))
                    tables.append(json.loads(out.read_text()))
                self.assertEqual(len(tables[0]), len(tables[1]))
                for a, b in zip(*tables):
                    self.assertEqual(set(a), set(b))
                    for key, value in a.items():
                        if isinstance(value, float):
                            # A value is kept in 16 or 32 bits: one step of 16 beside the tolerance.
                            self.assertTrue(math.isclose(value, b[key], rel_tol=MASS + 2**-11, abs_tol=1e-6), (key, value, b[key]))
                            compared += 1
                        else:
                            self.assertEqual(value, b[key], key)
        self.assertGreater(compared, 100)

    def test_logits_of_a_reference_model(self):
        model, reference = oracle("tiny/llama-gqa/model.gguf"), oracle("tiny/llama-gqa/ref.safetensors")
        if not model or not reference:
            self.skipTest("no reference data")
        expected, _ = read_safetensors(reference)
        ids, out = self.folder / "ids.json", self.folder / "eval.safetensors"
        ids.write_text(json.dumps(floats(expected["ids"])))
        done = self.check_ok(self.on_gpu("model", "eval", "--model", model, "--ids", ids, "--what", "logits,decode_ids", "--decode", 4, "-o", out,
                                         "--device", "cuda"))
        self.assertNotIn("the CPU is used", done.err)
        found, _ = read_safetensors(out)
        worst = max(abs(a - b) for a, b in zip(floats(found["logits"]), floats(expected["logits"])))
        self.assertLessEqual(worst, LOGITS)
        self.assertEqual(floats(found["decode_ids"])[:4], floats(expected["decode_ids"])[:4])

    def test_auto_falls_back_and_says_why(self):
        """One note, the CPU's bytes of work, and the reason: no module, not enough memory, something that only the CPU does."""
        reasons = {"none.so": ("none.so", {"module": self.folder / "none.so"}, []),
                   "memory": ("SPAN-GPU-MEMORY", {"GPU_HOST_LAYER_MEMORY": "100000"}, []),
                   "shared memory": ("SPAN-GPU-SHARED", {"GPU_HOST_LAYER_SHARED": "20000"}, []),
                   "f16": ("f16", {}, ["--cache-type", "f16"])}
        for name, (word, more, arguments) in reasons.items():
            with self.subTest(name):
                module = more.pop("module", MODULE)
                session = self.folder / f"{name}.span"
                done = self.check_ok(self.on_gpu("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", session, *arguments,
                                                 module=module, **more))
                notes = [line for line in done.err.splitlines() if "the CPU is used" in line]
                self.assertEqual(len(notes), 1, done.err)
                self.assertIn(word, notes[0])
                self.check_error(self.on_gpu("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", self.folder / "x.span", *arguments,
                                             "--device", "cuda", module=module, **more), word)
                self.assertFalse((self.folder / "x.span").exists())

    def test_memory_is_told_with_sizes_and_a_way_out(self):
        done = self.check_error(self.record("x.span", "--device", "cuda", GPU_HOST_LAYER_MEMORY="100000")[1], "SPAN-GPU-MEMORY", "of 100000 are free")
        self.assertIn("--device cpu", done.err)
        self.assertRegex(done.err, r"weights of \d+ bytes")

    def test_memory_that_ends_in_the_middle(self):
        """Enough for the weights and the first pages, not for the conversation: an error, a file that can be read, no crash."""
        long = self.folder / "long.json"
        long.write_text(json.dumps([{"role": "user", "content": "one two three four five six seven " * 40}, {"role": "assistant", "content": "ok"}]))
        enough = json.loads(self.check_ok(spanscope("model", "info", DEMO / "relay-dense.gguf", "--json")).out)
        page = 2 * 4 * enough["layers"] * enough["kv_heads"] * enough["head_dim"]
        for budget in range(10):
            session = self.folder / f"m{budget}.span"
            done = self.on_gpu("record", "--model", DEMO / "relay-dense.gguf", "--chat", long, "-o", session, "--device", "cuda",
                               GPU_HOST_LAYER_MEMORY=str(2_000_000 + budget * 64 * page))
            if done.returncode == 0:
                continue
            self.check_error(done, "SPAN-GPU-MEMORY", "bytes needed on the card")
            if session.exists():
                self.assertIn(spanscope("verify", session).returncode, (0, 3))

    def test_heads_are_measured_as_on_the_cpu(self):
        """What token statistics on the card say of each head is what the CPU says."""
        maps = []
        for device in ("cpu", "cuda"):
            out = self.folder / f"{device}.json"
            done = self.check_ok(self.on_gpu("model", "heads", "--model", DEMO / "relay-dense.gguf", "--prompts", 1, "--length", 48, "-o", out, "--device", device))
            self.assertNotIn("the CPU is used", done.err)
            maps.append(json.loads(out.read_text()))
        compared = 0

        def compare(a, b, where):
            nonlocal compared
            self.assertIs(type(a), type(b), where)
            if isinstance(a, dict):
                self.assertEqual(set(a), set(b), where)
                for key in a:
                    compare(a[key], b[key], f"{where}.{key}")
            elif isinstance(a, list):
                self.assertEqual(len(a), len(b), where)
                for i, (x, y) in enumerate(zip(a, b)):
                    compare(x, y, f"{where}[{i}]")
            elif isinstance(a, float):
                self.assertTrue(math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4), (where, a, b))
                compared += 1
            elif where.split(".")[-1] not in ("device", "backend", "created"):
                self.assertEqual(a, b, where)

        compare(*maps, "map")
        self.assertGreater(compared, 50)

    def test_the_real_module_without_a_driver(self):
        """Where it was built and no card can be used: named in env, one note, and the CPU."""
        real = BIN / "libspanscope_cuda.so"
        if not real.exists():
            self.skipTest("the CUDA module was not built")
        report = json.loads(self.check_ok(spanscope("env", "--json", env={"SPANSCOPE_DEVICE": "auto"})).out)["gpu"]
        self.assertEqual(report["module"], str(real))
        self.assertTrue(report["runtime"].startswith("CUDA "))
        if isinstance(report["devices"], list):
            self.skipTest("there is a card")
        self.assertIn("SPAN-GPU-DEVICE", report["devices"])
        done = self.check_ok(spanscope("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", self.folder / "a.span",
                                       env={"SPANSCOPE_DEVICE": "auto"}))
        self.assertIn("the CPU is used: SPAN-GPU-DEVICE", done.err.replace("[", "").replace("]", ""))
        self.check_error(spanscope("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", self.folder / "b.span", "--device", "cuda"),
                         "SPAN-GPU-DEVICE")

    def test_devices_that_are_not_there(self):
        for device, word, status in (("cuda:7", "no device 7", 1), ("cuda:x", "--device", 2), ("gpu", "--device", 2), ("cuda:", "--device", 2)):
            with self.subTest(device):
                self.check_error(self.record("x.span", "--device", device)[1], word, status=status)
        self.check_error(self.record("x.span", SPANSCOPE_DEVICE="cuda:-1")[1], "SPANSCOPE_DEVICE", status=2)

    def test_modules_that_do_not_fit(self):
        """Each is an error that names the file and what was expected, before any of its code is trusted with a model."""
        good = MODULE.read_bytes()
        identity = good.index(b"spanscope 0.")
        other = bytearray(good)
        digest = good.index(b" ", identity + len(b"spanscope ")) + 1
        other[digest:digest + 16] = b"0123456789abcdef"
        cases = {"missing.so": (None, "no such file"), "text.so": (b"not a library\n", "cannot be loaded"), "empty.so": (b"", "cannot be loaded"),
                 "other.so": (bytes(other), "another build")}
        for part in (40, 64, 4096, len(good) // 3, len(good) // 2, len(good) - 1):
            cases[f"short{part}.so"] = (good[:part], "cannot be loaded")
        for name, (content, word) in cases.items():
            with self.subTest(name):
                path = self.folder / name
                if content is not None:
                    path.write_bytes(content)
                done = self.on_gpu("record", "--model", DEMO / "relay-dense.gguf", "--chat", self.chat(), "-o", self.folder / "x.span", "--device", "cuda",
                                   module=path)
                self.check_error(done, "SPAN-GPU-MODULE", word, name)
        foreign = next((p for p in sorted(Path("/lib").glob("*/libz*.so*")) if p.is_file()), None)
        if foreign:
            shutil.copy(foreign, self.folder / "foreign.so")
            done = self.on_gpu("env", module=self.folder / "foreign.so")
            self.assertIn("it is not a GPU module", self.check_ok(done).out)


if __name__ == "__main__":
    unittest.main()
