// SPDX-License-Identifier: GPL-3.0-or-later
// A conversation replayed with a model's own tokenizer and template, and a sink that looks at every head on the way.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/files.h"
#include "core/base/json.h"
#include "core/chat/conversation.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "tests/oracle/record/record_file.h"

namespace spanscope::test {

struct Chat {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<Replay> replay;
  std::vector<MessageInfo> messages;
};

// `text` is OpenAI-style JSON.
inline Chat chat_of(const Model& model, const std::string& text, const std::string& where) {
  Chat out;
  auto conversation = take(parse_conversation(text, where));
  for (const Message& m : conversation.messages) out.messages.push_back({m.role, m.name, m.id});
  out.tokenizer = take(make_tokenizer(model.vocabulary));
  auto chat_template = take(make_chat_template(model.chat_template, model.vocabulary));
  out.replay = take(make_chat_replay(std::move(conversation), out.tokenizer, chat_template));
  return out;
}

inline OrderedJson read_json(const std::string& path) { return take(parse_json(take(read_file(path)), path)); }

inline SpanId message_span(const Ledger& ledger, int32_t message) {
  for (const Span& span : ledger.spans)
    if (span.kind == SpanKind::parent && span.parent == kNoSpan && span.message == message) return span.id;
  FAIL("no span for message " << message);
  return kNoSpan;
}

// Runs one turn with the recorder and shows every LayerRecord. row_masses: for answer passes.
struct PassView {
  const TurnPlan* turn;
  Slot begin;
  const RecordPlan* plan;
};
inline TurnRecord run_turn(Backend& backend, Cache& cache, Recorder& recorder, const TurnPlan& turn, const Ledger& ledger, bool row_masses,
                           const std::function<void(const PassView&, const LayerRecord&)>& look) {
  struct Tap : RecordSink {
    Recorder* recorder;
    PassView view;
    const std::function<void(const PassView&, const LayerRecord&)>* look;
    void on_layer(const LayerRecord& r) override {
      (*look)(view, r);
      recorder->on_layer(r);
    }
  } tap;
  tap.recorder = &recorder;
  tap.look = &look;
  cache.truncate(turn.cached);
  recorder.begin_turn(turn, ledger);
  const Slot border = turn.answer_len ? turn.first_answer_row() : turn.executed_end;
  for (Slot begin = turn.cached; begin < turn.executed_end;) {
    Slot end = std::min(turn.executed_end, begin + 512);
    if (begin < border) end = std::min(end, border);
    const std::vector<RowPhase> phases(turn.phase.begin() + (begin - turn.cached), turn.phase.begin() + (end - turn.cached));
    RecordPlan plan = recorder.plan_pass(begin, end, phases);
    plan.want_row_masses = row_masses && begin >= border;
    std::vector<TokenPos> positions;
    for (Slot slot = begin; slot < end; ++slot) positions.push_back(slot);
    ForwardOptions options;
    options.logits = LogitRows::none;
    options.plan = &plan;
    options.sink = &tap;
    tap.view = {&turn, begin, &plan};
    take(backend.forward(cache, Batch{std::span(turn.ids).subspan(begin, end - begin), positions}, options));
    begin = end;
  }
  return take(recorder.close_turn(turn, ledger));
}

}  // namespace spanscope::test
