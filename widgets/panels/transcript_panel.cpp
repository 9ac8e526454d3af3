// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/transcript_panel.h"

#include <QBuffer>
#include <QCoreApplication>
#include <QHBoxLayout>
#include <QPainter>
#include <QSvgGenerator>
#include <cmath>

#include "widgets/panels/panel_kit.h"
#include "widgets/panels/transcript_view.h"

namespace spanscope {
namespace {

class TintKey : public QWidget {
 public:
  explicit TintKey(QWidget* parent) : QWidget(parent) { setFixedSize(248, 20); }

 protected:
  void paintEvent(QPaintEvent*) override {
    QPainter p(this);
    const PanelColors& c = panelColors();
    p.setPen(c.textMuted);
    p.drawText(QRect(0, 0, 72, 20), Qt::AlignVCenter | Qt::AlignLeft, QCoreApplication::translate("TranscriptPanel", "tint = reads"));
    p.setFont(sized(font(), 0.88));
    const int values[] = {0, 1, 4, 16, 64};
    for (int k = 0; k < 5; ++k) {
      const QRect box(76 + k * 34, 3, 34, 14);
      if (values[k]) {
        QColor color = c.share(11.0 / 32);
        color.setAlphaF(float((0.16 + 0.84 * std::log(values[k]) / std::log(64.0)) * (c.dark ? 0.55 : 0.42)));
        p.fillRect(box, color);
      }
      p.setPen(c.border);
      p.drawRect(box);
      p.setPen(c.text);
      p.drawText(box, Qt::AlignCenter, QString::number(values[k]));
    }
  }
};

}  // namespace

TranscriptPanel::TranscriptPanel(Document* document, QWidget* parent)
    : Panel(document, "transcriptPanel", tr("Transcript"), parent), view_(new TranscriptView(document, this)) {
  setAccessibleName(tr("Transcript"));
  fillWithPanelColor(this);
  setProvenance(Provenance::captured);
  auto* bar = new QWidget(this);
  bar->setFixedHeight(31);
  auto* row = new QHBoxLayout(bar);
  row->setContentsMargins(10, 0, 10, 0);
  row->setSpacing(8);
  label_ = new QLabel(tr("Tint by"), bar);
  label_->setObjectName("muted");
  tint_ = new Segments("transcriptTint", tr("Tint by"), {tr("This turn"), tr("Session"), tr("Selected words"), tr("View")}, bar);
  fold_ = new SmallButton(tr("Fold 0 reads"), bar);
  fold_->setObjectName("transcriptFold");
  fold_->setCheckable(true);
  fold_->setChecked(true);
  mode_ = new Segments("transcriptMode", tr("Text as"), {tr("Text"), tr("Whitespace"), tr("Tokens")}, bar);
  auto* previous = new SmallButton(QString(QChar(0x2039)), bar);
  previous->setAccessibleName(tr("Previous span that was read"));
  previous->setToolTip(tr("Previous span that was read (Shift+N)"));
  auto* next = new SmallButton(QString(QChar(0x203A)), bar);
  next->setAccessibleName(tr("Next span that was read"));
  next->setToolTip(tr("Next span that was read (N)"));
  row->addWidget(label_);
  row->addWidget(tint_);
  row->addWidget(fold_);
  row->addWidget(mode_);
  row->addStretch(1);
  row->addWidget(key_ = new TintKey(bar));
  row->addWidget(previous);
  row->addWidget(next);
  body()->addWidget(bar);
  auto* line = new QFrame(this);
  line->setFixedHeight(1);
  line->setStyleSheet(QString("background:%1").arg(panelColors().border.name()));
  body()->addWidget(line);
  body()->addWidget(view_, 1);
  connect(tint_, &Segments::chosen, this, [this](int i) {
    view_->setTint(TranscriptView::Tint(i));
    retitle();
  });
  connect(mode_, &Segments::chosen, this, [this](int i) { view_->setMode(panels::TextMode(i)); });
  connect(fold_, &QToolButton::toggled, view_, &TranscriptView::setFolding);
  connect(previous, &QToolButton::clicked, this, [this] { view_->next(-1); });
  connect(next, &QToolButton::clicked, this, [this] { view_->next(+1); });
  connect(document, &Document::selectionChanged, this, [this](const Selection& s, Origin origin) {
    // Dragging over words asks for them; when they go, the turn comes back.
    if (origin == Origin::transcript && !s.words.empty() && view_->tint() != TranscriptView::Tint::words) {
      tint_->setIndex(int(TranscriptView::Tint::words));
      view_->setTint(TranscriptView::Tint::words);
    } else if (s.words.empty() && view_->tint() == TranscriptView::Tint::words && tint_->index() == int(TranscriptView::Tint::words) && origin != Origin::transcript) {
      tint_->setIndex(int(TranscriptView::Tint::turn));
      view_->setTint(TranscriptView::Tint::turn);
    }
    retitle();
  });
  connect(document, &Document::sessionChanged, this, [this] { retitle(); });
  connect(document, &Document::strengthChanged, this, [this] { retitle(); });
  retitle();
}

void TranscriptPanel::resizeEvent(QResizeEvent* event) {
  Panel::resizeEvent(event);
  // In a narrow window the controls stay, what explains them goes.
  key_->setVisible(width() >= 1000);
  label_->setVisible(width() >= 760);
}

void TranscriptPanel::retitle() {
  if (!document()->session()) return setSubtitle({});
  const QString by[] = {tr("reads by the answer of turn %1").arg(document()->turn() + 1), tr("reads over the session"), tr("reads by the selected words"), tr("reads over the session, spans of the view")};
  setSubtitle(tr("%1, strength %2").arg(by[int(view_->tint())], strength(document()->strength())));
}

QByteArray TranscriptPanel::pictureSvg() const {
  QByteArray bytes;
  QBuffer buffer(&bytes);
  buffer.open(QIODevice::WriteOnly);
  QSvgGenerator svg;
  svg.setOutputDevice(&buffer);
  svg.setSize(view_->size());
  svg.setViewBox(QRect(QPoint(0, 0), view_->size()));
  svg.setTitle(title() + ": " + subtitle());
  QPainter p(&svg);
  view_->render(&p);
  return bytes;
}

}  // namespace spanscope
