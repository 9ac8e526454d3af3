# SPDX-License-Identifier: GPL-3.0-or-later
"""What info, view, export and report print about one recorded session: valid by the shipped schemas, and one number everywhere."""
import csv
import html
import io
import json
import re
import shlex
import unittest

from program import DEMO, SOURCE, ProgramTest, read_safetensors, floats, spanscope


def check(schema, value, where="$"):
    """The part of JSON Schema that resources/schema uses."""
    if "enum" in schema:
        assert value in schema["enum"], f"{where}: {value!r} is none of {schema['enum']}"
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds:
        fits = {"object": isinstance(value, dict), "array": isinstance(value, list), "string": isinstance(value, str),
                "boolean": isinstance(value, bool), "null": value is None,
                "integer": isinstance(value, int) and not isinstance(value, bool),
                "number": isinstance(value, (int, float)) and not isinstance(value, bool)}
        assert any(fits[k] for k in kinds), f"{where}: expected {kinds}, found {value!r}"
    if isinstance(value, dict):
        for name in schema.get("required", []):
            assert name in value, f"{where}: {name} is missing"
        more = schema.get("additionalProperties", True)
        for name, inner in value.items():
            if name in schema.get("properties", {}):
                check(schema["properties"][name], inner, f"{where}.{name}")
            else:
                assert more is not False, f"{where}: {name} is not in the schema"
                if isinstance(more, dict):
                    check(more, inner, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        assert len(value) >= schema.get("minItems", 0) and len(value) <= schema.get("maxItems", len(value)), where
        for i, inner in enumerate(value):
            check(schema["items"], inner, f"{where}[{i}]")


def schema(name):
    return json.loads((SOURCE / "resources" / "schema" / f"{name}.schema.json").read_text())


class SessionOutputs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.session = self.folder / "it's a talk.span"
        done = spanscope("record", "--model", DEMO / "relay-moe.gguf", "--chat", DEMO / "demo12.json", "--routing", "-o", self.session)
        self.assertEqual(done.returncode, 0, done.err)

    def json_of(self, *arguments):
        done = spanscope(*arguments, "--json")
        self.assertEqual(done.returncode, 0, done.err)
        return json.loads(done.stdout)

    def export(self, what, suffix, *more):
        path = self.folder / f"{what}.{suffix}"
        done = spanscope("export", self.session, "--what", what, "-o", path, *more)
        self.assertEqual(done.returncode, 0, done.err)
        return path

    def test_schemas(self):
        check(schema("info"), self.json_of("info", self.session))
        check(schema("info"), self.json_of("info", self.session, "--frames"))
        for arguments in (["total_reads > 0"], ["--preset", "hottest"], ["--preset", "dead-weight"], ["--unit", "lift", "--level", "leaf", "--with-sinks", "lift > 1 or missing(lift)"]):
            check(schema("view"), self.json_of("view", self.session, *arguments))
        for what in ("reads", "events", "mass", "layer", "routing", "turns", "spans"):
            rows = json.loads(self.export(what, "json").read_bytes())
            self.assertTrue(rows, what)
            check(schema(f"export_{what}"), rows)

    def test_csv_and_json_hold_the_same(self):
        for what in ("reads", "events", "mass", "layer", "routing", "turns", "spans"):
            rows = json.loads(self.export(what, "json").read_bytes())
            text = self.export(what, "csv").read_bytes().decode("utf-8")
            while text.startswith("# "):
                text = text[text.index("\n") + 1:]
            table = list(csv.DictReader(io.StringIO(text, newline="")))
            self.assertEqual(len(table), len(rows))
            for line, row in zip(table, rows):
                self.assertEqual(list(line), list(row))
                for name, value in row.items():
                    if value is None:
                        self.assertEqual(line[name], "")
                    elif isinstance(value, bool):
                        self.assertEqual(line[name], str(value).lower())
                    elif isinstance(value, str):
                        self.assertEqual(line[name].lstrip("'"), value.lstrip("'"))
                    else:
                        self.assertEqual(float(line[name]), value)

    def test_one_number_in_view_export_and_report(self):
        hottest = self.json_of("view", self.session, "--preset", "hottest", "--with-request")
        rows = json.loads(self.export("reads", "json").read_bytes())
        turn = hottest["turn"]
        by_span = {r["span"]: r for r in rows if r["turn"] == turn}
        report = self.folder / "report.html"
        self.assertEqual(spanscope("report", self.session, "-o", report).returncode, 0)
        page = report.read_text(encoding="utf-8")
        table = page[page.index("What the last answer read"):page.index("How to read these numbers")]
        found = [[html.unescape(re.sub("<[^>]*>", "", c)) for c in re.findall("<td[^>]*>(.*?)</td>", r, re.S)] for r in re.findall("<tr>(.*?)</tr>", table, re.S)]
        found = [r for r in found if r]
        self.assertGreater(len(found), 1)
        for ref, cells in zip(hottest["refs"], found):
            export = by_span[ref["span"]]
            self.assertEqual(ref["value"], export["reads"])
            self.assertIn(f"{ref['span']:03}", cells[0])
            self.assertEqual(cells[3], f"{export['reads']:,}")
            self.assertEqual(cells[5], f"{export['spike']:.2f}")
            self.assertEqual(cells[2], f"{export['tokens']:,}")
            self.assertAlmostEqual(float(cells[7].split("\u00a0")[0]), export["share"] * 100, delta=0.051)
        # Events add up to reads, and a parent to its leaves.
        events = json.loads(self.export("events", "json").read_bytes())
        for r in rows:
            if r["level"] == "leaf":
                self.assertEqual(r["reads"], sum(e["turn"] == r["turn"] and e["span"] == r["span"] and e["mass"] > 0.30 for e in events))
            else:
                self.assertEqual(r["reads"], sum(x["reads"] for x in rows if x["turn"] == r["turn"] and x["level"] == "leaf" and x["message"] == r["message"]))
        # The commands that the report names run as they stand there.
        commands = [html.unescape(c) for c in re.findall(r"<code>(spanscope view .*?)</code>", page)]
        self.assertTrue(commands)
        for line in commands:
            self.assertEqual(spanscope(*shlex.split(line)[1:]).returncode, 0, line)

    def test_mass_is_conserved_in_the_arrays(self):
        info = self.json_of("info", self.session)
        per_row = info["model"]["layers"] * info["model"]["query_heads"]
        arrays, _ = read_safetensors(self.export("mass", "safetensors"))
        for turn in info["turns"]:
            p = f"t{turn['turn']:02}."
            _, (phases, queries, leaves), _ = arrays[p + "mass_qk"]
            mass, rows = floats(arrays[p + "mass_qk"]), floats(arrays[p + "rows_q"])
            learned, rest = floats(arrays[p + "learned_sink"]), floats(arrays[p + "unattributed"])
            for phase in range(phases):
                n = sum(rows[phase * queries:(phase + 1) * queries])
                layers = info["model"]["layers"]
                total = sum(mass[phase * queries * leaves:(phase + 1) * queries * leaves]) + sum(learned[phase * layers:(phase + 1) * layers]) + sum(rest[phase * layers:(phase + 1) * layers])
                self.assertAlmostEqual(total, n * per_row, delta=1e-5 * max(1, n * per_row))

    def test_errors(self):
        done = spanscope("view", self.session, "reads >> 2")
        self.assertEqual(done.returncode, 1)
        self.assertIn("(byte 7)", done.err)
        for arguments in (["view", self.session, "--theta", "0.1", "reads > 1"], ["report", self.session, "-o", self.folder / "x.pdf"], ["export", self.session, "--what", "spans", "-o", self.folder / "x.npz"],
                          ["report", self.session, "--view", "role > tool", "-o", self.folder / "x.html"], ["view", self.session, "--turn", "99", "reads > 1"]):
            done = spanscope(*arguments)
            self.assertNotEqual(done.returncode, 0, arguments)
            self.assertRegex(done.err, r"^spanscope: SPAN-[A-Z-]+ ")
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("x.")], [])
        (self.folder / "there.html").write_text("mine")
        self.assertNotEqual(spanscope("report", self.session, "-o", self.folder / "there.html").returncode, 0)
        self.assertEqual((self.folder / "there.html").read_text(), "mine")


if __name__ == "__main__":
    unittest.main()
