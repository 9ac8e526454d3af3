// SPDX-License-Identifier: GPL-3.0-or-later
// The window: composition of bars, workspaces, docks and status bar around one document. UI thread.
#pragma once
#include <QMainWindow>
#include <vector>

#include "widgets/document/document.h"
#include "widgets/jobs/session_loader.h"
#include "widgets/panels/panel.h"

class QActionGroup;
class QButtonGroup;
class QDockWidget;
class QLabel;
class QProgressBar;
class QStackedWidget;
class QTabWidget;
class QToolButton;

namespace spanscope {

class MapPanel;
class PredicateBar;
class SessionTree;
class StartPage;
class TrajectoryPlot;

class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  enum Workspace { Explore, Slices, Experts, Reattend };
  explicit MainWindow(const QString& programVersion, QWidget* parent = nullptr);

  Document* document() { return document_; }
  void openFile(const QString& path);
  void setSession(const QString& path, std::shared_ptr<const SessionData> session);
  void setWorkspace(Workspace workspace);
  bool setWorkspaceByName(const QString& name);
  bool setTabByName(const QString& name);
  // HTML text of the report as the window stands.
  Result<std::string> reportHtml() const;
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
  void buildToolBar();
  void buildMenus();
  void buildCentre();
  void buildDocks();
  void buildStatusBar();
  void refreshFacts();
  void alignTrajectories();
  void exportReport();
  void exportPicture();
  void chooseFile();
  void remember(const QString& path);
  QDockWidget* addDock(const QString& name, const QString& title, QWidget* widget, Qt::DockWidgetArea area);

  QString version_, path_;
  Document* document_;
  SessionLoader* loader_;
  StartPage* start_;
  PredicateBar* predicate_ = nullptr;
  QStackedWidget *pages_ = nullptr, *workspaces_ = nullptr;
  QTabWidget *centreTabs_ = nullptr, *bottomTabs_ = nullptr;
  QButtonGroup *workspaceGroup_ = nullptr, *measureGroup_ = nullptr;
  QDockWidget *treeDock_ = nullptr, *inspectorDock_ = nullptr, *wordsDock_ = nullptr, *bottomDock_ = nullptr, *layerDock_ = nullptr;
  MapPanel* map_ = nullptr;
  SessionTree* tree_ = nullptr;
  TrajectoryPlot* trajectories_ = nullptr;
  std::vector<Panel*> workspacePanels_;
  QLabel *facts_ = nullptr, *statusText_ = nullptr, *statusState_ = nullptr, *statusFile_ = nullptr, *banner_ = nullptr;
  QProgressBar* progress_ = nullptr;
  QToolButton* cancel_ = nullptr;
  Workspace workspace_ = Explore;
};

}  // namespace spanscope
