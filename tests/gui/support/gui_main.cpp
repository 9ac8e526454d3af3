// SPDX-License-Identifier: GPL-3.0-or-later
// A QApplication around Catch2, offscreen, with the program's style.
#include <QApplication>
#include <QSettings>
#include <QStandardPaths>
#include <QTemporaryDir>

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
  // Settings of this run alone: what an earlier one saved must not decide what this one sees.
  const QTemporaryDir settings;
  QSettings::setPath(QSettings::NativeFormat, QSettings::UserScope, settings.path());
  spanscope::style::apply(app, spanscope::style::Theme::light);
  return Catch::Session().run(argc, argv);
}
