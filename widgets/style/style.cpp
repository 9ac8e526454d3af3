// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/style/style.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QHash>
#include <QIconEngine>
#include <QLocale>
#include <QPalette>
#include <QStyle>
#include <QStyleFactory>
#include <QSvgRenderer>
#include <QWidget>
#include <cmath>

#include "widgets/style/sheet.h"

// The icons lie in a static library, whose resources register only when asked (and only outside of a namespace).
static void registerIcons() { Q_INIT_RESOURCE(resources); }


namespace spanscope::style {
namespace {

bool darkTheme = false;

bool systemIsDark() { return QApplication::palette().color(QPalette::Window).lightness() < 128; }

// The desktop's own font. Where there is no desktop the platform falls back to a very wide face; the condensed cut of the
// same family is nearer to what interface fonts measure.
QFont interfaceFont() {
  static const QFont system = QApplication::font();
  QFont font = system;
  const QStringList families = QFontDatabase::families();
  const QString resolved = QFontInfo(font).family();
  if (resolved == "DejaVu Sans" || resolved.isEmpty())
    for (const char* better : {"Inter", "Noto Sans", "Cantarell", "DejaVu Sans Condensed"})
      if (families.contains(better)) {
        font.setFamily(better);
        break;
      }
  const int pixels = QFontInfo(system).pixelSize();
  font.setPixelSize(pixels > 14 ? pixels - 1 : 12);
  return font;
}

QByteArray svgOf(const QString& name, const QColor& ink) {
  static QHash<QString, QByteArray> sources;
  auto it = sources.find(name);
  if (it == sources.end()) {
    QFile file(":/icons/" + name + ".svg");
    it = sources.insert(name, file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray());
  }
  QByteArray svg = *it;
  svg.replace("currentColor", ink.name().toUtf8());
  return svg;
}

// Tints when it paints, so that a change of theme needs no new icons.
class TintedIcon : public QIconEngine {
 public:
  TintedIcon(QString name, bool onAccent) : name_(std::move(name)), onAccent_(onAccent) {}
  void paint(QPainter* painter, const QRect& rect, QIcon::Mode mode, QIcon::State state) override {
    const Palette& p = colors();
    const Color ink = mode == QIcon::Disabled ? p.textFaint : state == QIcon::On && onAccent_ ? p.onAccent : p.text;
    drawIcon(*painter, rect, name_, q(ink));
  }
  QPixmap pixmap(const QSize& size, QIcon::Mode mode, QIcon::State state) override {
    QPixmap out(size);
    out.fill(Qt::transparent);
    QPainter painter(&out);
    paint(&painter, QRect(QPoint(), size), mode, state);
    return out;
  }
  QIconEngine* clone() const override { return new TintedIcon(name_, onAccent_); }

 private:
  QString name_;
  bool onAccent_;
};

}  // namespace

void apply(QApplication& app, Theme theme) {
  registerIcons();
  static const bool desktopIsDark = systemIsDark();  // before the first palette of ours
  darkTheme = theme == Theme::dark || (theme == Theme::system && desktopIsDark);
  const Palette& p = colors();
  app.setStyle(QStyleFactory::create("Fusion"));
  app.setFont(interfaceFont());
  QPalette palette;
  const std::pair<QPalette::ColorRole, Color> roles[] = {
      {QPalette::Window, p.window}, {QPalette::WindowText, p.text}, {QPalette::Base, p.panel}, {QPalette::AlternateBase, p.panelAlt},
      {QPalette::Text, p.text}, {QPalette::Button, p.panel}, {QPalette::ButtonText, p.text}, {QPalette::BrightText, p.onAccent},
      {QPalette::Highlight, p.selection}, {QPalette::HighlightedText, p.onSelection}, {QPalette::ToolTipBase, p.panel},
      {QPalette::ToolTipText, p.text}, {QPalette::PlaceholderText, p.textFaint}, {QPalette::Link, p.accent}, {QPalette::LinkVisited, p.accent},
      {QPalette::Light, p.panelAlt}, {QPalette::Midlight, p.header}, {QPalette::Mid, p.border}, {QPalette::Dark, p.borderStrong}, {QPalette::Shadow, p.borderStrong}};
  for (const auto& [role, color] : roles) palette.setColor(role, q(color));
  for (QPalette::ColorRole role : {QPalette::Text, QPalette::ButtonText, QPalette::WindowText}) palette.setColor(QPalette::Disabled, role, q(p.textFaint));
  app.setPalette(palette);
  app.setStyleSheet(sheet(p));
}

bool dark() { return darkTheme; }
const Palette& colors() { return palette(darkTheme); }

QFont mono(double points) {
  QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  if (points > 0) font.setPointSizeF(points);
  else font.setPixelSize(std::max(8, QFontInfo(QApplication::font()).pixelSize() - 1));
  return font;
}

QFont sized(double pixels, bool strong) {
  QFont font = QApplication::font();
  font.setPixelSize(std::max(6, int(std::lround(pixels))));
  if (strong) font.setWeight(QFont::DemiBold);
  return font;
}

QString spanNumber(SpanId id) { return id == kNoSpan ? QString::fromUtf8("–") : QString("%1").arg(id, 3, 10, QLatin1Char('0')); }
QString number(qint64 n) { return QLocale(QLocale::English).toString(n); }
QString percent(double fraction, int digits) {
  return std::isfinite(fraction) ? QString::number(fraction * 100, 'f', digits) + QString::fromUtf8("\u00a0%") : QString::fromUtf8("–");
}
QString bytes(quint64 n) {
  const char* units[] = {"bytes", "kB", "MB", "GB", "TB"};
  double x = double(n);
  int unit = 0;
  while (x >= 999.5 && unit < 4) x /= 1000, ++unit;
  return QString::number(x, 'f', unit == 0 || x >= 99.95 ? 0 : x >= 9.995 ? 1 : 2) + " " + units[unit];
}

int drawRoleBox(QPainter& painter, const QRect& rect, const std::string& role) {
  const int side = std::min({rect.height() - 2, 14, rect.width()});
  const QRect box(rect.left(), rect.top() + (rect.height() - side) / 2, side, side);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(q(colors().role(role)));
  painter.drawRoundedRect(box, 2, 2);
  QFont font = painter.font();
  font.setBold(true);
  font.setPixelSize(std::max(8, side - 4));
  painter.setFont(font);
  painter.setPen(q(colors().panel));
  painter.drawText(box, Qt::AlignCenter, QString(QLatin1Char(role_letter(role))));
  painter.restore();
  return side + 6;
}

QIcon icon(const QString& name, bool onAccent) { return QIcon(new TintedIcon(name, onAccent)); }

void drawIcon(QPainter& painter, const QRectF& box, const QString& name, const QColor& ink) {
  QSvgRenderer renderer(svgOf(name, ink));
  if (!renderer.isValid()) return;
  const double side = std::min(box.width(), box.height());
  renderer.render(&painter, QRectF(box.center().x() - side / 2, box.center().y() - side / 2, side, side));
}

void drawHatch(QPainter& painter, const QRect& rect) {
  painter.save();
  painter.setClipRect(rect, Qt::IntersectClip);
  painter.fillRect(rect, q(colors().hatchBack));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(q(colors().hatchLine), 1));
  for (int x = rect.left() - rect.height(); x < rect.right(); x += 5) painter.drawLine(x, rect.bottom(), x + rect.height(), rect.top());
  painter.restore();
}

void mark(QWidget* widget, const char* property, const QVariant& value) {
  if (widget->property(property) == value) return;
  widget->setProperty(property, value);
  widget->style()->unpolish(widget);
  widget->style()->polish(widget);
  widget->update();
}

}  // namespace spanscope::style
