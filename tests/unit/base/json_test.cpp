// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/base/json.h"

#include "tests/support/catch.h"

using namespace spanscope;

TEST_CASE("a JSON error names line and column") {
  auto r = parse_json("{\n  \"a\": 1,\n}", "x.json");
  REQUIRE(!r);
  CHECK(r.error().where == "x.json:3:1");
  CHECK(r.error().tag == "SPAN-JSON");
}

TEST_CASE("invalid UTF-8 is found at its byte") {
  auto r = parse_json("[\"ab\xff\"]", "x.json");
  REQUIRE(!r);
  CHECK(r.error().tag == "SPAN-UTF8");
  CHECK(*r.error().offset == 4);
  for (const char* bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98"})
    CHECK(find_invalid_utf8(bad) == 0);
  CHECK(find_invalid_utf8("\xf0\x9f\x98\x80 ok") == std::string_view::npos);
}

TEST_CASE("deep nesting is refused before it is parsed") {
  auto r = parse_json(std::string(1000, '['), "x.json");
  REQUIRE(!r);
  CHECK(r.error().tag == "SPAN-JSON-DEPTH");
  CHECK(*r.error().offset == 128);
}
