// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/gpu_host/layer/fibre.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// rdi: where the stack pointer is saved, rsi: the one to continue with. r12 and r13 carry entry and argument into a
// fibre that has not run yet.
extern "C" void spanscope_gpu_switch(void** save, void* next);
extern "C" void spanscope_gpu_start();
asm(R"(
.text
.globl spanscope_gpu_switch
.type spanscope_gpu_switch,@function
spanscope_gpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size spanscope_gpu_switch,.-spanscope_gpu_switch
.globl spanscope_gpu_start
.type spanscope_gpu_start,@function
spanscope_gpu_start:
  movq %r13,%rdi
  call *%r12
  ud2
.size spanscope_gpu_start,.-spanscope_gpu_start
)");
#endif

namespace spanscope::gpu::layer {

Stacks::Stacks(uint32_t count) : count_(count) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  stride_ = kBytes + page;
  void* m = mmap(nullptr, stride_ * count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<uint8_t*>(m);
  for (uint32_t i = 0; i < count; ++i) mprotect(memory_ + stride_ * i, page, PROT_NONE);
}

Stacks& Stacks::of_this_thread(uint32_t count) {
  thread_local std::unique_ptr<Stacks> own;
  if (!own || own->count_ < count) own = std::make_unique<Stacks>(count);
  return *own;
}

Stacks::~Stacks() { munmap(memory_, stride_ * count_); }

void Stacks::prepare(Fibre& fibre, uint32_t index, void (*entry)(void*), void* argument) {
  uint8_t* end = memory_ + stride_ * (index + 1);
  fibre.stack = end - kBytes;
  fibre.bytes = kBytes;
  fibre.fake = nullptr;
#if defined(__x86_64__)
  // Popped in order: r15 r14 r13 r12 rbx rbp, return address.
  void** top = reinterpret_cast<void**>(end) - 9;  // a call finds the stack at a multiple of 16
  std::memset(top, 0, 9 * sizeof(void*));
  top[2] = argument;
  top[3] = reinterpret_cast<void*>(entry);
  top[6] = reinterpret_cast<void*>(&spanscope_gpu_start);
  fibre.top = top;
#else
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack;
  fibre.context.uc_stack.ss_size = kBytes;
  fibre.context.uc_link = nullptr;
  const uint64_t e = reinterpret_cast<uint64_t>(entry), a = reinterpret_cast<uint64_t>(argument);
  void (*start)(uint32_t, uint32_t, uint32_t, uint32_t) = [](uint32_t e1, uint32_t e0, uint32_t a1, uint32_t a0) {
    reinterpret_cast<void (*)(void*)>(uint64_t(e1) << 32 | e0)(reinterpret_cast<void*>(uint64_t(a1) << 32 | a0));
  };
  makecontext(&fibre.context, reinterpret_cast<void (*)()>(start), 4, uint32_t(e >> 32), uint32_t(e), uint32_t(a >> 32), uint32_t(a));
#endif
}

void switch_fibre(Fibre& from, Fibre& to, bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake, to.stack, to.bytes);
#else
  (void)last;
#endif
#if defined(__x86_64__)
  spanscope_gpu_switch(&from.top, to.top);
#else
  swapcontext(&from.context, &to.context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

void entered(Fibre& main) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  main.stack = const_cast<void*>(bottom);
  main.bytes = size;
#else
  (void)main;
#endif
}

}  // namespace spanscope::gpu::layer
