// SPDX-License-Identifier: GPL-3.0-or-later
// A QApplication around Catch2, offscreen, with the program's style.
#include <QApplication>

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
  spanscope::style::apply(app, spanscope::style::Theme::light);
  return Catch::Session().run(argc, argv);
}
