// SPDX-License-Identifier: GPL-3.0-or-later
// Mouse and keys of the map.
#include <QAccessible>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <algorithm>
#include <cmath>

#include "widgets/panels/map_tip.h"
#include "widgets/panels/map_view.h"
#include "widgets/plots/threshold_plot.h"
#include "widgets/style/style.h"

namespace spanscope {

MapView::Spot MapView::spotAt(const QPoint& pos) const {
  Spot spot;
  if (document_->empty()) return spot;
  const size_t row = figure_.row_at(pos.y());
  if (row < options_.rows.size()) spot.row = row;
  spot.column = figure_.column_at(pos.x());
  spot.turn = figure_.turn_at(pos.x());
  spot.bars = pos.x() >= figure_.bars_x - 6 && pos.y() >= figure_.cells_y - 6 && pos.y() < figure_.rows_end + 16;
  return spot;
}

SpanId MapView::spanOf(const Spot& spot) const {
  return spot.row < options_.rows.size() ? document_->cells().rows[options_.rows[spot.row]] : kNoSpan;
}

void MapView::showTip(const Spot& spot, const QPoint& pos) {
  const SpanId span = spanOf(spot);
  if (span == kNoSpan) {
    tip_->hide();
    return;
  }
  tip_->say(*document_, span, spot.turn, spot.column == kNone32 ? 0 : figure_.first_turn + spot.column + 1);
  tip_->place(pos);
}

bool MapView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::Leave) {
    tip_->hide();
    document_->setHover({});
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void MapView::dragThreshold(double x) {
  const double part = std::clamp((x - figure_.bars_x) / figure_.bars_w, 0.0, 1.0);
  const qint64 value = std::llround(part * figure_.bar_max);
  document_->setFilter(withThreshold(document_->filterText(), value), Origin::threshold);
}

void MapView::endDrag(bool keep) {
  dragging_ = false;
  if (!keep) document_->setFilter(filterBefore_, Origin::threshold);
}

void MapView::mouseMoveEvent(QMouseEvent* event) {
  if (document_->empty()) return;
  if (dragging_) {
    dragThreshold(event->position().x());
    return;
  }
  const Spot spot = spotAt(event->pos());
  Hover hover;
  hover.span = spanOf(spot);
  if (spot.turn != kNone32) hover.turn = int(spot.turn);
  document_->setHover(hover);
  const bool grip = spot.bars && document_->measure() == Measure::reads;
  viewport()->setCursor(grip ? Qt::SizeHorCursor : Qt::ArrowCursor);
  showTip(spot, event->pos());
}

void MapView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || document_->empty()) return;
  const Spot spot = spotAt(event->pos());
  if (spot.bars && document_->measure() == Measure::reads) {
    dragging_ = true;
    tip_->hide();
    filterBefore_ = document_->filterText();
    dragThreshold(event->position().x());
    return;
  }
  if (spot.turn != kNone32) document_->setTurn(int(spot.turn), Origin::map);
  const SpanId id = spanOf(spot);
  if (id == kNoSpan) {
    if (spot.turn == kNone32) document_->select(kNoSpan, Origin::map);
    return;
  }
  if (event->modifiers() & Qt::ShiftModifier && !document_->selection().spans.empty()) {
    // From the last selected row to this one, in row order.
    size_t from = rowOf(document_->selection().spans.back());
    if (from == SIZE_MAX) from = spot.row;
    std::vector<SpanId> range;
    for (size_t i = std::min(from, spot.row); i <= std::max(from, spot.row); ++i) range.push_back(document_->cells().rows[options_.rows[i]]);
    if (from > spot.row) std::reverse(range.begin(), range.end());
    document_->selectSpans(range, Origin::map);
  } else {
    document_->select(id, Origin::map, event->modifiers() & Qt::ControlModifier);
  }
}

void MapView::mouseReleaseEvent(QMouseEvent*) {
  if (dragging_) endDrag(true);
}
void MapView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (spotAt(event->pos()).row != SIZE_MAX) emit openTranscript();
}

void MapView::wheelEvent(QWheelEvent* event) {
  if (event->modifiers() & Qt::ControlModifier) {
    zoomRows(event->angleDelta().y() > 0 ? 1.0 : -1.0);
    event->accept();
    return;
  }
  QAbstractScrollArea::wheelEvent(event);
}

void MapView::keyPressEvent(QKeyEvent* event) {
  if (document_->empty()) return;
  if (event->key() == Qt::Key_Escape) {
    if (dragging_) endDrag(false);
    else if (document_->hover().span != kNoSpan || tip_->isVisible()) {
      tip_->hide();
      document_->setHover({});
    } else {
      document_->select(kNoSpan, Origin::map);
    }
    return;
  }
  if (options_.rows.empty()) return QAbstractScrollArea::keyPressEvent(event);
  const CellTable& table = document_->cells();
  const SpanId current = document_->selection().spans.empty() ? kNoSpan : document_->selection().spans.back();
  const size_t at = rowOf(current), row = at == SIZE_MAX ? 0 : at;
  const auto speak = [this] {
    QAccessibleEvent changed(this, QAccessible::DescriptionChanged);
    QAccessible::updateAccessibility(&changed);
  };
  const auto go = [&](size_t i) {
    const SpanId id = table.rows[options_.rows[std::min(i, options_.rows.size() - 1)]];
    document_->select(id, Origin::map, event->modifiers() & Qt::ShiftModifier && !document_->selection().contains(id));
    showRow(id);
    speak();
  };
  const auto turn = [&](int t) {
    document_->setTurn(t, Origin::map);
    speak();
  };
  const size_t page = size_t(std::max(1, verticalScrollBar()->pageStep() - 1));
  switch (event->key()) {
    case Qt::Key_Down: go(at == SIZE_MAX ? 0 : row + 1); return;
    case Qt::Key_Up: go(row ? row - 1 : 0); return;
    case Qt::Key_PageDown: go(row + page); return;
    case Qt::Key_PageUp: go(row > page ? row - page : 0); return;
    case Qt::Key_Left: turn(document_->turn() - 1); return;
    case Qt::Key_Right: turn(document_->turn() + 1); return;
    case Qt::Key_Home: turn(0); return;
    case Qt::Key_End: turn(int(figure_.turns) - 1); return;
    case Qt::Key_0: fitRows(); return;
    case Qt::Key_P:
      if (current != kNoSpan) document_->togglePin(current);
      return;
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (event->modifiers() & Qt::ShiftModifier) emit openSlices();
      else emit openTranscript();
      return;
    case Qt::Key_BracketLeft:
    case Qt::Key_BracketRight: {
      // The next turn in which the row has a local peak.
      const int step = event->key() == Qt::Key_BracketRight ? 1 : -1;
      const size_t r = options_.rows[row];
      const auto value = [&](int t) { return t < 0 || t >= int(table.turns) || table.at(r, uint32_t(t)).state != CellState::value ? -1.0 : table.at(r, uint32_t(t)).number; };
      for (int t = document_->turn() + step; t >= 0 && t < int(table.turns); t += step)
        if (value(t) > 0 && value(t) >= value(t - 1) && value(t) >= value(t + 1)) {
          turn(t);
          break;
        }
      return;
    }
    default: QAbstractScrollArea::keyPressEvent(event);
  }
}

}  // namespace spanscope
