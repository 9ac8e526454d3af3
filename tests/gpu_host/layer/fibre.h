// SPDX-License-Identifier: GPL-3.0-or-later
// Fibres: threads of a block, each with a stack of its own, switched by hand. A switch saves the registers that a
// function call keeps (x86-64: six and the stack pointer) and costs a few nanoseconds; elsewhere ucontext does it.
// One Stacks and its fibres belong to one OS thread.
#pragma once
#include <cstddef>
#include <cstdint>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace spanscope::gpu::layer {

struct Fibre {
#if defined(__x86_64__)
  void* top = nullptr;  // saved stack pointer
#else
  ucontext_t context;
#endif
  void* stack = nullptr;  // lowest usable address, for sanitizers
  size_t bytes = 0;       // of it
  void* fake = nullptr;   // AddressSanitizer's own stack of the fibre
};

// Memory for `count` stacks, each with a guard page below it.
class Stacks {
 public:
  static constexpr size_t kBytes = 128 << 10;
  explicit Stacks(uint32_t count);
  ~Stacks();
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  // This OS thread's own, kept between launches: making stacks costs more than a small kernel.
  static Stacks& of_this_thread(uint32_t count);
  // A fibre that runs entry(argument) when it is first switched to; entry must never return.
  void prepare(Fibre& fibre, uint32_t index, void (*entry)(void*), void* argument);

 private:
  uint32_t count_;
  size_t stride_;
  uint8_t* memory_;
};

// Leaves `from` and continues `to`. last: `from` will not be continued any more.
void switch_fibre(Fibre& from, Fibre& to, bool last = false);
// To be called first thing in a fibre's entry; `main` is the context that started it.
void entered(Fibre& main);

}  // namespace spanscope::gpu::layer
