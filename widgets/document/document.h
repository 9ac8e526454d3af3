// SPDX-License-Identifier: GPL-3.0-or-later
// The state that all panels share: session, selection, hover, pins, filter, measure and strength. Panels read it and send
// intents (the set... slots); they never call one another. UI thread.
#pragma once
#include <QObject>
#include <QString>
#include <memory>
#include <vector>

#include "core/record/session_data.h"
#include "core/view/view.h"
#include "widgets/document/selection.h"

namespace spanscope {

class Document : public QObject {
  Q_OBJECT
 public:
  explicit Document(QObject* parent = nullptr);
  ~Document() override;

  // --- session
  std::shared_ptr<const SessionData> session() const { return session_; }  // null: none open
  bool empty() const { return !session_; }
  void setSession(std::shared_ptr<const SessionData> session);

  // --- selection
  const Selection& selection() const { return selection_; }
  const Hover& hover() const { return hover_; }
  const std::vector<SpanId>& pins() const { return pins_; }
  int turn() const { return selection_.turn; }                  // the cursor; -1 without a session
  const TurnRecord* turnRecord() const;                         // the cursor's turn
  void select(SpanId span, Origin origin, bool add = false);    // kNoSpan clears; add toggles
  void selectSpans(std::vector<SpanId> spans, Origin origin);
  void setTurn(int turn, Origin origin);
  void setHead(int layer, int head, Origin origin);             // -1: all
  void setExpert(int expert, Origin origin);
  void setWords(TokenRange words, Origin origin);
  void setHover(const Hover& hover);
  void togglePin(SpanId span);                                  // at most 8
  bool canGoBack() const { return at_ > 0; }
  bool canGoForward() const { return at_ + 1 < int(trail_.size()); }
  void goBack();
  void goForward();

  // --- measure and strength
  const MeasureSettings& settings() const { return settings_; }
  Measure measure() const { return settings_.measure; }
  float strength() const { return settings_.reads.theta; }
  void setMeasure(Measure measure);
  void setRows(RowSet rows);
  void setStrength(float theta);                                // clamped to [theta_rec, 0.9]; every panel follows
  const ReadHistory& history() const;                           // at the strength; computed when first asked for
  const CellTable& cells() const;                               // messages x turns at measure and strength

  // --- filter
  const QString& filterText() const { return filterText_; }
  const QString& filterError() const { return filterError_; }   // empty: the text applies
  int filterErrorAt() const { return filterErrorAt_; }          // character at which it is; -1: no error, or no place
  bool filterActive() const { return !filterText_.isEmpty(); }
  bool matchingOnly() const { return matchingOnly_; }
  // Spans (messages) of the filter in ledger order, all messages without one. Of a text with an error the part before the
  // last "and" or "or" is used if it stands alone; otherwise the last good view stays.
  const View& view() const;
  bool matches(SpanId span) const;
  void setFilter(const QString& text, Origin origin);
  void setMatchingOnly(bool on);

 signals:
  void sessionChanged();
  void selectionChanged(const spanscope::Selection& selection, spanscope::Origin origin);
  void hoverChanged(const spanscope::Hover& hover);
  void pinsChanged();
  void measureChanged();    // measure or row set
  void strengthChanged();
  void filterChanged(spanscope::Origin origin);
  void message(const QString& text);   // for the status bar

 private:
  void changed(Origin origin);
  void refilter();
  std::shared_ptr<const SessionData> session_;
  Selection selection_;
  Hover hover_;
  std::vector<SpanId> pins_;
  MeasureSettings settings_;
  QString filterText_, filterError_;
  int filterErrorAt_ = -1;
  bool matchingOnly_ = true;
  View view_;
  std::vector<uint8_t> inView_;
  std::vector<Selection> trail_;
  int at_ = -1;
  bool walking_ = false;
  mutable std::unique_ptr<ReadHistory> history_;
  mutable std::unique_ptr<CellTable> cells_, states_;  // states_: under reads, at some strength
};

}  // namespace spanscope

Q_DECLARE_METATYPE(spanscope::Selection)
Q_DECLARE_METATYPE(spanscope::Hover)
