// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope-gui: the window. --screenshot and --export run offscreen, without a display.
// Exit status: 0, 1 failure, 2 usage; every failure is one line on stderr.
#include <QApplication>
#include <QCommandLineParser>
#include <QFile>
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

using namespace spanscope;

int fail(const QString& message, int status = 1) {
  std::fprintf(stderr, "spanscope-gui: %s\n", message.toUtf8().constData());
  return status;
}

// Qt speaks of this on stderr when nobody is logged in; it is of no consequence here.
QtMessageHandler qtMessages = nullptr;
void messages(QtMsgType type, const QMessageLogContext& context, const QString& text) {
  if (!text.startsWith("QStandardPaths: XDG_RUNTIME_DIR not set") && qtMessages) qtMessages(type, context, text);
}

struct Options {
  QCommandLineParser parser;
  const QCommandLineOption help{{"h", "help"}, "Print this help."};
  const QCommandLineOption version{{"v", "version"}, "Print the version."};
  const QCommandLineOption screenshot{"screenshot", "Draw the window into a PNG and quit.", "file"};
  const QCommandLineOption size{"size", "Window size, for example 1440x900.", "WxH", "1440x900"};
  const QCommandLineOption theme{"theme", "light or dark (default: as the system).", "theme"};
  const QCommandLineOption exportFile{"export", "Write the window as .png or .pdf, the picture in front as .svg, or the report as .html, and quit.", "file"};
  const QCommandLineOption workspace{"workspace", "explore, slices, experts or re-attend.", "name"};
  const QCommandLineOption tab{"tab", "Map, Threshold, Transcript, Trajectories, Table or Log.", "name"};
  const QCommandLineOption turn{"turn", "Turn cursor, from 1.", "turn"};
  const QCommandLineOption select{"select", "Span to select.", "id"};
  const QCommandLineOption filter{"filter", "Filter predicate.", "predicate"};

  Options() {
    parser.setApplicationDescription("Shows what a language model really read.");
    parser.addPositionalArgument("session", "Session file (.span)", "[session]");
    for (const auto& o : {help, version, screenshot, size, theme, exportFile, workspace, tab, turn, select, filter}) parser.addOption(o);
  }
  bool has(const QCommandLineOption& o) const { return parser.isSet(o); }
  QString value(const QCommandLineOption& o) const { return parser.value(o); }
  bool draws() const { return has(screenshot) || has(exportFile); }
};

bool save_pdf(MainWindow& window, const QString& path) {
  QPdfWriter writer(path);
  writer.setPageSize(QPageSize(QPageSize::A4));
  writer.setPageOrientation(QPageLayout::Landscape);
  QPainter painter(&writer);
  if (!painter.isActive()) return false;
  const double scale = std::min(double(writer.width()) / window.width(), double(writer.height()) / window.height());
  painter.scale(scale, scale);
  window.render(&painter);
  return true;
}

// What to write, by the name's end.
int write_export(MainWindow& window, const QString& path) {
  if (path.endsWith(".html")) {
    const auto html = window.reportHtml();
    if (!html) return fail(QString::fromStdString(html.error().line()));
    QFile file(path);
    const bool written = file.open(QIODevice::WriteOnly) && file.write(html->data(), qint64(html->size())) == qint64(html->size());
    return written ? 0 : fail("SPAN-WRITE cannot write " + path + ": " + file.errorString());
  }
  if (path.endsWith(".svg")) {
    const auto written = window.writePicture(path);
    return written ? 0 : fail(QString::fromStdString(written.error().line()));
  }
  if (path.endsWith(".pdf")) return save_pdf(window, path) ? 0 : fail("SPAN-WRITE cannot write " + path);
  if (path.endsWith(".png")) return window.grab().save(path, "PNG") ? 0 : fail("SPAN-WRITE cannot write " + path);
  return fail("SPAN-USAGE --export: expected a name that ends in .png, .pdf, .svg or .html, found " + path, 2);
}

// Filter, turn and selection once the session is there. 0, or the exit status of what is wrong.
int place(MainWindow& window, const Options& o) {
  Document& d = *window.document();
  const SessionData& s = *d.session();
  if (o.has(o.workspace) && o.value(o.workspace).compare("experts", Qt::CaseInsensitive) == 0 && window.workspace() != MainWindow::Experts)
    return fail("SPAN-NO-ROUTING the session has no expert routing; spanscope record --routing keeps it");
  if (o.has(o.turn)) {
    const uint number = o.value(o.turn).toUInt();
    int index = -1;
    for (size_t t = 0; t < s.turns.size(); ++t)
      if (s.turns[t].turn + 1 == number) index = int(t);
    if (index < 0) return fail("SPAN-TURN --turn: turn " + o.value(o.turn) + " is not in the session", 2);
    d.setTurn(index, Origin::program);
  }
  if (o.has(o.select)) {
    bool ok = false;
    const uint id = o.value(o.select).toUInt(&ok);
    if (!ok || id >= s.ledger.spans.size()) return fail("SPAN-SPAN --select: span " + o.value(o.select) + " is not in the session", 2);
    d.select(id, Origin::program);
  }
  if (o.has(o.filter)) {
    d.setFilter(o.value(o.filter), Origin::program);
    if (!d.filterError().isEmpty() && o.draws()) return fail("SPAN-PREDICATE --filter: " + d.filterError(), 2);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  QStringList arguments;
  for (int i = 0; i < argc; ++i) arguments << QString::fromLocal8Bit(argv[i]);
  if (!o.parser.parse(arguments)) return fail("SPAN-USAGE " + o.parser.errorText(), 2);
  if (o.has(o.version)) return std::printf("spanscope-gui %s\n", SPANSCOPE_VERSION), 0;
  const bool offscreen = o.draws() || o.has(o.help);
  const QStringList files = o.parser.positionalArguments();
  if (files.size() > 1) return fail("SPAN-USAGE expected one session, found " + QString::number(files.size()) + " names", 2);
  const QString wanted = o.value(o.theme);
  if (!wanted.isEmpty() && wanted != "light" && wanted != "dark") return fail("SPAN-USAGE --theme: expected light or dark, found " + wanted, 2);
  const QStringList sizes = o.value(o.size).split('x');
  bool okWidth = false, okHeight = false;
  const int width = sizes.value(0).toInt(&okWidth), height = sizes.value(1).toInt(&okHeight);
  if (sizes.size() != 2 || !okWidth || !okHeight || width < 400 || height < 300 || width > 16000 || height > 16000)
    return fail("SPAN-USAGE --size: expected WIDTHxHEIGHT from 400x300, found " + o.value(o.size), 2);

  if (qEnvironmentVariableIsEmpty("QT_QPA_PLATFORM")) {
    if (offscreen) qputenv("QT_QPA_PLATFORM", "offscreen");
    else if (qEnvironmentVariableIsEmpty("DISPLAY") && qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY"))
      return fail("SPAN-NO-DISPLAY there is no display; --screenshot FILE.png draws the window without one");
  }
  qtMessages = qInstallMessageHandler(messages);
  QApplication app(argc, argv);
  QApplication::setApplicationName("spanscope");
  QApplication::setOrganizationName("spanscope");
  QApplication::setApplicationVersion(SPANSCOPE_VERSION);
  if (o.has(o.help)) return std::printf("%s", o.parser.helpText().toUtf8().constData()), 0;
  const QString themeName = !wanted.isEmpty() || offscreen ? wanted : QSettings().value("theme").toString();
  style::apply(app, themeName == "dark" ? style::Theme::dark : themeName == "light" || offscreen ? style::Theme::light : style::Theme::system);

  MainWindow window(SPANSCOPE_VERSION);
  window.setKeepsHistory(!offscreen);
  window.resize(width, height);
  if (const auto demo = find_demo(QApplication::applicationDirPath().toStdString())) {
    const std::string path = (QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + "/demo64.span").toStdString();
    window.setDemo([demo = *demo, path](std::stop_token stop, const DemoJob::Report& report) { return record_demo(demo, path, SPANSCOPE_VERSION, stop, report); });
  }
  if (o.has(o.workspace) && !window.setWorkspaceByName(o.value(o.workspace)))
    return fail("SPAN-USAGE --workspace: expected explore, slices, experts or re-attend, found " + o.value(o.workspace), 2);
  if (o.has(o.tab) && !window.setTabByName(o.value(o.tab)))
    return fail("SPAN-USAGE --tab: expected Map, Threshold, Transcript, Trajectories, Table or Log, found " + o.value(o.tab), 2);
  window.show();

  const auto finish = [&] {
    int status = 0;
    if (o.has(o.screenshot) && !window.grab().save(o.value(o.screenshot), "PNG")) status = fail("SPAN-WRITE cannot write " + o.value(o.screenshot));
    if (o.has(o.exportFile))
      if (const int failed = write_export(window, o.value(o.exportFile))) status = failed;
    app.exit(status);
  };
  // The first session is the one that was named; those that people open later are theirs.
  QObject::connect(&window, &MainWindow::sessionShown, &app, [&] {
    if (const int wrong = place(window, o); wrong && o.draws()) return app.exit(wrong);
    // Layouts settle, figures are rebuilt at their final size.
    if (o.draws()) QTimer::singleShot(120, &app, finish);
  }, Qt::SingleShotConnection);
  QObject::connect(&window, &MainWindow::openFailed, &app, [&](const QString& message) {
    if (offscreen) app.exit(fail(message));
  });
  if (!files.isEmpty()) window.openFile(files.first());
  else if (o.draws()) QTimer::singleShot(120, &app, finish);
  return app.exec();
}
