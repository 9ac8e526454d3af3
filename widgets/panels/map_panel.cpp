// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/map_panel.h"

#include <QApplication>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QRegularExpression>
#include <QScrollBar>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "core/report/pictures.h"
#include "widgets/figure/painter.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {

// The threshold that a filter of one term states: "total_reads >= 145".
double thresholdOf(const QString& filter) {
  static const QRegularExpression pattern("^\\s*total_reads\\s*>=?\\s*([0-9]+(\\.[0-9]+)?)\\s*$");
  const auto match = pattern.match(filter);
  return match.hasMatch() ? match.captured(1).toDouble() : -1;
}

}  // namespace

MapView::MapView(Document* document, QWidget* parent) : QAbstractScrollArea(parent), document_(document) {
  setObjectName("mapView");
  setAccessibleName(tr("Spans by turns"));
  setMouseTracking(true);
  viewport()->setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto again = [this] { rebuild(); };
  connect(document, &Document::sessionChanged, this, again);
  connect(document, &Document::measureChanged, this, again);
  connect(document, &Document::strengthChanged, this, again);
  connect(document, &Document::filterChanged, this, again);
  connect(document, &Document::pinsChanged, this, again);
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin origin) {
    rebuild();
    if (origin != Origin::map && !s.spans.empty()) showRow(s.spans.back());
  });
  connect(document, &Document::hoverChanged, this, [this] { viewport()->update(); });
}

void MapView::rebuild() {
  options_.rows.clear();
  options_.marked = document_->selection().spans;
  if (!document_->empty()) {
    const CellTable& table = document_->cells();
    const bool filter = document_->filterActive() && document_->matchingOnly();
    for (size_t i = 0; i < table.rows.size(); ++i)
      if (!filter || document_->matches(table.rows[i])) options_.rows.push_back(i);
    options_.dark = style::dark();
    options_.width = viewport()->width();
    options_.settings = document_->settings();
    options_.read_min = document_->session()->header.read_min();
    options_.threshold = thresholdOf(document_->filterText());
    options_.cursor = document_->turn() >= 0 ? uint32_t(document_->turn()) : kNone32;
    figure_ = build_map_figure(*document_->session(), table, options_);
    const double ratio = devicePixelRatioF();
    // A picture of bounded size: very long maps are painted from the list, clipped, when they scroll.
    if (figure_.list.height * figure_.list.width * ratio * ratio < 4e7) {
      picture_ = QPixmap(QSize(int(figure_.list.width), int(figure_.list.height)) * ratio);
      picture_.setDevicePixelRatio(ratio);
      picture_.fill(style::q(style::colors().panel));
      QPainter painter(&picture_);
      painter.setFont(font());
      paintDisplayList(painter, figure_.list);
    } else {
      picture_ = QPixmap();
    }
    setAccessibleDescription(QString::fromStdString(figure_.list.description));
  } else {
    figure_ = {};
    picture_ = QPixmap();
  }
  verticalScrollBar()->setRange(0, std::max(0, int(figure_.list.height) - viewport()->height()));
  verticalScrollBar()->setPageStep(viewport()->height());
  verticalScrollBar()->setSingleStep(int(options_.row_height * 3));
  viewport()->update();
}

void MapView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  const Palette& p = style::colors();
  painter.fillRect(viewport()->rect(), style::q(p.panel));
  if (document_->empty()) return;
  const int offset = verticalScrollBar()->value();
  if (!picture_.isNull()) {
    painter.drawPixmap(0, -offset, picture_);
  } else {
    painter.translate(0, -offset);
    paintDisplayList(painter, figure_.list);
    painter.translate(0, offset);
  }
  const CellTable& table = document_->cells();
  painter.translate(0, -offset);
  const double w = figure_.column_width(), h = figure_.row_height;
  auto rowOf = [&](SpanId id) {
    for (size_t i = 0; i < options_.rows.size(); ++i)
      if (table.rows[options_.rows[i]] == id) return i;
    return SIZE_MAX;
  };
  const Hover& hover = document_->hover();
  if (hover.turn >= 0 && uint32_t(hover.turn) < figure_.turns) {
    painter.setPen(QPen(style::q(p.crosshair), 1));
    const double x = figure_.turn_x(uint32_t(hover.turn)) + w / 2;
    painter.setOpacity(0.35);
    painter.drawLine(QPointF(x, figure_.cells_y), QPointF(x, figure_.axis_y));
    if (const size_t row = rowOf(hover.span); row != SIZE_MAX) {
      const double y = figure_.cells_y + (double(row) + 0.5) * h;
      painter.drawLine(QPointF(figure_.cells_x, y), QPointF(figure_.cells_x + figure_.cells_w, y));
      painter.setOpacity(1);
      painter.drawRect(QRectF(figure_.turn_x(uint32_t(hover.turn)) - 0.5, figure_.cells_y + double(row) * h, w, h));
    }
    painter.setOpacity(1);
  }
  if (document_->turn() >= 0)
    for (SpanId id : document_->selection().spans)
      if (const size_t row = rowOf(id); row != SIZE_MAX) {
        painter.setPen(QPen(style::q(p.accent), 2));
        painter.setBrush(Qt::NoBrush);
        painter.drawRect(QRectF(figure_.turn_x(uint32_t(document_->turn())) - 1, figure_.cells_y + double(row) * h - 0.5, w + 1, h));
      }
  if (options_.rows.empty()) {
    painter.setPen(style::q(p.textMuted));
    painter.drawText(QRectF(0, figure_.cells_y, viewport()->width(), 40), Qt::AlignCenter,
                     tr("No span matches “%1”. Change the filter, or show All.").arg(document_->filterText()));
  }
}

void MapView::resizeEvent(QResizeEvent*) { rebuild(); }

MapView::Spot MapView::spotAt(const QPoint& pos) const {
  Spot spot;
  if (document_->empty()) return spot;
  const double y = pos.y() + verticalScrollBar()->value(), x = pos.x();
  const size_t row = figure_.row_at(y);
  if (row < options_.rows.size()) spot.row = row;
  spot.turn = figure_.turn_at(x);
  spot.bars = x >= figure_.bars_x - 6;
  spot.label = x < figure_.cells_x - 6;
  return spot;
}

QString MapView::tip(const Spot& spot) const {
  const SessionData& s = *document_->session();
  const CellTable& table = document_->cells();
  if (spot.row == SIZE_MAX) return {};
  const size_t r = options_.rows[spot.row];
  const SpanId id = table.rows[r];
  const Span& span = s.ledger[id];
  QString out = QString("<b>%1 %2</b>").arg(style::spanNumber(id), QString::fromStdString(span.name).toHtmlEscaped());
  out += QString("<br>%1, %2 tokens, since turn %3").arg(QString::fromStdString(span.role)).arg(span.tokens).arg(span.birth + 1);
  if (spot.turn == kNone32) return out;
  const TurnRecord& turn = s.turns[spot.turn];
  const Cell& cell = table.at(r, spot.turn);
  out += tr("<br>Turn %1: ").arg(turn.turn + 1);
  switch (cell.state) {
    case CellState::absent: return out + tr("not in the context");
    case CellState::missing: return out + tr("no answer rows to take it from (open turn)");
    case CellState::idle: return out + tr("idle: nearly all attention went to sinks");
    case CellState::value: break;
  }
  if (document_->measure() == Measure::reads) {
    const TurnReads& reads = document_->history().turns[spot.turn];
    const auto readers = readers_of(s, turn, id, document_->settings().reads);
    out += tr("<b>%1 reads</b> in %2 answer rows%3").arg(int(cell.number)).arg(reads.answer_rows).arg(cell.was_read ? "" : tr(" (scattered)"));
    if (!readers.empty())
      out += tr("<br>%1 heads, most by %2.%3 (%4)").arg(readers.size()).arg(readers[0].layer).arg(readers[0].head).arg(readers[0].reads);
    if (std::isfinite(reads.spike[id])) out += tr("; spike %1").arg(reads.spike[id], 0, 'f', 2);
  } else {
    out += QString("<b>%1 %2</b>").arg(measure_name(document_->measure())).arg(cell.number, 0, 'g', 3);
  }
  if (std::isfinite(table.sink_share[spot.turn])) out += tr("<br>sinks took %1 of all mass").arg(style::percent(table.sink_share[spot.turn], 0));
  if (cell.request) out += tr("<br>the request: the message directly before the answer");
  return out + tr("<br>captured");
}

bool MapView::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::ToolTip && !document_->empty()) {
    const auto* help = static_cast<QHelpEvent*>(event);
    const QString text = tip(spotAt(help->pos()));
    if (text.isEmpty()) QToolTip::hideText();
    else QToolTip::showText(help->globalPos(), text, viewport());
    return true;
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void MapView::dragThreshold(double x) {
  const double part = std::clamp((x - figure_.bars_x) / figure_.bars_w, 0.0, 1.0);
  const int value = int(std::lround(part * figure_.bar_max));
  document_->setFilter(value > 0 ? QString("total_reads >= %1").arg(value) : QString(), Origin::threshold);
}

void MapView::mouseMoveEvent(QMouseEvent* event) {
  if (dragging_) {
    dragThreshold(event->position().x());
    return;
  }
  const Spot spot = spotAt(event->pos());
  Hover hover;
  if (spot.row != SIZE_MAX) hover.span = document_->cells().rows[options_.rows[spot.row]];
  if (spot.turn != kNone32) hover.turn = int(spot.turn);
  document_->setHover(hover);
  viewport()->setCursor(spot.bars && document_->measure() == Measure::reads ? Qt::SizeHorCursor : Qt::ArrowCursor);
}

void MapView::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || document_->empty()) return;
  const Spot spot = spotAt(event->pos());
  if (spot.bars && document_->measure() == Measure::reads) {
    dragging_ = true;
    filterBefore_ = document_->filterText();
    dragThreshold(event->position().x());
    return;
  }
  if (spot.turn != kNone32) document_->setTurn(int(spot.turn), Origin::map);
  if (spot.row != SIZE_MAX) {
    const SpanId id = document_->cells().rows[options_.rows[spot.row]];
    if (event->modifiers() & Qt::ShiftModifier && !document_->selection().spans.empty()) {
      // From the last selected row to this one, in row order.
      const SpanId last = document_->selection().spans.back();
      size_t from = spot.row;
      for (size_t i = 0; i < options_.rows.size(); ++i)
        if (document_->cells().rows[options_.rows[i]] == last) from = i;
      std::vector<SpanId> range;
      for (size_t i = std::min(from, spot.row); i <= std::max(from, spot.row); ++i) range.push_back(document_->cells().rows[options_.rows[i]]);
      if (from > spot.row) std::reverse(range.begin(), range.end());
      document_->selectSpans(range, Origin::map);
    } else {
      document_->select(id, Origin::map, event->modifiers() & Qt::ControlModifier);
    }
  } else if (spot.turn == kNone32) {
    document_->select(kNoSpan, Origin::map);
  }
}

void MapView::mouseReleaseEvent(QMouseEvent*) { dragging_ = false; }
void MapView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (spotAt(event->pos()).row != SIZE_MAX) emit openTranscript();
}
void MapView::leaveEvent(QEvent*) { document_->setHover({}); }

void MapView::wheelEvent(QWheelEvent* event) {
  if (event->modifiers() & Qt::ControlModifier) {
    options_.row_height = std::clamp(options_.row_height + (event->angleDelta().y() > 0 ? 1.0 : -1.0), 3.0, 24.0);
    rebuild();
    event->accept();
    return;
  }
  QAbstractScrollArea::wheelEvent(event);
}

void MapView::fitRows() {
  if (options_.rows.empty()) return;
  const double fixed = figure_.list.height - figure_.row_height * double(options_.rows.size());
  options_.row_height = std::clamp((viewport()->height() - fixed) / double(options_.rows.size()), 3.0, 20.0);
  rebuild();
}

void MapView::showRow(SpanId span) {
  const CellTable& table = document_->cells();
  for (size_t i = 0; i < options_.rows.size(); ++i) {
    if (table.rows[options_.rows[i]] != span) continue;
    const int y = int(figure_.cells_y + double(i) * figure_.row_height), top = verticalScrollBar()->value();
    if (y < top + 20 || y > top + viewport()->height() - 40) verticalScrollBar()->setValue(y - viewport()->height() / 2);
  }
}

void MapView::keyPressEvent(QKeyEvent* event) {
  if (document_->empty() || options_.rows.empty()) return;
  const CellTable& table = document_->cells();
  size_t row = 0;
  const SpanId current = document_->selection().spans.empty() ? kNoSpan : document_->selection().spans.back();
  for (size_t i = 0; i < options_.rows.size(); ++i)
    if (table.rows[options_.rows[i]] == current) row = i;
  auto go = [&](size_t i) {
    document_->select(table.rows[options_.rows[std::min(i, options_.rows.size() - 1)]], Origin::map);
    showRow(document_->selection().spans.back());
  };
  const size_t page = std::max(1, int(viewport()->height() / figure_.row_height) - 2);
  switch (event->key()) {
    case Qt::Key_Down: go(current == kNoSpan ? 0 : row + 1); return;
    case Qt::Key_Up: go(row ? row - 1 : 0); return;
    case Qt::Key_PageDown: go(row + page); return;
    case Qt::Key_PageUp: go(row > page ? row - page : 0); return;
    case Qt::Key_Left: document_->setTurn(document_->turn() - 1, Origin::map); return;
    case Qt::Key_Right: document_->setTurn(document_->turn() + 1, Origin::map); return;
    case Qt::Key_Home: document_->setTurn(0, Origin::map); return;
    case Qt::Key_End: document_->setTurn(int(figure_.turns) - 1, Origin::map); return;
    case Qt::Key_0: fitRows(); return;
    case Qt::Key_Return:
    case Qt::Key_Enter: emit openTranscript(); return;
    case Qt::Key_Escape:
      if (dragging_) {
        dragging_ = false;
        document_->setFilter(filterBefore_, Origin::threshold);
      } else {
        document_->select(kNoSpan, Origin::map);
      }
      return;
    case Qt::Key_BracketLeft:
    case Qt::Key_BracketRight: {
      // The next turn in which the row has a local peak.
      const int step = event->key() == Qt::Key_BracketRight ? 1 : -1;
      const size_t r = options_.rows[row];
      auto value = [&](int t) { return t < 0 || t >= int(table.turns) || table.at(r, uint32_t(t)).state != CellState::value ? -1.0 : table.at(r, uint32_t(t)).number; };
      for (int t = document_->turn() + step; t >= 0 && t < int(table.turns); t += step)
        if (value(t) > 0 && value(t) >= value(t - 1) && value(t) >= value(t + 1)) {
          document_->setTurn(t, Origin::map);
          break;
        }
      return;
    }
    default: QAbstractScrollArea::keyPressEvent(event);
  }
}

MapPanel::MapPanel(Document* document, QWidget* parent) : Panel(document, "mapPanel", tr("Spans × turns"), parent), view_(new MapView(document, this)) {
  body()->addWidget(view_);
  setFocusProxy(view_);
  connect(document, &Document::sessionChanged, this, &MapPanel::describe);
  connect(document, &Document::measureChanged, this, &MapPanel::describe);
  connect(document, &Document::strengthChanged, this, &MapPanel::describe);
  describe();
}

void MapPanel::describe() {
  const auto session = document()->session();
  if (!session) {
    setSubtitle({});
    setProvenance(Provenance::captured, false);
    return;
  }
  const QString shape = tr("%1 × %2 heads").arg(session->header.layers).arg(session->header.query_heads);
  if (document()->measure() == Measure::reads)
    setSubtitle(tr("moments when a head turns to a span; strength %1, answer rows, %2").arg(document()->strength(), 0, 'f', 2).arg(shape));
  else
    setSubtitle(tr("%1 over the rows behind the span (consumer), %2; sinks apart").arg(measure_name(document()->measure()), shape));
  setProvenance(Provenance::captured);
}

QByteArray MapPanel::pictureSvg() const {
  return QByteArray::fromStdString(inline_svg(view_->figure().list, "map", view_->figure().list.description));
}

QImage MapPanel::picturePng(double scale) const {
  const DisplayList& list = view_->figure().list;
  QImage image(QSize(int(list.width * scale), int(list.height * scale)), QImage::Format_ARGB32_Premultiplied);
  image.fill(style::q(style::colors().panel));
  QPainter painter(&image);
  painter.scale(scale, scale);
  painter.setFont(font());
  paintDisplayList(painter, list);
  return image;
}

}  // namespace spanscope
