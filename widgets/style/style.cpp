// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/style/style.h"

#include <QApplication>
#include <QFile>
#include <QFontDatabase>
#include <QLocale>
#include <QPalette>
#include <QStyleFactory>
#include <QSvgRenderer>
#include <cmath>

namespace spanscope::style {
namespace {

bool darkTheme = false;

bool systemIsDark() { return QApplication::palette().color(QPalette::Window).lightness() < 128; }

QString sheet(const Palette& p) {
  auto c = [](const Color& color) { return q(color).name(); };
  QString s = R"(
QWidget { color: %text; font-size: 12px; }
QMainWindow, QDialog { background: %window; }
QMainWindow::separator { background: %window; width: 5px; height: 5px; }
QMenuBar { background: %window; } QMenuBar::item:selected { background: %hover; }
QMenu { background: %panel; border: 1px solid %border; } QMenu::item { padding: 4px 22px; } QMenu::item:selected { background: %selection; color: %onSelection; }
QToolTip { background: %panel; color: %text; border: 1px solid %borderStrong; padding: 4px; }
QStatusBar { background: %window; border-top: 1px solid %border; } QStatusBar::item { border: none; }
QDockWidget { titlebar-close-icon: none; } QDockWidget::title { background: %header; padding: 5px 10px; border-bottom: 1px solid %border; }
QTabWidget::pane { border: 1px solid %border; background: %panel; top: -1px; }
QTabBar::tab { background: %header; border: 1px solid %border; padding: 4px 12px; margin-right: -1px; color: %textMuted; }
QTabBar::tab:selected { background: %panel; color: %text; border-bottom-color: %panel; font-weight: 600; }
QTabBar::tab:focus { border: 1px solid %focus; }
#panelHeader { background: %header; border-bottom: 1px solid %border; }
#panelTitle { font-weight: 600; } #panelSubtitle { color: %textMuted; }
QTreeView, QTableView, QListView, QAbstractScrollArea { background: %panel; alternate-background-color: %panelAlt; border: none; selection-background-color: %selection; selection-color: %onSelection; }
QHeaderView::section { background: %panelAlt; color: %textMuted; border: none; border-bottom: 1px solid %border; padding: 3px 6px; }
QLineEdit, QTextEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox { background: %field; border: 1px solid %borderStrong; border-radius: 3px; padding: 3px 6px; selection-background-color: %selection; selection-color: %onSelection; }
QLineEdit:focus, QTextEdit:focus, QPlainTextEdit:focus, QSpinBox:focus, QComboBox:focus { border: 1px solid %focus; }
QPushButton, QToolButton { background: %panel; border: 1px solid %borderStrong; border-radius: 3px; padding: 4px 10px; }
QPushButton:hover, QToolButton:hover { background: %hover; }
QPushButton:focus, QToolButton:focus { border: 1px solid %focus; }
QPushButton:disabled, QToolButton:disabled { color: %textFaint; border-color: %border; }
QToolButton:checked { background: %accentSoft; color: %accent; border-color: %accent; font-weight: 600; }
QPushButton[primary="true"], QToolButton[primary="true"]:checked { background: %accent; color: %onAccent; border-color: %accent; }
QScrollBar:vertical { background: %panelAlt; width: 10px; } QScrollBar:horizontal { background: %panelAlt; height: 10px; }
QScrollBar::handle { background: %border; border-radius: 4px; min-height: 24px; min-width: 24px; } QScrollBar::handle:hover { background: %borderStrong; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QProgressBar { background: %panelAlt; border: 1px solid %border; border-radius: 3px; text-align: center; } QProgressBar::chunk { background: %accent; }
QSlider::groove:horizontal { height: 4px; background: %border; border-radius: 2px; } QSlider::handle:horizontal { background: %threshold; width: 10px; margin: -5px 0; border-radius: 5px; }
#muted { color: %textMuted; } #faint { color: %textFaint; } #errorText { color: %error; } #warnText { color: %warn; }
)";
  // Longest names first, so that "text" does not eat the beginning of "textMuted".
  const std::pair<const char*, Color> names[] = {
      {"%textMuted", p.textMuted}, {"%textFaint", p.textFaint}, {"%text", p.text}, {"%window", p.window}, {"%panelAlt", p.panelAlt},
      {"%panel", p.panel}, {"%header", p.header}, {"%field", p.field}, {"%borderStrong", p.borderStrong}, {"%border", p.border},
      {"%accentSoft", p.accentSoft}, {"%accent", p.accent}, {"%onAccent", p.onAccent}, {"%selection", p.selection},
      {"%onSelection", p.onSelection}, {"%focus", p.focus}, {"%hover", p.hover}, {"%threshold", p.threshold}, {"%error", p.error}, {"%warn", p.warn}};
  for (const auto& [name, color] : names) s.replace(QLatin1String(name), c(color));
  return s;
}

}  // namespace

void apply(QApplication& app, Theme theme) {
  darkTheme = theme == Theme::dark || (theme == Theme::system && systemIsDark());
  const Palette& p = colors();
  app.setStyle(QStyleFactory::create("Fusion"));
  QPalette palette;
  palette.setColor(QPalette::Window, q(p.window));
  palette.setColor(QPalette::WindowText, q(p.text));
  palette.setColor(QPalette::Base, q(p.panel));
  palette.setColor(QPalette::AlternateBase, q(p.panelAlt));
  palette.setColor(QPalette::Text, q(p.text));
  palette.setColor(QPalette::Button, q(p.panel));
  palette.setColor(QPalette::ButtonText, q(p.text));
  palette.setColor(QPalette::Highlight, q(p.selection));
  palette.setColor(QPalette::HighlightedText, q(p.onSelection));
  palette.setColor(QPalette::ToolTipBase, q(p.panel));
  palette.setColor(QPalette::ToolTipText, q(p.text));
  palette.setColor(QPalette::PlaceholderText, q(p.textFaint));
  palette.setColor(QPalette::Link, q(p.accent));
  palette.setColor(QPalette::Disabled, QPalette::Text, q(p.textFaint));
  palette.setColor(QPalette::Disabled, QPalette::ButtonText, q(p.textFaint));
  app.setPalette(palette);
  app.setStyleSheet(sheet(p));
}

bool dark() { return darkTheme; }
const Palette& colors() { return palette(darkTheme); }

QFont mono(double points) {
  QFont font = QFontDatabase::systemFont(QFontDatabase::FixedFont);
  if (points > 0) font.setPointSizeF(points);
  return font;
}

QString spanNumber(SpanId id) { return id == kNoSpan ? QString::fromUtf8("–") : QString("%1").arg(id, 3, 10, QLatin1Char('0')); }
QString number(qint64 n) { return QLocale(QLocale::English).toString(n); }
QString percent(double fraction, int digits) {
  return std::isfinite(fraction) ? QString::number(fraction * 100, 'f', digits) + QString::fromUtf8(" %") : QString::fromUtf8("–");
}

int drawRoleBox(QPainter& painter, const QRect& rect, const std::string& role) {
  const int side = std::min({rect.height() - 2, 15, rect.width()});
  const QRect box(rect.left(), rect.center().y() - side / 2 + (side % 2 ? 0 : 1), side, side);
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(Qt::NoPen);
  painter.setBrush(q(colors().role(role)));
  painter.drawRoundedRect(box, 3, 3);
  QFont font = painter.font();
  font.setBold(true);
  font.setPixelSize(std::max(8, side - 5));
  painter.setFont(font);
  painter.setPen(darkTheme ? q(colors().onAccent) : QColor(Qt::white));
  painter.drawText(box, Qt::AlignCenter, QString(QLatin1Char(role_letter(role))));
  painter.restore();
  return side + 6;
}

QIcon icon(const QString& name) {
  QFile file(":/icons/" + name + ".svg");
  if (!file.open(QIODevice::ReadOnly)) return {};
  QByteArray svg = file.readAll();
  svg.replace("currentColor", q(colors().text).name().toUtf8());
  QSvgRenderer renderer(svg);
  QPixmap pixmap(32, 32);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  renderer.render(&painter);
  return QIcon(pixmap);
}

void drawHatch(QPainter& painter, const QRect& rect) {
  painter.save();
  painter.setClipRect(rect, Qt::IntersectClip);
  painter.fillRect(rect, q(colors().hatchBack));
  painter.setPen(QPen(q(colors().hatchLine), 1));
  for (int x = rect.left() - rect.height(); x < rect.right(); x += 5) painter.drawLine(x, rect.bottom(), x + rect.height(), rect.top());
  painter.restore();
}

}  // namespace spanscope::style
