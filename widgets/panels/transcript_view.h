// SPDX-License-Identifier: GPL-3.0-or-later
// The scrolling text of the transcript: one text layout per paragraph that is shown, a gutter with letter, number, count
// and bar, folds, word selection by tokens. UI thread.
#pragma once
#include <QAbstractScrollArea>
#include <QTextLayout>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "widgets/document/document.h"
#include "widgets/panels/data/transcript_data.h"

namespace spanscope {

class MarkedScrollBar;

class TranscriptView : public QAbstractScrollArea {
  Q_OBJECT
 public:
  enum class Tint : uint8_t { turn, session, words, view };
  explicit TranscriptView(Document* document, QWidget* parent = nullptr);
  ~TranscriptView() override;

  void setTint(Tint tint);
  Tint tint() const { return tint_; }
  void setMode(panels::TextMode mode);
  void setFolding(bool fold);
  void next(int direction);  // the next block with a count, inside the filter

  const std::vector<panels::TranscriptBlock>& blocks() const { return blocks_; }
  qint64 countOf(size_t block) const { return counts_[block]; }
  bool folded(size_t block) const;
  // Selects tokens [begin, end) of a block as if dragged over: for tests and the keyboard.
  void selectTokens(size_t block, uint32_t begin, uint32_t end);
  void scrollToBlock(size_t block);
  // Middle of a token's first character in the viewport; null when it is not laid out.
  QPoint pointOf(size_t block, uint32_t token) const;

 signals:
  void contentChanged();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  struct Paragraph {
    std::unique_ptr<QTextLayout> layout;
    uint32_t begin = 0, end = 0;  // characters of the block
    double y = 0, height = 0;     // from the text's top
  };
  struct Laid {
    int width = 0;
    bool whole = false;
    panels::CharMap map;
    std::vector<Paragraph> paragraphs;
    double height = 0;
    bool cut = false;
  };
  struct Item {
    bool fold = false;
    size_t first = 0, last = 0;  // blocks
    double y = 0, height = 0;
  };

  void reload();        // another session
  void recount();       // counts and folds
  void arrange();       // heights
  Laid& laid(size_t block);
  double textHeight(size_t block);
  bool isReader(size_t block) const;
  QFont fontOf(size_t block) const;
  QColor wash(qint64 count) const;
  int itemAt(double y) const;
  bool charAt(const QPoint& pos, size_t& block, uint32_t& index) const;
  void finishDrag();
  std::pair<uint32_t, uint32_t> selectedTokens(size_t block) const;
  void paintFold(QPainter& p, const Item& item, double y);
  void paintBlock(QPainter& p, const Item& item, double y);
  void copySelection() const;
  double textTop(size_t block) const;

  Document* document_;
  std::vector<panels::TranscriptBlock> blocks_;
  std::vector<qint64> counts_;                    // [blocks] -1: not in the context of the turn
  std::vector<std::vector<qint64>> leafCounts_;   // [blocks][leaves]
  qint64 most_ = 0;
  std::vector<Item> items_;
  std::map<size_t, std::unique_ptr<Laid>> laid_;
  std::set<size_t> opened_, whole_;
  Tint tint_ = Tint::turn;
  panels::TextMode mode_ = panels::TextMode::text;
  bool folding_ = true;
  MarkedScrollBar* bar_;
  // The drag: characters of one block.
  bool dragging_ = false, moved_ = false;
  size_t dragBlock_ = 0;
  uint32_t dragFrom_ = 0, dragTo_ = 0;
};

}  // namespace spanscope
