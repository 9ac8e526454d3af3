// SPDX-License-Identifier: GPL-3.0-or-later
// "Open the demo": recorded on this machine, with progress, shown when it is whole; stopped, it leaves nothing behind.
#include <QDir>
#include <QElapsedTimer>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QToolButton>

#include "app/gui/demo.h"
#include "tests/gui/support/shown.h"
#include "widgets/main_window/status_area.h"
#include "widgets/panels/map_view.h"

using namespace spanscope;
using test::settle;
using test::Shown;

namespace {

const DemoFiles kFiles{SPANSCOPE_DEMO_DIR "/relay-dense.gguf", SPANSCOPE_DEMO_DIR "/demo64.json"};

QPushButton* demo_card(MainWindow& window) {
  for (QPushButton* b : window.findChildren<QPushButton*>("card"))
    if (b->property("action").toString() == "openDemo") return b;
  return nullptr;
}

}  // namespace

TEST_CASE("the demo is recorded, shown, and what it shows is true") {
  const QTemporaryDir folder;
  const std::string path = folder.filePath("deep/demo64.span").toStdString();
  Shown s(nullptr);
  REQUIRE(demo_card(s.window));
  CHECK_FALSE(demo_card(s.window)->isVisible());  // nothing to open yet
  s.window.setDemo([&](std::stop_token stop, const DemoJob::Report& report) { return record_demo(kFiles, path, "test", stop, report); });
  REQUIRE(demo_card(s.window)->isVisible());
  QSignalSpy shown(&s.window, &MainWindow::sessionShown);
  QTest::mouseClick(demo_card(s.window), Qt::LeftButton);
  CHECK(s.find<StatusArea>()->busy());
  REQUIRE(shown.wait(120000));
  settle();
  const SessionData& session = *s.document().session();
  CHECK(session.turns.size() == 64);
  CHECK(session.finished);
  CHECK_FALSE(s.find<StatusArea>()->busy());
  CHECK(s.find<MapView>()->isVisible());
  CHECK(QDir(folder.filePath("deep")).entryList(QDir::Files) == QStringList{"demo64.span"});
  // Each question of the demo asks for something that was said before: the last answer read at least one earlier message.
  CHECK(s.document().history().turns.back().total > 0);
  REQUIRE_FALSE(s.document().selection().spans.empty());
  s.shot("demo");
  s.window.setTabByName("Threshold");
  s.document().setFilter("total_reads >= 15", Origin::program);
  s.shot("demo-threshold");
}

TEST_CASE("the demo can be stopped") {
  const QTemporaryDir folder;
  const std::string path = folder.filePath("demo64.span").toStdString();
  Shown s(nullptr);
  s.window.setDemo([&](std::stop_token stop, const DemoJob::Report& report) { return record_demo(kFiles, path, "test", stop, report); });
  auto* job = s.find<DemoJob>();
  QSignalSpy failed(job, &DemoJob::failed), progress(job, &DemoJob::progress);
  QTest::mouseClick(demo_card(s.window), Qt::LeftButton);
  REQUIRE(progress.wait(60000));
  QElapsedTimer clock;
  clock.start();
  QTest::mouseClick(s.find<QToolButton>("cancelButton"), Qt::LeftButton);
  if (failed.isEmpty()) REQUIRE(failed.wait(60000));
  CHECK(failed.first().at(1).toBool());  // cancelled, not failed
  WARN("stopped after " << clock.elapsed() << " ms");
  settle();
  CHECK(QDir(folder.path()).entryList(QDir::Files).isEmpty());
  CHECK(s.find<StatusArea>()->text().contains("Stopped"));
  CHECK(s.document().empty());
}

TEST_CASE("a demo that cannot be written says so") {
  Shown s(nullptr);
  s.window.setDemo([&](std::stop_token stop, const DemoJob::Report& report) { return record_demo(kFiles, "/proc/nowhere/demo64.span", "test", stop, report); });
  QSignalSpy failed(&s.window, &MainWindow::openFailed);
  QTest::mouseClick(demo_card(s.window), Qt::LeftButton);
  REQUIRE(failed.wait(60000));
  CHECK(failed.first().first().toString().contains("SPAN-"));
}
