// SPDX-License-Identifier: GPL-3.0-or-later
// The palette for widgets, and small drawing helpers that every panel shares. UI thread.
#pragma once
#include <QColor>
#include <QFont>
#include <QIcon>
#include <QPainter>
#include <QString>

#include "core/report/figure/palette.h"
#include "core/span/span.h"

class QApplication;

namespace spanscope::style {

enum class Theme { system, light, dark };
void apply(QApplication& app, Theme theme);  // palette, style sheet, fonts
bool dark();
const Palette& colors();                     // of the theme in force
inline QColor q(const Color& c) { return QColor(c.r, c.g, c.b, c.a); }

QFont mono(double points = 0);               // 0: the application's size
QString spanNumber(SpanId id);               // "088"
QString number(qint64 n);                    // 14,736
QString percent(double fraction, int digits = 1);  // "4.5 %"
// A rounded square with the role's letter; returns its width with the gap behind it.
int drawRoleBox(QPainter& painter, const QRect& rect, const std::string& role);
QIcon icon(const QString& name);             // an icon of resources/icons in the text's colour
void drawHatch(QPainter& painter, const QRect& rect);  // "not captured"

}  // namespace spanscope::style
