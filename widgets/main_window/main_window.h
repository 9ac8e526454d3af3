// SPDX-License-Identifier: GPL-3.0-or-later
// The window: composition of bars, workspaces, docks and status bar around one document. UI thread.
#pragma once
#include <QMainWindow>
#include <set>
#include <vector>

#include "widgets/document/document.h"
#include "widgets/jobs/demo_job.h"
#include "widgets/jobs/session_loader.h"
#include "widgets/panels/panel.h"
#include "widgets/style/style.h"

class QDockWidget;
class QFrame;
class QLabel;
class QMenu;
class QStackedWidget;
class QToolButton;

namespace spanscope {

class Banner;
class LogPanel;
class MapPanel;
class PanelTabs;
class PredicateBar;
class ReattendPanel;
class SessionTree;
class StartPage;
class StatusArea;
class ThresholdPanel;
class ToolBar;
class TrajectoryPlot;
class ViewContents;
class ViewStore;

class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  enum Workspace { Explore, Slices, Experts, Reattend };
  explicit MainWindow(const QString& programVersion, QWidget* parent = nullptr);
  ~MainWindow() override;

  Document* document() { return document_; }
  void openFile(const QString& path);
  void setSession(const QString& path, std::shared_ptr<const SessionData> session);
  void setWorkspace(Workspace workspace);
  Workspace workspace() const { return workspace_; }
  bool setWorkspaceByName(const QString& name);
  bool setTabByName(const QString& name);
  void setTheme(style::Theme theme);
  // Whether opened sessions are remembered on the start page (not when pictures are drawn by a script).
  void setKeepsHistory(bool keeps) { keepsHistory_ = keeps; }
  // How the demo is recorded; without it the start page does not offer it.
  void setDemo(DemoJob::Record record);
  // HTML text of the report as the window stands.
  Result<std::string> reportHtml() const;
  // Writes the picture of the panel in front: .svg or .png by the name's end.
  Status writePicture(const QString& path) const;
  Panel* currentPanel() const;

 signals:
  void sessionShown();
  void openFailed(const QString& message);

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void showEvent(QShowEvent* event) override;

 private:
  struct Dock {
    QDockWidget* dock = nullptr;
    QWidget* header = nullptr;
    QFrame* frame = nullptr;
    QWidget* content = nullptr;
    bool closed = false;  // by hand: it stays away until the Window menu brings it back
  };
  // main_window.cpp
  void buildCentre();
  void buildDocks();
  Dock* addDock(const QString& name, const QString& title, QWidget* content, QWidget* header, Qt::DockWidgetArea area);
  void connectJobs();
  void applyLayout();
  void showFocus(QWidget* now);
  void alignTrajectories();
  bool narrow() const { return width() < 1150; }
  // main_window_menus.cpp
  void buildMenus();
  void buildEdgeBar();
  void nextDock(int step);
  // main_window_session.cpp
  void refreshFacts();
  void chooseFile();
  void remember(const QString& path);
  void showRecent();
  void failedToOpen(const QString& path, const QString& message);
  void exportReport();
  void exportPicture();
  void hovered(const Hover& hover);

  QString version_, path_;
  Document* document_;
  ViewStore* views_;
  SessionLoader* loader_;
  DemoJob* demo_;
  StartPage* start_ = nullptr;
  Banner* banner_ = nullptr;
  ToolBar* tools_ = nullptr;
  QToolBar *filterBar_ = nullptr, *edgeBar_ = nullptr;
  PredicateBar* predicate_ = nullptr;
  StatusArea* status_ = nullptr;
  QStackedWidget *pages_ = nullptr, *workspaces_ = nullptr;
  PanelTabs *centreTabs_ = nullptr, *bottomTabs_ = nullptr;
  std::vector<QFrame*> frames_;  // of the workspaces' centres
  std::vector<std::unique_ptr<Dock>> docks_;
  Dock *treeDock_ = nullptr, *viewsDock_ = nullptr, *inspectorDock_ = nullptr, *contentsDock_ = nullptr, *wordsDock_ = nullptr, *layerDock_ = nullptr, *bottomDock_ = nullptr;
  MapPanel* map_ = nullptr;
  ThresholdPanel* threshold_ = nullptr;
  SessionTree* tree_ = nullptr;
  ViewContents* contents_ = nullptr;
  ReattendPanel* reattend_ = nullptr;
  LogPanel* log_ = nullptr;
  TrajectoryPlot* trajectories_ = nullptr;
  std::vector<Panel*> workspacePanels_;
  QLabel* facts_ = nullptr;
  QMenu* windowMenu_ = nullptr;
  std::vector<QToolButton*> edgeButtons_;
  Workspace workspace_ = Explore;
  bool hasExperts_ = true, applying_ = false, leftOpen_ = false, keepsHistory_ = true;
  std::set<Dock*> sized_;  // that got their first size in this size class
};

}  // namespace spanscope
