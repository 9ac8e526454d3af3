// SPDX-License-Identifier: GPL-3.0-or-later
// What the selected words of an answer read: spans, word by word, and the heads that did it. UI thread.
#pragma once
#include "widgets/panels/data/words_data.h"
#include "widgets/panels/panel.h"

class QScrollArea;

namespace spanscope {

class RowTable;
class SectionHeader;
class StateNote;
class WordDots;

class WordsPanel : public Panel {
  Q_OBJECT
 public:
  WordsPanel(Document* document, QWidget* parent = nullptr);
  const panels::WordsData& data() const { return data_; }
  RowTable* spanTable() const { return spans_; }
  RowTable* readerTable() const { return readers_; }

 private:
  void reload();
  void show();
  void fillSpans();
  void fillReaders();
  void markSelection();

  panels::WordsData data_;
  TokenRange shown_;
  QScrollArea* scroll_;
  StateNote* empty_;
  QLabel *quote_, *facts_, *events_;
  QWidget* badgeRow_;
  RowTable *spans_, *readers_;
  WordDots* dots_;
  SectionHeader *dotsHeader_, *readersHeader_;
  QWidget* actions_;
};

}  // namespace spanscope
