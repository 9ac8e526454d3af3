// SPDX-License-Identifier: GPL-3.0-or-later
// The template language at its limits, and its clock. What it does otherwise: oracle/templates.
#include "core/text/chat_template.h"
#include "core/text/jinja/interpreter.h"
#include "tests/support/catch.h"

using namespace spanscope;
using jinja::Limits;

namespace {

Result<std::string> run(const std::string& source, Limits limits = {}) {
  try {
    const jinja::Program program = jinja::parse(source);
    jinja::Interpreter in(program, limits, {2026, 11, 30, 14, 5, 9});
    return in.run().bytes();
  } catch (const jinja::Failure& failure) {
    return failure.error;
  }
}

void limited(const std::string& source, Limits limits = {}) {
  const auto out = run(source, limits);
  INFO(source.substr(0, 100));
  REQUIRE_FALSE(out);
  INFO(out.error().line());
  CHECK(out.error().tag == "SPAN-TEMPLATE-LIMIT");
  CHECK(out.error().code == ErrorCode::limit);
  CHECK(out.error().where.starts_with("chat template line "));
}

std::string repeat(const std::string& text, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += text;
  return out;
}

}  // namespace

TEST_CASE("jinja: nothing grows without a bound") {
  limited("{{ range(10**9) | list }}");
  limited("{{ range(-(10**20), 10**20) }}");
  limited("{{ 'a' * 10**9 }}");
  limited("{{ [1, 2] * 10**9 }}");
  limited("{{ 'a' * 10**30 }}");
  limited("{{ 10 ** 100 }}");
  limited("{{ 'ab'.center(10**12) }}");
  limited("{{ 'x' | indent(10**12, true) }}");
  limited("{{ [1] | tojson(indent=10**9) }}");
  Limits small;
  small.memory = 1 << 20;
  limited("{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", small);
  limited("{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", small);
  limited("{% for i in range(100000) %}{% macro f() %}{% endmacro %}{% endfor %}", small);
  small.text = 1000;
  limited("{% for i in range(100000) %}0123456789{% endfor %}", small);
  small = {};
  small.steps = 10000;
  limited("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", small);
  limited("{{ ('aaaa' * 100000) | replace('a', 'b') }}", small);
}

TEST_CASE("jinja: nothing nests without a bound") {
  limited("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  limited("{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}");
  limited("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor %}");
  limited("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = {'a': ns.l} %}{% endfor %}");
  limited("{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = ns.l | map('trim') %}{% endfor %}");
  limited("{% set ns = namespace(f='') %}{% for i in range(1000) %}{% set ns.f = [ns.f].index %}{% endfor %}");
  // Shared many times over, but not deep: printing and comparing it stops at the other limits.
  Limits small;
  small.steps = 1'000'000;
  const std::string twice = "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}";
  limited(twice + "{{ ns.l == ns.m }}", small);
  limited(twice + "{{ ns.l | tojson }}", small);
  limited(twice + "{{ ns.l }}", small);
  limited(twice + "{{ ns.l < ns.m }}", small);

  for (const char* piece : {"(", "[", "{1:", "-", "not ", "a[", "a(", "a.b(", "1+(", "x if ", "a|f("}) {
    const auto out = run("{{ " + repeat(piece, 100000) + " }}");
    REQUIRE_FALSE(out);
    CHECK(out.error().tag == "SPAN-TEMPLATE-SYNTAX");
  }
  for (const char* piece : {"{% if x %}", "{% for x in y %}", "{% macro f() %}", "{% set x %}", "{% filter trim %}", "{% generation %}", "{% with %}"}) {
    const auto out = run(repeat(piece, 100000));
    REQUIRE_FALSE(out);
    CHECK(out.error().tag == "SPAN-TEMPLATE-SYNTAX");
  }
  // Long is not deep.
  CHECK(run("{{ " + repeat("'a' ~ ", 5000) + "'b' }}"));
  CHECK(run("{% if x %}" + repeat("{% elif x %}", 5000) + "{% endif %}"));
  CHECK(run(repeat("{{ 1 }}", 5000)));
  CHECK(run("{{ [" + repeat("1, ", 5000) + "] | length }}").value() == "5000");
  CHECK(run("{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"));
}

TEST_CASE("jinja: values that hold each other are let go") {
  // Leaks are found by the sanitizer builds.
  CHECK(run("{% set ns = namespace() %}{% set ns.self = ns %}{% set ns.l = [ns] %}{{ ns.l | length }}").value() == "1");
  CHECK(run("{% for i in [1, 2] %}{% macro f() %}{{ f }}{{ loop }}{% endmacro %}{% set ns = namespace(l=loop, f=f) %}{% endfor %}x").value() == "x");
  CHECK(run("{% for i in [1] %}{{ loop.changed(loop) }}{% endfor %}").value() == "True");
  CHECK(run("{% set ns = namespace(p=none) %}{% for i in range(50000) %}{% set ns.p = namespace(p=ns.p) %}{% endfor %}{{ ns.p is none }}").value() == "False");
}

TEST_CASE("jinja: generators run once, and late") {
  CHECK(run("{% set g = [1, 2] | map('string') %}{{ g | join(',') }};{{ g | join(',') }}").value() == "1,2;");
  CHECK(run("{% set g = 5 | map('string') %}ok").value() == "ok");
  CHECK_FALSE(run("{% set g = 5 | map('string') %}{{ g | list }}"));
  CHECK(run("{{ none | selectattr('x') | list }}").value() == "[]");
}

TEST_CASE("jinja: corners where it follows the original") {
  CHECK(run("{% for i in [1] %}{% break %}{% else %}E{% endfor %}").value() == "E");  // no pass came to its end
  CHECK(run("{% for i in [1, 2] %}{% if i == 1 %}{% continue %}{% endif %}{% else %}E{% endfor %}").value().empty());
  CHECK(run("{{ range(5)[1:4] }} {{ range(5)[::-2] }} {{ range(5)[::-2] | list }}").value() == "range(1, 4) range(4, -1, -2) [4, 2, 0]");
  CHECK(run("{{ 'a' % [1] }}{{ 'b' % zz }}").value() == "ab");
  CHECK_FALSE(run("{{ 'a' % 1 }}"));
  CHECK(run("{{ ['b', 'a'] | sort(attribute='no') }}").value() == "['b', 'a']");
  CHECK_FALSE(run("{% set x = 5 %}{{ x[1:] }}"));
  CHECK_FALSE(run("{{ zz[1:] }}"));
}

TEST_CASE("jinja: integers have bounds") {
  CHECK(run("{{ 2 ** 126 }}").value() == "85070591730234615865843651857942052864");
  limited("{{ 2 ** 127 }}");
  limited("{{ 2 ** 126 * 2 }}");
  limited("{{ (-(2 ** 126) * 2) // -1 }}");
  CHECK(run("{{ (-(2 ** 126) * 2) % -1 }}").value() == "0");
  CHECK(run("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 // -2 }} {{ 7 % -3 }} {{ -7.5 % 2 }}").value() == "-4 2 -4 -2 0.5");
}

TEST_CASE("local time: reading, writing, formats") {
  const auto t = parse_local_time("2026-11-30 14:05:09");
  REQUIRE(t);
  CHECK(to_string(*t) == "2026-11-30 14:05:09");
  CHECK(parse_local_time("2026-11-30T14:05:09.123").value() == *t);
  CHECK(to_string(parse_local_time("2024-02-29").value()) == "2024-02-29 00:00:00");
  for (const char* bad : {"", "2026", "2026-13-01", "2026-02-29", "2026-11-30 24:00:00", "2026-11-30 14:05", "2026-11-30 14:05:09x", "30.11.2026"})
    CHECK_FALSE(parse_local_time(bad));
  const auto show = [&](const char* format) { return format_local_time(format, *t).value(); };
  CHECK(show("%a %A %b %B %d %e %H %I %j %M %m %p %S %y %Y %%") == "Mon Monday Nov November 30 30 14 02 334 05 11 PM 09 26 2026 %");
  CHECK(show("%-d %-m %-I %_I %D %F %T %R %U %W %V %G %u %w") == "30 11 2  2 11/30/26 2026-11-30 14:05:09 14:05 48 48 49 2026 1 1");
  CHECK(format_local_time("%V %G %U %W", {2027, 1, 1}).value() == "53 2026 00 00");
  CHECK(format_local_time("%V %G", {2024, 12, 30}).value() == "01 2025");
  CHECK_FALSE(format_local_time("%Q", *t));
  CHECK_FALSE(format_local_time("%", *t));
}
