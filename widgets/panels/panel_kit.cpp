// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/panel_kit.h"

#include <QApplication>
#include <QButtonGroup>
#include <QClipboard>
#include <QEvent>
#include <QFontDatabase>
#include <QHBoxLayout>
#include <QLocale>
#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>
#include <QToolTip>
#include <algorithm>
#include <cmath>

#include "widgets/style/style.h"

namespace spanscope {
namespace {

double luminance(const QColor& c) {
  const auto linear = [](double x) { return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) + 0.0722 * linear(c.blueF());
}

PanelColors build(const Palette& p) {
  using style::q;
  PanelColors c;
  c.dark = p.dark;
  c.window = q(p.window), c.panel = q(p.panel), c.panelAlt = q(p.panelAlt), c.header = q(p.header), c.field = q(p.field);
  c.border = q(p.border), c.borderStrong = q(p.borderStrong), c.grid = q(p.grid), c.text = q(p.text), c.textMuted = q(p.textMuted);
  c.textFaint = q(p.textFaint), c.accent = q(p.accent), c.onAccent = q(p.onAccent), c.accentSoft = q(p.accentSoft);
  c.selection = q(p.selection), c.onSelection = q(p.onSelection), c.focus = q(p.focus), c.hover = q(p.hover);
  c.pinned = q(p.pinned), c.crosshair = q(p.crosshair), c.threshold = q(p.threshold), c.zeroLine = q(p.zeroLine);
  c.hatchLine = q(p.hatchLine), c.hatchBack = q(p.hatchBack), c.ok = q(p.ok), c.warn = q(p.warn), c.error = q(p.error);
  c.errorSoft = q(p.errorSoft), c.captured = q(p.captured), c.rerun = q(p.rerun), c.approx = q(p.approx), c.missing = q(p.missing);
  // Bars that only carry a length stand back a little.
  const auto mix = [](int a, int b) { return int(std::lround(0.7 * a + 0.3 * b)); };
  c.bar = QColor(mix(c.borderStrong.red(), c.panel.red()), mix(c.borderStrong.green(), c.panel.green()),
                 mix(c.borderStrong.blue(), c.panel.blue()));
  for (const Color& e : p.experts) c.experts.push_back(q(e));
  c.source = &p;
  return c;
}

const QChar kNoBreak(0x00A0);

}  // namespace

QColor PanelColors::expert(int index) const {
  return experts.empty() || index < 0 ? textMuted : experts[size_t(index) % experts.size()];
}
QColor PanelColors::role(const QString& name) const { return style::q(source->role(name.toStdString())); }
QColor PanelColors::reads(double n) const { return style::q(source->reads_at(n)); }
QColor PanelColors::share(double part) const { return style::q(source->sequential_at(part)); }

const PanelColors& panelColors() {
  static const PanelColors light = build(palette(false)), dark = build(palette(true));
  return style::dark() ? dark : light;
}

QColor inkOn(const QColor& back) { return luminance(back) > 0.179 ? QColor(Qt::black) : QColor(Qt::white); }

void drawRoleBox(QPainter& p, const QRectF& box, const QString& role) {
  p.save();
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(Qt::NoPen);
  const QColor back = panelColors().role(role);
  p.setBrush(back);
  p.drawRoundedRect(box, 2, 2);
  QFont font = p.font();
  font.setPixelSize(int(box.height() * 0.7));
  font.setWeight(QFont::Bold);
  font.setStrikeOut(false);
  p.setFont(font);
  p.setPen(panelColors().panel);
  p.drawText(box, Qt::AlignCenter, QString(QLatin1Char(role_letter(role.toStdString()))));
  p.restore();
}

void drawHatch(QPainter& p, const QRectF& box) {
  const PanelColors& c = panelColors();
  p.save();
  p.setClipRect(box);
  p.fillRect(box, c.hatchBack);
  p.setRenderHint(QPainter::Antialiasing);
  p.setPen(QPen(c.hatchLine, 1));
  for (double x = box.left() - box.height(); x < box.right(); x += 5)
    p.drawLine(QPointF(x, box.bottom()), QPointF(x + box.height(), box.top()));
  p.restore();
}

QFont monoFont(const QFont& like) {
  QFont f = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  // Fixed fonts run wide: one step smaller than the text around them.
  if (like.pixelSize() > 0) f.setPixelSize(like.pixelSize() - 1);
  else f.setPointSizeF(like.pointSizeF() * 0.92);
  return f;
}

QFont sized(const QFont& base, double factor, bool strong) {
  QFont f = base;
  if (f.pointSizeF() > 0) f.setPointSizeF(f.pointSizeF() * factor);
  else f.setPixelSize(std::max(8, int(std::lround(f.pixelSize() * factor))));
  if (strong) f.setWeight(QFont::DemiBold);
  return f;
}

QString spanNumber(SpanId id) { return style::spanNumber(id); }

QString spanTitle(const SessionData& session, SpanId id) {
  if (id >= session.ledger.spans.size()) return {};
  const Span& s = session.ledger[id];
  return QString::fromStdString(s.name.empty() ? s.role : s.name);
}

QString spanRole(const SessionData& session, SpanId id) {
  return id < session.ledger.spans.size() ? QString::fromStdString(session.ledger[id].role) : QString();
}

QString count(qint64 n) { return QLocale(QLocale::English).toString(n); }

QString percent(double part) {
  if (std::isnan(part)) return QString(QChar(0x2013));
  const double p = part * 100;
  if (p == 0) return QString("0") + kNoBreak + "%";
  if (p < 0.01) return QString("<") + kNoBreak + QLocale(QLocale::English).toString(0.01, 'f', 2) + kNoBreak + "%";
  const int digits = p >= 9.995 ? 1 : 2;
  return QLocale(QLocale::English).toString(p, 'f', p >= 99.95 ? 0 : digits) + kNoBreak + "%";
}

QString wholePercent(double part) { return QString::number(std::lround(part * 100)) + kNoBreak + "%"; }
QString strength(double x) { return QLocale(QLocale::English).toString(x, 'f', 2); }

QString seconds(double s) {
  if (s >= 60) return QString("%1 min %2 s").arg(int(s) / 60).arg(int(s) % 60);
  return QLocale(QLocale::English).toString(s, 'f', s < 10 ? 2 : 1) + " s";
}

void fillWithPanelColor(QWidget* widget) {
  widget->setBackgroundRole(QPalette::Base);
  widget->setAutoFillBackground(true);
}

QString plural(qint64 n, const QString& one, const QString& many) { return count(n) + kNoBreak + (n == 1 ? one : many); }

SectionHeader::SectionHeader(const QString& title, QWidget* parent) : QWidget(parent), title_(title) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAccessibleName(title);
}
void SectionHeader::setTitle(const QString& title) {
  title_ = title;
  setAccessibleName(title);
  update();
}
void SectionHeader::setNote(const QString& note) {
  note_ = note;
  update();
}
void SectionHeader::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const PanelColors& c = panelColors();
  p.fillRect(rect(), c.panelAlt);
  p.setPen(c.border);
  p.drawLine(0, 0, width(), 0);
  p.drawLine(0, height() - 1, width(), height() - 1);
  QFont f = font();
  f.setWeight(QFont::DemiBold);
  p.setFont(f);
  p.setPen(c.text);
  const QRect r = rect().adjusted(12, 0, -12, 0);
  const int titleWidth = p.fontMetrics().horizontalAdvance(title_);
  p.drawText(r, Qt::AlignVCenter | Qt::AlignLeft, p.fontMetrics().elidedText(title_, Qt::ElideRight, r.width()));
  p.setFont(font());
  p.setPen(c.textMuted);
  const QRect n = r.adjusted(titleWidth + 12, 0, 0, 0);
  p.drawText(n, Qt::AlignVCenter | Qt::AlignRight, p.fontMetrics().elidedText(note_, Qt::ElideRight, n.width()));
}

namespace {
QString provenanceWord(Provenance k) {
  switch (k) {
    case Provenance::captured: return QCoreApplication::translate("Provenance", "captured");
    case Provenance::rerun: return QCoreApplication::translate("Provenance", "re-run");
    case Provenance::approximated: return QCoreApplication::translate("Provenance", "approximated");
    default: return QCoreApplication::translate("Provenance", "missing");
  }
}
}  // namespace

ProvBadge::ProvBadge(Provenance kind, QWidget* parent) : QWidget(parent), kind_(kind) {
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setAccessibleName(provenanceWord(kind));
}
void ProvBadge::setKind(Provenance kind) {
  kind_ = kind;
  setAccessibleName(provenanceWord(kind));
  updateGeometry();
  update();
}
QSize ProvBadge::sizeHint() const { return {QFontMetrics(sized(font(), 0.88)).horizontalAdvance(provenanceWord(kind_)) + 25, 18}; }
void ProvBadge::paintEvent(QPaintEvent*) {
  QPainter p(this);
  p.setRenderHint(QPainter::Antialiasing);
  const PanelColors& c = panelColors();
  const QColor ink = kind_ == Provenance::captured ? c.captured : kind_ == Provenance::rerun ? c.rerun
                     : kind_ == Provenance::approximated ? c.approx : c.missing;
  p.setPen(QPen(ink, 1));
  p.drawRoundedRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
  const QPointF m(10, height() / 2.0);
  p.setPen(QPen(ink, 1.3));
  switch (kind_) {
    case Provenance::captured:
      p.drawEllipse(m, 4, 4);
      p.setBrush(ink);
      p.drawEllipse(m, 1.2, 1.2);
      p.setBrush(Qt::NoBrush);
      break;
    case Provenance::rerun:
      p.drawArc(QRectF(m.x() - 4, m.y() - 4, 8, 8), 60 * 16, 290 * 16);
      p.drawLine(QPointF(m.x() + 1.2, m.y() - 4), QPointF(m.x() + 4.4, m.y() - 3.6));
      p.drawLine(QPointF(m.x() + 4.4, m.y() - 3.6), QPointF(m.x() + 4.2, m.y() - 0.6));
      break;
    case Provenance::approximated:
      for (double dy : {-2.0, 2.0}) {
        QPainterPath wave(QPointF(m.x() - 4, m.y() + dy + 0.6));
        wave.cubicTo(m.x() - 1.5, m.y() + dy - 2.4, m.x() + 1.5, m.y() + dy + 2.4, m.x() + 4, m.y() + dy - 0.6);
        p.drawPath(wave);
      }
      break;
    default: drawHatch(p, QRectF(m.x() - 4, m.y() - 4, 8, 8));
  }
  p.setFont(sized(font(), 0.88));
  p.setPen(ink);
  p.drawText(rect().adjusted(18, 0, -4, 0), Qt::AlignVCenter | Qt::AlignLeft, provenanceWord(kind_));
}

Segments::Segments(const QString& objectName, const QString& accessibleName, const QStringList& titles, QWidget* parent)
    : QWidget(parent), group_(new QButtonGroup(this)) {
  setObjectName(objectName);
  setAccessibleName(accessibleName);
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  group_->setExclusive(true);
  for (int i = 0; i < titles.size(); ++i) {
    auto* b = new QToolButton(this);
    b->setText(titles[i]);
    b->setCheckable(true);
    b->setFixedHeight(23);
    b->setFocusPolicy(Qt::StrongFocus);
    b->setAccessibleName(accessibleName + ": " + titles[i]);
    // Room for the title in the weight of the chosen one: it must not be cut when the bar is narrow.
    b->ensurePolished();
    b->setMinimumWidth(QFontMetrics(sized(b->font(), 1, true)).horizontalAdvance(titles[i]) + 18);
    group_->addButton(b, i);
    row->addWidget(b);
  }
  group_->button(0)->setChecked(true);
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Fixed);
  setFixedHeight(23);
  connect(group_, &QButtonGroup::idClicked, this, &Segments::chosen);
  restyle();
}

void Segments::restyle() {
  const PanelColors& c = panelColors();
  const int n = int(group_->buttons().size());
  for (int i = 0; i < n; ++i) {
    const bool first = i == 0, last = i == n - 1;
    group_->button(i)->setStyleSheet(
        QString("QToolButton{border:1px solid %1;border-left-width:%2px;border-top-left-radius:%3px;border-bottom-left-radius:%3px;"
                "border-top-right-radius:%4px;border-bottom-right-radius:%4px;padding:0 7px;background:%5;color:%6}"
                "QToolButton:checked{background:%7;color:%8;font-weight:600}"
                "QToolButton:hover:!checked{background:%9}"
                "QToolButton:disabled{color:%10}QToolButton:focus{border-color:%11}")
            .arg(c.borderStrong.name())
            .arg(first ? 1 : 0)
            .arg(first ? 4 : 0)
            .arg(last ? 4 : 0)
            .arg(c.panel.name(), c.textMuted.name(), c.selection.name(), c.onSelection.name(), c.hover.name(), c.textFaint.name(),
                 c.focus.name()));
  }
}

void Segments::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) restyle();
}
int Segments::index() const { return group_->checkedId(); }
void Segments::setIndex(int index) {
  if (auto* b = group_->button(index)) b->setChecked(true);
}
void Segments::setSegmentEnabled(int index, bool enabled, const QString& why) {
  if (auto* b = group_->button(index)) {
    b->setEnabled(enabled);
    b->setToolTip(enabled ? QString() : why);
  }
}

SmallButton::SmallButton(const QString& text, QWidget* parent) : QToolButton(parent) {
  setText(text);
  setAccessibleName(text);
  setFixedHeight(23);
  setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  setProperty("small", true);
  restyle();
}

void SmallButton::changeEvent(QEvent* event) {
  QToolButton::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) restyle();
}

void SmallButton::restyle() {
  const PanelColors& c = panelColors();
  const QString sheet = QString("QToolButton{border:1px solid %1;border-radius:4px;padding:0 7px;background:%2;color:%3}"
                        "QToolButton:hover{background:%4}QToolButton:checked{background:%6;color:%7}"
                        "QToolButton:disabled{color:%5;border-color:%8}")
                    .arg(c.borderStrong.name(), c.panel.name(), c.text.name(), c.hover.name(), c.textFaint.name(),
                         c.selection.name(), c.onSelection.name(), c.border.name());
  if (sheet != styleSheet()) setStyleSheet(sheet);
}

namespace {
// Indicator at the left, text behind it; the focus is a frame around the text.
void paintChoice(QPainter& p, const QAbstractButton& b, bool round) {
  const PanelColors& c = panelColors();
  p.setRenderHint(QPainter::Antialiasing);
  const QRectF box(1.5, b.height() / 2.0 - 6.5, 13, 13);
  const bool on = b.isChecked(), live = b.isEnabled();
  const QColor edge = !live ? c.border : on ? c.accent : c.borderStrong;
  p.setPen(QPen(edge, 1));
  p.setBrush(on && live ? c.accent : on ? c.border : c.field);
  if (round) p.drawEllipse(box);
  else p.drawRoundedRect(box, 3, 3);
  if (on && round) {
    p.setPen(Qt::NoPen);
    p.setBrush(c.onAccent);
    p.drawEllipse(box.center(), 2.6, 2.6);
  } else if (on) {
    p.setPen(QPen(c.onAccent, 1.8, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
    p.setBrush(Qt::NoBrush);
    p.drawPolyline(QPolygonF() << box.topLeft() + QPointF(3, 6.6) << box.topLeft() + QPointF(5.6, 9.4) << box.topLeft() + QPointF(10.2, 3.8));
  }
  p.setFont(b.font());
  p.setPen(live ? c.text : c.textFaint);
  const QRect text(20, 0, b.width() - 20, b.height());
  p.drawText(text, Qt::AlignVCenter | Qt::AlignLeft, p.fontMetrics().elidedText(b.text(), Qt::ElideRight, text.width()));
  if (b.hasFocus()) {
    p.setRenderHint(QPainter::Antialiasing, false);
    p.setPen(c.focus);
    p.setBrush(Qt::NoBrush);
    p.drawRect(QRect(17, 0, std::min(b.width() - 18, p.fontMetrics().horizontalAdvance(b.text()) + 6), b.height() - 1));
  }
}
QSize choiceSize(const QAbstractButton& b) { return {20 + b.fontMetrics().horizontalAdvance(b.text()) + 6, 20}; }
}  // namespace

void Choice::paintEvent(QPaintEvent*) {
  QPainter p(this);
  paintChoice(p, *this, true);
}
QSize Choice::sizeHint() const { return choiceSize(*this); }
void Tick::paintEvent(QPaintEvent*) {
  QPainter p(this);
  paintChoice(p, *this, false);
}
QSize Tick::sizeHint() const { return choiceSize(*this); }

StateNote::StateNote(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
  setMouseTracking(true);
}

void StateNote::say(const QString& title, const QString& text, const QString& option) {
  title_ = title;
  text_ = text;
  option_ = option;
  setAccessibleName(title);
  setAccessibleDescription(option.isEmpty() ? text : text + " " + option);
  update();
}

void StateNote::paintEvent(QPaintEvent*) {
  QPainter p(this);
  const PanelColors& c = panelColors();
  p.fillRect(rect(), c.panel);
  const int w = std::min(420, width() - 32);
  const int left = (width() - w) / 2;
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  const QRect textBox = QFontMetrics(font()).boundingRect(QRect(0, 0, w, 1000), Qt::TextWordWrap | Qt::AlignHCenter, text_);
  int y = std::max(12, (height() - textBox.height() - 60) / 2);
  p.setFont(bold);
  p.setPen(c.text);
  p.drawText(QRect(left, y, w, 18), Qt::AlignHCenter | Qt::AlignVCenter, p.fontMetrics().elidedText(title_, Qt::ElideRight, w));
  y += 24;
  p.setFont(font());
  p.setPen(c.textMuted);
  p.drawText(QRect(left, y, w, textBox.height() + 4), Qt::TextWordWrap | Qt::AlignHCenter, text_);
  y += textBox.height() + 12;
  optionBox_ = {};
  if (!option_.isEmpty()) {
    p.setFont(monoFont(font()));
    const int tw = p.fontMetrics().horizontalAdvance(option_);
    optionBox_ = QRect(width() / 2 - tw / 2 - 8, y, tw + 16, 22);
    p.setRenderHint(QPainter::Antialiasing);
    p.setPen(c.borderStrong);
    p.setBrush(c.panelAlt);
    p.drawRoundedRect(QRectF(optionBox_).adjusted(0.5, 0.5, -0.5, -0.5), 3, 3);
    p.setPen(c.text);
    p.drawText(optionBox_, Qt::AlignCenter, option_);
  }
}

void StateNote::mouseReleaseEvent(QMouseEvent* event) {
  if (!optionBox_.contains(event->pos())) return;
  QApplication::clipboard()->setText(option_);
  QToolTip::showText(event->globalPosition().toPoint(), tr("Copied"), this);
}

}  // namespace spanscope
