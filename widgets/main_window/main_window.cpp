// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/main_window.h"

#include <QApplication>
#include <QDockWidget>
#include <QFileInfo>
#include <QFrame>
#include <QLabel>
#include <QResizeEvent>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QTimer>
#include <QToolBar>
#include <QToolButton>
#include <QVBoxLayout>

#include "widgets/document/view_store.h"
#include "widgets/main_window/banner.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/start_page.h"
#include "widgets/main_window/status_area.h"
#include "widgets/main_window/tool_bar.h"
#include "widgets/panels/experts_panel.h"
#include "widgets/panels/head_grid_panel.h"
#include "widgets/panels/inspector.h"
#include "widgets/panels/layer_profile_panel.h"
#include "widgets/panels/log_panel.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/panel_tabs.h"
#include "widgets/panels/reattend_panel.h"
#include "widgets/panels/session_tree.h"
#include "widgets/panels/span_table.h"
#include "widgets/panels/threshold_panel.h"
#include "widgets/panels/transcript_panel.h"
#include "widgets/panels/view_contents.h"
#include "widgets/panels/view_list.h"
#include "widgets/panels/words_panel.h"
#include "widgets/plots/threshold_plot.h"
#include "widgets/plots/trajectory_plot.h"

namespace spanscope {
namespace {

const char* kWorkspaceNames[] = {"explore", "slices", "experts", "re-attend"};
enum CentreTab { kMap, kThreshold, kTranscript };

QFrame* framed(QWidget* content, QWidget* parent) {
  auto* frame = new QFrame(parent);
  frame->setObjectName("panelFrame");
  auto* column = new QVBoxLayout(frame);
  column->setContentsMargins(1, 1, 1, 1);
  column->setSpacing(0);
  column->addWidget(content);
  return frame;
}

}  // namespace

MainWindow::MainWindow(const QString& programVersion, QWidget* parent)
    : QMainWindow(parent), version_(programVersion), document_(new Document(this)), views_(new ViewStore(this)), loader_(new SessionLoader(this)), demo_(new DemoJob(this)) {
  setObjectName("mainWindow");
  setWindowTitle(tr("Spanscope"));
  setWindowIcon(QIcon(":/icons/spanscope.svg"));
  setAcceptDrops(true);
  setMinimumSize(720, 480);
  setDockOptions(QMainWindow::AllowNestedDocks | QMainWindow::AllowTabbedDocks);
  setCorner(Qt::BottomLeftCorner, Qt::LeftDockWidgetArea);
  setCorner(Qt::BottomRightCorner, Qt::RightDockWidgetArea);
  setContentsMargins(4, 0, 4, 0);
  resize(1440, 900);
  status_ = new StatusArea(statusBar());
  buildCentre();
  buildDocks();
  tools_ = new ToolBar(document_, this);
  addToolBar(Qt::TopToolBarArea, tools_);
  addToolBarBreak();
  filterBar_ = new QToolBar(tr("Filter"), this);
  filterBar_->setObjectName("filterBar");
  filterBar_->setMovable(false);
  filterBar_->setContextMenuPolicy(Qt::PreventContextMenu);
  predicate_ = new PredicateBar(document_, views_, filterBar_);
  filterBar_->addWidget(predicate_);
  addToolBar(Qt::TopToolBarArea, filterBar_);
  buildEdgeBar();
  buildMenus();
  connectJobs();
  showRecent();
  refreshFacts();
  applyLayout();
}

MainWindow::~MainWindow() { disconnect(qApp, nullptr, this, nullptr); }  // focus moves while the widgets go

void MainWindow::buildCentre() {
  auto* middle = new QWidget(this);
  middle->setMinimumSize(320, 200);  // its own: the widest workspace must not hold the docks of the others back
  auto* outer = new QVBoxLayout(middle);
  outer->setContentsMargins(0, 0, 0, 0);
  outer->setSpacing(4);
  banner_ = new Banner(middle);
  outer->addWidget(banner_);
  pages_ = new QStackedWidget(middle);
  outer->addWidget(pages_, 1);
  start_ = new StartPage(pages_);
  workspaces_ = new QStackedWidget(pages_);
  centreTabs_ = new PanelTabs("centreTabs", workspaces_);
  map_ = new MapPanel(document_, centreTabs_);
  threshold_ = new ThresholdPanel(document_, centreTabs_);
  auto* transcript = new TranscriptPanel(document_, centreTabs_);
  centreTabs_->addTab(map_, tr("Map"));
  centreTabs_->addTab(threshold_, tr("Threshold"));
  centreTabs_->addTab(transcript, tr("Transcript"));
  auto* heads = new HeadGridPanel(document_, workspaces_);
  auto* experts = new ExpertsPanel(document_, workspaces_);
  reattend_ = new ReattendPanel(document_, workspaces_);
  workspacePanels_ = {map_, heads, experts, reattend_};
  for (QWidget* w : {static_cast<QWidget*>(centreTabs_), static_cast<QWidget*>(heads), static_cast<QWidget*>(experts), static_cast<QWidget*>(reattend_)}) {
    QFrame* frame = framed(w, workspaces_);
    frames_.push_back(frame);
    workspaces_->addWidget(frame);
  }
  const auto picture = [this](QToolButton* b) { connect(b, &QToolButton::clicked, this, &MainWindow::exportPicture); };
  picture(centreTabs_->addHeaderTool("image", tr("Save the picture")));
  picture(heads->addHeaderTool("image", tr("Save the picture")));
  picture(experts->addHeaderTool("image", tr("Save the picture")));
  connect(centreTabs_, &PanelTabs::currentChanged, this, [this] { applyLayout(); });
  connect(map_->view(), &MapView::openTranscript, this, [this] { centreTabs_->setCurrentIndex(kTranscript); });
  connect(map_->view(), &MapView::openSlices, this, [this] { setWorkspace(Slices); });
  connect(map_->view(), &MapView::figureChanged, this, [this] { alignTrajectories(); });
  pages_->addWidget(start_);
  pages_->addWidget(workspaces_);
  setCentralWidget(middle);
  connect(qApp, &QApplication::focusChanged, this, [this](QWidget*, QWidget* now) { showFocus(now); });
}

MainWindow::Dock* MainWindow::addDock(const QString& name, const QString& title, QWidget* content, QWidget* header, Qt::DockWidgetArea area) {
  auto dock = std::make_unique<Dock>();
  dock->dock = new QDockWidget(title, this);
  dock->dock->setObjectName(name);
  dock->content = content;
  dock->header = header;
  // The panel's own header is the title bar: dragging it moves the dock.
  auto* bar = new QFrame(dock->dock);
  bar->setObjectName("panelFrame");
  auto* row = new QVBoxLayout(bar);
  row->setContentsMargins(1, 1, 1, 0);
  row->addWidget(header);
  dock->dock->setTitleBarWidget(bar);
  dock->frame = framed(content, dock->dock);
  static_cast<QVBoxLayout*>(dock->frame->layout())->setContentsMargins(1, 0, 1, 1);
  style::mark(bar, "part", "top");
  style::mark(dock->frame, "part", "bottom");
  dock->dock->setWidget(dock->frame);
  addDockWidget(area, dock->dock);
  docks_.push_back(std::move(dock));
  return docks_.back().get();
}

void MainWindow::buildDocks() {
  const auto tools = [this](Dock* dock, auto* panel) {
    QToolButton* fl = panel->addHeaderTool("float", tr("Float or dock this panel"));
    connect(fl, &QToolButton::clicked, this, [dock] { dock->dock->setFloating(!dock->dock->isFloating()); });
    QToolButton* close = panel->addHeaderTool("close", tr("Close; the Window menu brings it back"));
    connect(close, &QToolButton::clicked, this, [this, dock] {
      dock->closed = true;
      applyLayout();
    });
  };
  const auto panelDock = [&](const QString& name, Panel* panel, Qt::DockWidgetArea area, int least) {
    panel->setMinimumWidth(least);
    Dock* dock = addDock(name, panel->title(), panel, panel->header(), area);
    tools(dock, panel);
    return dock;
  };
  tree_ = new SessionTree(document_, this);
  treeDock_ = panelDock("treeDock", tree_, Qt::LeftDockWidgetArea, 220);
  viewsDock_ = panelDock("viewsDock", new ViewList(document_, views_, this), Qt::LeftDockWidgetArea, 220);
  inspectorDock_ = panelDock("inspectorDock", new Inspector(document_, this), Qt::RightDockWidgetArea, 250);
  contents_ = new ViewContents(document_, this);
  contentsDock_ = panelDock("contentsDock", contents_, Qt::RightDockWidgetArea, 250);
  connect(threshold_->plot(), &ThresholdPlot::dragChanged, contents_, &ViewContents::setDragging);
  wordsDock_ = panelDock("wordsDock", new WordsPanel(document_, this), Qt::RightDockWidgetArea, 250);
  layerDock_ = panelDock("layerDock", new LayerProfilePanel(document_, this), Qt::RightDockWidgetArea, 250);
  bottomTabs_ = new PanelTabs("bottomTabs", this);
  trajectories_ = new TrajectoryPlot(document_, bottomTabs_);
  log_ = new LogPanel(document_, bottomTabs_);
  bottomTabs_->addTab(trajectories_, tr("Trajectories"));
  bottomTabs_->addTab(new SpanTable(document_, bottomTabs_), tr("Table"));
  bottomTabs_->addTab(log_, tr("Log"));
  bottomTabs_->setMinimumHeight(90);
  bottomDock_ = addDock("bottomDock", tr("Trajectories, table and log"), bottomTabs_, bottomTabs_->header(), Qt::BottomDockWidgetArea);
  tools(bottomDock_, bottomTabs_);
}

void MainWindow::connectJobs() {
  connect(start_, &StartPage::openRequested, this, &MainWindow::chooseFile);
  connect(start_, &StartPage::fileRequested, this, &MainWindow::openFile);
  connect(start_, &StartPage::demoRequested, this, [this] {
    banner_->hide();
    demo_->start();
    status_->progress(tr("Recording the demo"), 0, 0);
  });
  connect(start_, &StartPage::forgetRequested, this, [this](const QString& path) {
    QSettings settings;
    QStringList recent = settings.value("recent").toStringList();
    recent.removeAll(path);
    settings.setValue("recent", recent);
    showRecent();
  });
  connect(tools_, &ToolBar::placeChosen, this, [this](int place) { setWorkspace(Workspace(place)); });
  connect(tools_, &ToolBar::findRequested, this, [this] {
    treeDock_->closed = false;
    leftOpen_ = true;
    applyLayout();
    tree_->focusFind();
  });
  connect(tools_, &ToolBar::pictureRequested, this, &MainWindow::exportPicture);
  connect(tools_, &ToolBar::reportRequested, this, &MainWindow::exportReport);
  connect(loader_, &SessionLoader::started, this, [this](const QString& path) {
    banner_->hide();
    status_->progress(tr("Opening %1").arg(QFileInfo(path).fileName()), 0, 0);
  });
  connect(loader_, &SessionLoader::loaded, this, &MainWindow::setSession);
  connect(loader_, &SessionLoader::failed, this, &MainWindow::failedToOpen);
  connect(demo_, &DemoJob::progress, status_, &StatusArea::progress);
  connect(demo_, &DemoJob::finished, this, &MainWindow::openFile);
  connect(demo_, &DemoJob::failed, this, [this](const QString& message, bool cancelled) {
    status_->idle();
    if (cancelled) status_->say(tr("Stopped. Nothing was kept."));
    else failedToOpen({}, message);
  });
  connect(reattend_, &ReattendPanel::progressChanged, this, [this](const QString& text, qulonglong done, qulonglong total) {
    if (text.isEmpty()) status_->idle();
    else status_->progress(text, done, total);
  });
  connect(status_, &StatusArea::cancelRequested, this, [this] {
    if (demo_->running()) {
      demo_->cancel();
      return;
    }
    reattend_->cancel();
    loader_->cancel();
    status_->idle();
    status_->say(tr("Stopped. What was there before is kept."));
  });
  connect(document_, &Document::message, status_, &StatusArea::say);
  connect(document_, &Document::hoverChanged, this, &MainWindow::hovered);
}

void MainWindow::setDemo(DemoJob::Record record) {
  demo_->setRecord(std::move(record));
  start_->setDemo(demo_->available());
}

void MainWindow::setTheme(style::Theme theme) {
  style::apply(*qApp, theme);
  QSettings().setValue("theme", theme == style::Theme::dark ? "dark" : theme == style::Theme::light ? "light" : "system");
}

void MainWindow::setWorkspace(Workspace workspace) {
  if (workspace == Experts && !hasExperts_) workspace = Explore;
  workspace_ = workspace;
  applyLayout();
}

// Which docks stand beside the workspace and its tab; what was closed by hand stays closed.
void MainWindow::applyLayout() {
  if (!tools_ || applying_) return;
  applying_ = true;
  const bool open = !document_->empty();
  pages_->setCurrentIndex(open ? 1 : 0);
  workspaces_->setCurrentIndex(int(workspace_));
  tools_->setPlace(int(workspace_));
  tools_->setVisible(open);
  filterBar_->setVisible(open && workspace_ != Reattend);
  tools_->setCompact(narrow());
  predicate_->setCompact(narrow());
  const int tab = workspace_ == Explore ? centreTabs_->currentIndex() : -1;
  const bool left = open && tab != kTranscript && (!narrow() || leftOpen_);
  const auto show = [&](Dock* dock, bool wanted) { dock->dock->setVisible(wanted && !dock->closed); };
  show(treeDock_, left && workspace_ != Reattend);
  show(viewsDock_, left && workspace_ == Explore);
  show(inspectorDock_, open && (tab == kMap || workspace_ == Experts));
  show(contentsDock_, open && tab == kThreshold);
  show(wordsDock_, open && tab == kTranscript);
  show(layerDock_, open && workspace_ == Slices);
  show(bottomDock_, open && (tab == kMap || tab == kThreshold));
  edgeBar_->setVisible(open && narrow() && tab != kTranscript && workspace_ != Reattend);
  for (QToolButton* b : edgeButtons_) b->setChecked(leftOpen_);
  applying_ = false;
  if (!open || !isVisible()) return;
  // Docks that come back do so at their old size, except the first time and after a jump between size classes.
  QTimer::singleShot(0, this, [this] {
    if (document_->empty()) return;
    const bool wide = width() > 2000;
    const int side = narrow() ? 230 : wide ? 340 : 288, right = narrow() ? 254 : wide ? 380 : 318;
    const auto give = [&](Dock* dock, int size, Qt::Orientation orientation) {
      if (sized_.count(dock) || !dock->dock->isVisible() || dock->dock->isFloating()) return;
      resizeDocks({dock->dock}, {size}, orientation);
      if (dock == viewsDock_) resizeDocks({treeDock_->dock, viewsDock_->dock}, {height() - size - 126, size}, Qt::Vertical);
      sized_.insert(dock);
    };
    give(treeDock_, side, Qt::Horizontal);
    give(viewsDock_, 163, Qt::Vertical);
    for (Dock* d : {inspectorDock_, contentsDock_, layerDock_}) give(d, right, Qt::Horizontal);
    give(wordsDock_, narrow() ? 290 : right, Qt::Horizontal);
    give(bottomDock_, narrow() ? 152 : wide ? 260 : 170, Qt::Vertical);
    alignTrajectories();
  });
}

void MainWindow::showFocus(QWidget* now) {
  for (size_t i = 0; i < frames_.size(); ++i) style::mark(frames_[i], "focused", now && frames_[i]->isAncestorOf(now));
  for (const auto& d : docks_) {
    const bool here = now && d->dock->isAncestorOf(now);
    style::mark(d->frame, "focused", here);
    style::mark(d->dock->titleBarWidget(), "focused", here);
  }
}

bool MainWindow::setWorkspaceByName(const QString& name) {
  for (int i = 0; i < 4; ++i)
    if (name.compare(QLatin1String(kWorkspaceNames[i]), Qt::CaseInsensitive) == 0) {
      workspace_ = Workspace(i);
      applyLayout();
      return true;
    }
  return false;
}

bool MainWindow::setTabByName(const QString& name) { return centreTabs_->setCurrentByName(name) || bottomTabs_->setCurrentByName(name); }

Panel* MainWindow::currentPanel() const { return workspace_ == Explore ? centreTabs_->currentPanel() : workspacePanels_[size_t(workspace_)]; }

// Trajectories stand on the same pixels as the map's columns.
void MainWindow::alignTrajectories() {
  if (!trajectories_ || document_->empty() || !map_->isVisible()) return;
  const MapFigure& f = map_->view()->figure();
  if (!trajectories_->isVisible()) return;
  // In the plot's own coordinates: from its left edge to the first column, from the last column to its right edge.
  const int left = map_->view()->mapTo(this, QPoint(int(f.cells_x), 0)).x() - trajectories_->mapTo(this, QPoint(0, 0)).x();
  trajectories_->alignTo(std::max(0, left), std::max(0, trajectories_->width() - left - int(f.cells_w)));
}

void MainWindow::resizeEvent(QResizeEvent* event) {
  QMainWindow::resizeEvent(event);
  const auto size_class = [](int w) { return w < 1150 ? 0 : w > 2000 ? 2 : 1; };
  if (size_class(event->size().width()) != size_class(event->oldSize().width())) sized_.clear();
  applyLayout();
}
void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  applyLayout();
}

}  // namespace spanscope
