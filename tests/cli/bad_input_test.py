# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad input is normal input: each gives one clear error that says where and what; never a crash, a hang or silence."""
import json
import os
import struct
import unittest

from program import DEMO, ProgramTest, spanscope

MODEL = DEMO / "relay-dense.gguf"


def gguf_value(kind, value):
    if kind == 8:
        raw = value.encode()
        return struct.pack("<IQ", 8, len(raw)) + raw
    return struct.pack("<I", kind) + struct.pack({4: "<I", 6: "<f"}[kind], value)


def gguf(keys=(), tensors=(), magic=b"GGUF", version=3, n_tensors=None, n_keys=None, data=b"\0" * 64):
    out = magic + struct.pack("<IQQ", version, len(tensors) if n_tensors is None else n_tensors,
                              len(keys) if n_keys is None else n_keys)
    for name, kind, value in keys:
        out += struct.pack("<Q", len(name)) + name.encode() + gguf_value(kind, value)
    for name, shape, kind, offset in tensors:
        out += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        out += b"".join(struct.pack("<Q", d) for d in shape) + struct.pack("<IQ", kind, offset)
    return out + b"\0" * (-len(out) % 32) + data


class Models(ProgramTest):
    def info(self, content, name="m.gguf"):
        path = self.folder / name
        path.write_bytes(content)
        return spanscope("model", "info", path)

    def test_not_a_model(self):
        self.check_error(self.info(b""), "SPAN-EMPTY", "m.gguf")
        self.check_error(spanscope("model", "info", self.folder), "SPAN-HF-FILES")
        self.check_error(spanscope("model", "info", self.folder / "nothing.gguf"), "SPAN-NOT-FOUND", "nothing.gguf")
        self.check_error(self.info(b"This is a text file, not a model.\n" * 20), "m.gguf")
        self.check_error(self.info(gguf(magic=b"GGML")), "m.gguf")
        self.check_error(self.info(gguf(version=99)), "99")

    def test_absurd_counts(self):
        self.check_error(self.info(gguf(n_tensors=1 << 60)), "m.gguf")
        self.check_error(self.info(gguf(n_keys=1 << 62)), "m.gguf")
        keys = [("general.architecture", 8, "llama")]
        self.check_error(self.info(gguf(keys, [("token_embd.weight", [1 << 40, 1 << 40], 0, 0)])), "m.gguf")
        self.check_error(self.info(gguf(keys, [("token_embd.weight", [32] * 4, 0, 0)] * 3)), "m.gguf")

    def test_unknown_architecture_is_named(self):
        done = self.check_error(self.info(gguf([("general.architecture", 8, "mamba")])), "mamba")
        self.assertIn("llama", done.err)

    def test_tensor_outside_the_file(self):
        raw = bytearray(MODEL.read_bytes())
        at = raw.find(b"output_norm.weight") + len(b"output_norm.weight")
        dims = struct.unpack_from("<I", raw, at)[0]
        struct.pack_into("<Q", raw, at + 4 + 8 * dims + 4, 1 << 40)
        self.check_error(self.info(bytes(raw)), "output_norm.weight")

    def test_cut_anywhere(self):
        raw = MODEL.read_bytes()
        path = self.folder / "cut.gguf"
        for size in list(range(997, len(raw), 997 * 8)) + [len(raw) - 1]:
            path.write_bytes(raw[:size])
            self.check_error(spanscope("model", "info", path), "cut.gguf")


class Chats(ProgramTest):
    def record(self, chat, *more, model=MODEL):
        path = self.folder / "c.json"
        if chat is not None:
            path.write_bytes(chat if isinstance(chat, bytes) else json.dumps(chat).encode())
        return spanscope("record", "--model", model, "--chat", path, "-o", self.folder / "o.span", *more)

    def test_bad_conversations(self):
        user = {"role": "user", "content": "hi"}
        self.check_error(self.record([user, {"content": "x"}]), "c.json", "messages[1]", "role")
        self.check_error(self.record([user, {"role": "wizard", "content": "x"}]), "messages[1].role", "wizard")
        self.check_error(self.record([user, {"role": "assistant", "content": None}]), "messages[1].content")
        self.check_error(self.record(b'[{"role":"user","content":"\xff"}]'), "c.json", "UTF-8")
        self.check_error(self.record(b'[\n{"role":"user","content":"a"},\n]'), "c.json:3")
        self.check_error(self.record(b""), "c.json")
        self.check_error(self.record([]), "c.json")
        self.check_error(self.record(b"{}"), "c.json")
        self.check_error(self.record(b"[" * 100000), "c.json")
        self.check_error(spanscope("record", "--model", MODEL, "--chat", self.folder, "-o", self.folder / "o.span"),
                         "SPAN-DIRECTORY")
        self.assertFalse((self.folder / "o.span").exists(), "a failed recording must not leave a session")

    def test_longer_than_the_context(self):
        done = self.record([{"role": "user", "content": "word " * 6000}])
        self.check_error(done, "SPAN-CONTEXT", "4096")
        done = self.record([{"role": "user", "content": "word " * 100}], "--context", "40")
        self.check_error(done, "SPAN-CONTEXT", "40")

    def test_unknown_template_is_refused(self):
        raw = MODEL.read_bytes()
        at = raw.find(b"tokenizer.chat_template")
        length = struct.unpack_from("<Q", raw, at + len("tokenizer.chat_template") + 4)[0]
        begin = at + len("tokenizer.chat_template") + 12
        text = b"{{ raise_exception('no') }}"
        changed = raw[:begin] + text + b" " * (length - len(text)) + raw[begin + length:]
        path = self.folder / "other.gguf"
        path.write_bytes(changed)
        self.check_error(self.record([{"role": "user", "content": "hi"}], model=path), "SPAN-TEMPLATE")

    def test_output_not_writable(self):
        chat = [{"role": "user", "content": "hi"}]
        path = self.folder / "c.json"
        path.write_text(json.dumps(chat))
        done = spanscope("record", "--model", MODEL, "--chat", path, "-o", self.folder / "no" / "where.span")
        self.check_error(done, "where.span")
        done = spanscope("record", "--model", MODEL, "--chat", path, "-o", "/proc/spanscope.span")
        self.check_error(done, "/proc/spanscope.span")
        (self.folder / "there.span").write_bytes(b"precious")
        self.check_error(spanscope("record", "--model", MODEL, "--chat", path, "-o", self.folder / "there.span"),
                         "SPAN-EXISTS")
        self.assertEqual((self.folder / "there.span").read_bytes(), b"precious")

    def test_usage(self):
        for arguments in [("record",), ("record", "--model", MODEL, "--frobnicate"), ("nonsense",), ()]:
            self.assertEqual(spanscope(*arguments).returncode, 2, arguments)
        hi = [{"role": "user", "content": "hi"}]
        self.check_error(self.record(hi, "--detail", "head", "--heads", "9.1"), "--heads", status=2)
        self.check_error(self.record(hi, "--rows", "--layers", "2..9"), "--layers", status=2)
        self.check_error(self.record(hi, "--detail", "token", "--windows", "8,none"), "--windows", status=2)
        self.check_error(self.record(hi, "--append", self.folder / "none.span"), "--append", status=2)
        self.check_error(self.record([{"role": "user", "content": "hi"}], "--theta-rec", "3"), "--theta-rec", status=2)
        self.check_error(self.record([{"role": "user", "content": "hi"}], "--device", "cuda:99"), "SPAN-GPU")  # no module, no card, or not so many
        self.check_error(self.record([{"role": "user", "content": "hi"}], "--generate", "x"), "--generate", status=2)


class Sessions(ProgramTest):
    def test_cut_at_200_places(self):
        whole = self.folder / "whole.span"
        self.check_ok(spanscope("record", "--model", MODEL, "--chat", DEMO / "demo12.json", "-o", whole))
        self.check_ok(spanscope("verify", whole))
        turns = json.loads(self.check_ok(spanscope("info", whole, "--json")).out)["turns"]
        raw = whole.read_bytes()
        cut = self.folder / "cut.span"
        most = 0
        for i in range(200):
            size = len(raw) * i // 200
            cut.write_bytes(raw[:size])
            verified = spanscope("verify", cut)
            self.assertIn(verified.returncode, (1, 3), f"{size} bytes: {verified.out} {verified.err}")
            done = spanscope("info", cut, "--json")
            self.assertIn(done.returncode, (0, 1, 3), f"{size} bytes: {done.err}")
            if done.returncode == 1:
                self.check_error(done, "cut.span")
                continue
            found = json.loads(done.out)
            self.assertEqual(found["turns"], turns[:len(found["turns"])], f"{size} bytes: not a prefix")
            most = max(most, len(found["turns"]))
            self.assertNotEqual(found.get("finished"), True, f"{size} bytes")
        self.assertGreaterEqual(most, len(turns) - 1)

    def test_not_a_session(self):
        path = self.folder / "x.span"
        for content in [b"", b"hello", os.urandom(4096), MODEL.read_bytes()[:5000]]:
            path.write_bytes(content)
            for command in [("info", path), ("view", path, "reads > 1"), ("verify", path),
                            ("report", path, "-o", self.folder / "r.html")]:
                done = spanscope(*command)
                self.assertIn(done.returncode, (1, 3), (command, done.err))
        self.check_error(spanscope("info", self.folder), "SPAN-DIRECTORY")
        self.check_error(spanscope("info", self.folder / "none.span"), "none.span")


if __name__ == "__main__":
    unittest.main()
