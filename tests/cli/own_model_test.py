# SPDX-License-Identifier: GPL-3.0-or-later
"""A person's own model, as people have them: a Hugging Face directory with its own chat template, every family of the reference
data, a model in Ollama's store. Recorded, asked again, exported."""
import json
import shutil
import unittest

from program import DEMO, ORACLES, ProgramTest, floats, oracle, read_safetensors, spanscope

TEMPLATE = ("{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
            "{% if add_generation_prompt %}[assistant] {% endif %}")
CHAT = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "  the code is 4711  "},
        {"role": "assistant", "content": "noted"}, {"role": "user", "content": "what is the code?"},
        {"role": "assistant", "content": "4711"}]
FAMILIES = ["gemma2", "gemma3-text", "gpt-oss", "gpt2", "granite", "llama-gqa", "llama-mha", "mistral", "mixtral", "olmo2", "olmoe", "phi3",
            "qwen2", "qwen2-moe", "qwen2-moe-dense", "qwen3", "qwen3-moe", "smollm3", "starcoder2"]


class OwnModel(ProgramTest):
    def folder_of(self, family):
        if not ORACLES.is_dir():
            self.skipTest("no reference data")
        target = self.folder / family
        shutil.copytree(oracle(f"tiny/{family}/hf"), target, copy_function=shutil.copyfile)
        target.chmod(0o755)
        return target

    def test_a_folder_with_its_own_template(self):
        model = self.folder_of("qwen3")
        (model / "chat_template.jinja").write_text(TEMPLATE)
        chat, session = self.folder / "chat.json", self.folder / "talk.span"
        chat.write_text(json.dumps(CHAT))
        rendered = json.loads(self.check_ok(spanscope("model", "render", model, chat, "--json")).out)
        self.assertIn("[user] the code is 4711\n", rendered["rendered"])
        for arguments in ([], ["--cache-type", "f16", "--detail", "head"], ["--path", "reference"]):
            self.check_ok(spanscope("record", "--model", model, "--chat", chat, "-o", session, "--force", *arguments))
            info = json.loads(self.check_ok(spanscope("info", session, "--json")).out)
            self.assertEqual(len(info["turns"]), 2)
            self.check_ok(spanscope("verify", session))
        texts = self.check_ok(spanscope("export", session, "--what", "spans", "-o", "-")).out
        self.assertIn("the code is 4711", texts)
        # The trimmed blanks are in no span.
        self.assertNotIn("  the code", texts)
        asked = json.loads(self.check_ok(spanscope("reattend", session, "--model", model, "--ask", "code", "--json")).out)
        self.assertTrue(asked)
        self.check_ok(spanscope("record", "--model", model, "--chat", chat, "-o", session, "--force", "--generate", "2", "--max-tokens", "4"))

    def test_every_family_is_recorded_from_its_folder(self):
        for family in FAMILIES:
            with self.subTest(family=family):
                model = self.folder_of(family)
                ids = [int(x) for x in floats(read_safetensors(oracle(f"tiny/{family}/ref.safetensors"))[0]["ids"])]
                (model / "chat_template.jinja").write_text(TEMPLATE)
                chat, session = self.folder / "chat.json", self.folder / "talk.span"
                chat.write_text(json.dumps([{"role": m["role"], "content": m["content"][:6]} for m in CHAT]))
                done = spanscope("record", "--model", model, "--chat", chat, "-o", session, "--force")
                self.check_ok(done)
                self.check_ok(spanscope("verify", session))
                info = json.loads(self.check_ok(spanscope("model", "info", model, "--json")).out)
                self.assertGreater(info["parameters"], 1000)
                self.assertLess(max(ids), info["vocab"])

    def test_rotation_that_changes_with_length(self):
        # The model's original context is 32 tokens: the second turn crosses it, so does a generated answer.
        model = self.folder_of("phi3")
        (model / "chat_template.jinja").write_text(TEMPLATE)
        chat, session = self.folder / "chat.json", self.folder / "talk.span"
        chat.write_text(json.dumps([{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"},
                                    {"role": "user", "content": "what is the code? say it"}, {"role": "assistant", "content": "4711"}]))
        for path in ("reference", "fast"):
            self.check_ok(spanscope("record", "--model", model, "--chat", chat, "-o", session, "--force", "--path", path))
            info = json.loads(self.check_ok(spanscope("info", session, "--json")).out)
            first, second = info["turns"]
            self.assertLessEqual(first["tokens"], 32)
            self.assertGreater(second["tokens"], 32)
            self.assertEqual(first["recompute_rows"], 0)
            self.assertEqual(second["recompute_rows"], first["prompt_rows"] + first["answer_rows"])
            self.assertIn("SPAN-ROTARY-LENGTH", json.dumps(info))
            self.check_ok(spanscope("record", "--model", model, "--chat", chat, "-o", session, "--force", "--path", path,
                                    "--generate", "1", "--max-tokens", "30"))
            info = json.loads(self.check_ok(spanscope("info", session, "--json")).out)
            self.assertGreater(info["turns"][0]["tokens"], 32)
            self.assertIn("SPAN-ROTARY-LENGTH", json.dumps(info))

    def test_ollama(self):
        store = self.folder / "models"
        blob = "sha256-" + "0123456789abcdef" * 4
        (store / "blobs").mkdir(parents=True)
        shutil.copyfile(DEMO / "relay-dense.gguf", store / "blobs" / blob)
        manifests = store / "manifests" / "registry.ollama.ai" / "library" / "relay"
        manifests.mkdir(parents=True)
        layers = [{"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "f" * 64},
                  {"mediaType": "application/vnd.ollama.image.model", "digest": blob.replace("-", ":")}]
        (manifests / "small").write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
        env = {"OLLAMA_MODELS": str(store)}
        info = json.loads(self.check_ok(spanscope("model", "info", "ollama:relay:small", "--json", env=env)).out)
        self.assertEqual(info["architecture"], "llama")
        self.check_error(spanscope("model", "info", "ollama:relay", env=env), "SPAN-OLLAMA", "latest")
        self.check_error(spanscope("model", "info", "ollama:../../etc:small", env=env), "SPAN-OLLAMA")
        (manifests / "gone").write_text(json.dumps({"layers": [dict(layers[1], digest="sha256:" + "e" * 64)]}))
        self.check_error(spanscope("model", "info", "ollama:relay:gone", env=env), "SPAN-OLLAMA", "not there")
        (manifests / "bad").write_text(json.dumps({"layers": [dict(layers[1], digest="sha256:../../../etc/passwd")]}))
        self.check_error(spanscope("model", "info", "ollama:relay:bad", env=env), "SPAN-OLLAMA", "hexadecimal")
        (manifests / "text").write_text("no manifest")
        self.check_error(spanscope("model", "info", "ollama:relay:text", env=env), "SPAN-JSON")


if __name__ == "__main__":
    unittest.main()
