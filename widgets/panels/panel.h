// SPDX-License-Identifier: GPL-3.0-or-later
// The frame of every panel: title, a subtitle that says what is drawn, a badge for where the numbers come from. UI thread.
#pragma once
#include <QLabel>
#include <QString>
#include <QVBoxLayout>
#include <QWidget>

#include "widgets/document/document.h"

namespace spanscope {

enum class Provenance { captured, rerun, approximated, missing };

class Panel : public QWidget {
  Q_OBJECT
 public:
  Panel(Document* document, const QString& objectName, const QString& title, QWidget* parent);
  Document* document() const { return document_; }
  QString title() const { return title_; }
  void setSubtitle(const QString& text);
  QString subtitle() const { return subtitle_; }
  void setProvenance(Provenance provenance, bool visible = true);
  void setHeaderVisible(bool visible);   // tabs and docks that show the title themselves
  // Pictures: false when a panel has none. SVG text, and a PNG at a scale.
  virtual bool hasPicture() const { return false; }
  virtual QByteArray pictureSvg() const { return {}; }
  virtual QImage picturePng(double scale) const;

 signals:
  void subtitleChanged();

 protected:
  QVBoxLayout* body() const { return body_; }  // below the header

 private:
  Document* document_;
  QString title_, subtitle_;
  QWidget* header_;
  QLabel *titleLabel_, *subtitleLabel_, *badge_;
  QVBoxLayout* body_;
};

}  // namespace spanscope
