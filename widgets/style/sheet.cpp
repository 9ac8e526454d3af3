// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/style/sheet.h"

#include <utility>

#include "widgets/style/style.h"

namespace spanscope::style {

QString sheet(const Palette& p) {
  QString s = QString::fromUtf8(R"(
QMainWindow, QDialog { background: @window; }
QMainWindow::separator { background: @window; width: 4px; height: 4px; }
QMainWindow::separator:hover { background: @border; }
QMenuBar { background: @window; border: none; padding: 0 4px; }
QMenuBar::item { padding: 4px 9px; background: transparent; } QMenuBar::item:selected { background: @selection; color: @onSelection; }
QMenu { background: @panel; border: 1px solid @borderStrong; padding: 4px 0; }
QMenu::item { padding: 4px 24px 4px 22px; } QMenu::item:selected { background: @selection; color: @onSelection; } QMenu::item:disabled { color: @textFaint; }
QMenu::separator { height: 1px; background: @border; margin: 4px 0; }
QToolTip { background: @panel; color: @text; border: 1px solid @borderStrong; padding: 5px 8px; }
QToolBar { background: @window; border: none; padding: 0; spacing: 6px; }
QToolBar#toolBar { border-top: 1px solid @border; border-bottom: 1px solid @border; }
QToolBar::separator { background: @border; width: 1px; margin: 4px 3px; }
QStatusBar { background: @window; border-top: 1px solid @border; margin-top: 4px; min-height: 22px; max-height: 22px; color: @textMuted; } QStatusBar::item { border: none; }
QStatusBar QLabel { color: @textMuted; padding: 0 10px; } QStatusBar QLabel#statusReady { padding: 0 10px 0 2px; } QStatusBar QLabel[rule="true"] { border-left: 1px solid @border; }
QStatusBar QLabel[grade="error"] { color: @error; font-weight: 600; } QStatusBar QLabel[grade="warn"] { color: @warn; font-weight: 600; } QStatusBar QLabel[grade="ok"] { color: @textMuted; }
QFrame#panelFrame { background: @panel; border: 1px solid @border; } QFrame#panelFrame[part="top"] { border-bottom: none; } QFrame#panelFrame[part="bottom"] { border-top: none; } QFrame#panelFrame[focused="true"] { border-color: @focus; }
#panelHeader { background: @header; border-bottom: 1px solid @border; }
#panelTitle { font-weight: 600; } #panelSubtitle, #muted { color: @textMuted; } #faint { color: @textFaint; }
#errorText { color: @error; } #warnText { color: @warn; } #strong { font-weight: 600; }
QToolButton#headerTool { border: none; background: transparent; padding: 0; min-height: 0; border-radius: 3px; } QToolButton#headerTool:hover { background: @hover; } QToolButton#headerTool:focus { background: @selection; }
QTabBar#panelTabs { background: @header; qproperty-drawBase: 0; }
QTabBar#panelTabs::tab { background: transparent; border: 1px solid transparent; border-bottom: none; padding: 3px 10px; margin-top: 2px; color: @textMuted; }
QTabBar#panelTabs::tab:selected { background: @panel; border-color: @border; color: @text; border-top-left-radius: 3px; border-top-right-radius: 3px; font-weight: 600; }
QTabBar#panelTabs::tab:hover:!selected { color: @text; }
QTabBar#panelTabs:focus { outline: none; } QTabBar#panelTabs::tab:selected:focus { color: @accent; }
QTreeView, QTableView, QListView { background: @panel; alternate-background-color: @panelAlt; border: none; outline: none; selection-background-color: @selection; selection-color: @onSelection; }
QTreeView::item, QTableView::item { padding: 0 4px; } QTreeView::item:selected, QTableView::item:selected, QListView::item:selected { background: @selection; color: @onSelection; }
QAbstractScrollArea { border: none; }
QHeaderView { background: @panel; } QHeaderView::section { background: @panel; color: @textMuted; border: none; border-bottom: 1px solid @border; padding: 2px 6px; font-weight: 500; min-height: 18px; }
QHeaderView::section:hover { color: @text; } 
QHeaderView::up-arrow { image: url(@downArrow); width: 9px; height: 9px; } QHeaderView::down-arrow { image: url(@upArrow); width: 9px; height: 9px; }
QLineEdit, QTextEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox { background: @field; border: 1px solid @borderStrong; border-radius: 4px; padding: 1px 7px; min-height: 21px; selection-background-color: @selection; selection-color: @onSelection; }
QTextEdit, QPlainTextEdit { padding: 3px 5px; } QLineEdit > QToolButton { border: none; background: transparent; padding: 0; min-height: 0; }
QLineEdit:focus, QTextEdit:focus, QPlainTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QComboBox:focus { border: 1px solid @focus; }
QLineEdit:disabled, QComboBox:disabled { color: @textFaint; border-color: @border; }
QPlainTextEdit#spanText { border: none; border-radius: 0; background: transparent; padding: 0; }
QComboBox { background: @panel; padding-right: 18px; } QComboBox[small="true"] { min-height: 17px; }
QComboBox::drop-down { border: none; width: 18px; } QComboBox::down-arrow { image: url(@downArrow); width: 10px; height: 10px; }
QComboBox QAbstractItemView { background: @panel; border: 1px solid @borderStrong; selection-background-color: @selection; selection-color: @onSelection; outline: none; }
QPushButton, QToolButton { background: @panel; border: 1px solid @borderStrong; border-radius: 4px; padding: 1px 9px; min-height: 21px; color: @text; }
QPushButton:hover, QToolButton:hover { background: @hover; } QPushButton:pressed, QToolButton:pressed { background: @selection; }
QPushButton:focus, QToolButton:focus { border-color: @focus; }
QPushButton:disabled, QToolButton:disabled { color: @textFaint; border-color: @border; }
QToolButton[flat="true"] { border-color: transparent; background: transparent; } QToolButton[flat="true"]:hover { background: @hover; } QToolButton[flat="true"]:focus { border-color: @focus; }
QToolButton::menu-indicator { image: none; }
QToolButton[small="true"], QPushButton[small="true"] { min-height: 17px; padding: 1px 7px; }
QPushButton[primary="true"] { background: @accent; color: @onAccent; border-color: @accent; }
QToolButton[seg="first"] { border-top-right-radius: 0; border-bottom-right-radius: 0; border-right: none; }
QToolButton[seg="mid"] { border-radius: 0; border-left-color: @border; border-right: none; }
QToolButton[seg="last"] { border-top-left-radius: 0; border-bottom-left-radius: 0; border-left-color: @border; }
QToolButton[seg="first"], QToolButton[seg="mid"], QToolButton[seg="last"] { color: @textMuted; }
QToolButton[seg="first"]:checked, QToolButton[seg="mid"]:checked, QToolButton[seg="last"]:checked { background: @selection; color: @onSelection; font-weight: 600; }
QToolButton[place="true"] { min-height: 23px; padding: 1px 11px; font-weight: 500; } QToolButton[place="true"]:checked { background: @accent; color: @onAccent; font-weight: 500; }
QScrollBar:vertical { background: @panelAlt; width: 10px; border-left: 1px solid @border; margin: 0; } QScrollBar:horizontal { background: @panelAlt; height: 10px; border-top: 1px solid @border; margin: 0; }
QScrollBar::handle { background: @scroll; border-radius: 3px; } QScrollBar::handle:vertical { min-height: 28px; margin: 1px 1px 1px 2px; } QScrollBar::handle:horizontal { min-width: 28px; margin: 2px 1px 1px 1px; } QScrollBar::handle:hover { background: @borderStrong; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; } QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QProgressBar { background: @field; border: 1px solid @borderStrong; border-radius: 4px; text-align: center; } QProgressBar::chunk { background: @accent; border-radius: 3px; }
QFrame#banner { border: 1px solid; border-left-width: 4px; } QFrame#banner[grade="warn"] { background: @warnSoft; border-color: @warn; } QFrame#banner[grade="error"] { background: @errorSoft; border-color: @error; }
QFrame#card { background: @panel; border: 1px solid @border; border-radius: 3px; } QPushButton#card { background: @panel; border: 1px solid @border; border-radius: 3px; text-align: left; padding: 0; min-height: 54px; }
QPushButton#card[primary="true"] { background: @accentSoft; color: @text; border-color: @accent; } QPushButton#card:hover { border-color: @borderStrong; } QPushButton#card:focus { border-color: @focus; }
QLabel#key { border: 1px solid @border; border-bottom-color: @borderStrong; border-radius: 3px; padding: 0 4px; background: @panel; color: @textMuted; font-size: 10px; }
QLabel#code { border: 1px solid @border; background: @panelAlt; padding: 6px 8px; }
)");
  const auto hex = [](const Color& c) { return q(c).name(); };
  const auto between = [](const Color& a, const Color& b) { return QColor((a.r + b.r) / 2, (a.g + b.g) / 2, (a.b + b.b) / 2).name(); };
  // The arrow points to where the numbers go: down while they fall.
  s.replace("@downArrow", p.dark ? ":/icons/down-dark.svg" : ":/icons/down-light.svg");
  s.replace("@upArrow", p.dark ? ":/icons/up-dark.svg" : ":/icons/up-light.svg");
  s.replace("@scroll", between(p.borderStrong, p.panelAlt));
  // Longest names first, so that "text" does not eat the beginning of "textMuted".
  const std::pair<const char*, Color> names[] = {
      {"@textMuted", p.textMuted}, {"@textFaint", p.textFaint}, {"@text", p.text}, {"@window", p.window}, {"@panelAlt", p.panelAlt},
      {"@panel", p.panel}, {"@header", p.header}, {"@field", p.field}, {"@borderStrong", p.borderStrong}, {"@border", p.border},
      {"@accentSoft", p.accentSoft}, {"@accent", p.accent}, {"@onAccent", p.onAccent}, {"@selection", p.selection},
      {"@onSelection", p.onSelection}, {"@focus", p.focus}, {"@hover", p.hover}, {"@threshold", p.threshold},
      {"@errorSoft", p.errorSoft}, {"@error", p.error}, {"@warnSoft", p.warnSoft}, {"@warn", p.warn}};
  for (const auto& [name, color] : names) s.replace(QLatin1String(name), hex(color));
  return s;
}

}  // namespace spanscope::style
