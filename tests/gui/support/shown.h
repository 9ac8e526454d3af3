// SPDX-License-Identifier: GPL-3.0-or-later
// The window with a session, shown offscreen, and where its screenshots go.
#pragma once
#include <QApplication>
#include <QDir>
#include <QSettings>
#include <QTest>

#include "tests/gui/support/synthetic_session.h"
#include "tests/support/catch.h"
#include "widgets/main_window/main_window.h"

namespace spanscope::test {

inline std::shared_ptr<const SessionData> session64() {
  static const auto session = synthetic_session({.seed = 11, .turns = 64, .events_per_turn = 230});
  return session;
}

inline void settle(int ms = 30) {
  for (int i = 0; i < 4; ++i) QApplication::processEvents();
  QTest::qWait(ms);
}

struct Shown {
  MainWindow window{"test"};
  explicit Shown(std::shared_ptr<const SessionData> session = session64(), QSize size = {1440, 900}) {
    QSettings().clear();
    window.resize(size);
    window.show();
    if (session) window.setSession("payments-agent.span", session);
    settle();
  }
  Document& document() { return *window.document(); }
  template <class T>
  T* find(const char* name = nullptr) {
    T* found = name ? window.findChild<T*>(name) : window.findChild<T*>();
    REQUIRE(found);
    return found;
  }
  QImage shot(const QString& name) {
    settle();
    const QString folder = QString(SPANSCOPE_BIN_DIR) + "/../gui-shots";
    QDir().mkpath(folder);
    const QPixmap picture = window.grab();
    REQUIRE(picture.save(folder + "/" + name + ".png"));
    return picture.toImage();
  }
};

}  // namespace spanscope::test
