// SPDX-License-Identifier: GPL-3.0-or-later
// A QApplication around Catch2, offscreen, with the program's style.
#include <QApplication>
#include <QDir>
#include <QSettings>
#include <QStandardPaths>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "widgets/style/style.h"

int main(int argc, char** argv) {
  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  QApplication app(argc, argv);
  QCoreApplication::setOrganizationName("spanscope-test");
  QCoreApplication::setApplicationName("spanscope-test");
  QStandardPaths::setTestModeEnabled(true);
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, QDir::temp().filePath("spanscope-test-settings"));
  spanscope::style::apply(app, spanscope::style::Theme::light);
  return Catch::Session().run(argc, argv);
}
