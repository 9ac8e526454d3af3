// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gui/support/synthetic_session.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>

namespace spanscope::test {
namespace {

struct Script {
  const char* role;
  const char* name;
  const char* text;
};
const Script kSystem = {"system", "role and goal",
                        "You help the payments team. Answer briefly, name the files you read, and never guess an amount.\n"
                        "Refunds above 200 euro need a second approval by the finance lead."};
const Script kSteps[] = {
    {"user", "charged twice since Tuesday", "Customers say they were charged twice since Tuesday. Find out why, please."},
    {"tool", "get_logs charge-worker 13-14h",
     "13:02:11 charge job=8812 attempt=1 gateway timeout\n13:02:15 charge job=8812 attempt=2 ok\n13:02:15 mark_charged job=8812\n"
     "13:07:40 charge job=8840 attempt=1 gateway timeout\n13:07:44 charge job=8840 attempt=2 ok"},
    {"document", "refund policy §4 limits",
     "# Refund limits\nA refund up to 200 euro is done by support. Above that the finance lead approves it in writing.\n"
     "# Who is told\nThe customer gets a mail on the same day; the mail names the amount and the reason."},
    {"tool", "read_file charge_worker.py",
     "def charge(self, job):\n  p = self.db.payment(job.payment_id)\n  for attempt in range(1, MAX_ATTEMPTS + 1):\n"
     "    key = idempotency_key(p.id, attempt)\n    try:\n      r = self.gateway.charge(p, key,\n                timeout=4.0)\n"
     "      self.db.mark_charged(p.id, r.ref)\n      return r\n    except GatewayTimeout:\n      # it may have gone through\n      log(attempt)"},
    {"document", "idempotency design note",
     "A key must be the same for every attempt at the same payment. Build it from the payment id only.\n"
     "Never from a time, a counter or a random number."},
    {"tool", "git_show 8c1e retry rewrite", "-        key = idempotency_key(payment.id)\n+        key = idempotency_key(payment.id, attempt)"},
    {"tool", "run_tests test_retry_key", "FAILED test_second_attempt_reuses_key: 2 charges, expected 1"},
    {"user", "名前と金額", "顧客の名前は「山田」、金額は 2,914.20 € です 🙂. Please keep both as they are."},
    {"tool", "query_db charges over 200",
     "id      customer  amount  state\nC-1184  Kovacs    412.00  twice\nC-2093  Osei      238.50  twice\nC-2317  Ito       251.00  twice"},
    {"user", "sum up cause, fix, refunds",
     "Please sum up for the record: the cause, the fix, and whom we refund how much. Who has to approve?"},
};
const char* kAnswers[] = {
    "Cause. In charge_worker.py the idempotency key is rebuilt from the attempt number, so when the gateway times out the second "
    "attempt counts as a new charge. This came in with the retry rewrite 8c1e on Monday evening.\n"
    "Fix. Build the key from the payment id alone. The new test fails before the patch and passes after it.\n"
    "Refunds. 31 EU customers were charged twice, 2,914.20 euro in total. Four of them are above 200 euro and need a second approval.",
    "I looked at the log of the charge worker. Two jobs ran into a gateway timeout and were charged again four seconds later.",
    "The policy asks for a written approval above 200 euro, so three of these customers have to wait for the finance lead.",
};

// Tokens of about four letters, the space in front; a character outside ASCII becomes two tokens that split it.
std::vector<std::string> tokenise(const std::string& text) {
  std::vector<std::string> out;
  size_t at = 0;
  while (at < text.size()) {
    const uint8_t c = uint8_t(text[at]);
    if (c >= 0x80) {
      size_t n = 1;
      while (at + n < text.size() && (uint8_t(text[at + n]) & 0xC0) == 0x80) ++n;
      if (n > 2) {
        out.push_back(text.substr(at, 2));
        out.push_back(text.substr(at + 2, n - 2));
      } else {
        out.push_back(text.substr(at, n));
      }
      at += n;
      continue;
    }
    size_t n = 1;
    const bool word = std::isalnum(c) || c == ' ';
    if (word)
      while (at + n < text.size() && n < 6 && std::isalpha(uint8_t(text[at + n]))) ++n;
    out.push_back(text.substr(at, n));
    at += n;
  }
  return out;
}

struct Builder {
  SyntheticOptions o;
  std::mt19937 rng;
  SessionData s;
  std::vector<LayoutEntry> layout;
  Slot next = 0;
  double uniform() { return std::uniform_real_distribution<double>(0, 1)(rng); }

  SpanId add(SpanKind kind, const std::string& role, const std::string& name, SpanId parent, int32_t message, TurnId birth) {
    Span span;
    span.id = SpanId(s.ledger.spans.size());
    span.kind = kind, span.role = role, span.name = name, span.parent = parent, span.message = message, span.birth = birth;
    span.field = kind == SpanKind::content ? "content" : "";
    span.taint = role == "tool" || role == "document" ? Taint::tainted : Taint::trusted;
    span.pinned = role == "system";
    s.ledger.spans.push_back(span);
    return span.id;
  }
  void put(TurnRecord& t, SpanId leaf, const std::vector<std::string>& tokens) {
    s.ledger.spans[leaf].tokens = uint32_t(tokens.size());
    layout.push_back({leaf, next, uint32_t(tokens.size()), next});
    for (const std::string& token : tokens) {
      t.new_ids.push_back(TokenId(std::hash<std::string>{}(token) % 50000));
      t.new_token_bytes.push_back(uint32_t(token.size()));
      t.new_text += token;
    }
    next += uint32_t(tokens.size());
  }
  // Header, content in leaves of at most `split` tokens, end marker.
  SpanId message(TurnRecord& t, const std::string& role, const std::string& name, const std::string& text, size_t split) {
    const int32_t index = int32_t(s.messages.size());
    s.messages.push_back({role, name, ""});
    const SpanId parent = add(SpanKind::parent, role, name, kNoSpan, index, t.turn);
    const SpanId head = add(SpanKind::template_text, "template", "", kNoSpan, index, t.turn);
    s.ledger.spans[head].attached_to = parent;
    put(t, head, {"<|im_start|>", role, "\n"});
    const auto tokens = tokenise(text);
    uint64_t byte = 0;
    for (size_t at = 0; at < tokens.size(); at += split) {
      const std::vector<std::string> part(tokens.begin() + long(at), tokens.begin() + long(std::min(tokens.size(), at + split)));
      const SpanId leaf = add(SpanKind::content, role, name, parent, index, t.turn);
      put(t, leaf, part);
      uint64_t bytes = 0;
      for (const auto& p : part) bytes += p.size();
      s.ledger.spans[leaf].source = {byte, byte + bytes};
      byte += bytes;
    }
    s.ledger.spans[parent].tokens = uint32_t(tokens.size());
    return parent;
  }
};

}  // namespace

std::shared_ptr<const SessionData> synthetic_session(const SyntheticOptions& options) {
  Builder b{options, std::mt19937(options.seed), {}, {}, 0};
  SessionData& s = b.s;
  s.header.program_version = "0.1.0", s.header.session_id = "synthetic";
  s.header.model_name = "payments-agent", s.header.model_family = "llama", s.header.model_path = "relay-moe.gguf";
  s.header.model_digest = "4f0c77d1c1de4b0291aa03be", s.header.tokenizer_digest = "77aa";
  s.header.layers = options.layers, s.header.query_heads = options.heads, s.header.kv_heads = options.kv_heads;
  s.header.head_dim = 64, s.header.hidden = 1024, s.header.vocab = 50000;
  s.header.experts = options.experts, s.header.experts_used = options.experts ? 2 : 0;
  s.header.window.assign(options.layers, 0);
  s.header.moe_layer.assign(options.layers, options.experts ? 1 : 0);
  if (options.experts && options.layers > 2) s.header.moe_layer[0] = s.header.moe_layer[1] = 0;
  s.header.backend = "cpu fast", s.header.threads = 2, s.header.routing = options.experts > 0;
  s.header.has_text = options.text, s.header.source = "payments-agent.json", s.header.mode = "replay";
  s.finished = true, s.file_bytes = 21'300'000, s.path = "payments-agent.span";

  const uint32_t layers = options.layers, heads = options.heads;
  std::vector<std::pair<uint16_t, uint16_t>> retrieval;
  for (int i = 0; i < 14; ++i)
    retrieval.emplace_back(uint16_t(layers / 3 + b.rng() % std::max(1u, layers / 2)), uint16_t(b.rng() % heads));

  for (uint32_t turn = 0; turn < options.turns; ++turn) {
    TurnRecord t;
    t.turn = turn;
    t.executed_begin = b.next;
    if (turn == 0) {
      const SpanId sink = b.add(SpanKind::sink, "sink", "", kNoSpan, -1, 0);
      b.put(t, sink, {"<s>", "<|im_start|>", "system", "\n"});
      b.message(t, kSystem.role, kSystem.name, kSystem.text, 256);
    }
    const Script& step = kSteps[turn % std::size(kSteps)];
    const std::string name = turn < std::size(kSteps) ? step.name : std::string(step.name) + " " + std::to_string(turn / std::size(kSteps) + 1);
    SpanId request = b.message(t, step.role, name, step.text, turn % 10 == 3 ? 48 : 256);
    if (turn % 3 == 1) request = b.message(t, "user", "and now", "And what does that mean for step " + std::to_string(turn) + "?", 256);
    const SpanId prompt = b.add(SpanKind::template_text, "template", "", kNoSpan, -1, turn);
    b.put(t, prompt, {"<|im_start|>", "assistant", "\n"});
    t.answer_begin = b.next;
    const int32_t index = int32_t(s.messages.size());
    t.message = index;
    s.messages.push_back({"assistant", "", ""});
    const char* text = kAnswers[turn + 1 == options.turns ? 0 : 1 + turn % 2];
    const std::string answer_name = turn + 1 == options.turns ? "cause, fix, refunds (answer)" : "reply to " + name;
    const SpanId parent = b.add(SpanKind::parent, "assistant", answer_name, kNoSpan, index, turn);
    const SpanId answer = b.add(SpanKind::content, "assistant", answer_name, parent, index, turn);
    const auto tokens = tokenise(text);
    b.put(t, answer, tokens);
    s.ledger.spans[answer].source = {0, std::string(text).size()};
    s.ledger.spans[parent].tokens = uint32_t(tokens.size());
    const SpanId end = b.add(SpanKind::template_text, "template", "", kNoSpan, index, turn);
    s.ledger.spans[end].attached_to = parent;
    b.put(t, end, {"<|im_end|>"});
    t.answer_len = b.next - t.answer_begin;
    t.context = b.next;
    t.executed_end = b.next - 1;
    for (Slot slot = t.executed_begin; slot < t.executed_end; ++slot)
      t.phase.push_back(uint8_t(slot + 1 >= t.answer_begin ? RowPhase::answer : RowPhase::prompt));
    t.layout = b.layout;
    t.seconds_prompt = 0.4, t.seconds_answer = 1.1;

    // Reads: the request, what came just before, and a few spans that the answer needs again.
    struct Weighted {
      size_t entry;
      double weight;
    };
    std::vector<Weighted> targets;
    for (size_t i = 0; i < t.layout.size(); ++i) {
      const Span& leaf = s.ledger[t.layout[i].leaf];
      if (leaf.kind != SpanKind::content || t.layout[i].slot >= t.answer_begin) continue;
      const double age = turn - leaf.birth;
      double w = leaf.parent == request ? 2.0 : 1.4 * std::exp(-age / 1.5);
      if (leaf.name.find("charge_worker") != std::string::npos && turn % 4 != 2) w += 1.6;
      if (leaf.name.find("limits") != std::string::npos && turn > 12) w += 0.9;
      if (leaf.role == "assistant") w *= 0.15;
      if (w > 0.02 && b.uniform() < 0.8) targets.push_back({i, w});
    }
    double total = 0;
    for (const auto& x : targets) total += x.weight;
    struct Event {
      uint32_t row, leaf;
      uint16_t layer, head;
      float mass, habit;
    };
    std::vector<Event> events;
    for (uint32_t i = 0; i < options.events_per_turn && total > 0; ++i) {
      double at = b.uniform() * total;
      size_t pick = 0;
      while (pick + 1 < targets.size() && at > targets[pick].weight) at -= targets[pick].weight, ++pick;
      Event e;
      e.row = t.answer_begin - 1 + b.rng() % t.answer_len;
      e.leaf = t.layout[targets[pick].entry].leaf;
      const bool known = b.uniform() < 0.8;
      const auto head = retrieval[b.rng() % retrieval.size()];
      e.layer = known ? head.first : uint16_t(layers / 4 + b.rng() % (layers - layers / 4));
      e.head = known ? head.second : uint16_t(b.rng() % heads);
      e.mass = float(0.205 + 0.77 * std::pow(b.uniform(), 1.3));
      e.habit = float(b.uniform() < 0.06 ? std::min(0.12, e.mass / 3.1) : 0.01 + 0.04 * b.uniform());
      events.push_back(e);
    }
    std::sort(events.begin(), events.end(), [](const Event& x, const Event& y) {
      return std::tie(x.row, x.leaf, x.layer, x.head) < std::tie(y.row, y.leaf, y.layer, y.head);
    });
    events.erase(std::unique(events.begin(), events.end(),
                             [](const Event& x, const Event& y) {
                               return std::tie(x.row, x.leaf, x.layer, x.head) == std::tie(y.row, y.leaf, y.layer, y.head);
                             }),
                 events.end());
    const size_t S = t.layout.size();
    t.spike.assign(S, std::numeric_limits<float>::quiet_NaN());
    t.spike_layer.assign(S, 0), t.spike_head.assign(S, 0), t.spike_row.assign(S, 0);
    for (size_t i = 0; i < S; ++i)
      if (t.layout[i].slot < t.answer_begin) t.spike[i] = float(0.05 + 0.1 * b.uniform());
    for (const Event& e : events) {
      t.events.row.push_back(e.row), t.events.leaf.push_back(e.leaf), t.events.layer.push_back(e.layer);
      t.events.head.push_back(e.head), t.events.mass.push_back(e.mass), t.events.habit.push_back(e.habit);
      for (size_t i = 0; i < S; ++i)
        if (t.layout[i].leaf == e.leaf && !(t.spike[i] >= e.mass)) {
          t.spike[i] = e.mass, t.spike_layer[i] = e.layer, t.spike_head[i] = e.head, t.spike_row[i] = e.row;
        }
    }

    // Mass: half on the sink, the rest by age; every row sums to 1 per layer and head.
    const size_t first_new = size_t(std::find_if(t.layout.begin(), t.layout.end(),
                                                 [&](const LayoutEntry& e) { return e.slot >= t.executed_begin; }) -
                                    t.layout.begin());
    for (size_t i = first_new; i < S; ++i) t.query_leaves.push_back(t.layout[i].leaf);
    const size_t Q = t.query_leaves.size();
    t.rows_q.assign(3 * Q, 0);
    t.mass_qk.assign(3 * Q * S, 0), t.uniform_qk.assign(3 * Q * S, 0);
    for (size_t q = 0; q < Q; ++q) {
      const LayoutEntry& at = t.layout[first_new + q];
      for (Slot slot = at.slot; slot < at.slot + at.len && slot < t.executed_end; ++slot)
        ++t.rows_q[size_t(t.phase[slot - t.executed_begin]) * Q + q];
      for (int p = 0; p < 2; ++p) {
        const double triples = double(t.rows_q[size_t(p) * Q + q]) * layers * heads;
        if (triples == 0) continue;
        std::vector<double> w(first_new + q + 1);
        double sum = 0;
        for (size_t i = 0; i < w.size(); ++i) {
          w[i] = i == 0 ? 0 : std::sqrt(double(t.layout[i].len)) / (1.0 + double(w.size() - i)) * (0.6 + b.uniform());
          for (const auto& x : targets)
            if (x.entry == i) w[i] *= 1 + x.weight;
          sum += w[i];
        }
        double keys = 0;
        for (size_t i = 1; i < w.size(); ++i) keys += t.layout[i].len;
        for (size_t i = 0; i < w.size(); ++i) {
          const double share = i == 0 ? (sum > 0 ? 0.55 : 1.0) : 0.45 * w[i] / sum;
          t.mass_qk[(size_t(p) * Q + q) * S + i] = float(share * triples);
          t.uniform_qk[(size_t(p) * Q + q) * S + i] = i == 0 ? 0 : float(triples * t.layout[i].len / std::max(1.0, keys));
        }
      }
    }
    t.learned_sink.assign(3 * layers, 0), t.unattributed.assign(3 * layers, 0);
    for (const LayoutEntry& e : t.layout) t.profile_spans.push_back(e.leaf);
    for (const Span& span : s.ledger.spans)
      if (span.kind == SpanKind::parent) t.profile_spans.push_back(span.id);
    const size_t P = t.profile_spans.size();
    t.layer_mass.assign(size_t(layers) * 2 * P, 0);
    const double answer_rows = t.answer_rows(), all_rows = answer_rows + t.rows(RowPhase::prompt);
    for (uint32_t l = 0; l < layers; ++l)
      for (size_t p = 0; p < P; ++p) {
        const double bump = std::exp(-std::pow((double(l) - layers * 0.6) / (layers * 0.2), 2));
        const double share = p == 0 ? 0.55 : 0.45 / double(P) * (0.3 + 2.0 * bump) * (0.5 + b.uniform());
        t.layer_mass[(size_t(l) * 2 + 0) * P + p] = float(share * answer_rows * heads);
        t.layer_mass[(size_t(l) * 2 + 1) * P + p] = float(share * 0.8 * all_rows * heads);
      }

    if (options.experts) {
      uint32_t moe = 0;
      for (uint8_t m : s.header.moe_layer) moe += m;
      const size_t rows = t.phase.size(), k = 2;
      t.routing.layers = moe, t.routing.experts_used = uint32_t(k);
      t.routing.ids.resize(moe * rows * k), t.routing.weights.resize(moe * rows * k), t.routing.margin.resize(moe * rows);
      for (size_t m = 0; m < moe; ++m)
        for (size_t row = 0; row < rows; ++row) {
          const bool decode = t.phase[row] == uint8_t(RowPhase::answer);
          uint16_t first = uint16_t(b.uniform() < (decode ? 0.4 : 0.15) ? (m + 2) % options.experts : b.rng() % options.experts);
          uint16_t second = uint16_t((first + 1 + b.rng() % (options.experts - 1)) % options.experts);
          const float w = float(0.5 + 0.4 * b.uniform());
          t.routing.ids[(m * rows + row) * k] = first, t.routing.ids[(m * rows + row) * k + 1] = second;
          t.routing.weights[(m * rows + row) * k] = w, t.routing.weights[(m * rows + row) * k + 1] = 1 - w;
          t.routing.margin[m * rows + row] = float(0.3 * b.uniform());
        }
    }
    if (!options.text) t.new_ids.clear(), t.new_token_bytes.clear(), t.new_text.clear();
    t.index_text();
    s.turns.push_back(std::move(t));
  }
  return std::make_shared<const SessionData>(std::move(s));
}

}  // namespace spanscope::test
