// SPDX-License-Identifier: GPL-3.0-or-later
// Screenshots of every workspace in both themes and at both sizes, kept in the build folder (gui-shots/) and looked at.
#include <QMouseEvent>

#include "tests/gui/support/shown.h"
#include "widgets/panels/map_tip.h"
#include "widgets/panels/map_view.h"
#include "widgets/style/style.h"

using namespace spanscope;
using test::session64;
using test::settle;
using test::Shown;

TEST_CASE("screenshots", "[shots]") {
  for (const bool dark : {false, true}) {
    style::apply(*qApp, dark ? style::Theme::dark : style::Theme::light);
    const QString theme = dark ? "-dark" : "-light";
    {
      Shown s;
      s.document().setFilter("total_reads >= 60", Origin::predicate);
      settle();
      auto* map = s.find<MapView>();
      const QPointF at(map->figure().turn_x(40) + 3, map->figure().row_y(17) + 5);
      QMouseEvent move(QEvent::MouseMove, at, map->viewport()->mapToGlobal(at), Qt::NoButton, Qt::NoButton, {});
      QApplication::sendEvent(map->viewport(), &move);
      CHECK(s.find<MapTip>()->isVisible());
      CHECK(s.document().hover().span == s.document().cells().rows[map->rows()[17]]);
      CHECK(s.document().hover().turn == 40);
      const QImage picture = s.shot("map" + theme);
      CHECK(picture.pixel(2, 450) == style::q(style::colors().window).rgb());
      s.window.setTabByName("Threshold");
      s.shot("threshold" + theme);
      s.window.setTabByName("Transcript");
      s.shot("transcript" + theme);
      s.window.setTabByName("Map");
      s.window.setTabByName("Table");
      s.document().setMeasure(Measure::share);
      s.shot("share" + theme);
      s.document().setMeasure(Measure::lift);
      s.shot("lift" + theme);
      s.document().setMeasure(Measure::reads);
      s.document().setMatchingOnly(false);
      s.shot("all" + theme);
      s.document().setMatchingOnly(true);
      for (const char* place : {"slices", "experts", "re-attend"}) {
        s.window.setWorkspaceByName(place);
        s.shot(QString(place) + theme);
      }
    }
    {
      Shown s(session64(), {1024, 700});
      s.document().setFilter("total_reads >= 60", Origin::predicate);
      s.shot("small" + theme);
      s.window.setTabByName("Threshold");
      s.shot("small-threshold" + theme);
      for (const char* place : {"slices", "experts", "re-attend"}) {
        s.window.setWorkspaceByName(place);
        s.shot(QString("small-") + place + theme);
      }
    }
    Shown start(nullptr);
    start.window.setDemo([](std::stop_token, const DemoJob::Report&) -> Result<std::string> { return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "never run"); });
    start.shot("start" + theme);
  }
  style::apply(*qApp, style::Theme::light);
}
