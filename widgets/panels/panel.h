// SPDX-License-Identifier: GPL-3.0-or-later
// The frame of every panel: title, a subtitle that says what is drawn, a badge for where the numbers come from. UI thread.
#pragma once
#include <QString>
#include <QVBoxLayout>
#include <QWidget>

#include "widgets/document/document.h"

class QHBoxLayout;
class QLabel;
class QToolButton;

namespace spanscope {

enum class Provenance { captured, rerun, approximated, missing };

class ElidedLabel;
class ProvBadge;

class Panel : public QWidget {
  Q_OBJECT
 public:
  Panel(Document* document, const QString& objectName, const QString& title, QWidget* parent);
  Document* document() const { return document_; }
  QString title() const { return title_; }
  void setSubtitle(const QString& text);
  QString subtitle() const { return subtitle_; }
  void setProvenance(Provenance provenance, bool visible = true);
  Provenance provenance() const { return provenance_; }
  bool provenanceShown() const { return provenanceShown_; }
  void setHeaderVisible(bool visible);   // tabs and docks that show the title themselves
  QWidget* header() const { return header_; }
  // A small button at the header's right end (floats the dock, closes it, saves the picture).
  QToolButton* addHeaderTool(const QString& icon, const QString& name);
  // Pictures: false when a panel has none. SVG text, and a PNG at a scale.
  virtual bool hasPicture() const { return false; }
  virtual QByteArray pictureSvg() const { return {}; }
  virtual QImage picturePng(double scale) const;

 signals:
  void subtitleChanged();   // or the provenance

 protected:
  QVBoxLayout* body() const { return body_; }  // below the header

 private:
  Document* document_;
  QString title_, subtitle_;
  Provenance provenance_ = Provenance::captured;
  bool provenanceShown_ = false;
  QWidget* header_;
  QHBoxLayout* headerRow_;
  ElidedLabel* subtitleLabel_;
  ProvBadge* badge_;
  QVBoxLayout* body_;
};

// A button as panel headers have them: an icon, with its name as tooltip and for screen readers.
QToolButton* headerTool(const QString& icon, const QString& name, QWidget* parent);

}  // namespace spanscope
