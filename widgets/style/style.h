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
class QWidget;

namespace spanscope::style {

enum class Theme { system, light, dark };
void apply(QApplication& app, Theme theme);  // palette, style sheet, fonts; may be called again
bool dark();
const Palette& colors();                     // of the theme in force
inline QColor q(const Color& c) { return QColor(c.r, c.g, c.b, c.a); }

QFont mono(double points = 0);               // 0: a step below the application's size, fixed fonts run wide
QFont sized(double pixels, bool strong = false);  // the application's family
QString spanNumber(SpanId id);               // "088"
QString number(qint64 n);                    // 14,736
QString percent(double fraction, int digits = 1);  // "4.5 %"
QString bytes(quint64 n);                    // "21.3 MB"
// A rounded square with the role's letter; returns its width with the gap behind it.
int drawRoleBox(QPainter& painter, const QRect& rect, const std::string& role);
// An icon of resources/icons in the colour of the text, drawn at any scale. onAccent: checked buttons are filled.
QIcon icon(const QString& name, bool onAccent = false);
void drawIcon(QPainter& painter, const QRectF& box, const QString& name, const QColor& ink);
void drawHatch(QPainter& painter, const QRect& rect);  // "not captured"
// Sets a dynamic property that the style sheet tests, and polishes the widget again.
void mark(QWidget* widget, const char* property, const QVariant& value);

}  // namespace spanscope::style
