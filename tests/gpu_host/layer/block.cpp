// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/block.h"

#include <algorithm>

namespace spanscope::gpu::layer {

thread_local Block* current = nullptr;

namespace {
std::string name_of(const Place& place) {
  std::string file = place.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string::npos) file.erase(0, slash + 1);
  return file + ":" + std::to_string(place.line());
}
bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}
}  // namespace

Block::Block(uint32_t threads, uint32_t shared_bytes, Dim3 grid)
    : threads_(threads),
      grid_(grid),
      shared_((shared_bytes + 3) / 4 * 4),
      words_(shared_.size() / 4),
      all_(threads),
      warps_((threads + kWarp - 1) / kWarp),
      stacks_(Stacks::of_this_thread(threads)) {}

void Block::fail(const std::string& what, const Place& place) const {
  throw Fault{what + " (thread " + std::to_string(running_) + ", block " + std::to_string(index_.x) + "," +
              std::to_string(index_.y) + "," + std::to_string(index_.z) + ", " + name_of(place) + ")"};
}

void Block::start(void* block) {
  Block& b = *static_cast<Block*>(block);
  entered(b.main_);
  const uint32_t mine = b.running_;
  try {
    b.entry_(b.argument_);
  } catch (const Fault& fault) {
    if (b.fault_.empty()) b.fault_ = fault.text;
  }
  b.all_[mine].state = State::done;
  switch_fibre(b.all_[mine].fibre, b.main_, true);
}

bool Block::run(Dim3 index, void (*entry)(const void*), const void* argument, bool backwards) {
  index_ = index;
  entry_ = entry;
  argument_ = argument;
  fault_.clear();
  ++epoch_;
  ++serial_;
  // What shared memory holds at the start is nobody's business: a value that looks like no number.
  std::memset(shared_.data(), 0xff, shared_.size());
  for (Warp& w : warps_) w.arrived = 0;
  for (uint32_t t = 0; t < threads_; ++t) {
    all_[t].state = State::ready;
    all_[t].group = 0;
    for (const Copy& c : all_[t].copies)
      for (uint32_t at = c.offset / 4; at < (c.offset + c.bytes) / 4; ++at) words_[at].copied_by = 0;
    all_[t].copies.clear();
    stacks_.prepare(all_[t].fibre, t, &Block::start, this);
  }
  Block* const outer = current;
  current = this;
  const uint32_t warps = uint32_t(warps_.size());
  for (uint32_t done = 0; done < threads_ && fault_.empty();) {
    for (uint32_t i = 0; i < warps && fault_.empty(); ++i) {
      const uint32_t first = (backwards ? warps - 1 - i : i) * kWarp, lanes = std::min(kWarp, threads_ - first);
      // One warp runs until all of its lanes wait for the block: switches stay among warm stacks.
      for (bool moved = true; moved && fault_.empty();) {
        moved = false;
        for (uint32_t l = 0; l < lanes && fault_.empty(); ++l) {
          const uint32_t t = first + (backwards ? lanes - 1 - l : l);
          if (all_[t].state != State::ready) continue;
          moved = true;
          running_ = t;
          switch_fibre(main_, all_[t].fibre);
        }
      }
    }
    if (!fault_.empty()) break;
    done = uint32_t(std::count_if(all_.begin(), all_.end(), [](const Thread& t) { return t.state == State::done; }));
    if (done < threads_) release_or_fail();
  }
  current = outer;
  return fault_.empty();
}

// No thread can go on: either all that live wait at one barrier, or the kernel is wrong.
void Block::release_or_fail() {
  const Thread* first = nullptr;
  for (uint32_t t = 0; t < threads_; ++t) {
    Thread& thread = all_[t];
    if (thread.state == State::in_warp) {
      const Warp& w = warps_[t / kWarp];
      fault_ = "a warp operation at " + name_of(w.place) + " was reached by lanes " + std::to_string(w.arrived) + " of mask " +
               std::to_string(w.mask) + " only (warp " + std::to_string(t / kWarp) + ", block " + std::to_string(index_.x) + ")";
      return;
    }
    if (thread.state != State::at_barrier) continue;
    if (!first) first = &thread;
    if (!same(first->place, thread.place)) {
      fault_ = "threads of one block wait at different barriers: " + name_of(first->place) + " and " + name_of(thread.place) +
               " (thread " + std::to_string(t) + ", block " + std::to_string(index_.x) + ")";
      return;
    }
  }
  ++epoch_;
  for (Thread& thread : all_)
    if (thread.state == State::at_barrier) thread.state = State::ready;
}

void Block::wait(State state) {
  Thread& mine = all_[running_];
  mine.state = state;
  switch_fibre(mine.fibre, main_);
}

void Block::barrier(const Place& place) {
  all_[running_].place = place;
  wait(State::at_barrier);
}

void Block::converge(Operation operation, uint32_t mask, void* mine, const Place& place) {
  const uint32_t lane = running_ % kWarp, base = running_ - lane;
  Warp& w = warps_[running_ / kWarp];
  if (!(mask >> lane & 1)) fail("a warp operation by a lane outside its mask", place);
  if (w.arrived == 0) {
    w.mask = mask;
    w.operation = operation;
    w.place = place;
  } else if (w.mask != mask || w.operation != operation || !same(w.place, place)) {
    fail("lanes of one warp are at different operations: " + name_of(w.place) + " and " + name_of(place), place);
  }
  w.arrived |= 1u << lane;
  w.lanes[lane] = mine;
  if (w.arrived != mask) {
    wait(State::in_warp);
    return;
  }
  if (operation) operation(w.lanes, mask);
  else ++w.epoch;  // sync_warp
  w.arrived = 0;
  for (uint32_t l = 0; l < kWarp && base + l < threads_; ++l)
    if (l != lane && (mask >> l & 1)) all_[base + l].state = State::ready;
}

void Block::sync_warp(const Place& place) {
  const uint32_t base = running_ / kWarp * kWarp, lanes = std::min(kWarp, threads_ - base);
  converge(nullptr, lanes == kWarp ? ~0u : (1u << lanes) - 1, nullptr, place);
}

void Block::check_shared(uint32_t offset, uint32_t bytes, const Place& place) const {
  if (uint64_t(offset) + bytes > shared_.size())
    fail("shared access to bytes " + std::to_string(offset) + ".." + std::to_string(offset + bytes) + " of " + std::to_string(shared_.size()), place);
  if (offset % bytes != 0) fail("misaligned shared access at byte " + std::to_string(offset), place);
}

void Block::note_read(Word& w, uint32_t offset, const Place& place) {
  if (w.copied_by) fail("shared byte " + std::to_string(offset) + " read before its asynchronous copy was waited for", place);
  if (w.made_in != serial_) fail("shared byte " + std::to_string(offset) + " read before it was written", place);
  if (conflicts(w.write))
    fail("race: shared byte " + std::to_string(offset) + " read, written by thread " + std::to_string(w.write.thread), place);
  const Access now{epoch_, warps_[running_ / kWarp].epoch, running_};
  if (w.last.epoch == epoch_ && w.last.thread != running_) {
    w.other = w.last;
    if (w.last.thread / kWarp != running_ / kWarp) w.cross = w.last;
  }
  w.last = now;
}

void Block::note_write(Word& w, uint32_t offset, const Place& place) {
  for (const Access* a : {&w.write, &w.last, &w.other, &w.cross})
    if (conflicts(*a))
      fail("race: shared byte " + std::to_string(offset) + " written, " + (a == &w.write ? "written" : "read") + " by thread " +
               std::to_string(a->thread),
           place);
  w.write = {epoch_, warps_[running_ / kWarp].epoch, running_};
  w.made_in = serial_;
}

void Block::shared_read(uint32_t offset, uint32_t bytes, void* to, const Place& place) {
  check_shared(offset, bytes, place);
  for (uint32_t at = offset / 4; at <= (offset + bytes - 1) / 4; ++at) note_read(words_[at], offset, place);
  std::memcpy(to, shared_.data() + offset, bytes);
}

void Block::shared_write(uint32_t offset, uint32_t bytes, const void* from, const Place& place) {
  check_shared(offset, bytes, place);
  for (uint32_t at = offset / 4; at <= (offset + bytes - 1) / 4; ++at) {
    if (words_[at].copied_by) fail("shared byte " + std::to_string(offset) + " written while a copy to it is open", place);
    note_write(words_[at], offset, place);
  }
  std::memcpy(shared_.data() + offset, from, bytes);
}

void Block::copy_async(uint32_t offset, const void* from, uint32_t bytes, bool valid, const Place& place) {
  check_shared(offset, bytes, place);
  for (uint32_t at = offset / 4; at < (offset + bytes) / 4; ++at) {
    if (words_[at].copied_by) fail("two open copies to shared byte " + std::to_string(offset), place);
    note_write(words_[at], offset, place);
    words_[at].copied_by = running_ + 1;
  }
  if (valid) traffic.loaded += bytes;
  all_[running_].copies.push_back({all_[running_].group, offset, bytes, from, valid});
}

void Block::copy_commit() { ++all_[running_].group; }

void Block::copy_wait(uint32_t still_open, const Place& place) {
  Thread& mine = all_[running_];
  size_t kept = 0;
  for (const Copy& c : mine.copies) {
    if (c.group + still_open >= mine.group) {  // uncommitted, or among the newest groups
      mine.copies[kept++] = c;
      continue;
    }
    for (uint32_t at = c.offset / 4; at < (c.offset + c.bytes) / 4; ++at) {
      words_[at].copied_by = 0;
      note_write(words_[at], c.offset, place);
    }
    if (c.valid) std::memcpy(shared_.data() + c.offset, c.from, c.bytes);
    else std::memset(shared_.data() + c.offset, 0, c.bytes);
  }
  mine.copies.resize(kept);
}

}  // namespace spanscope::gpu::layer
