// SPDX-License-Identifier: GPL-3.0-or-later
// The map: the hottest cell survives every zoom, columns add up, what is not there looks like what it is, mouse and keys.
#include <cmath>
#include <QMouseEvent>
#include <QScrollBar>
#include <map>
#include <random>
#include <set>

#include "core/report/figure/palette.h"
#include "tests/gui/support/shown.h"
#include "core/report/figure/text_width.h"
#include "widgets/figure/painter.h"
#include "widgets/panels/map_tip.h"
#include "widgets/panels/map_view.h"
#include "widgets/style/style.h"

using namespace spanscope;
using test::session64;
using test::settle;
using test::Shown;

namespace {

QImage painted(const DisplayList& list) {
  QImage image(int(list.width), int(list.height), QImage::Format_ARGB32_Premultiplied);
  image.fill(style::q(palette(false).panel));
  QPainter painter(&image);
  painter.setFont(QApplication::font());
  paintDisplayList(painter, list);
  return image;
}

// Spans in turns, all zero but for some hot cells.
struct Sparse {
  SessionData session;
  CellTable table;
  std::vector<std::pair<size_t, uint32_t>> hot;
  Sparse(size_t spans, uint32_t turns, size_t many) {
    session.header.layers = session.header.query_heads = 4;
    session.ledger.spans.resize(spans);
    for (size_t i = 0; i < spans; ++i) {
      session.ledger.spans[i].id = SpanId(i);
      session.ledger.spans[i].role = i % 3 ? "tool" : "user";
      session.ledger.spans[i].name = "span";
      table.rows.push_back(SpanId(i));
    }
    session.turns.resize(turns);
    for (uint32_t t = 0; t < turns; ++t) session.turns[t].turn = t;
    table.turns = turns;
    table.cells.assign(spans * turns, Cell{0, CellState::value, false, false});
    table.row_value.assign(spans, 0);
    table.row_state.assign(spans, CellState::value);
    table.sink_share.assign(turns, 0.5);
    table.column_reads.assign(turns, 0);
    std::mt19937 rng(3);
    std::set<std::pair<size_t, uint32_t>> places;
    while (places.size() < many) places.insert({rng() % spans, uint32_t(rng() % turns)});
    for (const auto& [row, turn] : places) {
      Cell& c = table.cells[row * turns + turn];
      c.number = 500, c.was_read = true;
      table.row_value[row] += 500;
      hot.push_back({row, turn});
    }
  }
};

std::shared_ptr<const SessionData> with_lost_turns() {
  auto s = std::make_shared<SessionData>(*session64());
  s->turns.erase(s->turns.begin() + 26, s->turns.begin() + 29);  // 27, 28 and 29, as people count
  return s;
}

void move_to(MapView* map, QPoint at, Qt::MouseButtons buttons = Qt::NoButton) {
  QMouseEvent move(QEvent::MouseMove, QPointF(at), map->viewport()->mapToGlobal(QPointF(at)), Qt::NoButton, buttons, {});
  QApplication::sendEvent(map->viewport(), &move);
}
QPoint cell_at(MapView* map, size_t row, uint32_t turn) {
  return {int(map->figure().turn_x(turn) + map->figure().column_width() / 2), int(map->figure().row_y(row) + map->figure().row_height / 2)};
}

}  // namespace

TEST_CASE("a hot cell survives every zoom: 1,000 in 32,768 spans x 64 turns") {
  const QRgb hottest = style::q(palette(false).reads_at(500)).rgb();
  const Sparse sparse(32768, 64, 1000);
  for (const double row_height : {1.0 / 64, 1.0 / 17, 0.13, 0.5, 0.8, 1.0, 2.5, 5.0, 12.0}) {
    MapFigureOptions options;
    options.width = options.height = 900;
    options.row_height = row_height;
    for (size_t r = 0; r < sparse.table.rows.size(); ++r) options.rows.push_back(r);
    size_t looked = 0, cold = 0;
    for (const size_t first : {size_t(0), size_t(9000), size_t(31000)}) {
      options.first_row = first;
      const MapFigure figure = build_map_figure(sparse.session, sparse.table, options);
      const QImage image = painted(figure.list);
      for (const auto& [row, turn] : sparse.hot) {
        if (row < figure.first_row || row >= figure.first_row + figure.shown_rows) continue;
        const int x = int(figure.turn_x(turn) + figure.column_width() / 2);
        const double offset = double(row - figure.first_row) * row_height;
        ++looked;
        const int y = int(figure.cells_y + (row_height < 1 ? std::floor(offset) : offset + row_height / 2));
        cold += !image.rect().contains(x, y) || image.pixel(x, y) != hottest;
      }
    }
    INFO("row height " << row_height);
    CHECK(looked > 0);
    CHECK(cold == 0);
  }
}

TEST_CASE("more turns than pixels: the strongest turn stands for its pixel") {
  const uint32_t turns = 5000;
  const Sparse none(1, turns, 0);
  for (const uint32_t hot : {0u, 1234u, 1235u, 3000u, 4999u}) {
    auto table = none.table;
    table.cells[hot] = Cell{500, CellState::value, true, false};
    MapFigureOptions options;
    options.rows = {0};
    const MapFigure figure = build_map_figure(none.session, table, options);
    CHECK(figure.bins < turns);
    const QImage image = painted(figure.list);
    CHECK(image.pixel(int(figure.turn_x(hot) + 0.5), int(figure.cells_y + figure.row_height / 2)) == style::q(palette(false).reads_at(500)).rgb());
  }
}

TEST_CASE("rows and rest add up to the strip, at every threshold") {
  Shown s;
  Document& d = s.document();
  for (const int threshold : {1, 20, 60, 400, 100000}) {
    d.setFilter(QString("total_reads >= %1").arg(threshold), Origin::predicate);
    const auto& rows = s.find<MapView>()->rows();
    const std::set<size_t> among(rows.begin(), rows.end());
    for (uint32_t t = 0; t < d.cells().turns; ++t) {
      int64_t shown = 0, rest = 0;
      for (size_t r = 0; r < d.cells().rows.size(); ++r)
        if (const Cell& c = d.cells().at(r, t); c.state == CellState::value) (among.count(r) ? shown : rest) += int64_t(c.number);
      REQUIRE(shown + rest == d.history().turns[t].total);
    }
  }
}

TEST_CASE("a wide font does not run out of the room that a figure gave its labels") {
  for (const TextAnchor anchor : {TextAnchor::start, TextAnchor::middle, TextAnchor::end})
    for (const bool bold : {false, true})
      for (const int stretch : {100, 160}) {
        DisplayList list;
        list.width = 400, list.height = 30;
        DrawItem item;
        item.kind = DrawItem::Kind::text;
        item.text = "reply to git_show retry rewrite 0123456789";
        item.x = 200, item.y = 20, item.size = 11, item.bold = bold, item.anchor = anchor;
        item.fill = {0, 0, 0, 255};
        list.items = {item};
        QImage image(400, 30, QImage::Format_RGB32);
        image.fill(Qt::white);
        QPainter painter(&image);
        QFont font = painter.font();
        font.setStretch(stretch);
        painter.setFont(font);
        paintDisplayList(painter, list);
        painter.end();
        const double room = text_width(item.text, item.size, bold);
        const double left = anchor == TextAnchor::start ? 200 : anchor == TextAnchor::middle ? 200 - room / 2 : 200 - room;
        int ink = 0;
        for (int x = 0; x < 400; ++x)
          for (int y = 0; y < 30; ++y)
            if (image.pixel(x, y) != 0xffffffffu) {
              ++ink;
              INFO("anchor " << int(anchor) << ", bold " << bold << ", stretch " << stretch << ", x " << x);
              REQUIRE(x >= left - 2);
              REQUIRE(x <= left + room + 2);
            }
        CHECK(ink > 100);
      }
}

TEST_CASE("zero, few, read, lost and absent look different, in both themes") {
  for (const bool dark : {false, true}) {
    style::apply(*qApp, dark ? style::Theme::dark : style::Theme::light);
    Shown s(with_lost_turns());
    auto* map = s.find<MapView>();
    Document& d = s.document();
    d.select(kNoSpan, Origin::program);
    map->zoomRows(14 - map->figure().row_height);  // whole pixels, so that each can be named
    map->verticalScrollBar()->setValue(0);
    settle();
    const MapFigure& f = map->figure();
    CHECK(f.columns == 64);
    CHECK(f.turns == 61);
    const QImage image = map->viewport()->grab().toImage();
    const QRgb ground = style::q(style::colors().panel).rgb();
    // Columns need not be whole pixels wide: that follows from the fonts that the machine has.
    const int w = int(f.column_width()), h = int(f.row_height);
    std::map<std::string, int> most, least;
    for (size_t row = f.first_row; row < f.first_row + f.shown_rows; ++row)
      for (uint32_t column = 0; column < f.columns; ++column) {
        const uint32_t turn = f.column_turn[column];
        const size_t r = map->rows()[row];
        const Span& span = d.session()->ledger[d.cells().rows[r]];
        std::string kind = span.birth <= column ? "lost" : "absent";
        if (turn != kNone32) {
          const Cell& c = d.cells().at(r, turn);
          if (c.request || (span.message >= 0 && span.message == d.session()->turns[turn].message)) continue;  // own marks
          kind = c.state == CellState::absent ? "absent" : c.number <= 0 ? "zero" : c.was_read ? "read" : "few";
        }
        const int x = int(std::lround(f.cells_x + f.column_width() * column)), y = int(f.row_y(row));
        int ink = 0;  // inside, without the foot, and without the mark that a span has left the context
        for (int dx = 2; dx < w - 2; ++dx)
          for (int dy = 0; dy < h - 3; ++dy) ink += image.pixel(x + dx, y + dy) != ground;
        most[kind] = most.count(kind) ? std::max(most[kind], ink) : ink;
        least[kind] = least.count(kind) ? std::min(least[kind], ink) : ink;
        if (kind == "zero") REQUIRE(image.pixel(x + w / 2, y + h - 2) == style::q(style::colors().zeroLine).rgb());
        if (kind == "absent") REQUIRE(image.pixel(x + w / 2, y + h - 2) == ground);
      }
    const int all = (w - 4) * (h - 3);
    REQUIRE(most.size() == 5);
    CHECK(most["absent"] == 0);
    CHECK(most["zero"] == 0);
    CHECK(least["read"] == all);
    CHECK(least["few"] > 0);
    CHECK(most["few"] < all / 2);
    CHECK(least["lost"] == all);  // the hatch has a ground of its own
    // On hover the hatch says why.
    size_t old = 0;
    while (d.session()->ledger[d.cells().rows[map->rows()[old]]].birth > 20) ++old;
    move_to(map, {int(f.cells_x + f.column_width() * 27.5), int(f.row_y(old)) + 3});
    CHECK(s.find<MapTip>()->text().contains("Turn 28 is not in this session"));
    s.shot(QString("lost-turns") + (dark ? "-dark" : "-light"));
  }
  style::apply(*qApp, style::Theme::light);
}

TEST_CASE("click, Ctrl, Shift, axis and empty space") {
  Shown s;
  auto* map = s.find<MapView>();
  Document& d = s.document();
  map->verticalScrollBar()->setValue(0);
  const auto id = [&](size_t row) { return d.cells().rows[map->rows()[row]]; };
  QTest::mouseClick(map->viewport(), Qt::LeftButton, {}, cell_at(map, 4, 30));
  CHECK(d.selection().spans == std::vector<SpanId>{id(4)});
  CHECK(d.turn() == 30);
  QTest::mouseClick(map->viewport(), Qt::LeftButton, Qt::ControlModifier, cell_at(map, 6, 30));
  CHECK(d.selection().spans == std::vector<SpanId>{id(4), id(6)});
  QTest::mouseClick(map->viewport(), Qt::LeftButton, Qt::ShiftModifier, cell_at(map, 9, 30));
  CHECK(d.selection().spans == std::vector<SpanId>{id(6), id(7), id(8), id(9)});
  // The row's label selects the span and leaves the turn.
  QTest::mouseClick(map->viewport(), Qt::LeftButton, {}, QPoint(60, cell_at(map, 2, 0).y()));
  CHECK(d.selection().spans == std::vector<SpanId>{id(2)});
  CHECK(d.turn() == 30);
  // The axis selects the turn and leaves the spans.
  QTest::mouseClick(map->viewport(), Qt::LeftButton, {}, QPoint(cell_at(map, 0, 50).x(), int(map->figure().axis_y) + 10));
  CHECK(d.turn() == 50);
  CHECK(d.selection().spans == std::vector<SpanId>{id(2)});
  QTest::mouseClick(map->viewport(), Qt::LeftButton, {}, QPoint(60, 60));
  CHECK(d.selection().spans.empty());
}

TEST_CASE("keys move the cell cursor and say where it is") {
  Shown s;
  auto* map = s.find<MapView>();
  Document& d = s.document();
  map->setFocus();
  d.select(kNoSpan, Origin::program);
  QTest::keyClick(map, Qt::Key_Down);
  QTest::keyClick(map, Qt::Key_Down);
  CHECK(d.selection().first() == d.cells().rows[map->rows()[1]]);
  QTest::keyClick(map, Qt::Key_Home);
  CHECK(d.turn() == 0);
  QTest::keyClick(map, Qt::Key_Right);
  CHECK(d.turn() == 1);
  CHECK(map->accessibleDescription().contains("turn 2, "));
  QTest::keyClick(map, Qt::Key_End);
  CHECK(d.turn() == 63);
  for (int i = 0; i < 4; ++i) QTest::keyClick(map, Qt::Key_PageDown);
  CHECK(map->verticalScrollBar()->value() > 0);
  // Peaks of a row that was read.
  d.select(d.cells().rows[0], Origin::program);
  QTest::keyClick(map, Qt::Key_Home);
  QTest::keyClick(map, Qt::Key_BracketRight);
  CHECK(d.cells().at(0, uint32_t(d.turn())).number > 0);
  const bool pinned = std::count(d.pins().begin(), d.pins().end(), d.selection().first()) != 0;
  QTest::keyClick(map, Qt::Key_P);
  CHECK((std::count(d.pins().begin(), d.pins().end(), d.selection().first()) != 0) != pinned);
  QTest::keyClick(map, Qt::Key_Escape);
  CHECK(d.selection().spans.empty());
}

TEST_CASE("the threshold line on the map: drag, Esc, release") {
  Shown s;
  auto* map = s.find<MapView>();
  Document& d = s.document();
  d.setFilter("role = tool", Origin::predicate);
  settle();
  const int y = int(map->figure().cells_y) + 20;
  const auto x_of = [&](double part) { return int(map->figure().bars_x + map->figure().bars_w * part); };
  QTest::mousePress(map->viewport(), Qt::LeftButton, {}, QPoint(x_of(0.2), y));
  CHECK(map->dragging());
  move_to(map, {x_of(0.5), y}, Qt::LeftButton);
  CHECK(d.filterText().contains("role = tool"));  // the other term stays
  CHECK(d.filterText().contains("total_reads >="));
  CHECK(map->rows().size() == d.view().refs.size());
  QTest::keyClick(map, Qt::Key_Escape);
  CHECK(d.filterText() == "role = tool");
  QTest::mouseRelease(map->viewport(), Qt::LeftButton, {}, QPoint(x_of(0.5), y));
  CHECK(d.filterText() == "role = tool");
  QTest::mousePress(map->viewport(), Qt::LeftButton, {}, QPoint(x_of(0.3), y));
  QTest::mouseRelease(map->viewport(), Qt::LeftButton, {}, QPoint(x_of(0.3), y));
  CHECK(d.filterText().contains("total_reads >="));
}

TEST_CASE("no match: says so, and there is a way out") {
  Shown s;
  s.document().setFilter("total_reads >= 100000", Origin::predicate);
  settle();
  auto* clear = s.find<QWidget>("clearFilter");
  CHECK(clear->isVisible());
  s.shot("no-match");
  QTest::mouseClick(clear, Qt::LeftButton);
  CHECK(s.document().filterText().isEmpty());
  CHECK_FALSE(clear->isVisible());
}
