// SPDX-License-Identifier: GPL-3.0-or-later
// Layers x heads: which heads read the selected spans at the turn, or for the selected words; beside it what one head
// read and who the readers are. UI thread.
#pragma once
#include "core/report/figure/head_grid_figure.h"
#include "widgets/panels/panel.h"

class QComboBox;

namespace spanscope {

class FigureCanvas;
class RowTable;
class SectionHeader;
class Segments;
class StateNote;

class HeadGridPanel : public Panel {
  Q_OBJECT
 public:
  HeadGridPanel(Document* document, QWidget* parent = nullptr);
  const HeadGrid& grid() const { return grid_; }
  FigureCanvas* canvas() const { return canvas_; }
  RowTable* readerTable() const { return readers_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;
  // Plain text of the hover, for the tooltip and for tests.
  QString why(int layer, int column) const;

 private:
  void reload();
  void fillReaders();
  void fillHead();
  void retitle();
  void onHover(quint64 id, const QPoint& pos);
  void onClick(quint64 id);

  HeadGrid grid_;
  HeadGridPicture picture_;
  FigureCanvas* canvas_;
  StateNote* empty_;
  QWidget* page_;
  QLabel *of_, *legendLeft_, *legendRight_;
  Segments* mode_;
  SectionHeader *headHeader_, *readersHeader_;
  RowTable *headReads_, *readers_;
};

}  // namespace spanscope
