// SPDX-License-Identifier: GPL-3.0-or-later
// The sections with tables and figures behind the map.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/record/units.h"
#include "core/report/build.h"
#include "core/report/figure/head_grid_figure.h"
#include "core/report/figure/palette.h"

namespace spanscope {
namespace {

ReportCell number_cell(std::string text) { return {std::move(text), {}, {}, false}; }
ReportCell value_cell(const Value& v, std::string (*format)(double)) {
  if (v.ok()) return {format(v.number), {}, {}, false};
  return {v.state == ValueState::idle ? "idle" : "\xE2\x80\x93", {}, {}, true};
}
std::string times(double x) { return fmt::format("{:.{}f}\xC3\x97", x, x < 9.95 ? 1 : 0); }

}  // namespace

ReportSection ReportBuilder::last_answer() {
  ReportSection out{"What the last answer read", {}};
  if (!answered()) {
    out.blocks.push_back(ReportParagraph{{run("No turn of this session has answer rows, so nothing was read.")}, false});
    return out;
  }
  const auto ranked = most_read();
  const TurnReads& reads = history.turns[last];
  const auto sums = turn_sums(session, turn(), RowSet::answer);
  const std::string t = fmt::format(", t {}", turn().turn + 1);
  ReportTable table_out;
  table_out.columns = {{"Message", false}, {"Turn", true}, {"Tokens", true}, {"Reads" + t, true}, {"Heads", true}, {"Spike", true}, {"Session", true}, {"Share" + t, true}, {"Lift" + t, true}, {"Was read", true}};
  constexpr size_t kMost = 10;
  int64_t shown = 0;
  for (size_t i = 0; i < ranked.size() && i < kMost; ++i) {
    const auto [id, n] = ranked[i];
    shown += n;
    const Span& span = session.ledger[id];
    ReportCell name = span_cell(id);
    if (id == request) name.text += " (its request)";
    table_out.rows.push_back({name, number_cell(grouped(span.birth + 1)), number_cell(grouped(span.tokens)), number_cell(grouped(n)),
                              number_cell(grouped(int64_t(readers_of(session, turn(), id, options.reads).size()))), value_cell({reads.spike[id], std::isnan(reads.spike[id]) ? ValueState::missing : ValueState::value}, fixed2),
                              number_cell(grouped(history.total_reads[id])), value_cell(unit_of(sums[id], Unit::share, span.tokens, false), percent),
                              value_cell(unit_of(sums[id], Unit::lift, span.tokens, false), times), number_cell(reads.was_read[id] ? "yes" : "no")});
  }
  table_out.caption = caption("Table", ++tables,
                              fmt::format("The {} most read messages at turn {}: {} of its {}, in {}. Session: reads over all turns. Share and lift: over the answer's rows, all layers and heads. "
                                          "The request is the message directly before the answer; it is nearly always read most. Captured.",
                                          table_out.rows.size(), turn().turn + 1, grouped(shown), plural(reads.total, "read", "reads"), plural(reads.answer_rows, "answer row", "answer rows")));
  if (table_out.rows.empty()) {
    out.blocks.push_back(ReportParagraph{{run(fmt::format("The answer of turn {} read no message: 0 reads in {}.", turn().turn + 1, plural(reads.answer_rows, "answer row", "answer rows")))}, false});
    return out;
  }
  out.blocks.push_back(std::move(table_out));
  return out;
}

ReportSection ReportBuilder::trajectories() {
  ReportSection out{"Trajectories", {}};
  std::vector<size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return free_reads[a] > free_reads[b]; });
  std::erase_if(order, [&](size_t r) { return free_reads[r] <= 0; });
  if (order.size() > 6) order.resize(6);
  if (order.empty() || session.turns.size() < 2) {
    out.blocks.push_back(ReportParagraph{{run(order.empty() ? "No message was read by an answer after its own request, so there is nothing to follow." : "The session has one turn: nothing to follow yet.")}, false});
    return out;
  }
  MeasureSettings share;
  share.measure = Measure::share;
  share.rows = RowSet::answer;
  share.reads = options.reads;
  std::vector<SpanId> ids;
  for (size_t r : order) ids.push_back(table.rows[r]);
  const CellTable shares = cell_table(session, ids, share);
  // The last 64 turns, as the ring of a live session holds.
  const size_t first = session.turns.size() > 64 ? session.turns.size() - 64 : 0;
  std::vector<uint32_t> turns;
  for (size_t t = first; t < session.turns.size(); ++t) turns.push_back(session.turns[t].turn + 1);
  std::vector<LineSeries> by_reads, by_share;
  for (size_t k = 0; k < ids.size(); ++k) {
    LineSeries a{span_label(ids[k]), name_of(ids[k]), {}}, b = a;
    for (size_t t = first; t < session.turns.size(); ++t) {
      const Cell& x = table.at(order[k], uint32_t(t));
      // An answer cannot be read in its own turn; a request is read for other reasons than memory.
      const bool own = x.request || (session.ledger[ids[k]].message >= 0 && session.ledger[ids[k]].message == session.turns[t].message);
      const Cell& y = shares.at(k, uint32_t(t));
      a.values.push_back(x.state == CellState::value && !own ? x.number : NAN);
      b.values.push_back(y.state == CellState::value && !own ? y.number : NAN);
    }
    by_reads.push_back(std::move(a));
    by_share.push_back(std::move(b));
  }
  const double half = (kPageWidth - 24) / 2;
  Picture picture = beside(lines_picture("Reads per turn", turns, by_reads, false, half), lines_picture("Share of the answer rows' mass", turns, by_share, true, half), 24);
  // A key under the plots: number and name in the line's colour.
  const Palette& p = palette(false);
  double y = picture.list.height + 8;
  for (size_t k = 0; k < ids.size(); ++k) {
    const double x = 8 + double(k % 3) * (kPageWidth / 3);
    const double row = y + double(k / 3) * 16;
    picture.list.items.push_back(draw_line(x, row - 4, x + 16, row - 4, p.experts[k % p.experts.size()], 2.4));
    picture.list.items.push_back(draw_text(x + 22, row, span_label(ids[k]), p.experts[k % p.experts.size()], 10.5, TextAnchor::start, true));
    picture.list.items.push_back(draw_text(x + 50, row, fit_columns(visible_text(name_of(ids[k])), 36), p.text, 10.5));
  }
  picture.list.height = y + double((ids.size() + 2) / 3) * 16;
  ReportFigure figure;
  figure.list = std::move(picture.list);
  figure.largest = std::move(picture.largest);
  figure.largest.resize(std::min<size_t>(3, figure.largest.size()));
  figure.caption = caption("Figure", ++figures,
                           fmt::format("The {} messages read most when they were not the request, {}. Left: reads at strength {}. Right: share of the mass of the same answer rows, mean of {} layers x {} heads. "
                                       "Left out: turns in which a message was the request itself, was not in the context, or that have no answer. Captured.",
                                       ids.size(), first ? fmt::format("turns {} to {}", turns.front(), turns.back()) : fmt::format("{} turns", turns.size()),
                                       fixed2(options.reads.theta), session.header.layers, session.header.query_heads));
  out.blocks.push_back(std::move(figure));
  return out;
}

ReportSection ReportBuilder::readers() {
  ReportSection out{"Readers by layer and head", {}};
  auto ranked = most_read();
  if (ranked.size() > 1) std::erase_if(ranked, [&](const auto& r) { return r.first == request; });
  if (ranked.empty()) {
    out.blocks.push_back(ReportParagraph{{run("No head read anything in the last answer.")}, false});
    return out;
  }
  const SpanId id = ranked.front().first;
  HeadGridRequest wanted;
  wanted.spans = {id};
  wanted.settings = options.reads;
  const HeadGrid grid = head_grid(session, turn(), wanted);
  HeadGridPicture picture = head_grid_figure(grid, palette(false), std::min(kPageWidth, 150.0 + grid.columns * 46.0), 60.0 + grid.layers * 18.0);
  ReportFigure figure;
  figure.list = std::move(picture.list);
  const auto list = readers_of(session, turn(), id, options.reads);
  for (size_t i = 0; i < list.size() && i < 3; ++i)
    figure.largest.push_back(fmt::format("{} by head {}.{}", plural(list[i].reads, "read", "reads"), list[i].layer, list[i].head));
  figure.caption = {strong(fmt::format("Figure {}. ", ++figures)), run("Heads that read "), name_run(span_label(id) + " " + name_of(id)),
                    run(fmt::format(" in turn {}, strength {}: {} by {} of {} heads. Rows: layers from 0; columns: query heads grouped by the KV head they share. Captured.", turn().turn + 1,
                                    fixed2(options.reads.theta), plural(int64_t(grid.total), "read", "reads"), grid.readers, session.header.layers * session.header.query_heads))};
  out.blocks.push_back(std::move(figure));
  ReportTable heads;
  heads.columns = {{"Head", true}, {"Reads", true}, {"Part of its reads", true}, {"Hardest look", true}};
  for (size_t i = 0; i < list.size() && i < 8; ++i) {
    const HeadCell& cell = grid.at(list[i].layer, list[i].head);
    heads.rows.push_back({number_cell(fmt::format("{}.{}", list[i].layer, list[i].head)), number_cell(grouped(list[i].reads)),
                          number_cell(grid.total ? percent(double(list[i].reads) / double(grid.total)) : "\xE2\x80\x93"), number_cell(fixed2(cell.spike))});
  }
  heads.caption = caption("Table", ++tables, "The heads with the most reads of this message in that turn; layer.head, both from 0. Captured.");
  heads.narrow = true;
  out.blocks.push_back(std::move(heads));
  return out;
}

ReportSection ReportBuilder::experts() {
  ReportSection out{"Experts", {}};
  const auto load = expert_load(session);
  if (!load) {
    const bool mixture = session.header.experts > 0;
    out.blocks.push_back(ReportParagraph{{badge(Badge::missing), run(mixture ? " The model has experts, but their routing was not captured; record again with " : " The model has no experts."),
                                          mixture ? code("--routing") : run(""), run(mixture ? "." : "")}, false});
    return out;
  }
  Picture picture = expert_picture(*load);
  ReportFigure figure;
  figure.list = std::move(picture.list);
  figure.largest = std::move(picture.largest);
  figure.caption = caption("Figure", ++figures,
                           fmt::format("Load of each expert: picks / tokens per mixture layer (each token picks {}), prefill and decode apart, all turns; recomputed rows left out. "
                                       "Layers are not added up. Captured.", session.header.experts_used));
  out.blocks.push_back(std::move(figure));
  return out;
}

ReportSection ReportBuilder::dead_weight() {
  ReportSection out{"Dead weight", {}};
  const TurnId at = session.turns.back().turn;
  if (dead.empty()) {
    out.blocks.push_back(ReportParagraph{{badge(Badge::hypothesis), run(fmt::format(" At turn {} no message of turn {} or earlier went unread after its own turn.", at + 1, at >= 2 ? at - 1 : 0))}, false});
    if (at < 2) out.blocks.back() = ReportParagraph{{badge(Badge::hypothesis), run(" Too early to say: a message counts from two turns after its own on.")}, false};
    return out;
  }
  uint64_t tokens = 0;
  for (SpanId id : dead) tokens += session.ledger[id].tokens;
  out.blocks.push_back(ReportParagraph{{badge(Badge::hypothesis),
                                        run(fmt::format(" {} in {} at turn {} were not read in any turn after the one that brought them. That makes them candidates, not waste: only a run "
                                                        "without them says whether the answer needs them.", plural(int64_t(tokens), "token", "tokens"),
                                                        plural(int64_t(dead.size()), "message", "messages"), at + 1))}, false});
  const auto cumulative = replay_recurrence(session, RowSet::answer, 1.0, at).cumulative;
  ReportTable t;
  t.columns = {{"Message", false}, {"Turn", true}, {"Tokens", true}, {"Reads", true}, {"Share of all answers", true}};
  for (size_t i = 0; i < dead.size() && i < 20; ++i) {
    const Span& span = session.ledger[dead[i]];
    t.rows.push_back({span_cell(span.id), number_cell(grouped(span.birth + 1)), number_cell(grouped(span.tokens)), number_cell(grouped(history.total_reads[span.id])),
                      value_cell(unit_of(cumulative[span.id], Unit::share, span.tokens, false), percent)});
  }
  t.caption = caption("Table", ++tables,
                      fmt::format("{} by size. Reads over the session at strength {}: single reads that are too scattered to count, or reads in the message's own turn. "
                                  "Share: over all answer rows since the message entered. Hypothesis.",
                                  t.rows.size() < dead.size() ? fmt::format("The {} largest of {}", t.rows.size(), dead.size()) : "All of them", fixed2(options.reads.theta)));
  out.blocks.push_back(std::move(t));
  return out;
}

}  // namespace spanscope
