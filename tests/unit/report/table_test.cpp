// SPDX-License-Identifier: GPL-3.0-or-later
// Tables that the export command writes.
#include "app/commands/table.cpp"
#include "tests/support/catch.h"

namespace spanscope {
namespace {

TEST_CASE("export tables: CSV quoting, empty for missing, null in JSON, numbers round-trip") {
  ExportTable t;
  t.caption = {"what"};
  t.columns = {"name", "number", "small", "missing", "flag"};
  t.rows = {{"plain", 1, 0.1, OrderedJson(), true},
            {"comma, \"quote\"\nline", -7, 4.9e-324, OrderedJson(), false},
            {"\xE5\x90\x8D \r", 4294967295u, 0.30000001192092896, OrderedJson(), true}};
  const std::string csv = t.to_csv();
  CHECK(csv.find("# what\nname,number,small,missing,flag\nplain,1,0.1,,true\n") == 0);
  CHECK(csv.find("\"comma, \"\"quote\"\"\nline\",-7,5e-324,,false\n") != std::string::npos);
  CHECK(csv.find("\"\xE5\x90\x8D \r\",4294967295,0.30000001192092896,,true\n") != std::string::npos);
  const auto json = OrderedJson::parse(t.to_json());
  REQUIRE(json.size() == 3);
  CHECK(json[0].at("missing").is_null());
  CHECK(json[1].at("name") == "comma, \"quote\"\nline");
  CHECK(json[1].at("small").get<double>() == 4.9e-324);
  CHECK(json[2].at("small").get<double>() == 0.30000001192092896);
  CHECK(json[2].at("number") == 4294967295u);
}

TEST_CASE("export tables: text that is not UTF-8 and text that a spreadsheet would run") {
  ExportTable t;
  t.columns = {"name"};
  t.rows = {{"\xff\xfe"}, {"=cmd|'/c calc'!A1"}, {"@SUM(1)"}};
  CHECK_NOTHROW(OrderedJson::parse(t.to_json()));
  const std::string csv = t.to_csv();
  CHECK(csv.find("\n=") == std::string::npos);
  CHECK(csv.find("\n@") == std::string::npos);
  CHECK(csv.find("\xff") == std::string::npos);
  t.rows.clear();
  CHECK(OrderedJson::parse(t.to_json()).empty());
  CHECK(t.to_csv() == "name\n");
}

}  // namespace
}  // namespace spanscope
