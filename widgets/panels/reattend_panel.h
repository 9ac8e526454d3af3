// SPDX-License-Identifier: GPL-3.0-or-later
// Ask a new question over the recorded context: everything (E) or the kept keys of a subset (A), on the engine thread.
// Everything here is computed now, not recorded. UI thread.
#pragma once
#include <memory>
#include <vector>

#include "widgets/engine/reattend_job.h"
#include "widgets/panels/data/reattend_rows.h"
#include "widgets/panels/panel.h"

class QCheckBox;
class QComboBox;
class QLineEdit;
class QPlainTextEdit;
class QProgressBar;
class QPushButton;
class QRadioButton;
class QSpinBox;
class QTextBrowser;

namespace spanscope {

class RowTable;
class SectionHeader;
class StateNote;

class ReattendPanel : public Panel {
  Q_OBJECT
 public:
  ReattendPanel(Document* document, QWidget* parent = nullptr);
  bool running() const { return running_; }
  const std::shared_ptr<const ReattendOutcome>& outcome() const { return outcome_; }
  const panels::ReattendTable& result() const { return result_; }
  RowTable* table() const { return table_; }
  void setModelPath(const QString& path);
  QString modelPath() const;
  QString stateText() const;   // what the panel says about its state or its last error
  void run();
  void cancel();

 signals:
  // For the status bar: empty text, nothing runs.
  void progressChanged(const QString& text, qulonglong done, qulonglong total);
  void finished(bool ok);

 private:
  void buildAsk(QWidget* ask);
  void newSession();
  void checkModel();
  void updateState();
  void say(const QString& text, bool error);
  std::vector<SpanId> subset() const;
  QString subsetName() const;
  void show(const Result<ReattendOutcome>& result);
  void fillTable();
  void fillAnswers();
  void fillHistory();
  void choose(size_t index);

  QPlainTextEdit* question_;
  QComboBox* subset_;
  QLabel *subsetFacts_, *modelState_, *state_;
  QRadioButton *modeA_, *modeE_;
  QCheckBox* compare_;
  QSpinBox* tokens_;
  QLineEdit* model_;
  QPushButton *run_, *cancel_;
  QProgressBar* progress_;
  QLabel* progressText_;
  StateNote* empty_;
  QWidget* results_;
  SectionHeader *tableHeader_, *answerHeader_, *historyHeader_;
  RowTable *table_, *history_, *cost_;
  QTextBrowser *answerA_, *answerE_;
  QLabel *titleA_, *titleE_;
  QWidget* boxE_;
  bool running_ = false;
  std::vector<std::shared_ptr<const ReattendOutcome>> past_;
  std::shared_ptr<const ReattendOutcome> outcome_;
  panels::ReattendTable result_;
};

}  // namespace spanscope
