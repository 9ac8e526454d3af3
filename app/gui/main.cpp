// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope-gui: the window. --screenshot and --export run offscreen, without a display.
#include <QApplication>
#include <QCommandLineParser>
#include <QFileInfo>
#include <QPainter>
#include <QPdfWriter>
#include <QSettings>
#include <QStandardPaths>
#include <QTimer>
#include <cstdio>

#include "app/gui/demo.h"
#include "widgets/main_window/main_window.h"
#include "widgets/style/style.h"

namespace {

int fail(const QString& message, int status = 1) {
  std::fprintf(stderr, "spanscope-gui: %s\n", message.toUtf8().constData());
  return status;
}

bool save_pdf(const QWidget& window, const QString& path) {
  QPdfWriter writer(path);
  writer.setPageSize(QPageSize(QPageSize::A4));
  writer.setPageOrientation(QPageLayout::Landscape);
  QPainter painter(&writer);
  if (!painter.isActive()) return false;
  const double scale = std::min(double(writer.width()) / window.width(), double(writer.height()) / window.height());
  painter.scale(scale, scale);
  const_cast<QWidget&>(window).render(&painter);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace spanscope;
  bool offscreen = false;
  for (int i = 1; i < argc; ++i)
    for (const char* option : {"--screenshot", "--export", "--help", "--version", "-h", "-v"})
      offscreen = offscreen || QByteArray(argv[i]).startsWith(option);
  if (offscreen && qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) qputenv("QT_QPA_PLATFORM", "offscreen");
  if (!offscreen && qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM") && qEnvironmentVariableIsEmpty("DISPLAY") && qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY"))
    return fail("SPAN-NO-DISPLAY there is no display; --screenshot FILE.png draws the window without one");
  QApplication app(argc, argv);
  QApplication::setApplicationName("spanscope");
  QApplication::setOrganizationName("spanscope");
  QApplication::setApplicationVersion(SPANSCOPE_VERSION);
  QCommandLineParser parser;
  parser.setApplicationDescription("Shows what a language model really read.");
  parser.addHelpOption();
  parser.addVersionOption();
  parser.addPositionalArgument("session", "Session file (.span)", "[session]");
  const QCommandLineOption screenshot("screenshot", "Draw the window into a PNG and quit.", "file");
  const QCommandLineOption size("size", "Window size, for example 1440x900.", "WxH", "1440x900");
  const QCommandLineOption theme("theme", "light or dark (default: as the system).", "theme");
  const QCommandLineOption exportFile("export", "Write the window as .png or .pdf, the picture in front as .svg, or the report as .html, and quit.", "file");
  const QCommandLineOption workspace("workspace", "explore, slices, experts or re-attend.", "name");
  const QCommandLineOption tab("tab", "Map, Threshold, Transcript, Trajectories or Table.", "name");
  const QCommandLineOption turn("turn", "Turn cursor, from 1.", "turn");
  const QCommandLineOption select("select", "Span to select.", "id");
  const QCommandLineOption filter("filter", "Filter predicate.", "predicate");
  for (const auto& o : {screenshot, size, theme, exportFile, workspace, tab, turn, select, filter}) parser.addOption(o);
  parser.process(app);

  const QString themeName = !parser.value(theme).isEmpty() || offscreen ? parser.value(theme) : QSettings().value("theme").toString().replace("system", "");
  if (!themeName.isEmpty() && themeName != "light" && themeName != "dark") return fail("SPAN-USAGE --theme: expected light or dark, found " + themeName, 2);
  style::apply(app, themeName == "dark" ? style::Theme::dark : themeName == "light" || offscreen ? style::Theme::light : style::Theme::system);
  const QStringList sizes = parser.value(size).split('x');
  bool okWidth = false, okHeight = false;
  const int width = sizes.value(0).toInt(&okWidth), height = sizes.value(1).toInt(&okHeight);
  if (!okWidth || !okHeight || width < 400 || height < 300 || width > 16000 || height > 16000)
    return fail("SPAN-USAGE --size: expected WIDTHxHEIGHT from 400x300, found " + parser.value(size), 2);

  MainWindow window(SPANSCOPE_VERSION);
  window.resize(width, height);
  if (const auto demo = find_demo(QApplication::applicationDirPath().toStdString())) {
    const std::string path = (QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + "/demo64.span").toStdString();
    window.setDemo([demo = *demo, path](std::stop_token stop, const DemoJob::Report& report) { return record_demo(demo, path, SPANSCOPE_VERSION, stop, report); });
  }
  if (!parser.value(workspace).isEmpty() && !window.setWorkspaceByName(parser.value(workspace)))
    return fail("SPAN-USAGE --workspace: expected explore, slices, experts or re-attend, found " + parser.value(workspace), 2);
  if (!parser.value(tab).isEmpty() && !window.setTabByName(parser.value(tab))) return fail("SPAN-USAGE --tab: no tab " + parser.value(tab), 2);
  window.show();
  const QStringList files = parser.positionalArguments();
  int status = 0;
  auto finish = [&] {
    // Both may be asked for; each failure is one line on stderr.
    if (parser.isSet(screenshot) && !window.grab().save(parser.value(screenshot), "PNG")) status = fail("SPAN-WRITE cannot write " + parser.value(screenshot));
    if (parser.isSet(exportFile)) {
      const QString out = parser.value(exportFile);
      if (out.endsWith(".html")) {
        auto html = window.reportHtml();
        QFile file(out);
        if (!html) status = fail(QString::fromStdString(html.error().line()));
        else if (!file.open(QIODevice::WriteOnly) || file.write(html->data(), qint64(html->size())) != qint64(html->size())) status = fail("SPAN-WRITE cannot write " + out);
      } else if (out.endsWith(".pdf")) {
        if (!save_pdf(window, out)) status = fail("SPAN-WRITE cannot write " + out);
      } else if (out.endsWith(".svg")) {
        if (auto written = window.writePicture(out); !written) status = fail(QString::fromStdString(written.error().line()));
      } else if (!window.grab().save(out, "PNG")) {
        status = fail("SPAN-WRITE cannot write " + out);
      }
    }
    if (parser.isSet(screenshot) || parser.isSet(exportFile)) app.exit(status);
  };
  auto settle = [&] {
    if (parser.isSet(filter)) window.document()->setFilter(parser.value(filter), Origin::program);
    if (parser.isSet(turn)) window.document()->setTurn(parser.value(turn).toInt() - 1, Origin::program);
    if (parser.isSet(select)) window.document()->select(parser.value(select).toUInt(), Origin::program);
    // Two rounds of the event loop: layouts settle, figures are rebuilt at their final size.
    QTimer::singleShot(120, &app, finish);
  };
  QObject::connect(&window, &MainWindow::sessionShown, &app, settle);
  QObject::connect(&window, &MainWindow::openFailed, &app, [&](const QString& message) {
    if (!offscreen) return;
    status = fail(message);
    app.exit(status);
  });
  if (!files.isEmpty()) window.openFile(files.first());
  else if (offscreen) QTimer::singleShot(120, &app, finish);
  return app.exec();
}
