// SPDX-License-Identifier: GPL-3.0-or-later
// Opening a session, saying what is open, and writing reports and pictures.
#include <QClipboard>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QGuiApplication>
#include <QImage>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QRegularExpression>
#include <QSettings>
#include <QTimer>
#include <QToolButton>
#include <algorithm>

#include "core/base/files.h"
#include "core/report/report.h"
#include "widgets/main_window/banner.h"
#include "widgets/main_window/main_window.h"
#include "widgets/main_window/start_page.h"
#include "widgets/main_window/status_area.h"
#include "widgets/main_window/tool_bar.h"
#include "widgets/panels/log_panel.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/map_tip.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/panel_tabs.h"

namespace spanscope {
namespace {

constexpr int kRecent = 12;

QString factsOf(const SessionData& s) {
  return plural(qint64(s.turns.size()), QObject::tr("turn"), QObject::tr("turns")) + ", " +
         plural(qint64(spans_at_level(s, Level::message).size()), QObject::tr("span"), QObject::tr("spans")) + ", " +
         plural(s.turns.empty() ? 0 : qint64(s.turns.back().context), QObject::tr("token"), QObject::tr("tokens"));
}

}  // namespace

void MainWindow::openFile(const QString& path) { loader_->load(path); }

void MainWindow::setSession(const QString& path, std::shared_ptr<const SessionData> session) {
  path_ = path;
  status_->idle();
  banner_->hide();
  hasExperts_ = session && session->header.routing;
  tools_->setPlaceVisible(Experts, hasExperts_);
  if (!hasExperts_ && workspace_ == Experts) workspace_ = Explore;
  document_->setSession(session);
  setWindowTitle(session ? tr("%1 - Spanscope").arg(QFileInfo(path).fileName()) : tr("Spanscope"));
  if (session) {
    remember(path);
    // The first look: the spans that the last answer read most, so that trajectories and inspector show something.
    std::vector<std::pair<qint64, SpanId>> best;
    const CellTable& table = document_->cells();
    if (document_->turn() >= 0)
      for (size_t r = 0; r < table.rows.size(); ++r) {
        const Cell& c = table.at(r, uint32_t(document_->turn()));
        if (c.state == CellState::value && !c.request && c.number > 0) best.push_back({-qint64(c.number * 1000), table.rows[r]});
      }
    std::sort(best.begin(), best.end());
    for (size_t i = 1; i < std::min<size_t>(best.size(), 5); ++i) document_->togglePin(best[i].second);
    if (!best.empty()) document_->select(best[0].second, Origin::program);
    int losses = 0;
    QString first;
    for (const Finding& f : session->findings)
      if (f.grade >= Grade::loss && ++losses == 1) first = QString::fromStdString(f.message);
    if (losses) {
      banner_->say(Banner::Grade::warn, tr("Opened with losses: %1 turns are complete.").arg(session->turns.size()),
                   tr("%1%2 What could not be read is drawn as not captured.").arg(first, losses > 1 ? tr("; %1 more.").arg(losses - 1) : tr(".")));
      connect(banner_->addButton(tr("Show findings")), &QToolButton::clicked, this, [this] { setTabByName(tr("Log")); });
    } else if (session->turns.empty()) {
      banner_->say(Banner::Grade::warn, tr("This session has no closed turn."), tr("The recorder was stopped before the first one ended. There is nothing to draw yet."));
    }
  }
  refreshFacts();
  applyLayout();
  if (session) currentPanel()->setFocus();
  QTimer::singleShot(0, this, [this] {
    alignTrajectories();
    if (!document_->empty()) emit sessionShown();
  });
}

void MainWindow::failedToOpen(const QString& path, const QString& message) {
  status_->idle();
  status_->error(message);
  log_->add(message, message.section(' ', 0, 0));
  const QString tag = message.section(' ', 0, 0);
  banner_->say(Banner::Grade::error, path.isEmpty() ? tr("The demo was not recorded.") : tr("%1 was not opened.").arg(QFileInfo(path).fileName()), message);
  connect(banner_->addButton(tr("Open another…")), &QToolButton::clicked, this, &MainWindow::chooseFile);
  connect(banner_->addButton(tr("Copy details")), &QToolButton::clicked, this, [message] { QGuiApplication::clipboard()->setText(message); });
  emit openFailed(message);
}

void MainWindow::remember(const QString& path) {
  if (path.isEmpty() || !keepsHistory_) return;
  QSettings settings;
  QStringList recent = settings.value("recent").toStringList();
  const QString absolute = QFileInfo(path).absoluteFilePath();
  recent.removeAll(absolute);
  recent.prepend(absolute);
  while (recent.size() > kRecent) recent.removeLast();
  settings.setValue("recent", recent);
  const SessionData& s = *document_->session();
  settings.setValue("facts/" + QString::fromLatin1(absolute.toUtf8().toBase64(QByteArray::Base64UrlEncoding)),
                    tr("%1 · %2 · %3").arg(factsOf(s), QString::fromStdString(s.header.model_name), style::bytes(s.file_bytes)));
  showRecent();
}

void MainWindow::showRecent() {
  QSettings settings;
  std::vector<RecentSession> sessions;
  for (const QString& path : settings.value("recent").toStringList())
    sessions.push_back({path, settings.value("facts/" + QString::fromLatin1(path.toUtf8().toBase64(QByteArray::Base64UrlEncoding))).toString()});
  start_->setRecent(sessions);
}

void MainWindow::refreshFacts() {
  const auto session = document_->session();
  const auto showFacts = [this](const QString& text) {
    facts_->setText(text);
    facts_->setAccessibleName(text);
    menuBar()->setCornerWidget(facts_, Qt::TopRightCorner);  // gives it the room that the text needs now
    facts_->show();
  };
  if (!session) {
    showFacts({});
    status_->setFacts({}, {}, true, tr("Spanscope %1").arg(version_));
    return;
  }
  const SessionData& s = *session;
  QString facts = QFileInfo(path_).fileName() + QString::fromUtf8(" · ") + factsOf(s).replace(", ", QString::fromUtf8(" · "));
  facts += tr(" · detail %1").arg(QString::fromStdString(s.header.detail)) + (s.header.routing ? tr(" + routing") : QString());
  showFacts(facts);
  int losses = 0;
  for (const Finding& f : s.findings) losses += f.grade >= Grade::loss;
  const QString backend = QString::fromStdString(s.header.backend);
  status_->setFacts(backend.isEmpty() ? QString() : tr("Recorded by: %1").arg(backend),
                    losses ? tr("%1 finding(s)").replace("(s)", losses == 1 ? "" : "s").arg(losses) : s.finished ? tr("Finished") : tr("Unfinished: %1 turns").arg(s.turns.size()),
                    !losses && s.finished, tr("File %1").arg(style::bytes(s.file_bytes)));
  status_->say({});
}

void MainWindow::hovered(const Hover& hover) {
  if (document_->empty() || hover.span == kNoSpan || hover.turn < 0 || size_t(hover.turn) >= document_->session()->turns.size()) return;
  const SessionData& s = *document_->session();
  const TurnReads& reads = document_->history().turns[size_t(hover.turn)];
  const int n = reads.reads[hover.span];
  QString what = tr("not in the context");
  if (n >= 0 && !reads.answer_rows) what = tr("0: the turn has no answer rows");
  else if (n >= 0) {
    const size_t heads = readers_of(s, s.turns[size_t(hover.turn)], hover.span, document_->settings().reads).size();
    what = tr("%1 by %2 heads, captured").arg(measureValue(n, Measure::reads)).arg(heads);
  }
  status_->say(tr("Turn %1 × %2 %3: %4").arg(s.turns[size_t(hover.turn)].turn + 1).arg(style::spanNumber(hover.span), spanTitle(s, hover.span), what));
}

Result<std::string> MainWindow::reportHtml() const {
  if (document_->empty()) return make_error(ErrorCode::not_found, "SPAN-NO-SESSION", "no session is open");
  ReportOptions options;
  options.reads = document_->settings().reads;
  options.predicate = document_->filterError().isEmpty() ? document_->filterText().toStdString() : std::string();
  options.session_path = path_.toStdString();
  options.program_version = version_.toStdString();
  auto report = build_report(*document_->session(), options);
  if (!report) return std::move(report).error();
  return report_html(*report);
}

void MainWindow::exportReport() {
  auto html = reportHtml();
  if (!html) {
    status_->error(QString::fromStdString(html.error().line()));
    return;
  }
  const QString path = QFileDialog::getSaveFileName(this, tr("Export report"), QFileInfo(path_).completeBaseName() + ".html", tr("HTML (*.html)"));
  if (path.isEmpty()) return;
  auto written = write_file(path.toStdString(), *html, true);
  if (written) status_->say(tr("Report written: %1").arg(path));
  else status_->error(QString::fromStdString(written.error().line()));
}

Status MainWindow::writePicture(const QString& path) const {
  const Panel* panel = currentPanel();
  if (document_->empty() || !panel || !panel->hasPicture())
    return make_error(ErrorCode::not_found, "SPAN-NO-PICTURE", "the panel in front has no picture; Map, Threshold, Slices and Experts have one");
  if (path.endsWith(".png", Qt::CaseInsensitive)) {
    if (!panel->picturePng(2).save(path, "PNG")) return make_error(ErrorCode::io, "SPAN-WRITE", "the picture cannot be written", path.toStdString());
    return {};
  }
  const QByteArray bytes = panel->pictureSvg();
  return write_file(path.toStdString(), std::string_view(bytes.constData(), size_t(bytes.size())), true);
}

void MainWindow::exportPicture() {
  const Panel* panel = currentPanel();
  if (document_->empty() || !panel || !panel->hasPicture()) {
    status_->error(tr("The panel in front has no picture; choose Map, Threshold, Slices or Experts."));
    return;
  }
  const QString path = QFileDialog::getSaveFileName(this, tr("Export picture"), QFileInfo(path_).completeBaseName() + "-" + panel->title().toLower().replace(QRegularExpression("[^a-z]+"), "-") + ".svg",
                                                    tr("SVG (*.svg);;PNG (*.png)"));
  if (path.isEmpty()) return;
  const auto written = writePicture(path);
  if (written) status_->say(tr("Picture written: %1").arg(path));
  else status_->error(QString::fromStdString(written.error().line()));
}

void MainWindow::chooseFile() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Open a session"), {}, tr("Spanscope sessions (*.span);;All files (*)"));
  if (!path.isEmpty()) openFile(path);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) {
      event->acceptProposedAction();
      return;
    }
}
void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) {
      openFile(url.toLocalFile());
      return;
    }
}

}  // namespace spanscope
