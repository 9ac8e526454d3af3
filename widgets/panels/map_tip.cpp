// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/map_tip.h"

#include <QLabel>
#include <QPainter>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>

#include "widgets/panels/panel_kit.h"
#include "widgets/style/style.h"

namespace spanscope {

QString measureValue(double value, Measure measure) {
  switch (measure) {
    case Measure::reads: return QObject::tr("%n read(s)", nullptr, int(value)).replace("read(s)", value == 1 ? "read" : "reads");
    case Measure::share: return percent(value);
    case Measure::mass: return QObject::tr("%1 rows").arg(value, 0, 'f', value < 10 ? 2 : 1);
    case Measure::density: return percent(value * 1000) + QObject::tr(" / 1,000 tokens");
    case Measure::lift: return QString::number(value, 'f', value < 10 ? 1 : 0) + QString::fromUtf8("×");
  }
  return {};
}

MapTip::MapTip(QWidget* parent) : QFrame(parent), label_(new QLabel(this)) {
  setObjectName("mapTip");
  setAttribute(Qt::WA_TransparentForMouseEvents);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(10, 7, 10, 7);
  label_->setTextFormat(Qt::RichText);
  column->addWidget(label_);
  hide();
}

void MapTip::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.setPen(style::q(style::colors().borderStrong));
  painter.setBrush(style::q(style::colors().panel));
  painter.drawRect(rect().adjusted(0, 0, -1, -1));
}

QString MapTip::text() const { return label_->text(); }

void MapTip::say(const Document& document, SpanId span, uint32_t turn, uint32_t turnNumber) {
  const SessionData& s = *document.session();
  const CellTable& table = document.cells();
  const Palette& p = style::colors();
  const auto ink = [](const Color& c) { return style::q(c).name(); };
  const auto muted = [&](const QString& text) { return QString("<span style='color:%1'>%2</span>").arg(ink(p.textMuted), text); };
  const Span& it = s.ledger[span];
  QStringList lines;
  lines << QString("<span style='background-color:%1;color:%2;font-weight:700'>&nbsp;%3&nbsp;</span> &nbsp;<span style='color:%4'>%5</span> &nbsp;<b>%6</b>")
               .arg(ink(p.role(it.role)), ink(p.panel), QString(QLatin1Char(role_letter(it.role))), ink(p.textMuted), style::spanNumber(span),
                    spanTitle(s, span).left(60).toHtmlEscaped());
  if (turn == kNone32) {
    if (turnNumber) lines << tr("Turn %1 is not in this session: it could not be read").arg(turnNumber);
    else lines << muted(tr("%1, %2 tokens, since turn %3").arg(QString::fromStdString(it.role), style::number(it.tokens)).arg(it.birth + 1))
               << tr("<b>%1 reads</b> in all turns").arg(style::number(document.history().total_reads[span]));
    label_->setText(lines.join("<br>"));
    return;
  }
  const auto row = std::find(table.rows.begin(), table.rows.end(), span);
  if (row == table.rows.end()) return;
  const TurnRecord& record = s.turns[turn];
  const Cell& cell = table.at(size_t(row - table.rows.begin()), turn);
  const QString head = tr("Turn %1: ").arg(record.turn + 1);
  if (it.message >= 0 && it.message == record.message) {
    lines << head + tr("this turn wrote it; an answer cannot be read before it ends");
  } else if (cell.state == CellState::absent) {
    lines << head + tr("not in the context");
  } else if (cell.state == CellState::missing) {
    lines << head + tr("missing: the turn has no rows of this kind");
  } else if (cell.state == CellState::idle) {
    lines << head + tr("idle: nearly all of the mass went to sinks");
  } else if (document.measure() == Measure::reads) {
    const TurnReads& reads = document.history().turns[turn];
    if (reads.answer_rows == 0) lines << head + tr("no answer rows: nothing was read");
    else lines << head + tr("<b>%1</b> in %2 answer rows").arg(measureValue(cell.number, Measure::reads)).arg(style::number(reads.answer_rows));
    const auto readers = readers_of(s, record, span, document.settings().reads);
    QString who = readers.empty() ? tr("no head turned to it") : tr("%1 head%2, most by %3.%4 (%5)").arg(readers.size()).arg(readers.size() == 1 ? "" : "s")
                                                                     .arg(readers[0].layer).arg(readers[0].head).arg(readers[0].reads);
    if (std::isfinite(reads.spike[span])) who += tr("; spike %1").arg(reads.spike[span], 0, 'f', 2);
    lines << who;
    if (cell.number > 0 && !cell.was_read) lines << muted(tr("scattered: too few within 16 rows to count as read"));
    if (cell.request) lines << muted(tr("the request: the message directly before the answer"));
  } else {
    lines << head + "<b>" + measureValue(cell.number, document.measure()) + "</b>";
  }
  if (std::isfinite(table.sink_share[turn])) lines << muted(tr("sinks took %1 of all mass").arg(wholePercent(table.sink_share[turn])));
  lines << QString("<span style='color:%1'>◉</span> ").arg(ink(p.captured)) +
               muted(document.measure() == Measure::reads
                         ? tr("captured, %1 × %2 heads, strength %3").arg(s.header.layers).arg(s.header.query_heads).arg(document.strength(), 0, 'f', 2)
                         : tr("captured, %1 × %2 heads, consumer rows").arg(s.header.layers).arg(s.header.query_heads));
  label_->setText(lines.join("<br>"));
}

void MapTip::sayText(const QString& text) { label_->setText(text); }

void MapTip::place(const QPoint& pos) {
  adjustSize();
  const QSize room = parentWidget()->size();
  int x = pos.x() - width() - 18, y = pos.y() + 22;
  if (x < 4) x = pos.x() + 18;
  if (x + width() > room.width() - 4) x = std::max(4, room.width() - width() - 4);
  if (y + height() > room.height() - 4) y = std::max(4, pos.y() - height() - 14);
  move(x, y);
  raise();
  show();
}

}  // namespace spanscope
