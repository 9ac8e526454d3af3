// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/plots/threshold_plot.h"

#include <QInputDialog>
#include <QMenu>
#include <QRegularExpression>
#include <QToolTip>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "widgets/plots/plot_kit.h"

namespace spanscope {
namespace {

constexpr double kOne = 1.1;  // height of one read: 0 stands on the axis, below the first count
constexpr int kGrab = 7;

const QRegularExpression& termPattern() {
  static const QRegularExpression pattern(R"(\btotal_reads\s*(>=|>)\s*(\d+))");
  return pattern;
}

class ReadsTicker : public QCPAxisTicker {
 public:
  qint64 most = 0;
  double line = -1;  // the label under the handle gives way

 protected:
  QVector<double> createTickVector(double, const QCPRange&) override {
    QVector<double> ticks{0};
    for (qint64 v = 1; v <= std::max<qint64>(1, most); v *= 4) ticks << kOne + std::log2(double(v));
    return ticks;
  }
  QString getTickLabel(double tick, const QLocale&, QChar, int) override {
    if (std::abs(tick - line) < 0.55) return {};
    return tick < kOne / 2 ? QString("0") : count(qint64(std::llround(std::exp2(tick - kOne))));
  }
  int getSubTickCount(double) override { return 0; }
};

class PercentTicker : public QCPAxisTicker {
 protected:
  QVector<double> createTickVector(double, const QCPRange&) override { return {0, 0.25, 0.5, 0.75, 1}; }
  QString getTickLabel(double tick, const QLocale&, QChar, int) override { return wholePercent(tick); }
  int getSubTickCount(double) override { return 0; }
};

class RankTicker : public QCPAxisTicker {
 public:
  size_t spans = 0;

 protected:
  QVector<double> createTickVector(double, const QCPRange&) override {
    QVector<double> ticks;
    if (spans < 2) return ticks;
    for (int i = 1; i <= 4; ++i) ticks << std::floor(double(spans) * i / 4) - 1;
    return ticks;
  }
  QString getTickLabel(double tick, const QLocale&, QChar, int) override { return count(qint64(tick) + 1); }
  int getSubTickCount(double) override { return 0; }
};

QBrush stripes(const QColor& ink, const QColor& back) {
  QPixmap tile(4, 4);
  tile.fill(back);
  QPainter p(&tile);
  p.setPen(QPen(ink, 1.4));
  p.drawLine(0, 2, 4, 2);
  return QBrush(tile);
}

}  // namespace

// Items whose place depends on the laid out axis rects.
struct ThresholdPlot::Floating {
  QCPItemLine* line = nullptr;
  QCPItemTracer* handle = nullptr;
  QCPItemLine *rankUpper = nullptr, *rankLower = nullptr;
  QCPItemRect* box = nullptr;
  QCPItemText *boxTerm = nullptr, *boxCount = nullptr, *readsText = nullptr, *tokensText = nullptr, *savedText = nullptr;
  QCPItemText* never = nullptr;
};

ThresholdTerm thresholdTerm(const QString& filter) {
  ThresholdTerm t;
  const auto match = termPattern().match(filter);
  if (!match.hasMatch()) {
    t.others = !filter.trimmed().isEmpty();
    return t;
  }
  t.at = int(match.capturedStart());
  t.length = int(match.capturedLength());
  t.threshold = match.captured(2).toLongLong() + (match.captured(1) == ">" ? 1 : 0);
  QString rest = filter;
  rest.remove(t.at, t.length);
  t.others = !rest.trimmed().isEmpty();
  return t;
}

QString withThreshold(const QString& filter, qint64 threshold) {
  const QString term = QString("total_reads >= %1").arg(threshold);
  const ThresholdTerm old = thresholdTerm(filter);
  if (old.at >= 0) return QString(filter).replace(old.at, old.length, term);
  if (!old.others) return term;
  return "(" + filter.trimmed() + ") and " + term;
}

double ThresholdPlot::height(qint64 reads) { return reads < 1 ? 0 : kOne + std::log2(double(reads)); }
qint64 ThresholdPlot::readsAt(double y) { return y < kOne / 2 ? 0 : std::max<qint64>(1, std::llround(std::exp2(y - kOne))); }

ThresholdPlot::ThresholdPlot(Document* document, QWidget* parent)
    : QWidget(parent), document_(document), plot_(new QCustomPlot(this)), floating_(std::make_unique<Floating>()) {
  setObjectName("thresholdPlot");
  setAccessibleName(tr("Spans sorted by total reads, with threshold"));
  setFocusPolicy(Qt::StrongFocus);
  auto* box = new QVBoxLayout(this);
  box->setContentsMargins(6, 0, 8, 4);
  box->addWidget(plot_);
  plot_->setObjectName("thresholdCanvas");
  plot_->setMouseTracking(true);
  plot_->setFocusProxy(this);
  plot_->installEventFilter(this);
  plot_->setMinimumSize(260, 200);
  plot_->plotLayout()->clear();
  upper_ = new QCPAxisRect(plot_, true);
  lower_ = new QCPAxisRect(plot_, true);
  plot_->plotLayout()->addElement(0, 0, upper_);
  plot_->plotLayout()->addElement(1, 0, lower_);
  plot_->plotLayout()->setRowStretchFactor(0, 1.3);
  plot_->plotLayout()->setRowSpacing(4);
  auto* margins = new QCPMarginGroup(plot_);
  for (auto* rect : {upper_, lower_}) {
    rect->setMarginGroup(QCP::msLeft | QCP::msRight, margins);
    rect->setMinimumMargins(QMargins(30, 8, 16, 0));
    for (auto* axis : rect->axes()) axis->setLayer("axes");
    for (auto* axis : rect->axes()) axis->grid()->setLayer("grid");
  }
  connect(upper_->axis(QCPAxis::atBottom), qOverload<const QCPRange&>(&QCPAxis::rangeChanged), lower_->axis(QCPAxis::atBottom),
          qOverload<const QCPRange&>(&QCPAxis::setRange));
  connect(plot_, &QCustomPlot::afterLayout, this, [this] { placeFloating(); });

  connect(document, &Document::sessionChanged, this, [this] { reload(); });
  connect(document, &Document::strengthChanged, this, [this] { reload(); });
  connect(document, &Document::filterChanged, this, [this](Origin origin) {
    readFilter();
    if (!dragging_ && origin != Origin::threshold) saved_ = threshold_;
    redraw();
  });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) { redraw(); });
  reload();
}

ThresholdPlot::~ThresholdPlot() = default;

void ThresholdPlot::reload() {
  const auto session = document_->session();
  data_ = session ? panels::threshold_data(*session, document_->history(), spans_at_level(*session, Level::message)) : panels::ThresholdData{};
  readFilter();
  if (!dragging_) saved_ = threshold_;
  redraw();
}

void ThresholdPlot::readFilter() {
  const ThresholdTerm term = thresholdTerm(document_->filterText());
  hasTerm_ = term.at >= 0;
  threshold_ = hasTerm_ ? term.threshold : 0;
  if (!dragging_) {
    savedIn_.assign(data_.spans.size(), 0);
    for (size_t i = 0; i < data_.spans.size(); ++i) savedIn_[i] = document_->matches(data_.spans[i]);
  }
}

void ThresholdPlot::redraw() {
  const PanelColors& c = panelColors();
  plot_->clearPlottables();
  plot_->clearItems();
  *floating_ = {};
  plot_->setBackground(QBrush(c.panel));
  QCPAxis *rank = upper_->axis(QCPAxis::atBottom), *reads = upper_->axis(QCPAxis::atLeft);
  QCPAxis *rank2 = lower_->axis(QCPAxis::atBottom), *part = lower_->axis(QCPAxis::atLeft);
  for (auto* rect : {upper_, lower_}) {
    plots::styleRect(rect);
    plots::styleAxis(rect->axis(QCPAxis::atBottom), false);
    plots::styleAxis(rect->axis(QCPAxis::atLeft), true);
    rect->axis(QCPAxis::atLeft)->setBasePen(Qt::NoPen);
    rect->axis(QCPAxis::atTop)->setVisible(false);
    rect->axis(QCPAxis::atRight)->setVisible(false);
  }
  const size_t n = data_.spans.size();
  auto ranks = QSharedPointer<RankTicker>::create();
  ranks->spans = n;
  rank->setTicker(ranks);
  rank2->setTicker(ranks);
  rank2->setTickLabels(false);
  rank2->setBasePen(Qt::NoPen);
  auto ticks = QSharedPointer<ReadsTicker>::create();
  ticks->most = data_.most();
  ticks->line = hasTerm_ ? height(threshold_) : -1;
  reads->setTicker(ticks);
  part->setTicker(QSharedPointer<PercentTicker>::create());
  rank->setRange(-0.5, std::max<double>(1, double(n)) - 0.5);
  reads->setRange(0, std::max(4.0, height(data_.most()) * 1.08 + 0.4));
  part->setRange(-0.02, 1.04);
  if (n == 0) {
    plot_->replot(QCustomPlot::rpQueuedReplot);
    return;
  }

  // Bars by what they are: in the view by role, leaving, entering, outside.
  struct Group {
    QVector<double> x, y;
  };
  std::map<QString, Group> inView;
  Group leaving, entering, outside;
  const auto session = document_->session();
  for (size_t i = 0; i < n; ++i) {
    const bool in = document_->matches(data_.spans[i]);
    const bool was = dragging_ ? savedIn_[i] : in;
    Group& g = in && !was ? entering : in ? inView[spanRole(*session, data_.spans[i])] : was ? leaving : outside;
    g.x << double(i);
    g.y << height(data_.reads[i]);
  }
  const double width = n > 400 ? 1.0 : 0.86;
  const auto bars = [&](const Group& g, const QBrush& brush) {
    if (g.x.isEmpty()) return;
    auto* b = new QCPBars(rank, reads);
    b->setAntialiased(false);
    b->setWidth(width);
    b->setPen(Qt::NoPen);
    b->setBrush(brush);
    b->setData(g.x, g.y, true);
  };
  bars(outside, c.border);
  for (const auto& [role, g] : inView) bars(g, c.role(role));
  bars(leaving, stripes(c.threshold, c.panel));
  bars(entering, stripes(c.ok, c.panel));

  // What the line keeps, along the same ranks.
  QVector<double> x, readsKept, tokensKept;
  for (size_t k = 0; k <= n; ++k) {
    x << double(k) - 0.5;
    readsKept << (data_.reads_sum.back() ? double(data_.reads_sum[k]) / double(data_.reads_sum.back()) : 0);
    tokensKept << (data_.tokens_sum.back() ? double(data_.tokens_sum[k]) / double(data_.tokens_sum.back()) : 0);
  }
  auto* tokensGraph = plot_->addGraph(rank2, part);
  QPen dashed(c.textMuted, 1.6, Qt::CustomDashLine);
  dashed.setDashPattern({4, 2});
  tokensGraph->setPen(dashed);
  tokensGraph->setData(x, tokensKept, true);
  auto* readsGraph = plot_->addGraph(rank2, part);
  readsGraph->setPen(QPen(c.accent, 2.2));
  readsGraph->setData(x, readsKept, true);

  const auto text = [&](QCPAxisRect* rect, const QString& s, const QColor& ink, Qt::Alignment align, bool strong = false) {
    auto* t = new QCPItemText(plot_);
    t->setText(s);
    t->setColor(ink);
    t->setFont(sized(font(), 0.9, strong));
    t->setPositionAlignment(align);
    t->setClipToAxisRect(false);
    t->position->setAxisRect(rect);
    t->position->setAxes(rect->axis(QCPAxis::atBottom), rect->axis(QCPAxis::atLeft));
    return t;
  };
  const auto atRank = [&](double part_) { return std::min(n, size_t(part_ * double(n))); };
  const panels::Kept kept = panels::kept_at(data_, threshold_);
  const auto away = [&](double part_) {  // not where the numbers of the cut stand
    const double at = n ? double(kept.spans) / double(n) : 0;
    return part_ > at - 0.06 && part_ < at + 0.22 ? std::min(0.86, at + 0.3) : part_;
  };
  const size_t a = atRank(away(0.34)), b = atRank(away(0.62));
  if (n >= 6) {
    text(lower_, tr("reads kept"), c.accent, Qt::AlignLeft | Qt::AlignTop)->position->setCoords(double(a), readsKept[int(a)] - 0.03);
    text(lower_, tr("tokens kept"), c.textMuted, Qt::AlignLeft | Qt::AlignTop)->position->setCoords(double(b), tokensKept[int(b)] - 0.03);
  }

  const double y = height(threshold_), cut = double(kept.spans) - 0.5;
  const auto onLine = [&](QCPAxisRect* rect, QPen pen) {
    auto* l = new QCPItemLine(plot_);
    l->setPen(pen);
    l->setClipAxisRect(rect);
    for (auto* p : {l->start, l->end}) {
      p->setAxisRect(rect);
      p->setAxes(rect->axis(QCPAxis::atBottom), rect->axis(QCPAxis::atLeft));
    }
    return l;
  };
  QPen vertical(c.threshold, 1.2, Qt::CustomDashLine);
  vertical.setDashPattern({4, 3});
  const auto atCut = [&](QCPItemLine* l) {
    for (auto* p : {l->start, l->end}) {
      p->setTypeX(QCPItemPosition::ptPlotCoords);
      p->setTypeY(QCPItemPosition::ptAxisRectRatio);
    }
    l->start->setCoords(cut, 0);
    l->end->setCoords(cut, 1);
  };
  floating_->rankUpper = onLine(upper_, vertical);
  floating_->rankLower = onLine(lower_, vertical);
  atCut(floating_->rankUpper);
  atCut(floating_->rankLower);

  if (dragging_ && saved_ != threshold_) {
    QPen ghost(c.threshold, 1, Qt::CustomDashLine);
    ghost.setDashPattern({2, 3});
    auto* l = onLine(upper_, ghost);
    l->start->setCoords(-0.5, height(saved_));
    l->end->setCoords(double(n) - 0.5, height(saved_));
    const size_t before = size_t(std::count(savedIn_.begin(), savedIn_.end(), 1));
    floating_->savedText = text(upper_, tr("saved: %1 reads, %2 spans").arg(count(saved_)).arg(before), c.threshold, Qt::AlignRight | Qt::AlignTop);
    floating_->savedText->position->setCoords(double(n) - 0.5, height(saved_));
  }
  floating_->line = onLine(upper_, QPen(c.threshold, 2));
  floating_->line->start->setCoords(-0.5, y);
  floating_->line->end->setCoords(double(n) - 0.5, y);
  // The handle left of the axis: a triangle that says the line can be taken.
  for (int dx = 0; dx < 8; ++dx) {
    auto* l = new QCPItemLine(plot_);
    l->setPen(QPen(c.threshold, 1));
    l->setClipToAxisRect(false);
    l->start->setAxisRect(upper_);
    l->start->setAxes(rank, reads);
    l->start->setCoords(-0.5, y);
    l->end->setParentAnchor(l->start);
    l->end->setTypeX(QCPItemPosition::ptAbsolute);
    l->end->setTypeY(QCPItemPosition::ptAbsolute);
    l->end->setCoords(-9, -4 + dx + 0.5);
  }

  if (data_.never > 0) {
    auto* t = text(upper_, tr("%1: 0 reads").arg(plural(qint64(data_.never), tr("span"), tr("spans"))), c.textMuted, Qt::AlignRight | Qt::AlignBottom);
    const double at = double(n - data_.never);
    const bool wide = data_.never > n / 4;
    if (wide) t->setPositionAlignment(Qt::AlignLeft | Qt::AlignBottom);
    t->position->setCoords(wide ? at : double(n) - 0.5, height(data_.most() > 30 ? 9 : 2));
    auto* l = onLine(upper_, QPen(c.textFaint, 1));
    l->start->setCoords(at - 0.5, height(data_.most() > 30 ? 9 : 2));
    l->end->setCoords(at - 0.5, 0.1);
    floating_->never = t;
  }
  for (size_t i = 0; i < n; ++i) {
    if (!document_->selection().contains(data_.spans[i])) continue;
    auto* mark = onLine(upper_, QPen(c.accent, 1.6));
    mark->start->setCoords(double(i), height(data_.reads[i]));
    mark->end->setParentAnchor(mark->start);
    mark->end->setTypeX(QCPItemPosition::ptAbsolute);
    mark->end->setTypeY(QCPItemPosition::ptAbsolute);
    mark->end->setCoords(0, -10);
    if (document_->selection().first() == data_.spans[i]) {
      auto* t = text(upper_, tr("%1 selected").arg(spanNumber(data_.spans[i])), c.accent,
                     (i > n * 3 / 4 ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignBottom, true);
      t->position->setCoords(double(i) + (i > n * 3 / 4 ? -0.6 : 0.6), height(data_.reads[i]) + 0.15);
    }
  }

  auto* caption = text(upper_, tr("rank of span, most read first"), c.textMuted, Qt::AlignLeft | Qt::AlignTop);
  caption->position->setTypeX(QCPItemPosition::ptAxisRectRatio);
  caption->position->setTypeY(QCPItemPosition::ptAxisRectRatio);
  caption->position->setCoords(0, 1.015);

  // The two numbers at the cut, and the box that says what the view is.
  const auto circle = [&](double value, const QColor& ink) {
    auto* g = plot_->addGraph(rank2, part);
    g->setLineStyle(QCPGraph::lsNone);
    g->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(ink, 2), QBrush(c.panel), 8));
    g->setData({cut}, {value}, true);
  };
  circle(kept.tokens_part, c.textMuted);
  circle(kept.reads_part, c.accent);
  const bool rightSide = kept.spans > n * 2 / 3;
  const Qt::Alignment side = rightSide ? Qt::AlignRight : Qt::AlignLeft;
  floating_->readsText = text(lower_, tr("%1 of reads").arg(wholePercent(kept.reads_part)), c.accent, side | Qt::AlignTop, true);
  floating_->readsText->setPadding(QMargins(10, 4, 10, 4));
  if (kept.reads_part < 0.14) floating_->readsText->setPositionAlignment(side | Qt::AlignBottom);
  floating_->readsText->position->setCoords(cut, kept.reads_part);
  floating_->tokensText = text(lower_, tr("%1 of tokens").arg(wholePercent(kept.tokens_part)), c.textMuted, side | Qt::AlignTop, true);
  floating_->tokensText->setPadding(QMargins(10, 4, 10, 4));
  // Near the foot, or right under the other number, there is no room below.
  if (kept.tokens_part < 0.14 && kept.reads_part >= 0.14) floating_->tokensText->setPositionAlignment(side | Qt::AlignBottom);
  else if (kept.reads_part < 0.14) floating_->tokensText->setVisible(kept.spans > 0);
  floating_->tokensText->position->setCoords(cut, kept.tokens_part);

  const View& view = document_->view();
  auto* box = new QCPItemRect(plot_);
  box->setPen(QPen(c.threshold, 1));
  box->setBrush(c.panel);
  floating_->box = box;
  const auto boxText = [&](const QString& s, const QColor& ink, const QFont& f) {
    auto* t = new QCPItemText(plot_);
    t->setText(s);
    t->setColor(ink);
    t->setFont(f);
    t->setClipToAxisRect(false);
    t->setPositionAlignment(Qt::AlignLeft | Qt::AlignVCenter);
    t->position->setType(QCPItemPosition::ptAbsolute);
    return t;
  };
  QFont term = monoFont(font());
  term.setBold(true);
  floating_->boxTerm = boxText(hasTerm_ ? QString("total_reads >= %1").arg(threshold_) : tr("no threshold yet: drag the line"), c.threshold,
                               hasTerm_ ? term : sized(font(), 1, true));
  int64_t viewReads = 0;
  for (size_t i = 0; i < n; ++i)
    if (document_->matches(data_.spans[i])) viewReads += data_.reads[i];
  const double viewPart = data_.reads_sum.back() ? double(viewReads) / double(data_.reads_sum.back()) : 0;
  floating_->boxCount = boxText(tr("%1 spans, %2 of reads, %3 tokens").arg(count(qint64(view.refs.size())), wholePercent(viewPart), count(qint64(view.tokens))),
                                c.text, sized(font(), 0.96, true));
  box->setClipToAxisRect(false);
  for (auto* p : {box->topLeft, box->bottomRight}) p->setType(QCPItemPosition::ptAbsolute);
  plot_->replot(QCustomPlot::rpQueuedReplot);
}

void ThresholdPlot::placeFloating() {
  if (!floating_->box) return;
  const QRect rect = upper_->rect();
  const double w = std::max(QFontMetricsF(floating_->boxCount->font()).horizontalAdvance(floating_->boxCount->text()),
                            QFontMetricsF(floating_->boxTerm->font()).horizontalAdvance(floating_->boxTerm->text())) + 20;
  const double left = rect.right() - w, top = rect.top() + 2;
  floating_->box->topLeft->setCoords(left, top);
  floating_->box->bottomRight->setCoords(rect.right(), top + 42);
  floating_->boxTerm->position->setCoords(left + 10, top + 13);
  floating_->boxCount->position->setCoords(left + 10, top + 30);
}

int ThresholdPlot::pixelOf(qint64 reads) const {
  return int(std::lround(upper_->axis(QCPAxis::atLeft)->coordToPixel(height(reads)))) + plot_->y();
}
QPoint ThresholdPlot::linePoint() const { return {upper_->rect().center().x() + plot_->x(), pixelOf(threshold_)}; }

ThresholdPlot::Grip ThresholdPlot::gripAt(const QPoint& pos) const {
  if (data_.spans.empty()) return Grip::none;
  const QRect grown = upper_->rect().adjusted(-14, -kGrab, 4, kGrab);
  if (grown.contains(pos) && std::abs(pos.y() - upper_->axis(QCPAxis::atLeft)->coordToPixel(height(threshold_))) <= kGrab) return Grip::line;
  const double cut = double(panels::kept_at(data_, threshold_).spans) - 0.5;
  if ((upper_->rect().contains(pos) || lower_->rect().contains(pos)) &&
      std::abs(pos.x() - upper_->axis(QCPAxis::atBottom)->coordToPixel(cut)) <= 4)
    return Grip::rank;
  return Grip::none;
}

int ThresholdPlot::spanAt(const QPoint& pos) const {
  if (!upper_->rect().contains(pos)) return -1;
  const int i = int(std::lround(upper_->axis(QCPAxis::atBottom)->pixelToCoord(pos.x())));
  return i >= 0 && i < int(data_.spans.size()) ? i : -1;
}

void ThresholdPlot::drag(const QPoint& pos, Qt::KeyboardModifiers modifiers) {
  qint64 to = 0;
  if (grip_ == Grip::rank) {
    const double at = upper_->axis(QCPAxis::atBottom)->pixelToCoord(pos.x()) + 0.5;
    to = panels::threshold_for_spans(data_, size_t(std::clamp(std::lround(at), 0l, long(data_.spans.size()))));
  } else {
    to = readsAt(upper_->axis(QCPAxis::atLeft)->pixelToCoord(pos.y()));
    to = std::clamp<qint64>(to, 0, data_.most() + 1);
    if (modifiers & Qt::ShiftModifier) to = panels::threshold_for_spans(data_, panels::kept_at(data_, to).spans);
    if (modifiers & Qt::ControlModifier) {
      const double part = std::round(panels::kept_at(data_, to).reads_part * 20) / 20;
      to = panels::threshold_for_part(data_, part);
    }
  }
  if (to == threshold_ && hasTerm_) return;
  document_->setFilter(withThreshold(document_->filterText(), to), Origin::threshold);
}

void ThresholdPlot::endDrag(bool keep) {
  if (!dragging_) return;
  const qint64 before = saved_;
  dragging_ = false;
  grip_ = Grip::none;
  if (!keep) document_->setFilter(filterBefore_, Origin::threshold);
  readFilter();
  saved_ = threshold_;
  redraw();
  emit dragChanged(false);
  if (keep && before != threshold_) emit committed(before, threshold_);
}

void ThresholdPlot::commit(qint64 threshold) {
  const qint64 before = threshold_;
  document_->setFilter(withThreshold(document_->filterText(), std::max<qint64>(0, threshold)), Origin::threshold);
  saved_ = threshold_;
  redraw();
  if (before != threshold_) emit committed(before, threshold_);
}

void ThresholdPlot::step(int direction) {
  if (data_.spans.empty()) return;
  const size_t kept = panels::kept_at(data_, threshold_).spans;
  if (direction > 0) {
    // The smallest count above the line.
    size_t k = kept;
    while (k > 0 && data_.reads[k - 1] <= threshold_) --k;
    commit(k > 0 ? data_.reads[k - 1] : data_.most() + 1);
  } else if (kept < data_.spans.size()) {
    commit(data_.reads[kept]);
  }
}

void ThresholdPlot::keyPressEvent(QKeyEvent* event) {
  if (event->key() == Qt::Key_Escape && dragging_) return endDrag(false);
  if (event->key() == Qt::Key_Up) return step(+1);
  if (event->key() == Qt::Key_Down) return step(-1);
  QWidget::keyPressEvent(event);
}

void ThresholdPlot::showTip(const QPoint& pos) {
  const int i = spanAt(pos);
  const auto session = document_->session();
  if (i < 0 || !session) return QToolTip::hideText();
  const SpanId id = data_.spans[size_t(i)];
  QToolTip::showText(plot_->mapToGlobal(pos + QPoint(12, 12)),
                     tr("<b>%1 %2</b><br>rank %3 of %4<br><b>%5</b> reads over the session, %6 tokens<br>%7")
                         .arg(spanNumber(id), spanTitle(*session, id).toHtmlEscaped())
                         .arg(i + 1)
                         .arg(data_.spans.size())
                         .arg(count(data_.reads[size_t(i)]), count(data_.tokens[size_t(i)]),
                              document_->matches(id) ? tr("in the view") : tr("not in the view")),
                     plot_);
  document_->setHover({id, -1});
}

void ThresholdPlot::menu(const QPoint& global) {
  QMenu menu(this);
  menu.addAction(tr("Snap to count…"), this, [this] {
    bool ok = false;
    const int n = QInputDialog::getInt(this, tr("Keep so many spans"), tr("Spans"), int(panels::kept_at(data_, threshold_).spans), 0,
                                       int(data_.spans.size()), 1, &ok);
    if (ok) commit(panels::threshold_for_spans(data_, size_t(n)));
  });
  menu.addAction(tr("Type a value…"), this, [this] {
    bool ok = false;
    const int n = QInputDialog::getInt(this, tr("Threshold"), tr("Total reads, at least"), int(threshold_), 0, int(data_.most() + 1), 1, &ok);
    if (ok) commit(n);
  });
  menu.exec(global);
}

bool ThresholdPlot::eventFilter(QObject* watched, QEvent* event) {
  if (watched != plot_) return QWidget::eventFilter(watched, event);
  switch (event->type()) {
    case QEvent::MouseButtonPress: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      if (mouse->button() != Qt::LeftButton) break;
      setFocus(Qt::MouseFocusReason);
      grip_ = gripAt(mouse->pos());
      if (grip_ != Grip::none) {
        readFilter();
        saved_ = threshold_;
        filterBefore_ = document_->filterText();
        dragging_ = true;
        emit dragChanged(true);
      } else if (const int i = spanAt(mouse->pos()); i >= 0) {
        document_->select(data_.spans[size_t(i)], Origin::threshold, mouse->modifiers() & Qt::ControlModifier);
      }
      return true;
    }
    case QEvent::MouseMove: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      if (dragging_) {
        drag(mouse->pos(), mouse->modifiers());
      } else {
        const Grip g = gripAt(mouse->pos());
        plot_->setCursor(g == Grip::line ? Qt::SizeVerCursor : g == Grip::rank ? Qt::SizeHorCursor : Qt::ArrowCursor);
        showTip(mouse->pos());
      }
      return true;
    }
    case QEvent::MouseButtonRelease: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      if (dragging_ && mouse->button() == Qt::LeftButton) endDrag(true);
      return true;
    }
    case QEvent::ContextMenu: menu(static_cast<QContextMenuEvent*>(event)->globalPos()); return true;
    case QEvent::Leave: document_->setHover({}); break;
    default: break;
  }
  return QWidget::eventFilter(watched, event);
}

void ThresholdPlot::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) redraw();
}

QByteArray ThresholdPlot::svg(const QString& title) const { return plots::svgOf(*plot_, title); }
QImage ThresholdPlot::png(double scale) const { return plot_->toPixmap(0, 0, scale).toImage(); }

}  // namespace spanscope
