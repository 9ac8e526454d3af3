// SPDX-License-Identifier: GPL-3.0-or-later
// The window as a whole: opens a session, shares one selection, counts reads at any strength.
#include <QAccessible>
#include <QElapsedTimer>
#include <QLabel>
#include <QMouseEvent>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QToolButton>
#include <QTreeView>
#include <random>

#include "core/file/session_writer.h"
#include "core/record/session_schema.h"
#include "tests/gui/support/shown.h"
#include "widgets/main_window/banner.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/status_area.h"
#include "widgets/main_window/strength_slider.h"
#include "widgets/panels/inspector.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/span_table.h"
#include "widgets/plots/trajectory_plot.h"

using namespace spanscope;
using test::session64;
using test::settle;
using test::Shown;

namespace {

// The synthetic session as a file, written as the recorder writes.
std::string write_session(const QTemporaryDir& folder, bool finish = true) {
  const std::string path = folder.filePath("made.span").toStdString();
  auto writer = SessionWriter::create(path, true);
  REQUIRE(writer);
  const SessionData& s = *session64();
  REQUIRE(write_header(**writer, s.header));
  REQUIRE(write_ledger(**writer, s.ledger, 0, s.messages, 0));
  for (const TurnRecord& t : s.turns) REQUIRE(write_turn(**writer, t, s.header, s.ledger));
  if (finish) REQUIRE((*writer)->finish());
  return path;
}

// Reads of a turn at a strength, from the events alone.
int64_t recount(const TurnRecord& t, float theta) {
  int64_t n = 0;
  for (float m : t.events.mass) n += m > theta;
  return n;
}

}  // namespace

TEST_CASE("opens a file off the UI thread and shows it") {
  const QTemporaryDir folder;
  const std::string path = write_session(folder);
  Shown s(nullptr);
  CHECK(s.find<QWidget>("startPage")->isVisible());
  QSignalSpy shown(&s.window, &MainWindow::sessionShown);
  s.window.openFile(QString::fromStdString(path));
  CHECK(s.document().empty());  // nothing was read on this thread
  REQUIRE(shown.wait(10000));
  CHECK(s.document().session()->turns.size() == 64);
  CHECK_FALSE(s.find<QWidget>("startPage")->isVisible());
  CHECK(s.find<MapView>()->isVisible());
  CHECK(s.find<PredicateBar>()->countText().startsWith("150 of 150 spans"));
  CHECK(s.window.windowTitle().startsWith("made.span"));
  CHECK(s.find<MapView>()->hasFocus());
}

TEST_CASE("what cannot be opened is said, with the place, and nothing changes") {
  const QTemporaryDir folder;
  Shown s;
  const auto before = s.document().session();
  QSignalSpy failed(&s.window, &MainWindow::openFailed);
  s.window.openFile(folder.filePath("nothing.span"));
  REQUIRE(failed.wait(10000));
  CHECK(s.document().session() == before);
  auto* banner = s.find<Banner>();
  CHECK(banner->isVisible());
  CHECK(banner->title().contains("nothing.span"));
  CHECK(banner->text().contains("SPAN-"));
  CHECK(s.find<StatusArea>()->text().contains("SPAN-"));
  s.shot("error");
  QFile text(folder.filePath("text.span"));
  REQUIRE(text.open(QIODevice::WriteOnly));
  text.write("{\"messages\": []}");
  text.close();
  s.window.openFile(text.fileName());
  REQUIRE(failed.wait(10000));
  CHECK(failed.count() == 2);
  // An unfinished file opens, and says so.
  QSignalSpy shown(&s.window, &MainWindow::sessionShown);
  s.window.openFile(QString::fromStdString(write_session(folder, false)));
  REQUIRE(shown.wait(10000));
  CHECK(s.find<QLabel>("statusState")->text().startsWith("Unfinished"));
}

TEST_CASE("a newer request overtakes an older one") {
  const QTemporaryDir folder;
  const QString path = QString::fromStdString(write_session(folder));
  Shown s(nullptr);
  QSignalSpy shown(&s.window, &MainWindow::sessionShown);
  for (int i = 0; i < 5; ++i) s.window.openFile(path);
  REQUIRE(shown.wait(10000));
  settle(300);
  CHECK(shown.count() == 1);  // four results were late and dropped
}

TEST_CASE("one selection for all panels, one string for one number") {
  Shown s;
  Document& d = s.document();
  const SpanId span = d.cells().rows[12];
  d.setTurn(40, Origin::program);
  d.select(span, Origin::program);
  settle();
  const int reads = d.history().turns[40].reads[span];
  const QString text = QLocale(QLocale::English).toString(reads);
  CHECK(s.find<Inspector>()->shownReads() == text);
  CHECK(s.find<Inspector>()->sentence().contains(QString("reads at turn 41 = %1 ").arg(text)));
  CHECK(s.find<MapView>()->cellText(span, 40).contains(text + (reads == 1 ? " read" : " reads")));
  auto* tree = s.find<QTreeView>("sessionTree");
  REQUIRE(tree->selectionModel()->selectedRows().size() == 1);
  CHECK(tree->selectionModel()->selectedRows().first().data().toString().startsWith(QString("%1").arg(span, 3, 10, QLatin1Char('0'))));
  s.window.setTabByName("Table");
  settle();
  auto* table = s.find<QTableView>("spanTable");
  REQUIRE(table->selectionModel()->selectedRows().size() == 1);
  CHECK(table->model()->index(table->selectionModel()->selectedRows().first().row(), 1).data().toString() == text);
  // The table selects too, and the trajectories follow.
  table->setFocus();
  QTest::keyClick(table, Qt::Key_Down);
  settle();
  REQUIRE(d.selection().spans.size() == 1);
  s.window.setTabByName("Trajectories");
  settle();
  const auto& lines = s.find<TrajectoryPlot>()->data().lines;
  CHECK(std::any_of(lines.begin(), lines.end(), [&](const auto& l) { return l.span == d.selection().first(); }));
  // Several spans: the inspector sums them.
  d.selectSpans({d.cells().rows[3], d.cells().rows[12]}, Origin::program);
  settle();
  int64_t sum = 0;
  for (SpanId id : d.selection().spans) sum += std::max(0, d.history().turns[size_t(d.turn())].reads[id]);
  CHECK(s.find<Inspector>()->shownReads() == QLocale(QLocale::English).toString(qlonglong(sum)));
  d.goBack();
  CHECK(d.selection().spans.size() == 1);
  d.goForward();
  CHECK(d.selection().spans.size() == 2);
}

TEST_CASE("the measure switch reaches every panel") {
  Shown s;
  Document& d = s.document();
  auto* share = s.find<QToolButton>("measure_share");
  QTest::mouseClick(share, Qt::LeftButton);
  CHECK(d.measure() == Measure::share);
  CHECK(share->isChecked());
  CHECK(s.find<MapPanel>()->subtitle().startsWith("share"));
  CHECK(s.find<PredicateBar>()->countText().contains("of mass"));
  CHECK(s.find<MapView>()->cellText(d.selection().first(), d.turn()).contains("%"));
  QTest::mouseClick(s.find<QToolButton>("measure_reads"), Qt::LeftButton);
  CHECK(d.measure() == Measure::reads);
  CHECK(s.find<PredicateBar>()->countText().contains("of reads"));
}

TEST_CASE("counts at any strength equal a recount of the events") {
  Shown s;
  Document& d = s.document();
  std::mt19937 rng(5);
  std::uniform_real_distribution<float> any(0.20f, 0.90f);
  for (int i = 0; i < 200; ++i) {
    d.setStrength(any(rng));
    int64_t wrong = 0;
    for (size_t t = 0; t < d.session()->turns.size(); ++t) {
      const int64_t expected = recount(d.session()->turns[t], d.strength());
      int64_t rows = 0;  // the map's column: its cells add up to the strip
      for (size_t r = 0; r < d.cells().rows.size(); ++r)
        if (const Cell& c = d.cells().at(r, uint32_t(t)); c.state == CellState::value) rows += int64_t(c.number);
      wrong += d.history().turns[t].total != expected || d.cells().column_reads[t] != expected || rows != expected;
    }
    REQUIRE(wrong == 0);
  }
}

TEST_CASE("the slider drags, snaps, steps and restores") {
  Shown s;
  Document& d = s.document();
  auto* slider = s.find<StrengthSlider>();
  const QString before = s.find<Inspector>()->shownReads();
  const int y = slider->height() / 2;
  QTest::mousePress(slider, Qt::LeftButton, {}, QPoint(slider->xOf(0.30f), y));
  const QPointF to(slider->xOf(0.60f), y);
  QMouseEvent move(QEvent::MouseMove, to, slider->mapToGlobal(to), Qt::LeftButton, Qt::LeftButton, {});
  QApplication::sendEvent(slider, &move);
  CHECK(d.strength() == Approx(0.60f).margin(0.011));
  settle();
  CHECK(s.find<Inspector>()->shownReads().toInt() <= before.toInt());
  CHECK(s.find<MapPanel>()->subtitle().contains(QString::number(d.strength(), 'f', 2)));
  QTest::keyClick(slider, Qt::Key_Escape);
  CHECK(d.strength() == Approx(0.30f));
  settle();
  CHECK(s.find<Inspector>()->shownReads() == before);
  QTest::mouseRelease(slider, Qt::LeftButton);
  QTest::keyClick(slider, Qt::Key_Right);
  CHECK(d.strength() == Approx(0.31f));
  QTest::keyClick(slider, Qt::Key_Plus);
  CHECK(d.strength() == Approx(0.36f));
  for (int i = 0; i < 20; ++i) QTest::keyClick(slider, Qt::Key_Minus);
  CHECK(d.strength() == Approx(d.session()->header.theta_rec));  // below it nothing was recorded
}

TEST_CASE("strength and selection can be dragged") {
  Shown s;
  Document& d = s.document();
  const int steps = 20;
  QElapsedTimer clock;
  clock.start();
  for (int i = 0; i < steps; ++i) {
    d.setStrength(0.30f + 0.01f * float(i + 1));
    QApplication::processEvents();
  }
  const double strength = double(clock.restart()) / steps;
  for (int i = 0; i < steps; ++i) {
    d.select(d.cells().rows[size_t(i)], Origin::program);
    QApplication::processEvents();
  }
  const double select = double(clock.restart()) / steps;
  WARN("strength step " << strength << " ms, selection " << select << " ms (64 turns, 150 spans, 14,720 events)");
  // Far above the aim of a frame: a guard against quadratic work, on machines that are shared.
  CHECK(strength < 400);
  CHECK(select < 400);
}

TEST_CASE("workspaces keep the selection; Experts is there only with routing") {
  Shown s;
  Document& d = s.document();
  const Selection before = d.selection();
  for (const char* place : {"slices", "experts", "re-attend", "explore"}) {
    REQUIRE(s.window.setWorkspaceByName(place));
    settle();
    CHECK(d.selection() == before);
  }
  CHECK_FALSE(s.window.setWorkspaceByName("nowhere"));
  CHECK(s.find<QToolButton>("workspace_experts")->isVisible());
  s.window.setSession("dense.span", test::synthetic_session({.turns = 6, .experts = 0}));
  settle();
  CHECK_FALSE(s.find<QToolButton>("workspace_experts")->isVisible());
  s.window.setWorkspace(MainWindow::Experts);
  CHECK(s.window.workspace() == MainWindow::Explore);
}

TEST_CASE("strange sessions open to a sensible picture") {
  for (const uint32_t turns : {1u, 2u}) {
    Shown s(test::synthetic_session({.turns = turns, .layers = 2, .heads = 2, .kv_heads = 1, .experts = 0, .text = false, .events_per_turn = 3}));
    CHECK(s.find<MapView>()->figure().turns == turns);
    for (const char* place : {"slices", "re-attend", "explore"}) s.window.setWorkspaceByName(place);
    for (const char* tab : {"Threshold", "Transcript", "Map", "Table", "Log", "Trajectories"}) CHECK(s.window.setTabByName(tab));
    s.shot(QString("turns-%1").arg(turns));
  }
  auto empty = std::make_shared<SessionData>();
  empty->header.layers = empty->header.query_heads = 1;
  Shown s(empty);
  CHECK(s.find<Banner>()->isVisible());
  s.shot("no-turns");
}

TEST_CASE("pictures and report are what is on screen") {
  const QTemporaryDir folder;
  Shown s;
  s.document().setFilter("total_reads >= 60", Origin::predicate);
  settle();
  const QString svg = folder.filePath("map.svg"), png = folder.filePath("map.png");
  REQUIRE(s.window.writePicture(svg));
  REQUIRE(s.window.writePicture(png));
  QFile file(svg);
  REQUIRE(file.open(QIODevice::ReadOnly));
  const QByteArray text = file.readAll();
  CHECK(text.startsWith("<svg xmlns="));
  CHECK(text.contains("60 reads"));  // the threshold's label
  CHECK(QImage(png).width() == 2 * s.find<MapView>()->viewport()->width());
  auto html = s.window.reportHtml();
  REQUIRE(html);
  CHECK(html->find("<svg") != std::string::npos);
  CHECK(html->find("<script") == std::string::npos);
  s.window.setWorkspaceByName("re-attend");
  CHECK_FALSE(s.window.writePicture(svg));
}

TEST_CASE("every control that takes the focus has a name") {
  Shown s;
  for (const char* tab : {"Map", "Threshold", "Transcript"}) {
    s.window.setTabByName(tab);
    settle();
    for (QWidget* w : s.window.findChildren<QWidget*>()) {
      if (!w->isVisible() || !(w->focusPolicy() & Qt::TabFocus) || w->focusProxy()) continue;
      QAccessibleInterface* accessible = QAccessible::queryAccessibleInterface(w);
      INFO(w->metaObject()->className() << " " << w->objectName().toStdString());
      REQUIRE(accessible);
      CHECK_FALSE((accessible->text(QAccessible::Name) + accessible->text(QAccessible::Description) + w->toolTip()).isEmpty());
    }
  }
}

TEST_CASE("F6 walks the docks") {
  Shown s;
  std::set<QWidget*> seen;
  for (int i = 0; i < 5; ++i) {
    QTest::keyClick(&s.window, Qt::Key_F6);
    settle(5);
    REQUIRE(QApplication::focusWidget());
    seen.insert(QApplication::focusWidget());
  }
  CHECK(seen.size() >= 4);
}
