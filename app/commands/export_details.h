// SPDX-License-Identifier: GPL-3.0-or-later
// Exports of what is kept beyond views: token statistics, rows, pairs, keys, values.
#pragma once
#include <string>

#include "app/commands/table.h"
#include "core/file/safetensors.h"
#include "core/record/session_data.h"

namespace spanscope {

bool is_detail_export(const std::string& what);  // tokens, rows, pairs, keys, values
// Empty: the session holds it. Else which option of `record` would have kept it.
std::string detail_option(const SessionHeader& header, const std::string& what);
// Of keys and values there is no table: they are arrays only.
bool has_detail_table(const std::string& what);
ExportTable detail_table(const SessionData& session, const std::string& what);
// tNN.lLL.NAME, layer and turn of each; as the file holds them.
Blob detail_arrays(const SessionData& session, const std::string& what);

}  // namespace spanscope
