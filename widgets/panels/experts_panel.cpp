// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/experts_panel.h"

#include <QComboBox>
#include <QHBoxLayout>
#include <QSplitter>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "widgets/panels/expert_figures.h"
#include "widgets/panels/figure_canvas.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"
#include "widgets/style/style.h"

namespace spanscope {

ExpertsPanel::ExpertsPanel(Document* document, QWidget* parent) : Panel(document, "expertsPanel", tr("Experts"), parent) {
  setAccessibleName(tr("Expert picks"));
  fillWithPanelColor(this);
  lock_ = new StateNote(this);
  lock_->setObjectName("expertsLock");
  page_ = new QWidget(this);
  auto* row = new QHBoxLayout(page_);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  auto* left = new QVBoxLayout;
  left->setSpacing(0);
  auto* bar = new QWidget(page_);
  bar->setFixedHeight(32);
  auto* bars = new QHBoxLayout(bar);
  bars->setContentsMargins(12, 0, 12, 0);
  bars->setSpacing(8);
  auto* label = new QLabel(tr("Layer"), bar);
  label->setObjectName("muted");
  layerCombo_ = new QComboBox(bar);
  layerCombo_->setObjectName("expertLayer");
  layerCombo_->setAccessibleName(tr("Layer with a router"));
  bars->addWidget(label);
  bars->addWidget(layerCombo_);
  auto* note = new QLabel(tr("Prefill and decode have totals of their own; layers are never added up."), bar);
  note->setObjectName("muted");
  note->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  bars->addWidget(note, 1);
  left->addWidget(bar);
  auto* split = new QSplitter(Qt::Vertical, page_);
  split->setChildrenCollapsible(false);
  const auto half = [&](SectionHeader*& header, FigureCanvas*& view, const QString& title, const QString& name, const QString& accessible) {
    auto* box = new QWidget(split);
    auto* column = new QVBoxLayout(box);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(0);
    header = new SectionHeader(title, box);
    view = new FigureCanvas(name, accessible, box);
    view->setPadding(4);
    column->addWidget(header);
    column->addWidget(view, 1);
    split->addWidget(box);
  };
  half(laneHeader_, laneView_, tr("Experts × turns"), "expertLanes", tr("Expert picks by turn"));
  half(countHeader_, countView_, tr("Counts by layer"), "expertCounts", tr("Expert picks by layer"));
  split->setSizes({390, 390});
  left->addWidget(split, 1);
  row->addLayout(left, 1);
  auto* side = new QFrame(page_);
  side->setObjectName("expertPanel");
  side->setFixedWidth(312);
  auto* column = new QVBoxLayout(side);
  column->setContentsMargins(1, 0, 0, 0);
  column->setSpacing(0);
  tableHeader_ = new SectionHeader(tr("Against the whole session"), side);
  tableHeader_->setNote(tr("same layer"));
  table_ = new RowTable("expertTable", tr("Picks of the selection against the session"), side);
  table_->setFitsRows(true);
  table_->setColumns({{tr("Expert"), false, 0, {}}, {tr("Picks"), true, 58, {}}, {tr("Span"), true, 60, {}}, {tr("Session"), true, 64, {}}, {tr("log₂"), true, 56, tr("log₂ of span over session")}});
  sure_ = new QLabel(side);
  sure_->setObjectName("muted");
  sure_->setWordWrap(true);
  sure_->setContentsMargins(12, 8, 12, 8);
  auto* foot = new QLabel(tr("Experts have no names here. A number tells which tokens went to the same place in this run and layer; it does not say what they are about."), side);
  foot->setObjectName("faint");
  foot->setWordWrap(true);
  foot->setContentsMargins(12, 8, 12, 8);
  column->addWidget(tableHeader_);
  column->addWidget(table_);
  column->addWidget(new SectionHeader(tr("How sure was the router"), side));
  column->addWidget(sure_);
  column->addStretch(1);
  column->addWidget(foot);
  row->addWidget(side);
  body()->addWidget(lock_, 1);
  body()->addWidget(page_, 1);

  laneView_->setBuilder([this](double w, double h) {
    return panels::expert_lanes_figure(lanes_, style::colors(), w, h, this->document()->turn());
  });
  countView_->setBuilder([this](double w, double h) { return panels::expert_counts_figure(counts_, style::colors(), w, h, layer()); });
  connect(layerCombo_, &QComboBox::activated, this, [this] { reload(); });
  connect(laneView_, &FigureCanvas::hovered, this, &ExpertsPanel::hoverLanes);
  connect(countView_, &FigureCanvas::hovered, this, &ExpertsPanel::hoverCounts);
  connect(laneView_, &FigureCanvas::clicked, this, [this](quint64 id, Qt::KeyboardModifiers) {
    if (id >> 32 != 1) return;
    this->document()->setExpert(int(id & 0xff), Origin::experts);
    this->document()->setTurn(int(id >> 8 & 0x3fffff), Origin::experts);
  });
  connect(countView_, &FigureCanvas::clicked, this, [this](quint64 id, Qt::KeyboardModifiers) {
    const uint32_t l = id >> 32 == 2 ? uint32_t(id >> 8 & 0xffffff) : id >> 32 == 3 ? uint32_t(id) : kNone32;
    for (size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i] == l) {
        layerCombo_->setCurrentIndex(int(i));
        if (id >> 32 == 2) this->document()->setExpert(int(id & 0xff), Origin::experts);
        reload();
      }
  });
  connect(document, &Document::sessionChanged, this, [this] { newSession(); });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) { reload(); });
  newSession();
}

bool ExpertsPanel::locked() const { return !document()->session() || !panels::has_routing(*document()->session()); }
QString ExpertsPanel::lockText() const { return lock_->title() + " " + lock_->text() + " " + lock_->option(); }
int ExpertsPanel::layer() const { return layerCombo_->currentIndex() >= 0 && size_t(layerCombo_->currentIndex()) < layers_.size() ? int(layers_[size_t(layerCombo_->currentIndex())]) : -1; }

void ExpertsPanel::newSession() {
  layers_.clear();
  layerCombo_->clear();
  const auto session = document()->session();
  if (session) {
    layers_ = panels::moe_layers(*session);
    for (uint32_t l : layers_) layerCombo_->addItem(tr("%1 of %2 with a router").arg(l).arg(layers_.size()));
    if (!layers_.empty()) layerCombo_->setCurrentIndex(int(layers_.size() / 2));
  }
  reload();
}

void ExpertsPanel::reload() {
  const auto session = document()->session();
  const bool shut = locked();
  lock_->setVisible(shut);
  page_->setVisible(!shut);
  setProvenance(Provenance::captured, !shut);
  if (shut) {
    if (!session) {
      lock_->say(tr("No session"), tr("Open a session to see its experts."));
    } else if (session->header.experts == 0) {
      lock_->say(tr("This model has no experts"), tr("%1 is a dense model: every token takes the same way through each layer.").arg(QString::fromStdString(session->header.model_name)));
    } else {
      lock_->say(tr("Not captured: expert picks"),
                 tr("The model has %1 experts, but this session was recorded without routing. It has reads by head. Record again with this option:").arg(session->header.experts),
                 "--routing");
    }
    setSubtitle({});
    return;
  }
  lanes_ = panels::expert_lanes(*session, uint32_t(std::max(0, layer())));
  const Selection& s = document()->selection();
  counts_ = panels::expert_counts(*session, s.spans);
  setSubtitle(tr("layer %1, %2 picks per token").arg(layer()).arg(lanes_.picks));
  laneHeader_->setNote(tr("colour: part of the turn's picks, to 40 %"));
  const QString name = s.spans.empty() ? tr("no span selected") : s.spans.size() == 1 ? spanNumber(s.first()) + " " + spanTitle(*session, s.first()) : tr("%1 spans").arg(s.spans.size());
  countHeader_->setNote(s.spans.empty() ? name : tr("%1, %2 tokens × %3 picks = %4 a layer").arg(name, count(counts_.tokens)).arg(counts_.picks).arg(count(qint64(counts_.tokens) * counts_.picks)));
  laneView_->rebuild();
  countView_->rebuild();
  fillTable();
}

void ExpertsPanel::fillTable() {
  const auto session = document()->session();
  const int at = layer();
  std::vector<TableRow> rows;
  if (at >= 0 && counts_.tokens) {
    const uint32_t E = counts_.experts;
    uint64_t span = 0, all = 0;
    for (uint32_t e = 0; e < E; ++e) {
      span += counts_.counts[size_t(at) * E + e];
      all += lanes_.total[0][e] + lanes_.total[1][e];
    }
    for (uint32_t e = 0; e < E; ++e) {
      const uint32_t n = counts_.counts[size_t(at) * E + e];
      const uint64_t m = lanes_.total[0][e] + lanes_.total[1][e];
      const double a = span ? double(n) / double(span) : 0, b = all ? double(m) / double(all) : 0;
      TableRow row;
      row.key = e;
      TableCell name;
      name.kind = TableCell::Kind::swatch;
      name.swatch = int(e);
      name.text = "e" + QString::number(e);
      name.strong = true;
      TableCell picks;
      picks.kind = TableCell::Kind::number;
      picks.text = count(n);
      TableCell part = picks, other = picks, ratio = picks;
      part.text = QString::number(a * 100, 'f', 1) + " %";
      part.strong = true;
      other.text = QString::number(b * 100, 'f', 1) + " %";
      other.muted = true;
      const double l = a > 0 && b > 0 ? std::log2(a / b) : NAN;
      ratio.text = std::isnan(l) ? QString(QChar(0x2013)) : (l < 0 ? QString(QChar(0x2212)) : QString("+")) + QString::number(std::fabs(l), 'f', 2);
      row.cells = {name, picks, part, other, ratio};
      rows.push_back(std::move(row));
    }
    const double bits = panels::entropy_bits(&counts_.counts[size_t(at) * E], E);
    const QString most = QString::number(std::log2(double(E)), 'f', std::log2(double(E)) == std::floor(std::log2(double(E))) ? 0 : 2);
    sure_->setText(tr("Entropy of the counts: <b>%1 of %2 bits</b><br>Mean weight of the first pick: <b>%3</b><br>Near ties, margin below 0.01: <b>%4 of %5 tokens</b><br>Tokens without a record: <b>%6</b>")
                       .arg(std::isnan(bits) ? QString(QChar(0x2013)) : QString::number(bits, 'f', 2), most, strength(counts_.first_weight[size_t(at)]))
                       .arg(count(counts_.near_ties[size_t(at)]), count(counts_.tokens), count(counts_.not_recorded)));
  } else {
    sure_->setText(session && at >= 0 ? tr("Select a span to compare it with the session.") : QString());
  }
  tableHeader_->setTitle(counts_.tokens ? tr("Layer %1, against the session").arg(at) : tr("Against the whole session"));
  table_->setRows(std::move(rows));
  const int expert = document()->selection().expert;
  table_->showSelected([&](const TableRow& row) { return row.key == expert; });
}

void ExpertsPanel::hoverLanes(quint64 id, const QPoint& pos) {
  if (id >> 32 != 1) return QToolTip::hideText();
  const int phase = int(id >> 30 & 1);
  const size_t turn = size_t(id >> 8 & 0x3fffff);
  const uint32_t e = uint32_t(id & 0xff);
  const uint32_t sum = lanes_.turn_sum(phase, turn), n = lanes_.counts[phase][turn * lanes_.experts + e];
  QToolTip::showText(pos + QPoint(10, 10),
                     tr("<b>Layer %1, e%2</b>, turn %3, %4<br><b>%5 of %6 picks</b>, %7")
                         .arg(lanes_.layer).arg(e).arg(document()->session()->turns[turn].turn + 1).arg(phase ? tr("decode") : tr("prefill"), count(n), count(sum), percent(sum ? double(n) / sum : NAN)),
                     laneView_);
}

void ExpertsPanel::hoverCounts(quint64 id, const QPoint& pos) {
  if (id >> 32 != 2) return QToolTip::hideText();
  const uint32_t l = uint32_t(id >> 8 & 0xffffff), e = uint32_t(id & 0xff);
  QToolTip::showText(pos + QPoint(10, 10), tr("<b>Layer %1, e%2</b>: %3 picks of the selection").arg(l).arg(e).arg(count(counts_.counts[size_t(l) * counts_.experts + e])), countView_);
}

QByteArray ExpertsPanel::pictureSvg() const { return laneView_->svg(); }
QImage ExpertsPanel::picturePng(double scale) const { return laneView_->png(scale); }

}  // namespace spanscope
