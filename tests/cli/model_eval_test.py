# SPDX-License-Identifier: GPL-3.0-or-later
"""model eval against the reference outputs of the tiny models, on both paths, in pieces of 1, 7 and all at once."""
import json
import unittest

from program import ProgramTest, floats, oracle, read_safetensors, spanscope

# The reference data's README, section "Hold".
TOLERANCE = {"logits": 2e-4, "decode_logits": 2e-4, "hidden": 2e-4, "router_logits": 2e-4, "attn": 2e-5,
             "topk_weights": 1e-5, "topk_ids": 0, "decode_ids": 0}
SPANS = [(30, 10), (0, 4), (4, 20), (41, 7)]  # not in order, with a gap


class ModelEval(ProgramTest):
    def evaluate(self, model, *arguments):
        out = self.folder / "eval.safetensors"
        self.check_ok(spanscope("model", "eval", "--model", model, "--ids", self.folder / "ids.json", "-o", out, "--force", *arguments))
        return read_safetensors(out)

    def family(self, name, what):
        model, reference = oracle(f"tiny/{name}/model.gguf"), oracle(f"tiny/{name}/ref.safetensors")
        if not model or not reference:
            self.skipTest("no reference data")
        expected, _ = read_safetensors(reference)
        (self.folder / "ids.json").write_text(json.dumps(floats(expected["ids"])))
        (self.folder / "spans.json").write_text(
            json.dumps({"spans": [{"id": i, "from": a, "len": n} for i, (a, n) in enumerate(SPANS)]}))
        tokens = expected["attn"][1][2]
        attention = floats(expected["attn"])
        for path in ("reference", "fast"):
            for chunk in (1, 7, None):
                with self.subTest(family=name, path=path, chunk=chunk):
                    pieces = [] if chunk is None else ["--chunk", chunk]
                    arguments = ["--path", path, *pieces, "--decode", 8]
                    found, meta = self.evaluate(model, *arguments, "--what", ",".join(what))
                    self.assertEqual(meta["path"], path)
                    self.assertEqual(sorted(found), sorted(what))
                    for array in what:
                        self.assertEqual(found[array][:2], expected[array][:2], array)
                        worst = max(abs(a - b) for a, b in zip(floats(found[array]), floats(expected[array])))
                        self.assertLessEqual(worst, TOLERANCE[array], array)

                    plain, _ = self.evaluate(model, *arguments)
                    planned, _ = self.evaluate(model, *arguments, "--spans", self.folder / "spans.json")
                    for array in ("logits", "decode_logits"):
                        self.assertEqual(plain[array][2], planned[array][2], f"{array}: recording changed a bit")
                    mass, columns = floats(planned["span_mass"]), len(SPANS)
                    for row in range(len(mass) // columns):
                        weights = attention[row * tokens:(row + 1) * tokens]
                        for column, (begin, count) in enumerate(SPANS):
                            self.assertLessEqual(abs(mass[row * columns + column] - sum(weights[begin:begin + count])), 2e-5)

    def test_dense_grouped_queries(self):
        self.family("llama-gqa", ["logits", "hidden", "attn", "decode_ids", "decode_logits"])

    def test_dense_tied_output(self):
        self.family("llama-mha", ["logits", "hidden", "attn", "decode_ids", "decode_logits"])

    def test_mixture_of_experts(self):
        self.family("mixtral", ["logits", "hidden", "attn", "decode_ids", "decode_logits", "router_logits", "topk_ids", "topk_weights"])


if __name__ == "__main__":
    unittest.main()
