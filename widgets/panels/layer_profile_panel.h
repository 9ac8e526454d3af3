// SPDX-License-Identifier: GPL-3.0-or-later
// The selection's share of attention, layer by layer, over answer or consumer rows of the turn. UI thread.
#pragma once
#include <vector>

#include "widgets/panels/panel.h"

namespace spanscope {

class FigureCanvas;
class Segments;
class StateNote;

class LayerProfilePanel : public Panel {
  Q_OBJECT
 public:
  LayerProfilePanel(Document* document, QWidget* parent = nullptr);
  // [layers] share of all mass of the rows; NaN: missing. For tests.
  const std::vector<double>& shares() const { return shares_; }
  const std::vector<uint32_t>& reads() const { return reads_; }
  bool hasPicture() const override { return true; }
  QByteArray pictureSvg() const override;
  QImage picturePng(double scale) const override;

 private:
  void reload();
  std::vector<double> shares_;
  std::vector<uint32_t> reads_;
  FigureCanvas* canvas_;
  StateNote* empty_;
  QWidget* page_;
  Segments* rows_;
};

// Share per layer of some spans in one turn: mass of the rows over rows x heads. consumer of several spans is their sum
// over each one's own consumer rows. NaN where there are no rows.
std::vector<double> layer_shares(const SessionData& session, const TurnRecord& turn, const std::vector<SpanId>& spans, bool consumer);

}  // namespace spanscope
