// SPDX-License-Identifier: GPL-3.0-or-later
// Every span as a bar, most reads first, with a line that can be dragged; below it what the line keeps of reads and of
// tokens. Dragging edits the document's filter live, release commits, Esc restores. UI thread.
#pragma once
#include <QWidget>
#include <vector>

#include "widgets/document/document.h"
#include "widgets/panels/data/threshold_data.h"

class QCustomPlot;
class QCPAxisRect;

namespace spanscope {

// The `total_reads >= N` term of a filter text.
struct ThresholdTerm {
  int at = -1, length = 0;   // of the term in the text; at < 0: none
  qint64 threshold = 0;
  bool others = false;       // the text has more than this term
};
ThresholdTerm thresholdTerm(const QString& filter);
// The text with the term set to `threshold`: replaced, or added with "and".
QString withThreshold(const QString& filter, qint64 threshold);

class ThresholdPlot : public QWidget {
  Q_OBJECT
 public:
  ThresholdPlot(Document* document, QWidget* parent = nullptr);
  ~ThresholdPlot() override;
  const panels::ThresholdData& data() const { return data_; }
  qint64 threshold() const { return threshold_; }
  bool dragging() const { return dragging_; }
  // Where the line lies, in this widget: for tests.
  QPoint linePoint() const;
  int pixelOf(qint64 reads) const;
  void step(int direction);   // to the next span's count: +1 keeps fewer
  void commit(qint64 threshold);
  QByteArray svg(const QString& title) const;
  QImage png(double scale) const;

 signals:
  void dragChanged(bool dragging);
  void committed(qint64 before, qint64 after);  // for the undo stack

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  enum class Grip : uint8_t { none, line, rank };
  void reload();
  void readFilter();
  void redraw();
  void placeFloating();
  void drag(const QPoint& pos, Qt::KeyboardModifiers modifiers);
  void endDrag(bool keep);
  Grip gripAt(const QPoint& pos) const;
  int spanAt(const QPoint& pos) const;
  void showTip(const QPoint& pos);
  void menu(const QPoint& global);
  static double height(qint64 reads);
  static qint64 readsAt(double y);

  Document* document_;
  QCustomPlot* plot_;
  QCPAxisRect *upper_, *lower_;
  panels::ThresholdData data_;
  qint64 threshold_ = 0, saved_ = 0;
  bool hasTerm_ = false;
  std::vector<uint8_t> savedIn_;  // [spans of data_] in the view when the drag began
  bool dragging_ = false;
  Grip grip_ = Grip::none;
  QString filterBefore_;
  struct Floating;
  std::unique_ptr<Floating> floating_;
};

}  // namespace spanscope
