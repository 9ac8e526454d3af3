// SPDX-License-Identifier: GPL-3.0-or-later
// Words and numbers as reports print them, and untrusted text made safe for HTML and SVG. A session's text is whatever a
// model or a tool wrote: it never becomes markup, and it cannot reorder or hide what stands around it. Any thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace spanscope {

// Text for an HTML or SVG element or a quoted attribute: & < > " ' as entities; control characters, bidirectional
// controls and other invisible format characters as U+2400-style or named marks; bytes that are not UTF-8 as U+FFFD.
std::string escape_html(std::string_view text);
// The same marks without entities: plain text that is well-formed UTF-8 on one line.
std::string visible_text(std::string_view text);
// At most `columns` wide (East Asian wide characters count two), with an ellipsis when cut. Input: visible_text().
std::string fit_columns(std::string_view text, size_t columns);
size_t text_columns(std::string_view text);

std::string grouped(int64_t n);            // 14,736
std::string percent(double share);         // 10.7 %, 0.63 %, < 0.01 %, 0 %; no-break space; an en dash for NaN
std::string whole_percent(double share);   // 80 %
std::string fixed2(double x);              // 0.94; an en dash for NaN
std::string span_label(uint32_t id);       // 088
std::string plural(int64_t n, const char* one, const char* many);  // "1 turn", "1,200 turns"
// A word that a POSIX shell reads back as this text.
std::string shell_quote(const std::string& word);

}  // namespace spanscope
