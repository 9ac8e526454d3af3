// SPDX-License-Identifier: GPL-3.0-or-later
// Expert picks: lanes by turn of one layer, counts by layer of the selection, prefill and decode apart. Locked when the
// session has no routing. UI thread.
#pragma once
#include "widgets/panels/data/expert_data.h"
#include "widgets/panels/panel.h"

class QComboBox;

namespace spanscope {

class FigureCanvas;
class RowTable;
class SectionHeader;
class StateNote;

class ExpertsPanel : public Panel {
  Q_OBJECT
 public:
  ExpertsPanel(Document* document, QWidget* parent = nullptr);
  bool locked() const;
  QString lockText() const;
  const panels::ExpertLanes& lanes() const { return lanes_; }
  const panels::ExpertCounts& counts() const { return counts_; }
  bool hasPicture() const override { return !locked(); }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 private:
  void newSession();
  void reload();
  void fillTable();
  void hoverLanes(quint64 id, const QPoint& pos);
  void hoverCounts(quint64 id, const QPoint& pos);
  int layer() const;

  panels::ExpertLanes lanes_;
  panels::ExpertCounts counts_;
  std::vector<uint32_t> layers_;
  StateNote* lock_;
  QWidget* page_;
  QComboBox* layerCombo_;
  FigureCanvas *laneView_, *countView_;
  SectionHeader *laneHeader_, *countHeader_, *tableHeader_;
  RowTable* table_;
  QLabel* sure_;
};

}  // namespace spanscope
