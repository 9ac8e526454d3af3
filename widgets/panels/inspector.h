// SPDX-License-Identifier: GPL-3.0-or-later
// Everything about the selected span: head, text, how much it was read at the turn cursor and over the session, reads by
// layer. Several spans: a table of them and their sum. UI thread.
#pragma once
#include <QScrollArea>

#include "core/record/units.h"
#include "widgets/panels/number_rows.h"
#include "widgets/panels/panel.h"

namespace spanscope {

class Inspector : public Panel {
  Q_OBJECT
 public:
  Inspector(Document* document, QWidget* parent = nullptr);
  // The reads at the turn cursor as shown, for tests and copying.
  QString shownReads() const { return reads_; }
  QString sentence() const { return sentence_; }

 protected:
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void rebuild();
  void addEmpty(QVBoxLayout* column, QWidget* form);
  void addHead(QVBoxLayout* column, QWidget* form, SpanId id);
  void addText(QVBoxLayout* column, QWidget* form, SpanId id);
  void addNumbers(QVBoxLayout* column, QWidget* form, SpanId id);
  void addSeveral(QVBoxLayout* column, QWidget* form);
  void addLayers(QVBoxLayout* column, QWidget* form);
  void addActions(QVBoxLayout* column, QWidget* form, SpanId id);
  const Sums& wholeSums(SpanId id);  // over all turns

  QScrollArea* area_;
  QString reads_, sentence_;
  bool stale_ = true, tight_ = false;
  SpanId wholeOf_ = kNoSpan;
  RowSet wholeRows_ = RowSet::consumer;
  const SessionData* wholeSession_ = nullptr;
  Sums whole_;
};

}  // namespace spanscope
