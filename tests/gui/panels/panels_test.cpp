// SPDX-License-Identifier: GPL-3.0-or-later
// Panels against the events they draw: every sum on screen is a recount of the session.
#include <QApplication>
#include <QSignalSpy>
#include <QTest>
#include <QtTest/QAbstractItemModelTester>
#include <cmath>
#include <set>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include "tests/gui/support/synthetic_session.h"
#include "widgets/panels/data/session_access.h"
#include "widgets/panels/experts_panel.h"
#include "widgets/panels/figure_canvas.h"
#include "widgets/panels/head_grid_panel.h"
#include "widgets/panels/layer_profile_panel.h"
#include "widgets/panels/row_table.h"
#include "widgets/panels/threshold_panel.h"
#include "widgets/panels/transcript_panel.h"
#include "widgets/panels/transcript_view.h"
#include "widgets/panels/words_panel.h"
#include "widgets/plots/threshold_plot.h"
#include "widgets/plots/trajectory_plot.h"

using namespace spanscope;
using test::synthetic_session;

namespace {

// Spans (messages) with most reads first at the document's strength.
std::vector<SpanId> by_reads(Document& d) {
  auto rows = spans_at_level(*d.session(), Level::message);
  std::stable_sort(rows.begin(), rows.end(), [&](SpanId a, SpanId b) { return d.history().total_reads[a] > d.history().total_reads[b]; });
  return rows;
}

// The reads of a message at a turn, counted from the events alone.
int64_t recount(const SessionData& s, const TurnRecord& t, SpanId message, float theta) {
  int64_t n = 0;
  for (size_t i = 0; i < t.events.size(); ++i)
    n += t.events.mass[i] > theta && panels::message_or_self(s, t.events.leaf[i]) == message;
  return n;
}

size_t last_answer(const TranscriptView& view) {
  size_t found = 0;
  for (size_t b = 0; b < view.blocks().size(); ++b)
    if (view.blocks()[b].answer_turn != kNone32) found = b;
  return found;
}

}  // namespace

TEST_CASE("words: list, dots and readers sum to the events of these rows") {
  Document d;
  d.setSession(synthetic_session());
  TranscriptPanel transcript(&d);
  WordsPanel words(&d);
  transcript.resize(900, 600);
  const size_t b = last_answer(*transcript.view());
  const auto& block = transcript.view()->blocks()[b];
  for (const auto& [begin, end] : {std::pair<uint32_t, uint32_t>{0, 1}, {3, 15}, {0, block.tokens}}) {
    transcript.view()->selectTokens(b, begin, end);
    for (float theta : {0.20f, 0.30f, 0.61f}) {
      d.setStrength(theta);
      const TurnRecord& t = *d.turnRecord();
      // Row i predicts token i + 1: tokens [begin, end) belong to rows [first - 1, last - 1).
      const uint32_t first = t.answer_begin + begin, last = t.answer_begin + end;
      int64_t events = 0;
      std::set<std::pair<int, int>> heads;
      for (size_t i = 0; i < t.events.size(); ++i)
        if (t.events.row[i] + 1 >= first && t.events.row[i] + 1 < last && t.events.mass[i] > theta) {
          ++events;
          heads.insert({t.events.layer[i], t.events.head[i]});
        }
      const auto& data = words.data();
      CHECK(data.total == events);
      CHECK(data.heads == heads.size());
      int64_t spans = 0, rows = 0, readers = 0;
      for (const auto& s : data.spans) spans += s.reads;
      for (const auto& w : data.words) rows += w.reads;
      for (const auto& r : data.readers) readers += r.reads;
      CHECK(spans == events);
      CHECK(rows == events);
      CHECK(readers == events);
      CHECK(data.words.size() == end - begin);
      // The dots of a word are its sum unless there are more spans than columns.
      if (data.spans.size() <= data.columns.size())
        for (size_t w = 0; w < data.words.size(); ++w) {
          uint32_t sum = 0;
          for (size_t c = 0; c < data.columns.size(); ++c) sum += data.dots[w * data.columns.size() + c];
          CHECK(sum == data.words[w].reads);
        }
    }
    d.setStrength(0.30f);
  }
  CHECK(words.data().total > 0);
}

TEST_CASE("words: text that was read has no reads of its own") {
  Document d;
  d.setSession(synthetic_session());
  TranscriptPanel transcript(&d);
  WordsPanel words(&d);
  transcript.view()->selectTokens(1, 0, 3);  // a prompt message
  CHECK(words.data().tokens == 3);
  CHECK_FALSE(words.data().answer);
  CHECK(words.data().total == 0);
}

TEST_CASE("transcript: dragging with the mouse selects the tokens under it") {
  Document d;
  d.setSession(synthetic_session());
  TranscriptPanel transcript(&d);
  transcript.resize(900, 600);
  transcript.show();
  QApplication::processEvents();
  TranscriptView* view = transcript.view();
  const size_t b = last_answer(*view);
  view->scrollToBlock(b);
  QApplication::processEvents();
  const QPoint from = view->pointOf(b, 4), to = view->pointOf(b, 9);
  REQUIRE_FALSE(from.isNull());
  REQUIRE(from.y() == to.y());
  QTest::mousePress(view->viewport(), Qt::LeftButton, {}, from);
  QTest::mouseMove(view->viewport(), (from + to) / 2);
  QTest::mouseMove(view->viewport(), to);
  QTest::mouseRelease(view->viewport(), Qt::LeftButton, {}, to);
  const TurnRecord& t = *d.turnRecord();
  CHECK(d.selection().words.begin == t.answer_begin + 4);
  CHECK(d.selection().words.end >= t.answer_begin + 9);
  CHECK(d.selection().words.end <= t.answer_begin + 10);
  CHECK(view->tint() == TranscriptView::Tint::words);
}

TEST_CASE("transcript: counts are the turn's reads, unread runs fold") {
  Document d;
  d.setSession(synthetic_session());
  TranscriptPanel transcript(&d);
  const TranscriptView& view = *transcript.view();
  int64_t sum = 0;
  size_t folded = 0;
  for (size_t b = 0; b < view.blocks().size(); ++b) {
    const int64_t n = recount(*d.session(), *d.turnRecord(), view.blocks()[b].span, d.strength());
    CHECK(std::max<qint64>(0, view.countOf(b)) == n);
    sum += n;
    folded += view.folded(b);
    if (n > 0) CHECK_FALSE(view.folded(b));
  }
  CHECK(sum == d.history().turns[size_t(d.turn())].total);
  CHECK(folded > 0);
}

TEST_CASE("transcript: bytes stay exact, a token that splits a character shows its bytes") {
  const auto s = synthetic_session();
  bool split = false;
  for (const auto& block : panels::transcript_blocks(*s)) {
    if (block.leaves.size() == 1) CHECK(block.text == s->text_of(block.leaves[0].leaf));
    const auto text = panels::char_map(block, panels::TextMode::text);
    const auto tokens = panels::char_map(block, panels::TextMode::tokens);
    for (size_t k = 0; k < block.token_end.size(); ++k) {
      if (tokens.broken[k]) {
        split = true;
        // In plain text the same token still covers the whole character it is a part of.
        CHECK(text.token_end[k] > text.token_begin[k]);
        CHECK(tokens.text[tokens.token_begin[k]] == u'⟨');
      }
    }
    CHECK(text.text.find(u'\uFFFD') == std::u16string::npos);
  }
  CHECK(split);
}

TEST_CASE("layers x heads: the grid's sum is the span's reads, for every span, strength and column mode") {
  Document d;
  d.setSession(synthetic_session());
  HeadGridPanel panel(&d);
  for (SpanId id : by_reads(d)) {
    d.select(id, Origin::program);
    for (float theta : {0.2f, 0.3f, 0.5f, 0.9f}) {
      d.setStrength(theta);
      const TurnRecord& t = *d.turnRecord();
      const int64_t n = recount(*d.session(), t, id, theta);
      CHECK(panel.grid().total == n);
      CHECK(std::max<int64_t>(0, d.history().turns[size_t(d.turn())].reads[id]) == n);
      HeadGridRequest kv{{id}, d.settings().reads, true};
      CHECK(head_grid(*d.session(), t, kv).total == n);
      // Readers of core/record are the cells.
      const auto readers = readers_of(*d.session(), t, id, d.settings().reads);
      CHECK(readers.size() == panel.grid().readers);
      for (const Reader& r : readers) CHECK(panel.grid().at(r.layer, r.head).reads == r.reads);
    }
    d.setStrength(0.3f);
  }
  CHECK(panel.canvas()->list().items.size() > 384);
}

TEST_CASE("layers x heads: a click on a cell selects the head, the hover says why") {
  Document d;
  d.setSession(synthetic_session());
  d.select(by_reads(d).front(), Origin::program);
  HeadGridPanel panel(&d);
  panel.resize(1100, 760);
  panel.show();
  QApplication::processEvents();
  const Reader top = readers_of(*d.session(), *d.turnRecord(), d.selection().first(), d.settings().reads).front();
  for (const DrawItem& item : panel.canvas()->list().items)
    if (item.id == head_grid_id(HeadGridItem::cell, uint32_t(top.layer) * 16 + top.head) && item.kind == DrawItem::Kind::rect) {
      QTest::mouseClick(panel.canvas()->viewport(), Qt::LeftButton, {}, QPoint(int(item.x + item.w / 2), int(item.y + item.h / 2)));
      break;
    }
  CHECK(d.selection().layer == top.layer);
  CHECK(d.selection().head == top.head);
  const QString why = panel.why(top.layer, top.head);
  CHECK(why.contains(QString("%1 reads").arg(top.reads)));
  CHECK(why.contains("habit"));
  CHECK(why.contains("bound"));
}

TEST_CASE("threshold: what is kept equals a recount, the line drags the filter, Esc restores") {
  Document d;
  d.setSession(synthetic_session());
  ThresholdPanel panel(&d);
  panel.resize(840, 520);
  panel.show();
  QApplication::processEvents();
  ThresholdPlot* plot = panel.plot();
  const auto rows = spans_at_level(*d.session(), Level::message);
  for (int64_t threshold : {0, 1, 4, 17, 60, 100000}) {
    size_t spans = 0;
    int64_t reads = 0;
    uint64_t tokens = 0;
    for (SpanId id : rows)
      if (d.history().total_reads[id] >= threshold) ++spans, reads += d.history().total_reads[id], tokens += d.session()->ledger[id].tokens;
    const auto kept = panels::kept_at(plot->data(), threshold);
    CHECK(kept.spans == spans);
    CHECK(kept.reads == reads);
    CHECK(kept.tokens == tokens);
  }

  d.setFilter("total_reads >= 4", Origin::program);
  QApplication::processEvents();
  QTest::qWait(30);
  QWidget* canvas = panel.findChild<QWidget*>("thresholdCanvas");
  REQUIRE(canvas);
  const QPoint start = canvas->mapFrom(plot, plot->linePoint());
  const QPoint end = canvas->mapFrom(plot, QPoint(plot->linePoint().x(), plot->pixelOf(60)));
  const auto drag = [&] {
    QTest::mousePress(canvas, Qt::LeftButton, {}, start);
    REQUIRE(plot->dragging());
    for (int i = 1; i <= 6; ++i) QTest::mouseMove(canvas, start + (end - start) * i / 6);
  };
  QSignalSpy filters(&d, &Document::filterChanged), commits(plot, &ThresholdPlot::committed);
  drag();
  const int64_t during = plot->threshold();
  CHECK(during > 30);
  CHECK(d.filterText() == QString("total_reads >= %1").arg(during));  // while the button is down
  CHECK(filters.count() >= 3);
  std::set<SpanId> expected, found;
  for (SpanId id : rows)
    if (d.history().total_reads[id] >= during) expected.insert(id);
  for (SpanId id : rows)
    if (d.matches(id)) found.insert(id);
  for (SpanId id : found) CHECK(expected.count(id) == 1);
  CHECK(expected.size() - found.size() <= 1);  // ready views may leave the request out
  QTest::keyClick(plot, Qt::Key_Escape);
  CHECK_FALSE(plot->dragging());
  CHECK(d.filterText() == "total_reads >= 4");
  CHECK(commits.count() == 0);
  QTest::mouseRelease(canvas, Qt::LeftButton, {}, end);

  QTest::qWait(30);
  drag();
  QTest::mouseRelease(canvas, Qt::LeftButton, {}, end);
  REQUIRE(commits.count() == 1);
  CHECK(commits[0][0].toLongLong() == 4);
  CHECK(commits[0][1].toLongLong() == plot->threshold());

  // Keys step to the next count.
  const int64_t before = plot->threshold();
  plot->step(-1);
  CHECK(plot->threshold() < before);
  CHECK(panels::kept_at(plot->data(), plot->threshold()).spans > panels::kept_at(plot->data(), before).spans);
}

TEST_CASE("threshold: only its own term is edited") {
  CHECK(withThreshold("", 5) == "total_reads >= 5");
  CHECK(withThreshold("total_reads >= 145", 9) == "total_reads >= 9");
  CHECK(withThreshold("role == \"tool\"", 9) == "(role == \"tool\") and total_reads >= 9");
  CHECK(withThreshold("role == \"tool\" and total_reads > 3", 9) == "role == \"tool\" and total_reads >= 9");
  CHECK(thresholdTerm("total_reads > 3").threshold == 4);
  CHECK(thresholdTerm("role == \"tool\"").at < 0);
}

TEST_CASE("trajectories: values are the cells of the table, gaps are NaN") {
  Document d;
  d.setSession(synthetic_session());
  const auto order = by_reads(d);
  d.select(order[0], Origin::program);
  d.togglePin(order[1]);
  d.togglePin(order[2]);
  TrajectoryPlot plot(&d);
  REQUIRE(plot.data().lines.size() == 3);
  for (Measure m : {Measure::reads, Measure::share, Measure::lift}) {
    d.setMeasure(m);
    for (size_t k = 0; k < 3; ++k) {
      const CellTable table = cell_table(*d.session(), std::vector<SpanId>{order[k]}, d.settings());
      const auto& line = plot.data().lines[k];
      CHECK(line.span == order[k]);
      REQUIRE(line.y.size() == table.turns);
      for (uint32_t t = 0; t < table.turns; ++t) {
        if (table.at(0, t).state == CellState::value) CHECK(line.y[t] == Approx(table.at(0, t).number));
        else CHECK(std::isnan(line.y[t]));
      }
    }
  }
}

TEST_CASE("experts: counts are exact, locked sessions name the option") {
  Document d;
  d.setSession(synthetic_session());
  d.select(by_reads(d).front(), Origin::program);
  ExpertsPanel panel(&d);
  REQUIRE_FALSE(panel.locked());
  const auto& c = panel.counts();
  REQUIRE(c.tokens > 0);
  for (uint32_t l = 0; l < d.session()->header.layers; ++l) {
    uint64_t sum = 0;
    for (uint32_t e = 0; e < c.experts; ++e) sum += c.counts[l * c.experts + e];
    CHECK(sum == (c.moe[l] ? uint64_t(c.tokens) * c.picks : 0));
  }
  // Prefill and decode together: two picks of every prompt and answer row.
  uint64_t rows = 0;
  for (const TurnRecord& t : d.session()->turns) rows += t.rows(RowPhase::prompt) + t.answer_rows();
  CHECK(panel.lanes().sum(0) + panel.lanes().sum(1) == rows * 2);

  auto without = std::make_shared<SessionData>(*synthetic_session());
  for (TurnRecord& t : without->turns) t.routing = {};
  d.setSession(without);
  CHECK(panel.locked());
  CHECK(panel.lockText().contains("--routing"));
  d.setSession(synthetic_session({.experts = 0}));
  CHECK(panel.locked());
  CHECK_FALSE(panel.lockText().contains("--routing"));  // a dense model: nothing to record
}

TEST_CASE("by layer: shares are mass over rows and heads, reads add up to the grid's") {
  Document d;
  d.setSession(synthetic_session());
  const SpanId id = by_reads(d).front();
  d.select(id, Origin::program);
  LayerProfilePanel panel(&d);
  const TurnRecord& t = *d.turnRecord();
  const size_t p = size_t(std::find(t.profile_spans.begin(), t.profile_spans.end(), id) - t.profile_spans.begin());
  int64_t reads = 0;
  for (uint32_t l = 0; l < d.session()->header.layers; ++l) {
    CHECK(panel.shares()[l] == Approx(t.layer_mass[l * 2 * t.profile_spans.size() + p] / (t.answer_rows() * 16.0)));
    reads += panel.reads()[l];
  }
  CHECK(reads == recount(*d.session(), t, id, d.strength()));
}

TEST_CASE("tables are sound models") {
  Document d;
  d.setSession(synthetic_session());
  TranscriptPanel transcript(&d);
  WordsPanel words(&d);
  QAbstractItemModelTester spans(words.spanTable()->model(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  QAbstractItemModelTester readers(words.readerTable()->model(), QAbstractItemModelTester::FailureReportingMode::Fatal);
  transcript.view()->selectTokens(last_answer(*transcript.view()), 2, 12);
  transcript.view()->selectTokens(last_answer(*transcript.view()), 2, 3);
  CHECK(words.spanTable()->cells().asMarkdown().contains("Span read"));
}

TEST_CASE("panels stand without a session, without text, with one turn") {
  Document d;
  TranscriptPanel transcript(&d);
  WordsPanel words(&d);
  HeadGridPanel heads(&d);
  LayerProfilePanel layers(&d);
  ExpertsPanel experts(&d);
  ThresholdPanel threshold(&d);
  TrajectoryPlot trajectories(&d);
  const std::vector<QWidget*> all{&transcript, &words, &heads, &layers, &experts, &threshold, &trajectories};
  const auto draw = [&] {
    for (QWidget* w : all) {
      w->resize(700, 420);
      CHECK_FALSE(w->grab().isNull());
    }
  };
  draw();
  for (auto session : {synthetic_session({.turns = 1}), synthetic_session({.turns = 3, .text = false}), synthetic_session({.turns = 2, .layers = 2, .heads = 1, .kv_heads = 1, .experts = 0})}) {
    d.setSession(session);
    d.select(by_reads(d).front(), Origin::program);
    d.setWords({d.turnRecord()->answer_begin, d.turnRecord()->answer_begin + 4}, Origin::program);
    draw();
  }
  d.setSession(std::make_shared<SessionData>());
  draw();
  d.setSession(nullptr);
  draw();
}
