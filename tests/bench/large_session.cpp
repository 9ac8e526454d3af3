// SPDX-License-Identifier: GPL-3.0-or-later
// bench_large_session make FILE [LEAVES TURNS LAYERS]: a made-up session of the size of a long project (default 10,000 leaves, 64
// turns, 112 layers: above 500 MB), written as the recorder writes. bench_large_session open FILE: opens it to its span table as
// a cold process would, and says how long that took and how much memory. turns FILE: reads every turn through a small cache.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "core/record/session_lazy.h"
#include "core/record/session_schema.h"

using namespace spanscope;
using Clock = std::chrono::steady_clock;

namespace {

[[noreturn]] void fail(const Error& e) {
  fmt::print(stderr, "{}\n", e.line());
  std::exit(1);
}
void must(const Status& status) {
  if (!status) fail(status.error());
}

// Numbers with full mantissas: they compress as little as measured ones.
struct Noise {
  uint64_t state = 88172645463325252ull;
  uint32_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return uint32_t(state >> 32);
  }
  float mass(float scale) {
    const float u = float(next() >> 8) / float(1 << 24);
    return scale * u * u * u * u;
  }
};

double cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 + double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

uint64_t status_kib(const char* key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + std::strlen(key) + 1, nullptr, 10);
  return 0;
}

void make(const std::string& path, uint32_t leaves, uint32_t turns, uint32_t layers) {
  constexpr uint32_t kTokens = 24, kHeads = 32, kPerMessage = 4;
  auto writer = SessionWriter::create(path, true);
  if (!writer) fail(writer.error());
  SessionHeader h;
  h.program_version = "0.1.0", h.model_name = "made up", h.model_family = "llama", h.layers = layers, h.query_heads = kHeads, h.kv_heads = 8;
  h.window.assign(layers, 0), h.moe_layer.assign(layers, 0), h.backend = "none", h.mode = "replay";
  must(write_header(**writer, h));
  SessionData s;
  s.header = h;
  Noise noise;
  uint32_t context = 0;
  std::vector<SpanId> content, parents;
  std::vector<LayoutEntry> layout;
  for (uint32_t t = 0; t < turns; ++t) {
    const size_t first_span = s.ledger.spans.size(), first_message = s.messages.size();
    const uint32_t begin = context, target = uint32_t(uint64_t(leaves) * (t + 1) / turns);
    std::vector<SpanId> fresh;
    while (content.size() < target) {
      Span parent;
      parent.id = SpanId(s.ledger.spans.size()), parent.kind = SpanKind::parent, parent.message = int32_t(s.messages.size()), parent.birth = t;
      parent.role = s.messages.size() % 2 ? "assistant" : "user", parent.name = fmt::format("message {} of a long project", s.messages.size());
      s.messages.push_back({parent.role, "", ""});
      parents.push_back(parent.id);
      s.ledger.spans.push_back(parent);
      for (uint32_t i = 0; i < kPerMessage && content.size() < target; ++i) {
        Span leaf = parent;
        leaf.id = SpanId(s.ledger.spans.size()), leaf.kind = SpanKind::content, leaf.parent = parent.id, leaf.tokens = kTokens, leaf.field = "content";
        leaf.source = {i * 100ull, i * 100ull + 100};
        leaf.digest = fmt::format("{:016x}{:016x}{:016x}{:016x}", noise.state, uint64_t(noise.next()), uint64_t(leaf.id), uint64_t(noise.next()));
        layout.push_back({leaf.id, context, kTokens, context});
        context += kTokens;
        s.ledger.spans[parent.id].tokens += kTokens;
        content.push_back(leaf.id), fresh.push_back(leaf.id);
        s.ledger.spans.push_back(std::move(leaf));
      }
    }
    must(write_ledger(**writer, s.ledger, first_span, s.messages, first_message));
    TurnRecord r;
    r.turn = t, r.message = int32_t(s.messages.size()) - 1, r.context = context, r.executed_begin = begin, r.executed_end = context;
    r.answer_len = kTokens, r.answer_begin = context - kTokens, r.layout = layout;
    r.phase.assign(context - begin, uint8_t(RowPhase::prompt));
    std::fill(r.phase.end() - kTokens, r.phase.end(), uint8_t(RowPhase::answer));
    const uint32_t bytes = 4;
    for (uint32_t i = begin; i < context; ++i) r.new_ids.push_back(int32_t(noise.next() % 50000)), r.new_token_bytes.push_back(bytes), r.new_text += "word";
    r.query_leaves = fresh;
    const size_t q = fresh.size(), n = layout.size();
    r.rows_q.assign(3 * q, 0), r.mass_qk.assign(3 * q * n, 0), r.uniform_qk.assign(3 * q * n, 0);
    for (size_t i = 0; i < q; ++i) {
      const size_t phase = i + 1 == q ? 1 : 0;
      r.rows_q[phase * q + i] = kTokens;
      for (size_t k = 0; k < n - q + i + 1; ++k) {
        r.mass_qk[(phase * q + i) * n + k] = noise.mass(float(layers * kHeads));
        r.uniform_qk[(phase * q + i) * n + k] = float(layers * kHeads) * float(kTokens * kTokens) / float(begin + i * kTokens + 12);
      }
    }
    r.learned_sink.assign(3 * layers, 0), r.unattributed.assign(3 * layers, 0);
    r.profile_spans.clear();
    for (const LayoutEntry& e : layout) r.profile_spans.push_back(e.leaf);
    r.profile_spans.insert(r.profile_spans.end(), parents.begin(), parents.end());
    r.layer_mass.resize(size_t(layers) * 2 * r.profile_spans.size());
    for (float& m : r.layer_mass) m = noise.mass(float(kHeads * kTokens));
    for (size_t k = 0; k < n; ++k) {
      r.spike.push_back(noise.mass(1)), r.spike_layer.push_back(uint16_t(noise.next() % layers)), r.spike_head.push_back(uint16_t(noise.next() % kHeads));
      r.spike_row.push_back(context - kTokens + noise.next() % kTokens);
    }
    for (uint32_t e = 0; e < 5000; ++e) {
      r.events.row.push_back(context - kTokens + e * kTokens / 5000), r.events.leaf.push_back(content[noise.next() % content.size()]);
      r.events.layer.push_back(uint16_t(noise.next() % layers)), r.events.head.push_back(uint16_t(noise.next() % kHeads));
      r.events.mass.push_back(0.2f + noise.mass(0.8f)), r.events.habit.push_back(noise.mass(0.1f));
    }
    must(write_turn(**writer, r, h, s.ledger));
    must((*writer)->sync());
  }
  ClosingScalars c;
  for (auto* v : {&c.ema_n, &c.ema_triples, &c.ema_sink, &c.ema_u, &c.sum_n, &c.sum_triples, &c.sum_sink, &c.sum_u})
    for (size_t i = 0; i < 3 * s.ledger.spans.size(); ++i) v->push_back(noise.mass(100));
  must(write_closing(**writer, c));
  must((*writer)->finish());
  fmt::print("{}: {:.1f} MB, {} spans, {} turns, {} tokens\n", path, double((*writer)->bytes_written()) / 1e6, s.ledger.spans.size(), turns, context);
}

void open(const std::string& path, Clock::time_point start) {
  auto session = LazySession::open(path);
  if (!session) fail(session.error());
  const SessionData& base = (*session)->base();
  auto last = (*session)->turn_head((*session)->turns() - 1);
  if (!last) fail(last.error());
  uint64_t tokens = 0, names = 0;
  for (const Span& span : base.ledger.spans) tokens += span.leaf() ? span.tokens : 0, names += span.name.size();
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  fmt::print("{:.1f} ms ({:.1f} ms of processor time), {:.1f} MB peak: {} spans ({} tokens, {} bytes of names), {} turns, {} leaves in the last context, {}\n", ms, cpu_ms(),
             double(status_kib("VmHWM:")) / 1024, base.ledger.spans.size(), tokens, names, (*session)->turns(), (*last)->layout.size(),
             base.finished ? "finished" : "unfinished");
}

void turns(const std::string& path, Clock::time_point start) {
  auto session = LazySession::open(path, uint64_t(32) << 20);
  if (!session) fail(session.error());
  double mass = 0;
  for (size_t i = 0; i < (*session)->turns(); ++i) {
    auto turn = (*session)->turn(i);
    if (!turn) fail(turn.error());
    for (float m : (*turn)->layer_mass) mass += m;
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  fmt::print("{:.0f} ms for all turns, {:.1f} MB of own memory at most, {:.1f} MB with mapped file pages; layer mass {:.6g}\n", ms,
             double(status_kib("RssAnon:")) / 1024, double(status_kib("VmHWM:")) / 1024, mass);
}

}  // namespace

int main(int argc, char** argv) {
  const auto start = Clock::now();
  const std::string what = argc > 2 ? argv[1] : "";
  auto number = [&](int i, uint32_t fallback) { return argc > i ? uint32_t(std::strtoul(argv[i], nullptr, 10)) : fallback; };
  if (what == "make") make(argv[2], number(3, 10000), number(4, 64), number(5, 112));
  else if (what == "open") open(argv[2], start);
  else if (what == "turns") turns(argv[2], start);
  else {
    fmt::print(stderr, "usage: bench_large_session make FILE [LEAVES TURNS LAYERS] | open FILE | turns FILE\n");
    return 2;
  }
  return 0;
}
