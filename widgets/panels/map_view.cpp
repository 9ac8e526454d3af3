// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/map_view.h"

#include <QEvent>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QScrollBar>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "widgets/figure/painter.h"
#include "widgets/panels/map_tip.h"
#include "widgets/plots/threshold_plot.h"
#include "widgets/style/style.h"

namespace spanscope {
namespace {
constexpr double kLeastRow = 11.5, kMostRow = 20, kFixed = 170;  // kFixed: what stands above and below the rows
}

MapView::MapView(Document* document, QWidget* parent) : QAbstractScrollArea(parent), document_(document), tip_(new MapTip(this)) {
  setObjectName("mapView");
  setAccessibleName(tr("Spans by turns, reads"));
  setMouseTracking(true);
  viewport()->setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  nothing_ = new QWidget(viewport());
  auto* column = new QVBoxLayout(nothing_);
  auto* title = new QLabel(tr("No span matches"), nothing_);
  title->setObjectName("strong");
  title->setAlignment(Qt::AlignCenter);
  auto* what = new QLabel(nothing_);
  what->setObjectName("nothingText");
  what->setWordWrap(true);
  what->setAlignment(Qt::AlignCenter);
  clear_ = new QPushButton(tr("Clear filter"), nothing_);
  clear_->setObjectName("clearFilter");
  connect(clear_, &QPushButton::clicked, this, [this] { document_->setFilter({}, Origin::map); });
  column->addWidget(title);
  column->addWidget(what);
  column->addWidget(clear_, 0, Qt::AlignCenter);
  nothing_->hide();

  connect(document, &Document::sessionChanged, this, [this] {
    zoom_ = 0;
    tip_->hide();
    {
      const QSignalBlocker block(verticalScrollBar());  // its redraw would pair the new session with the old rows
      verticalScrollBar()->setValue(0);
    }
    rebuild();
  });
  connect(document, &Document::measureChanged, this, &MapView::rebuild);
  connect(document, &Document::strengthChanged, this, &MapView::rebuild);
  connect(document, &Document::filterChanged, this, &MapView::rebuild);
  connect(document, &Document::pinsChanged, this, &MapView::rebuild);
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin origin) {
    rebuild();
    if (origin != Origin::map && !s.spans.empty()) showRow(s.spans.back());
    setAccessibleDescription(s.spans.empty() ? QString::fromStdString(figure_.list.description) : cellText(s.spans.back(), s.turn));
  });
  connect(document, &Document::hoverChanged, this, [this] { viewport()->update(); });
  connect(verticalScrollBar(), &QScrollBar::valueChanged, this, [this] { redraw(); });
}

void MapView::setOrder(Order order) {
  order_ = order;
  rebuild();
}
void MapView::setLegendLeft(double x) {
  options_.legend_left = x;
  rebuild();
}

void MapView::collectRows() {
  options_.rows.clear();
  options_.dimmed.clear();
  const CellTable& table = document_->cells();
  const bool active = document_->filterActive();
  options_.filtered = active && document_->matchingOnly();
  for (size_t i = 0; i < table.rows.size(); ++i)
    if (!options_.filtered || document_->matches(table.rows[i])) options_.rows.push_back(i);
  if (active && !options_.filtered) {
    options_.dimmed.assign(table.rows.size(), 0);
    for (size_t i = 0; i < table.rows.size(); ++i) options_.dimmed[i] = !document_->matches(table.rows[i]);
  }
  if (order_ == Order::position) return;
  const ReadHistory& history = document_->history();
  const SessionData& s = *document_->session();
  std::stable_sort(options_.rows.begin(), options_.rows.end(), [&](size_t a, size_t b) {
    const SpanId x = table.rows[a], y = table.rows[b];
    switch (order_) {
      case Order::reads: return history.total_reads[x] > history.total_reads[y];
      case Order::lastRead: return history.last_read[x] > history.last_read[y];
      default: return s.ledger[x].role < s.ledger[y].role;
    }
  });
}

void MapView::rebuild() {
  if (!document_->empty()) {
    collectRows();
    options_.dark = style::dark();
    options_.width = viewport()->width();
    options_.height = viewport()->height();
    options_.settings = document_->settings();
    options_.read_min = document_->session()->header.read_min();
    const ThresholdTerm term = thresholdTerm(document_->filterText());
    options_.threshold = document_->measure() == Measure::reads && term.at >= 0 ? double(term.threshold) : -1;
    options_.cursor = document_->turn() >= 0 ? uint32_t(document_->turn()) : kNone32;
    options_.marked = document_->selection().spans;
    options_.pinned = document_->pins();
    const double room = viewport()->height() - kFixed;
    options_.row_height = zoom_ > 0 ? zoom_ : std::clamp(std::floor(2 * room / double(std::max<size_t>(1, options_.rows.size()))) / 2, kLeastRow, viewport()->height() > 900 ? 16.0 : 14.0);
    const int fit = std::max(1, int(room / options_.row_height));
    const QSignalBlocker block(verticalScrollBar());
    verticalScrollBar()->setRange(0, std::max(0, int(options_.rows.size()) - fit));
    verticalScrollBar()->setPageStep(fit);
    verticalScrollBar()->setSingleStep(options_.row_height < 1 ? fit / 8 + 1 : 3);
  } else {
    options_.rows.clear();
    verticalScrollBar()->setRange(0, 0);
  }
  const bool none = !document_->empty() && options_.rows.empty();
  nothing_->setVisible(none);
  if (none) {
    nothing_->findChild<QLabel*>("nothingText")->setText(tr("%1\nNone of %2 spans.%3").arg(document_->filterText()).arg(document_->cells().rows.size())
                                                             .arg(document_->filterError().isEmpty() ? QString() : tr(" The last text that could be used stays in force.")));
    nothing_->setGeometry(viewport()->width() / 2 - 190, viewport()->height() / 2 - 60, 380, 130);
  }
  redraw();
}

void MapView::redraw() {
  if (document_->empty()) {
    figure_ = {};
    picture_ = QPixmap();
  } else {
    options_.first_row = size_t(verticalScrollBar()->value());
    figure_ = build_map_figure(*document_->session(), document_->cells(), options_);
    const double ratio = devicePixelRatioF();
    picture_ = QPixmap((QSizeF(viewport()->size()) * ratio).toSize());
    picture_.setDevicePixelRatio(ratio);
    picture_.fill(style::q(style::colors().panel));
    QPainter painter(&picture_);
    painter.setFont(font());
    paintDisplayList(painter, figure_.list);
  }
  viewport()->update();
  emit figureChanged();
}

DisplayList MapView::wholeFigure() const {
  if (document_->empty()) return {};
  MapFigureOptions all = options_;
  all.height = 0;
  all.first_row = 0;
  all.legend_left = 8;
  return build_map_figure(*document_->session(), document_->cells(), all).list;
}

size_t MapView::rowOf(SpanId id) const {
  const CellTable& table = document_->cells();
  for (size_t i = 0; i < options_.rows.size(); ++i)
    if (table.rows[options_.rows[i]] == id) return i;
  return SIZE_MAX;
}

void MapView::paintEvent(QPaintEvent*) {
  QPainter painter(viewport());
  const Palette& p = style::colors();
  if (document_->empty() || picture_.isNull()) {
    painter.fillRect(viewport()->rect(), style::q(p.panel));
    return;
  }
  painter.drawPixmap(0, 0, picture_);
  const double w = figure_.column_width(), h = figure_.row_height;
  const auto shown = [&](size_t row) { return row != SIZE_MAX && row >= figure_.first_row && row < figure_.first_row + figure_.shown_rows; };
  const Hover& hover = document_->hover();
  const auto mark = [&](SpanId span, int turn, const QColor& ink) {
    const size_t row = rowOf(span);
    if (turn < 0 || uint32_t(turn) >= figure_.turns || !shown(row)) return;
    painter.setPen(QPen(ink, 2));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(QRectF(figure_.turn_x(uint32_t(turn)) - 1, figure_.row_y(row) - 1, std::max(4.0, w + 1), std::max(4.0, h + 1)));
  };
  if (hover.turn >= 0 && uint32_t(hover.turn) < figure_.turns) {
    QColor ink = style::q(p.crosshair);
    ink.setAlphaF(0.55f);
    painter.setPen(QPen(ink, 1));
    const double x = std::floor(figure_.turn_x(uint32_t(hover.turn)) + w / 2) + 0.5;
    painter.drawLine(QPointF(x, 32), QPointF(x, figure_.rows_end));
    if (const size_t row = rowOf(hover.span); shown(row)) {
      const double y = std::floor(figure_.row_y(row) + h / 2) + 0.5;
      painter.drawLine(QPointF(figure_.cells_x - 6, y), QPointF(figure_.cells_x + figure_.cells_w, y));
      mark(hover.span, hover.turn, style::q(p.crosshair));
    }
  }
  if (document_->selection().spans.size() < 64)
    for (SpanId id : document_->selection().spans) mark(id, document_->turn(), style::q(p.accent));
}

void MapView::resizeEvent(QResizeEvent*) {
  // A selected row that was in sight stays there.
  const SpanId selected = document_->selection().spans.empty() ? kNoSpan : document_->selection().spans.back();
  const size_t row = selected == kNoSpan || document_->empty() ? SIZE_MAX : rowOf(selected);
  const bool seen = row != SIZE_MAX && row >= figure_.first_row && row < figure_.first_row + std::max<size_t>(1, figure_.shown_rows);
  rebuild();
  if (seen) showRow(selected);
}

void MapView::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) rebuild();
}

void MapView::fitRows() {
  if (options_.rows.empty()) return;
  zoom_ = std::clamp((viewport()->height() - kFixed) / double(options_.rows.size()), 1.0 / 64, kMostRow);
  verticalScrollBar()->setValue(0);
  rebuild();
}

void MapView::zoomRows(double by) {
  zoom_ = std::clamp(options_.row_height + by, 2.0, kMostRow + 4);
  rebuild();
}

void MapView::showRow(SpanId span) {
  const size_t row = rowOf(span);
  if (row == SIZE_MAX) return;
  QScrollBar* bar = verticalScrollBar();
  const int page = bar->pageStep();
  if (int(row) >= bar->value() && int(row) < bar->value() + page) return;
  bar->setValue(int(row) < bar->value() ? int(row) - 1 : std::min(int(row), int(row) - page + 2));
}

QString MapView::cellText(SpanId span, int turn) const {
  const SessionData& s = *document_->session();
  const CellTable& table = document_->cells();
  const auto row = std::find(table.rows.begin(), table.rows.end(), span);
  if (row == table.rows.end() || turn < 0 || uint32_t(turn) >= table.turns) return style::spanNumber(span);
  const Cell& cell = table.at(size_t(row - table.rows.begin()), uint32_t(turn));
  QString what;
  switch (cell.state) {
    case CellState::absent: what = tr("not in the context"); break;
    case CellState::missing: what = tr("not captured"); break;
    case CellState::idle: what = tr("idle"); break;
    case CellState::value: what = measureValue(cell.number, document_->measure()) + tr(", captured"); break;
  }
  return tr("%1, turn %2, %3").arg(style::spanNumber(span)).arg(s.turns[size_t(turn)].turn + 1).arg(what);
}

}  // namespace spanscope
