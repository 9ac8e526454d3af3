// SPDX-License-Identifier: GPL-3.0-or-later
// Small things that the panels share: colours by name, role letters, section headers, badges, segmented buttons, numbers as
// people read them. UI thread.
#pragma once
#include <QCheckBox>
#include <QColor>
#include <QFont>
#include <QFrame>
#include <QLabel>
#include <QRadioButton>
#include <QString>
#include <QToolButton>
#include <QWidget>
#include <vector>

#include "core/base/ids.h"
#include "core/record/session_data.h"
#include "core/report/figure/palette.h"
#include "widgets/panels/panel.h"

class QButtonGroup;
class QPainter;

namespace spanscope {

struct PanelColors {
  bool dark = false;
  QColor window, panel, panelAlt, header, field, border, borderStrong, grid, text, textMuted, textFaint, accent, onAccent, accentSoft,
      selection, onSelection, focus, hover, pinned, crosshair, threshold, zeroLine, hatchLine, hatchBack, ok, warn, error, errorSoft,
      captured, rerun, approx, missing, bar;
  std::vector<QColor> experts;
  const Palette* source = nullptr;
  QColor role(const QString& role) const;
  QColor expert(int index) const;
  QColor reads(double count) const;          // log from 1 to 128
  QColor share(double part) const;           // 0 to 1 along `sequential`
};
const PanelColors& panelColors();            // of the theme in use
QColor inkOn(const QColor& back);            // black or white, whichever stands out more

void drawRoleBox(QPainter& painter, const QRectF& box, const QString& role);
void drawHatch(QPainter& painter, const QRectF& box);
QFont monoFont(const QFont& like);
QFont sized(const QFont& base, double factor, bool strong = false);

QString spanNumber(SpanId id);                               // "088"
QString spanTitle(const SessionData& session, SpanId id);    // its name, or its role
QString spanRole(const SessionData& session, SpanId id);
QString count(qint64 n);                                     // grouping
QString percent(double part);                                // gui.md 5: 3 significant digits, at most 2 decimals
QString wholePercent(double part);
QString strength(double x);                                  // 2 decimals
QString seconds(double s);

// The panel colour behind everything that does not paint itself; follows the theme.
void fillWithPanelColor(QWidget* widget);
// "1 span", "3 spans".
QString plural(qint64 n, const QString& one, const QString& many);

// A strip with a title, and muted text at its right end.
class SectionHeader : public QWidget {
  Q_OBJECT
 public:
  explicit SectionHeader(const QString& title, QWidget* parent = nullptr);
  void setTitle(const QString& title);
  void setNote(const QString& note);

 protected:
  void paintEvent(QPaintEvent* event) override;
  QSize sizeHint() const override { return {200, 23}; }
  QSize minimumSizeHint() const override { return {80, 23}; }

 private:
  QString title_, note_;
};

// Where a number comes from, as a mark and a word, inside a panel.
class ProvBadge : public QWidget {
  Q_OBJECT
 public:
  explicit ProvBadge(Provenance kind, QWidget* parent = nullptr);
  void setKind(Provenance kind);
  QSize sizeHint() const override;

 protected:
  void paintEvent(QPaintEvent* event) override;

 private:
  Provenance kind_;
};

// Exclusive choice as joined buttons.
class Segments : public QWidget {
  Q_OBJECT
 public:
  Segments(const QString& objectName, const QString& accessibleName, const QStringList& titles, QWidget* parent = nullptr);
  int index() const;
  void setIndex(int index);
  void setSegmentEnabled(int index, bool enabled, const QString& why = {});

 signals:
  void chosen(int index);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void restyle();
  QButtonGroup* group_;
};

// Choices whose borders stand out in both themes (3:1); the style's own vanish on a dark panel.
class Choice : public QRadioButton {
  Q_OBJECT
 public:
  using QRadioButton::QRadioButton;

 protected:
  void paintEvent(QPaintEvent* event) override;
  QSize sizeHint() const override;
};
class Tick : public QCheckBox {
  Q_OBJECT
 public:
  using QCheckBox::QCheckBox;

 protected:
  void paintEvent(QPaintEvent* event) override;
  QSize sizeHint() const override;
};

// A small button with our frame.
class SmallButton : public QToolButton {
  Q_OBJECT
 public:
  explicit SmallButton(const QString& text, QWidget* parent = nullptr);

 protected:
  void changeEvent(QEvent* event) override;

 private:
  void restyle();
};

// What is so, why, and the way out: shown instead of a picture that cannot be drawn.
class StateNote : public QWidget {
  Q_OBJECT
 public:
  explicit StateNote(QWidget* parent = nullptr);
  void say(const QString& title, const QString& text, const QString& option = {});
  QString title() const { return title_; }
  QString text() const { return text_; }
  QString option() const { return option_; }

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;

 private:
  QString title_, text_, option_;
  QRect optionBox_;
};

}  // namespace spanscope
