// SPDX-License-Identifier: GPL-3.0-or-later
// Menus with their keys, and the edge bar of narrow windows.
#include <QAction>
#include <QActionGroup>
#include <QApplication>
#include <QDockWidget>
#include <QFrame>
#include <QLabel>
#include <QMenuBar>
#include <QMessageBox>
#include <QPainter>
#include <QSettings>
#include <QShortcut>
#include <QStackedWidget>
#include <QToolBar>
#include <QToolButton>

#include "widgets/document/view_store.h"
#include "widgets/main_window/banner.h"
#include "widgets/main_window/main_window.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/status_area.h"
#include "widgets/main_window/tool_bar.h"
#include "widgets/panels/map_panel.h"
#include "widgets/panels/panel_tabs.h"
#include "widgets/panels/session_tree.h"

namespace spanscope {
namespace {

// A button whose text runs upwards.
class EdgeButton : public QToolButton {
 public:
  explicit EdgeButton(const QString& text, QWidget* parent) : QToolButton(parent) {
    setText(text);
    setAccessibleName(text);
    setCheckable(true);
  }
  QSize sizeHint() const override { return {24, fontMetrics().horizontalAdvance(text()) + 26}; }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const Palette& c = style::colors();
    p.fillRect(rect(), style::q(isChecked() ? c.selection : underMouse() ? c.hover : c.header));
    p.setPen(style::q(hasFocus() ? c.focus : c.border));
    p.drawRect(rect().adjusted(0, 0, -1, -1));
    p.setPen(style::q(isChecked() ? c.onSelection : c.textMuted));
    p.translate(0, height());
    p.rotate(-90);
    p.drawText(QRect(0, 0, height(), width()), Qt::AlignCenter, text());
  }
};

}  // namespace

void MainWindow::buildEdgeBar() {
  edgeBar_ = new QToolBar(tr("Left panels"), this);
  edgeBar_->setObjectName("edgeBar");
  edgeBar_->setMovable(false);
  edgeBar_->setContextMenuPolicy(Qt::PreventContextMenu);
  edgeBar_->setStyleSheet("QToolBar{border:none;padding:0 2px 0 0;spacing:0;}");
  for (const QString& name : {tr("Session"), tr("Views")}) {
    auto* b = new EdgeButton(name, edgeBar_);
    edgeBar_->addWidget(b);
    edgeButtons_.push_back(b);
    connect(b, &QToolButton::clicked, this, [this](bool on) {
      leftOpen_ = on;
      treeDock_->closed = viewsDock_->closed = false;
      sized_.clear();
      applyLayout();
    });
  }
  addToolBar(Qt::LeftToolBarArea, edgeBar_);
  edgeBar_->hide();
}

void MainWindow::buildMenus() {
  auto* file = menuBar()->addMenu(tr("&File"));
  file->addAction(tr("&Open…"), QKeySequence::Open, this, &MainWindow::chooseFile);
  file->addSeparator();
  file->addAction(tr("Export &picture…"), QKeySequence(tr("Ctrl+Shift+E")), this, &MainWindow::exportPicture);
  file->addAction(tr("Export &report…"), QKeySequence(tr("Ctrl+E")), this, &MainWindow::exportReport);
  file->addSeparator();
  file->addAction(tr("&Close session"), QKeySequence(tr("Ctrl+W")), this, [this] { setSession({}, nullptr); });
  file->addAction(tr("&Quit"), QKeySequence::Quit, this, &QWidget::close);

  auto* edit = menuBar()->addMenu(tr("&Edit"));
  edit->addAction(tr("&Find in names and text"), QKeySequence::Find, this, [this] { emit tools_->findRequested(); });
  edit->addAction(tr("Fi&lter"), QKeySequence(tr("Ctrl+L")), this, [this] { predicate_->focusEdit(); });
  edit->addAction(tr("&Save view…"), QKeySequence(tr("Ctrl+S")), this, [this] { predicate_->saveView(); });
  edit->addAction(tr("Select all &matching"), QKeySequence(tr("Ctrl+Shift+A")), this, [this] {
    std::vector<SpanId> spans;
    for (const ViewRef& ref : document_->view().refs) spans.push_back(ref.span);
    document_->selectSpans(spans, Origin::program);
  });
  edit->addAction(tr("&Pin or unpin"), QKeySequence(tr("P")), this, [this] {
    if (const SpanId id = document_->selection().first(); id != kNoSpan) document_->togglePin(id);
  });

  auto* view = menuBar()->addMenu(tr("&View"));
  const QString places[] = {tr("&Explore"), tr("&Slices"), tr("E&xperts"), tr("Re-&attend")};
  for (int i = 0; i < 4; ++i) view->addAction(places[i], QKeySequence(QString("Ctrl+%1").arg(i + 1)), this, [this, i] { setWorkspace(Workspace(i)); });
  view->addSeparator();
  const QString measures[] = {tr("&Reads"), tr("S&hare"), tr("&Mass"), tr("&Density"), tr("&Lift")};
  for (int i = 0; i < 5; ++i) view->addAction(measures[i], this, [this, i] { document_->setMeasure(Measure(i)); });
  view->addAction(tr("&Next measure"), QKeySequence(tr("M")), this, [this] { document_->setMeasure(Measure((int(document_->measure()) + 1) % 5)); });
  view->addAction(tr("Previous measure"), QKeySequence(tr("Shift+M")), this, [this] { document_->setMeasure(Measure((int(document_->measure()) + 4) % 5)); });
  view->addAction(tr("Strength up"), QKeySequence(tr("+")), this, [this] { document_->setStrength(document_->strength() + 0.05f); });
  view->addAction(tr("Strength down"), QKeySequence(tr("-")), this, [this] { document_->setStrength(document_->strength() - 0.05f); });
  view->addSeparator();
  view->addAction(tr("&Fit rows"), QKeySequence(tr("0")), this, [this] { map_->view()->fitRows(); });
  view->addAction(tr("Higher rows"), QKeySequence::ZoomIn, this, [this] { map_->view()->zoomRows(1); });
  view->addAction(tr("Lower rows"), QKeySequence::ZoomOut, this, [this] { map_->view()->zoomRows(-1); });
  auto* themes = view->addMenu(tr("&Theme"));
  auto* themeGroup = new QActionGroup(this);
  const std::pair<QString, style::Theme> themeList[] = {{tr("As the system"), style::Theme::system}, {tr("Light"), style::Theme::light}, {tr("Dark"), style::Theme::dark}};
  for (const auto& [name, theme] : themeList) {
    auto* action = themes->addAction(name, this, [this, theme = theme] { setTheme(theme); });
    action->setCheckable(true);
    themeGroup->addAction(action);
    action->setChecked(QSettings().value("theme", "system").toString() == (theme == style::Theme::dark ? "dark" : theme == style::Theme::light ? "light" : "system"));
  }

  auto* go = menuBar()->addMenu(tr("&Go"));
  go->addAction(tr("&Back"), QKeySequence(tr("Alt+Left")), document_, &Document::goBack);
  go->addAction(tr("&Forward"), QKeySequence(tr("Alt+Right")), document_, &Document::goForward);
  go->addAction(tr("&Previous turn"), QKeySequence(tr(",")), this, [this] { document_->setTurn(document_->turn() - 1, Origin::program); });
  go->addAction(tr("&Next turn"), QKeySequence(tr(".")), this, [this] { document_->setTurn(document_->turn() + 1, Origin::program); });
  go->addSeparator();
  for (int i = 0; i < centreTabs_->count(); ++i)
    go->addAction(centreTabs_->tabText(i), this, [this, i] {
      setWorkspace(Explore);
      centreTabs_->setCurrentIndex(i);
    });

  windowMenu_ = menuBar()->addMenu(tr("&Window"));
  connect(windowMenu_, &QMenu::aboutToShow, this, [this] {
    windowMenu_->clear();
    for (const auto& dock : docks_) {
      auto* action = windowMenu_->addAction(dock->dock->windowTitle());
      action->setCheckable(true);
      action->setChecked(!dock->closed);
      Dock* d = dock.get();
      connect(action, &QAction::toggled, this, [this, d](bool on) {
        d->closed = !on;
        applyLayout();
      });
    }
    windowMenu_->addSeparator();
    windowMenu_->addAction(tr("&Reset layout"), this, [this] {
      for (const auto& d : docks_) {
        d->closed = false;
        d->dock->setFloating(false);
      }
      sized_.clear();
      applyLayout();
    });
  });

  auto* help = menuBar()->addMenu(tr("&Help"));
  const auto explain = [this] {
    QMessageBox box(this);
    box.setWindowTitle(tr("About the numbers"));
    box.setText(tr("<b>A read</b> is a moment when one head, at one row of an answer, turns to a span: its attention there is above the strength (0.30), above "
                   "three times what an even spread would give, and above three times the head's own habit on that span. Reads are counted, never averaged.<br><br>"
                   "<b>Share</b> is the average row's fraction of attention, <b>mass</b> the same summed in rows, <b>density</b> share per 1,000 tokens, <b>lift</b> times what "
                   "an even spread would give. Sinks are never read; their part of all mass stands apart.<br><br>"
                   "Reads say where heads looked. That a span was needed, or can go, is a hypothesis until the model was run without it."));
    box.exec();
  };
  help->addAction(tr("About the &numbers"), QKeySequence::HelpContents, this, explain);
  help->addAction(tr("&About Spanscope"), this, [this] {
    QMessageBox::about(this, tr("About Spanscope"), tr("<b>Spanscope %1</b><br>Shows what a language model really read.<br><br>Works offline. GPL-3.0-or-later.").arg(version_));
  });

  facts_ = new QLabel(this);
  facts_->setObjectName("muted");
  facts_->setContentsMargins(0, 0, 8, 0);
  facts_->setFixedHeight(24);
  menuBar()->setFixedHeight(25);
  menuBar()->setCornerWidget(facts_, Qt::TopRightCorner);
  const auto key = [this](const QKeySequence& keys, auto slot) { connect(new QShortcut(keys, this), &QShortcut::activated, this, slot); };
  key(QKeySequence("/"), [this] { emit tools_->findRequested(); });
  key(QKeySequence("F6"), [this] { nextDock(1); });
  key(QKeySequence("Shift+F6"), [this] { nextDock(-1); });
  key(QKeySequence("Ctrl+."), [this] { emit status_->cancelRequested(); });
  key(QKeySequence("F9"), [this] {
    const bool away = !treeDock_->closed;
    treeDock_->closed = viewsDock_->closed = away;
    applyLayout();
  });
  key(QKeySequence("Shift+F9"), [this] {
    const bool away = !inspectorDock_->closed;
    for (Dock* d : {inspectorDock_, contentsDock_, wordsDock_, layerDock_}) d->closed = away;
    applyLayout();
  });
}

void MainWindow::nextDock(int step) {
  // In reading order: left docks, centre, bottom, right docks.
  std::vector<QWidget*> stops;
  const auto dock = [&](Dock* d) {
    if (d->dock->isVisible()) stops.push_back(d->content);
  };
  dock(treeDock_);
  dock(viewsDock_);
  stops.push_back(frames_[size_t(workspace_)]);
  dock(bottomDock_);
  for (Dock* d : {inspectorDock_, contentsDock_, wordsDock_, layerDock_}) dock(d);
  int at = -1;
  for (size_t i = 0; i < stops.size(); ++i)
    if (QWidget* now = QApplication::focusWidget(); now && (stops[i] == now || stops[i]->isAncestorOf(now))) at = int(i);
  const int n = int(stops.size());
  QWidget* to = stops[size_t(((at < 0 && step < 0 ? 0 : at) + step + n) % n)];
  if (to == frames_[Explore]) {
    centreTabs_->currentPanel()->setFocus(Qt::TabFocusReason);
    return;
  }
  for (QWidget* w : to->findChildren<QWidget*>())
    if (w->isVisible() && (w->focusPolicy() & Qt::TabFocus)) {
      w->setFocus(Qt::TabFocusReason);
      return;
    }
  to->setFocus(Qt::TabFocusReason);
}

}  // namespace spanscope
