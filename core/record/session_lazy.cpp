// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_lazy.h"

#include <charconv>

#include "core/file/byte_lru.h"
#include "core/record/schema_parts.h"
#include "core/record/schema_versions.h"
#include "core/record/session_build.h"

namespace spanscope {
using namespace schema;

namespace {

class Lazy : public LazySession {
 public:
  Lazy(std::shared_ptr<const SessionReader> reader, SessionData base, std::vector<TurnFrames> turns, uint64_t cache_bytes)
      : reader_(std::move(reader)), base_(std::move(base)), turns_(std::move(turns)), cache_(cache_bytes) {}

  const SessionData& base() const override { return base_; }
  const SessionReader& reader() const override { return *reader_; }
  size_t turns() const override { return turns_.size(); }
  TurnId turn_id(size_t i) const override { return turns_[i].turn; }
  uint64_t turn_bytes(size_t i) const override { return turns_[i].content_bytes; }
  Result<std::shared_ptr<const TurnRecord>> turn(size_t i) const override { return get(i, TurnDepth::views); }
  Result<std::shared_ptr<const TurnRecord>> turn_head(size_t i) const override { return get(i, TurnDepth::head); }
  Result<std::shared_ptr<const TurnRecord>> turn_with_details(size_t i) const override {
    if (i >= turns_.size()) return no_turn(i);
    auto turn = read_turn(*reader_, turns_[i], base_, TurnDepth::details);
    if (!turn) return std::move(turn).error();
    return std::make_shared<const TurnRecord>(std::move(*turn));
  }
  uint64_t cached_bytes() const override { return cache_.bytes_held(); }

  Result<uint64_t> turn_events(size_t i) const override {
    if (i >= turns_.size()) return no_turn(i);
    auto end = reader_->frame(turns_[i].end);
    if (!end) return std::move(end).error();
    const std::string& text = end->metadata["events"];
    uint64_t n = 0;
    if (const auto [at, error] = std::from_chars(text.data(), text.data() + text.size(), n); error != std::errc() || at != text.data() + text.size())
      return make_error(ErrorCode::corrupt, "SPAN-TURN-DATA", "the turn's end does not say how many events it has", reader_->path());
    return n;
  }

  Result<ClosingScalars> closing() const override {
    for (size_t i = reader_->frames().size(); i-- > 0;) {
      const FrameInfo& info = reader_->frames()[i];
      if (info.kind != "closing") continue;
      auto blob = reader_->frame(i);
      if (!blob) return std::move(blob).error();
      SPANSCOPE_TRY(convert(*blob, info.kind, info.version, version_of(info.kind), converters(), base_.header.program_version));
      SessionData spans;  // read_closing() checks against the ledger
      spans.ledger = base_.ledger;
      SPANSCOPE_TRY(read_closing(*blob, spans));
      return std::move(spans.closing);
    }
    return ClosingScalars{};
  }

 private:
  Error no_turn(size_t i) const { return make_error(ErrorCode::not_found, "SPAN-TURN", "no turn at place " + std::to_string(i) + " of " + std::to_string(turns_.size()), reader_->path()); }

  Result<std::shared_ptr<const TurnRecord>> get(size_t i, TurnDepth depth) const {
    if (i >= turns_.size()) return no_turn(i);
    return cache_.get(std::pair(i, depth), [&] { return read_turn(*reader_, turns_[i], base_, depth); }, [](const TurnRecord& t) { return bytes_of(t); });
  }

  const std::shared_ptr<const SessionReader> reader_;
  const SessionData base_;
  const std::vector<TurnFrames> turns_;
  mutable ByteLru<std::pair<size_t, TurnDepth>, TurnRecord> cache_;
};

template <class T>
uint64_t weight(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

}  // namespace

uint64_t bytes_of(const TurnRecord& t) {
  const auto& e = t.events;
  const auto& d = t.dropped;
  const auto& r = t.routing;
  return sizeof t + weight(t.phase) + weight(t.layout) + weight(t.new_ids) + weight(t.new_token_bytes) + t.new_text.capacity() + weight(t.new_token_end) +
         weight(t.query_leaves) + weight(t.rows_q) + weight(t.mass_qk) + weight(t.uniform_qk) + weight(t.gc_mass_qk) + weight(t.learned_sink) + weight(t.unattributed) +
         weight(t.learned_sink_q) + weight(t.profile_spans) + weight(t.layer_mass) + weight(t.head_mass) + weight(t.spike) + weight(t.spike_layer) + weight(t.spike_head) +
         weight(t.spike_row) + weight(e.row) + weight(e.leaf) + weight(e.layer) + weight(e.head) + weight(e.mass) + weight(e.habit) + weight(d.leaf) +
         weight(d.layer) + weight(d.head) + weight(d.count) + weight(d.above_display) + weight(r.ids) + weight(r.weights) + weight(r.margin);
}

Result<std::shared_ptr<const LazySession>> LazySession::open(std::shared_ptr<const SessionReader> reader, uint64_t cache_bytes) {
  SessionBuilder builder(reader->path(), reader->session_id());
  for (const Finding& f : reader->findings()) builder.find(f);
  std::vector<TurnFrames> turns;
  TurnFrames turn;
  bool open = false;
  auto lose = [&](uint32_t id, const std::string& why) {
    builder.find({Grade::loss, "SPAN-TURN-LOST", "turn " + std::to_string(uint64_t(id) + 1) + " " + why, {}, {}});
  };
  const auto& frames = reader->frames();
  for (size_t i = 0; i < frames.size(); ++i) {
    const FrameInfo& info = frames[i];
    if (info.kind == "session" || info.kind == "ledger" || info.kind == "note" || info.kind == "gc") {
      SPANSCOPE_TRY(builder.add(info, reader->frame(i)));
    } else if (info.kind == "turn_begin") {
      if (open && turn.turn != info.turn) lose(turn.turn, "was not finished");
      turn = TurnFrames{info.turn, i, SIZE_MAX, {}, info.content_bytes};
      open = true;
    } else if (info.kind == "turn_end") {
      const bool whole = open && turn.turn == info.turn;
      if (open && !whole) lose(turn.turn, "was not finished");
      open = false;
      bool mass = false;
      for (size_t p : turn.parts) mass = mass || frames[p].kind == "mass";
      if (!whole || !mass || (!turns.empty() && info.turn <= turns.back().turn)) {
        lose(info.turn, "cannot be read");
        continue;
      }
      turn.end = i;
      turn.content_bytes += info.content_bytes;
      turns.push_back(std::move(turn));
      turn = {};
    } else if (open && info.turn == turn.turn && version_of(info.kind) != 0) {
      turn.parts.push_back(i);
      turn.content_bytes += info.content_bytes;
    }
  }
  if (open) lose(turn.turn, "is not finished: the file ends inside it");
  auto base = builder.finish();
  if (!base) return std::move(base).error();
  base->finished = reader->finished();
  base->file_bytes = reader->file_bytes();
  return std::shared_ptr<const LazySession>(std::make_shared<Lazy>(std::move(reader), std::move(*base), std::move(turns), cache_bytes));
}

Result<std::shared_ptr<const LazySession>> LazySession::open(const std::string& path, uint64_t cache_bytes) {
  auto reader = SessionReader::open(path);
  if (!reader) return std::move(reader).error();
  return open(std::move(*reader), cache_bytes);
}

}  // namespace spanscope
