// SPDX-License-Identifier: GPL-3.0-or-later
// One thread block on the host: its threads are fibres of one OS thread, its shared memory is watched word by word.
// What is an error (a Fault, which ends the launch with a text that says thread, block and place):
//   * a shared or global access outside the array it belongs to, or misaligned;
//   * two threads that touch the same shared word, one of them writing, with no barrier between (of the block, or
//     sync_warp between lanes of one warp); shared memory read before anybody wrote it;
//   * a word that an asynchronous copy will fill, read before the copy was waited for;
//   * a barrier that not all live threads reach, or reach at different places of the source;
//   * a warp operation that not all lanes of its mask reach, or reach at different places, or with different masks.
// Shared memory is watched in words of 4 bytes: kernels do not let two threads write halves of one word.
#pragma once
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <vector>

#include "tests/gpu_host/layer/fibre.h"

namespace spanscope::gpu::layer {

inline constexpr uint32_t kWarp = 32, kMaxThreads = 1024;

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

struct Fault {
  std::string text;
};

// What a launch moved. Bytes of global memory as the threads asked for them, copies included.
struct Traffic {
  uint64_t loaded = 0, stored = 0;
  uint64_t atomic = 0;  // bytes read and written by atomic operations
  uint64_t total() const { return loaded + stored + atomic; }
  Traffic& operator+=(const Traffic& o) {
    loaded += o.loaded;
    stored += o.stored;
    atomic += o.atomic;
    return *this;
  }
};

using Place = std::source_location;

class Block {
 public:
  Block(uint32_t threads, uint32_t shared_bytes, Dim3 grid);
  // Runs entry(argument) once per thread of block `index`. False: fault() says why. backwards: warps and lanes get
  // their turns in falling order, which a correct kernel does not notice.
  bool run(Dim3 index, void (*entry)(const void*), const void* argument, bool backwards);
  const std::string& fault() const { return fault_; }

  // Below: called by the running thread.
  uint32_t thread() const { return running_; }
  uint32_t threads() const { return threads_; }
  Dim3 index() const { return index_; }
  Dim3 grid() const { return grid_; }
  Traffic traffic;

  void barrier(const Place& place);
  using Operation = void (*)(void* const* lanes, uint32_t mask);
  // Waits for all lanes of the mask; the last one runs the operation on what each lane passed.
  void converge(Operation operation, uint32_t mask, void* mine, const Place& place);
  void sync_warp(const Place& place);

  void shared_read(uint32_t offset, uint32_t bytes, void* to, const Place& place);
  void shared_write(uint32_t offset, uint32_t bytes, const void* from, const Place& place);
  void copy_async(uint32_t offset, const void* from, uint32_t bytes, bool valid, const Place& place);
  void copy_commit();
  void copy_wait(uint32_t still_open, const Place& place);
  [[noreturn]] void fail(const std::string& what, const Place& place) const;
  uint32_t shared_bytes() const { return uint32_t(shared_.size()); }

 private:
  enum class State : uint8_t { ready, at_barrier, in_warp, done };
  struct Access {
    uint32_t epoch = 0, warp_epoch = 0, thread = 0;
  };
  struct Word {
    Access write, last, other, cross;  // the newest reads: any; by another thread than it; by another warp than it
    uint32_t made_in = 0;              // the block that wrote it first
    uint32_t copied_by = 0;            // thread + 1 of an open asynchronous copy
  };
  struct Warp {
    uint32_t mask = 0, arrived = 0, epoch = 0;
    Operation operation = nullptr;
    Place place;
    void* lanes[kWarp] = {};
  };
  struct Copy {
    uint32_t group, offset, bytes;
    const void* from;
    bool valid;
  };
  struct Thread {
    Fibre fibre;
    State state = State::ready;
    Place place;
    uint32_t group = 0;  // copies of this number are being collected
    std::vector<Copy> copies;
  };
  static void start(void* block);
  void wait(State state);
  void release_or_fail();
  void note_read(Word& word, uint32_t offset, const Place& place);
  void note_write(Word& word, uint32_t offset, const Place& place);
  bool conflicts(const Access& a) const {
    return a.epoch == epoch_ && a.thread != running_ &&
           (a.thread / kWarp != running_ / kWarp || a.warp_epoch == warps_[running_ / kWarp].epoch);
  }
  void check_shared(uint32_t offset, uint32_t bytes, const Place& place) const;

  uint32_t threads_, running_ = 0, epoch_ = 1, serial_ = 0;
  Dim3 grid_, index_;
  std::vector<uint8_t> shared_;
  std::vector<Word> words_;
  std::vector<Thread> all_;
  std::vector<Warp> warps_;
  Stacks& stacks_;  // of this OS thread
  Fibre main_;
  void (*entry_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  std::string fault_;
};

// The block whose thread is running on this OS thread.
extern thread_local Block* current;

}  // namespace spanscope::gpu::layer
