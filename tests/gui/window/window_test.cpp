// SPDX-License-Identifier: GPL-3.0-or-later
// The window as a whole: opens a session, shares one selection, counts reads at any strength. Screenshots are kept in the
// build folder (gui-shots/).
#include <QApplication>
#include <QDir>
#include <QElapsedTimer>
#include <QLabel>
#include <QLineEdit>
#include <QSettings>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>
#include <QTreeView>
#include <cmath>

#include "tests/gui/support/synthetic_session.h"
#include "tests/support/catch.h"
#include "widgets/main_window/main_window.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/strength_slider.h"
#include "widgets/panels/inspector.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/panel_tabs.h"
#include "widgets/panels/session_tree.h"
#include "widgets/panels/span_table.h"
#include "widgets/style/style.h"

using namespace spanscope;

namespace {

std::shared_ptr<const SessionData> session64() {
  static const auto session = test::synthetic_session({.seed = 11, .turns = 64, .events_per_turn = 230});
  return session;
}

void settle(int ms = 30) {
  for (int i = 0; i < 4; ++i) QApplication::processEvents();
  QTest::qWait(ms);
}

struct Shown {
  MainWindow window{"test"};
  explicit Shown(QSize size = {1440, 900}, std::shared_ptr<const SessionData> session = session64()) {
    QSettings().clear();
    window.resize(size);
    window.show();
    if (session) window.setSession("payments-agent.span", session);
    settle();
  }
  template <class T>
  T* find(const char* name = nullptr) {
    return name ? window.findChild<T*>(name) : window.findChild<T*>();
  }
  void shot(const QString& name) {
    settle();
    QDir().mkpath(SPANSCOPE_BIN_DIR "/../gui-shots");
    REQUIRE(window.grab().save(SPANSCOPE_BIN_DIR "/../gui-shots/" + name + ".png"));
  }
};

}  // namespace

TEST_CASE("screenshots", "[shots]") {
  for (const bool dark : {false, true}) {
    style::apply(*qApp, dark ? style::Theme::dark : style::Theme::light);
    const QString theme = dark ? "-dark" : "-light";
    Shown s;
    s.window.document()->setFilter("total_reads >= 60", Origin::predicate);
    const auto& cells = s.window.document()->cells();
    s.window.document()->setHover({cells.rows[cells.rows.size() / 2], 40});
    s.shot("map" + theme);
    s.window.setTabByName("Threshold");
    s.shot("threshold" + theme);
    s.window.setTabByName("Transcript");
    s.shot("transcript" + theme);
    s.window.setTabByName("Map");
    s.window.setTabByName("Table");
    s.window.document()->setMeasure(Measure::share);
    s.shot("share" + theme);
    s.window.document()->setMeasure(Measure::lift);
    s.shot("lift" + theme);
    s.window.document()->setMeasure(Measure::reads);
    for (const char* place : {"slices", "experts", "re-attend"}) {
      s.window.setWorkspaceByName(place);
      s.shot(QString(place) + theme);
    }
    Shown small({1024, 700});
    small.window.document()->setFilter("total_reads >= 60", Origin::predicate);
    small.shot("small" + theme);
    Shown start({1440, 900}, nullptr);
    start.shot("start" + theme);
  }
  style::apply(*qApp, style::Theme::light);
}
