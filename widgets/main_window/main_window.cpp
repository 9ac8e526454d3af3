// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/main_window.h"

#include <QButtonGroup>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QMenuBar>
#include <QMimeData>
#include <QProgressBar>
#include <QSettings>
#include <QShortcut>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTabWidget>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>

#include "core/base/files.h"
#include "core/report/report.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/start_page.h"
#include "widgets/main_window/strength_slider.h"
#include "widgets/panels/experts_panel.h"
#include "widgets/panels/head_grid_panel.h"
#include "widgets/panels/inspector.h"
#include "widgets/panels/layer_profile_panel.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/reattend_panel.h"
#include "widgets/panels/session_tree.h"
#include "widgets/panels/span_table.h"
#include "widgets/panels/threshold_panel.h"
#include "widgets/panels/transcript_panel.h"
#include "widgets/panels/words_panel.h"
#include "widgets/plots/trajectory_plot.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {
constexpr int kRecent = 12;
const char* kWorkspaceNames[] = {"explore", "slices", "experts", "re-attend"};
}  // namespace

MainWindow::MainWindow(const QString& programVersion, QWidget* parent)
    : QMainWindow(parent), version_(programVersion), document_(new Document(this)), loader_(new SessionLoader(this)) {
  setObjectName("mainWindow");
  setWindowTitle(tr("Spanscope"));
  setWindowIcon(QIcon(":/icons/spanscope.svg"));
  setAcceptDrops(true);
  setDockOptions(QMainWindow::AnimatedDocks | QMainWindow::AllowNestedDocks | QMainWindow::AllowTabbedDocks);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  resize(1440, 900);
  buildCentre();
  buildDocks();
  buildToolBar();
  buildMenus();
  buildStatusBar();
  connect(loader_, &SessionLoader::started, this, [this](const QString& path) {
    statusText_->setText(tr("Opening %1…").arg(QFileInfo(path).fileName()));
    progress_->show();
    cancel_->show();
  });
  connect(loader_, &SessionLoader::loaded, this, &MainWindow::setSession);
  connect(loader_, &SessionLoader::failed, this, [this](const QString&, const QString& message) {
    progress_->hide();
    cancel_->hide();
    statusText_->setText(message);
    banner_->setText(message);
    banner_->show();
    emit openFailed(message);
  });
  connect(document_, &Document::message, this, [this](const QString& text) { statusText_->setText(text); });
  connect(document_, &Document::hoverChanged, this, [this](const Hover& hover) {
    if (document_->empty() || hover.span == kNoSpan || hover.turn < 0) return;
    const TurnReads& reads = document_->history().turns[size_t(hover.turn)];
    const int n = reads.reads[hover.span];
    statusText_->setText(tr("Turn %1 × %2 %3: %4").arg(document_->session()->turns[size_t(hover.turn)].turn + 1).arg(style::spanNumber(hover.span),
                             QString::fromStdString(document_->session()->ledger[hover.span].name),
                             n < 0 ? tr("not in the context") : reads.answer_rows ? tr("%1 reads, captured").arg(n) : tr("no answer rows")));
  });
  setWorkspace(Explore);
  refreshFacts();
  QSettings settings;
  start_->setRecent(settings.value("recent").toStringList());
  pages_->setCurrentIndex(0);
  for (QDockWidget* d : {treeDock_, inspectorDock_, wordsDock_, bottomDock_, layerDock_}) d->hide();
}

void MainWindow::buildCentre() {
  pages_ = new QStackedWidget(this);
  start_ = new StartPage(pages_);
  connect(start_, &StartPage::openRequested, this, &MainWindow::chooseFile);
  connect(start_, &StartPage::fileRequested, this, &MainWindow::openFile);
  auto* session = new QWidget(pages_);
  auto* column = new QVBoxLayout(session);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  workspaces_ = new QStackedWidget(session);
  centreTabs_ = new QTabWidget(workspaces_);
  centreTabs_->setObjectName("centreTabs");
  centreTabs_->setDocumentMode(false);
  map_ = new MapPanel(document_, centreTabs_);
  auto* threshold = new ThresholdPanel(document_, centreTabs_);
  auto* transcript = new TranscriptPanel(document_, centreTabs_);
  centreTabs_->addTab(map_, tr("Map"));
  centreTabs_->addTab(threshold, tr("Threshold"));
  centreTabs_->addTab(transcript, tr("Transcript"));
  connect(map_->view(), &MapView::openTranscript, this, [this] { centreTabs_->setCurrentIndex(2); });
  connect(centreTabs_, &QTabWidget::currentChanged, this, [this] { setWorkspace(workspace_); });
  auto* heads = new HeadGridPanel(document_, workspaces_);
  auto* experts = new ExpertsPanel(document_, workspaces_);
  auto* reattend = new ReattendPanel(document_, workspaces_);
  workspaces_->addWidget(centreTabs_);
  workspaces_->addWidget(heads);
  workspaces_->addWidget(experts);
  workspaces_->addWidget(reattend);
  workspacePanels_ = {map_, heads, experts, reattend};
  column->addWidget(workspaces_, 1);
  pages_->addWidget(start_);
  pages_->addWidget(session);
  setCentralWidget(pages_);
}

QDockWidget* MainWindow::addDock(const QString& name, const QString& title, QWidget* widget, Qt::DockWidgetArea area) {
  auto* dock = new QDockWidget(title, this);
  dock->setObjectName(name);
  dock->setWidget(widget);
  // The panels carry their own headers: a second title bar would say the same twice.
  dock->setTitleBarWidget(new QWidget(dock));
  addDockWidget(area, dock);
  return dock;
}

void MainWindow::buildDocks() {
  tree_ = new SessionTree(document_, this);
  tree_->setMinimumWidth(210);
  treeDock_ = addDock("treeDock", tr("Session"), tree_, Qt::LeftDockWidgetArea);
  auto* inspector = new Inspector(document_, this);
  inspector->setMinimumWidth(240);
  inspectorDock_ = addDock("inspectorDock", tr("Inspector"), inspector, Qt::RightDockWidgetArea);
  auto* words = new WordsPanel(document_, this);
  words->setMinimumWidth(240);
  wordsDock_ = addDock("wordsDock", tr("What these words read"), words, Qt::RightDockWidgetArea);
  layerDock_ = addDock("layerDock", tr("Layer profile"), new LayerProfilePanel(document_, this), Qt::RightDockWidgetArea);
  bottomTabs_ = new QTabWidget(this);
  bottomTabs_->setObjectName("bottomTabs");
  trajectories_ = new TrajectoryPlot(document_, bottomTabs_);
  bottomTabs_->addTab(trajectories_, tr("Trajectories"));
  bottomTabs_->addTab(new SpanTable(document_, bottomTabs_), tr("Table"));
  bottomTabs_->setMinimumHeight(120);
  bottomDock_ = addDock("bottomDock", tr("Trajectories and table"), bottomTabs_, Qt::BottomDockWidgetArea);
}

void MainWindow::buildToolBar() {
  auto* bar = new QToolBar(tr("Tools"), this);
  bar->setObjectName("toolBar");
  bar->setMovable(false);
  bar->setStyleSheet("QToolBar{border:none;padding:4px 6px;spacing:4px;}");
  auto button = [&](const QString& text, const QString& icon, QButtonGroup* group, int id, bool primary) {
    auto* b = new QToolButton(bar);
    b->setText(text);
    if (!icon.isEmpty()) {
      b->setIcon(style::icon(icon));
      b->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
    }
    b->setProperty("primary", primary);
    if (group) {
      b->setCheckable(true);
      group->addButton(b, id);
    }
    bar->addWidget(b);
    return b;
  };
  workspaceGroup_ = new QButtonGroup(this);
  const std::pair<QString, const char*> places[] = {{tr("Explore"), "explore"}, {tr("Slices"), "slices"}, {tr("Experts"), "experts"}, {tr("Re-attend"), "reattend"}};
  for (int i = 0; i < 4; ++i) {
    auto* b = button(places[i].first, places[i].second, workspaceGroup_, i, true);
    b->setObjectName(QString("workspace") + places[i].second);
    b->setToolTip(tr("%1 (Ctrl+%2)").arg(places[i].first).arg(i + 1));
    auto* shortcut = new QShortcut(QKeySequence(QString("Ctrl+%1").arg(i + 1)), this);
    connect(shortcut, &QShortcut::activated, this, [this, i] { setWorkspace(Workspace(i)); });
  }
  connect(workspaceGroup_, &QButtonGroup::idClicked, this, [this](int id) { setWorkspace(Workspace(id)); });
  bar->addSeparator();
  measureGroup_ = new QButtonGroup(this);
  measureGroup_->setObjectName("measureGroup");
  const QString measures[] = {tr("Reads"), tr("Share"), tr("Mass"), tr("Density"), tr("Lift")};
  const QString tips[] = {tr("Moments when a head turned to a span: counted, never averaged"), tr("The average row's fraction of attention on the span"),
                          tr("Rows' worth of attention"), tr("Share per token"), tr("Times what uniform attention would give, sinks left out")};
  for (int i = 0; i < 5; ++i) button(measures[i], {}, measureGroup_, i, false)->setToolTip(tips[i]);
  measureGroup_->button(0)->setChecked(true);
  connect(measureGroup_, &QButtonGroup::idClicked, this, [this](int id) { document_->setMeasure(Measure(id)); });
  connect(document_, &Document::measureChanged, this, [this] { measureGroup_->button(int(document_->measure()))->setChecked(true); });
  auto* gap = new QWidget(bar);
  gap->setFixedWidth(4);
  bar->addWidget(gap);
  bar->addWidget(new StrengthSlider(document_, bar));
  auto* spacer = new QWidget(bar);
  spacer->setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Preferred);
  bar->addWidget(spacer);
  auto* picture = button(tr("Picture…"), "image", nullptr, 0, false);
  picture->setObjectName("pictureButton");
  picture->setToolTip(tr("Save the picture in front as PNG or SVG, exactly as it looks"));
  connect(picture, &QToolButton::clicked, this, &MainWindow::exportPicture);
  auto* report = button(tr("Report…"), "report", nullptr, 0, false);
  report->setObjectName("reportButton");
  connect(report, &QToolButton::clicked, this, &MainWindow::exportReport);
  addToolBar(Qt::TopToolBarArea, bar);
  addToolBarBreak();
  auto* second = new QToolBar(tr("Filter"), this);
  second->setObjectName("filterBar");
  second->setMovable(false);
  second->setStyleSheet("QToolBar{border:none;padding:0;}");
  predicate_ = new PredicateBar(document_, second);
  second->addWidget(predicate_);
  addToolBar(Qt::TopToolBarArea, second);
}

void MainWindow::buildMenus() {
  auto* file = menuBar()->addMenu(tr("&File"));
  file->addAction(tr("&Open…"), QKeySequence::Open, this, &MainWindow::chooseFile);
  file->addAction(tr("Export &picture…"), QKeySequence(tr("Ctrl+Shift+E")), this, &MainWindow::exportPicture);
  file->addAction(tr("Export &report…"), QKeySequence(tr("Ctrl+E")), this, &MainWindow::exportReport);
  file->addSeparator();
  file->addAction(tr("&Close session"), QKeySequence(tr("Ctrl+W")), this, [this] {
    setSession({}, nullptr);
  });
  file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);
  auto* go = menuBar()->addMenu(tr("&Go"));
  go->addAction(tr("&Back"), QKeySequence(tr("Alt+Left")), document_, &Document::goBack);
  go->addAction(tr("&Forward"), QKeySequence(tr("Alt+Right")), document_, &Document::goForward);
  go->addAction(tr("&Previous turn"), QKeySequence(tr(",")), this, [this] { document_->setTurn(document_->turn() - 1, Origin::program); });
  go->addAction(tr("&Next turn"), QKeySequence(tr(".")), this, [this] { document_->setTurn(document_->turn() + 1, Origin::program); });
  go->addAction(tr("&Find in the session"), QKeySequence::Find, this, [this] { tree_->focusFind(); });
  go->addAction(tr("Fi&lter"), QKeySequence(tr("Ctrl+L")), this, [this] { predicate_->focusEdit(); });
  auto* view = menuBar()->addMenu(tr("&View"));
  const QString measures[] = {tr("&Reads"), tr("&Share"), tr("&Mass"), tr("&Density"), tr("&Lift")};
  for (int i = 0; i < 5; ++i) view->addAction(measures[i], this, [this, i] { document_->setMeasure(Measure(i)); });
  view->addAction(tr("Next measure"), QKeySequence(tr("M")), this, [this] { document_->setMeasure(Measure((int(document_->measure()) + 1) % 5)); });
  view->addSeparator();
  view->addAction(tr("Fit rows"), this, [this] { map_->view()->fitRows(); });
  auto* help = menuBar()->addMenu(tr("&Help"));
  help->addAction(tr("&About the numbers"), this, [this] {
    statusText_->setText(tr("A read: one head, at one row of an answer, puts more than the strength of its attention on a span, and three times what chance and its habit would."));
  });
  facts_ = new QLabel(this);
  facts_->setObjectName("muted");
  facts_->setContentsMargins(0, 0, 10, 0);
  menuBar()->setCornerWidget(facts_, Qt::TopRightCorner);
  auto* slash = new QShortcut(QKeySequence("/"), this);
  connect(slash, &QShortcut::activated, this, [this] { tree_->focusFind(); });
}

void MainWindow::buildStatusBar() {
  statusText_ = new QLabel(tr("Ready"), this);
  statusText_->setObjectName("statusText");
  progress_ = new QProgressBar(this);
  progress_->setObjectName("statusProgress");
  progress_->setRange(0, 0);
  progress_->setFixedSize(120, 12);
  progress_->hide();
  cancel_ = new QToolButton(this);
  cancel_->setText(tr("Cancel"));
  cancel_->hide();
  connect(cancel_, &QToolButton::clicked, this, [this] {
    loader_->cancel();
    progress_->hide();
    cancel_->hide();
    statusText_->setText(tr("Stopped"));
  });
  statusState_ = new QLabel(this);
  statusFile_ = new QLabel(this);
  banner_ = new QLabel(this);
  banner_->setObjectName("errorText");
  banner_->hide();
  statusBar()->addWidget(statusText_, 1);
  statusBar()->addWidget(progress_);
  statusBar()->addWidget(cancel_);
  statusBar()->addPermanentWidget(banner_);
  statusBar()->addPermanentWidget(statusState_);
  statusBar()->addPermanentWidget(statusFile_);
  statusBar()->setSizeGripEnabled(false);
}

void MainWindow::openFile(const QString& path) { loader_->load(path); }

void MainWindow::setSession(const QString& path, std::shared_ptr<const SessionData> session) {
  path_ = path;
  progress_->hide();
  cancel_->hide();
  banner_->hide();
  document_->setSession(session);
  pages_->setCurrentIndex(session ? 1 : 0);
  setWindowTitle(session ? tr("%1 - Spanscope").arg(QFileInfo(path).fileName()) : tr("Spanscope"));
  if (session) {
    remember(path);
    // The first look: the spans the last answer read most, so that trajectories and inspector show something true.
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
  }
  setWorkspace(workspace_);
  refreshFacts();
  QTimer::singleShot(0, this, [this] {
    resizeDocks({treeDock_, inspectorDock_}, {width() < 1200 ? 215 : 290, width() < 1200 ? 245 : 318}, Qt::Horizontal);
    resizeDocks({bottomDock_}, {height() < 800 ? 150 : 200}, Qt::Vertical);
    alignTrajectories();
    emit sessionShown();
  });
}

void MainWindow::remember(const QString& path) {
  QSettings settings;
  QStringList recent = settings.value("recent").toStringList();
  const QString absolute = QFileInfo(path).absoluteFilePath();
  recent.removeAll(absolute);
  recent.prepend(absolute);
  while (recent.size() > kRecent) recent.removeLast();
  settings.setValue("recent", recent);
  start_->setRecent(recent);
}

void MainWindow::refreshFacts() {
  const auto session = document_->session();
  if (!session) {
    facts_->clear();
    statusState_->clear();
    statusFile_->clear();
    return;
  }
  const SessionData& s = *session;
  facts_->setText(tr("%1 · %2 turns · %3 spans · %4 tokens · %5%6").arg(QFileInfo(path_).fileName()).arg(s.turns.size()).arg(s.ledger.spans.size())
                      .arg(style::number(s.turns.empty() ? 0 : s.turns.back().context)).arg(tr("detail %1").arg(QString::fromStdString(s.header.detail)),
                           s.header.routing ? tr(" + routing") : QString()));
  int losses = 0;
  QString first;
  for (const Finding& f : s.findings)
    if (f.grade >= Grade::loss && ++losses == 1) first = QString::fromStdString(f.message);
  statusState_->setText(losses ? tr("⚠ %1 parts cannot be read: %2").arg(losses).arg(first) : s.finished ? tr("✓ Finished") : tr("⚠ Unfinished: %1 turns").arg(s.turns.size()));
  statusFile_->setText(tr("File %1 MB · %2").arg(double(s.file_bytes) / 1e6, 0, 'f', 1).arg(QString::fromStdString(s.header.backend)));
  statusText_->setText(tr("Ready"));
}

void MainWindow::setWorkspace(Workspace workspace) {
  workspace_ = workspace;
  if (workspaceGroup_) workspaceGroup_->button(int(workspace))->setChecked(true);
  workspaces_->setCurrentIndex(int(workspace));
  const bool open = !document_->empty();
  if (!treeDock_) return;
  const bool transcript = workspace == Explore && centreTabs_->currentIndex() == 2;
  treeDock_->setVisible(open);
  inspectorDock_->setVisible(open && !transcript && workspace != Slices);
  wordsDock_->setVisible(open && transcript);
  layerDock_->setVisible(open && workspace == Slices);
  bottomDock_->setVisible(open && workspace == Explore && !transcript);
  QTimer::singleShot(0, this, [this] { alignTrajectories(); });
}

bool MainWindow::setWorkspaceByName(const QString& name) {
  for (int i = 0; i < 4; ++i)
    if (name.compare(QLatin1String(kWorkspaceNames[i]), Qt::CaseInsensitive) == 0) {
      setWorkspace(Workspace(i));
      return true;
    }
  return false;
}

bool MainWindow::setTabByName(const QString& name) {
  for (QTabWidget* tabs : {centreTabs_, bottomTabs_})
    for (int i = 0; i < tabs->count(); ++i)
      if (tabs->tabText(i).compare(name, Qt::CaseInsensitive) == 0) {
        tabs->setCurrentIndex(i);
        return true;
      }
  return false;
}

Panel* MainWindow::currentPanel() const {
  if (workspace_ != Explore) return workspacePanels_[size_t(workspace_)];
  return qobject_cast<Panel*>(centreTabs_->currentWidget());
}

// Trajectories stand on the same pixels as the map's columns.
void MainWindow::alignTrajectories() {
  if (!trajectories_ || document_->empty() || !map_->isVisible()) return;
  const MapFigure& f = map_->view()->figure();
  const int left = map_->view()->mapTo(this, QPoint(int(f.cells_x), 0)).x();
  trajectories_->alignTo(left, left + int(f.cells_w));
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  QTimer::singleShot(0, this, [this] { alignTrajectories(); });
}
void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  QTimer::singleShot(0, this, [this] { alignTrajectories(); });
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
    statusText_->setText(QString::fromStdString(html.error().line()));
    return;
  }
  const QString path = QFileDialog::getSaveFileName(this, tr("Export report"), QFileInfo(path_).completeBaseName() + ".html", tr("HTML (*.html)"));
  if (path.isEmpty()) return;
  auto written = write_file(path.toStdString(), *html, true);
  statusText_->setText(written ? tr("Report written: %1").arg(path) : QString::fromStdString(written.error().line()));
}

void MainWindow::exportPicture() {
  Panel* panel = currentPanel();
  if (document_->empty() || !panel || !panel->hasPicture()) {
    statusText_->setText(tr("The panel in front has no picture; choose Map, Threshold, Slices or Experts."));
    return;
  }
  const QString path = QFileDialog::getSaveFileName(this, tr("Export picture"), panel->objectName() + ".svg", tr("SVG (*.svg);;PNG (*.png)"));
  if (path.isEmpty()) return;
  QByteArray bytes;
  if (path.endsWith(".png")) {
    const QImage image = panel->picturePng(2);
    statusText_->setText(image.save(path) ? tr("Picture written: %1").arg(path) : tr("Cannot write %1").arg(path));
    return;
  }
  bytes = panel->pictureSvg();
  auto written = write_file(path.toStdString(), std::string_view(bytes.constData(), size_t(bytes.size())), true);
  statusText_->setText(written ? tr("Picture written: %1").arg(path) : QString::fromStdString(written.error().line()));
}

void MainWindow::chooseFile() {
  const QString path = QFileDialog::getOpenFileName(this, tr("Open a session"), {}, tr("Spanscope sessions (*.span);;All files (*)"));
  if (!path.isEmpty()) openFile(path);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}
void MainWindow::dropEvent(QDropEvent* event) {
  for (const QUrl& url : event->mimeData()->urls())
    if (url.isLocalFile()) {
      openFile(url.toLocalFile());
      return;
    }
}

}  // namespace spanscope
