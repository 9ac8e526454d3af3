// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope: the command line. Composition only; the commands are in app/commands.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <stop_token>
#include <thread>

#include "app/commands/command.h"
#include "core/base/knobs.h"

namespace {
volatile std::sig_atomic_t interrupts = 0;

// The first Ctrl-C asks for a clean stop; a second one ends the program at once.
void on_interrupt(int) {
  interrupts = interrupts + 1;
  if (interrupts > 1) std::_Exit(spanscope::kExitStopped);
}
}  // namespace

int main(int argc, char** argv) {
  using namespace spanscope;
  std::stop_source source;
  Context context;
  context.stop = source.get_token();
  // request_stop() takes a lock, which a signal handler must not: a thread watches the flag instead.
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  std::jthread watcher([&source](std::stop_token end) {
    while (!end.stop_requested()) {
      if (interrupts > 0) {
        source.request_stop();
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });

  CLI::App app{"Shows what a language model really read.", "spanscope"};
  app.set_version_flag("--version", std::string("spanscope ") + SPANSCOPE_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", context.json, "One JSON document on stdout");
  app.add_flag("--quiet,-q", context.quiet, "No notes and no progress");
  app.add_flag("--no-color", context.no_color, "No colours (also NO_COLOR)");
  app.add_option("--log", context.log_level, "error, warning, info or debug")
      ->check(CLI::IsMember({"error", "warning", "info", "debug"}));
  app.add_option("--progress", context.progress, "auto, lines or none")->check(CLI::IsMember({"auto", "lines", "none"}));
  app.add_option("--threads", context.threads, "Threads (default: physical cores)")->check(CLI::Range(0, 1024));
  app.add_option("--cache-type", context.cache_type, "Keep keys and values as f32 (default) or f16 (half the memory)")
      ->check(CLI::IsMember({"f32", "f16"}));
  app.add_option("--gpu-math", context.gpu_math, "What a GPU computes in: exact (float32, default) or fast (16 bits, f16 cache)")
      ->check(CLI::IsMember({"exact", "fast"}));
  app.add_option("--device", context.device, "auto (default), cpu or cuda[:N]");
  if (const char* no_color = std::getenv("NO_COLOR"); no_color && *no_color) context.no_color = true;

  add_record(app, context);
  add_open(app, context);
  add_info(app, context);
  add_view(app, context);
  add_reattend(app, context);
  add_report(app, context);
  add_export(app, context);
  add_verify(app, context);
  add_repair(app, context);
  auto* model = app.add_subcommand("model", "Look at a model: info, eval, tokenize, render, bench, heads");
  model->require_subcommand(1);
  model->fallthrough();
  add_model_info(*model, context);
  add_model_eval(*model, context);
  add_model_tokenize(*model, context);
  add_model_render(*model, context);
  add_model_bench(*model, context);
  add_model_heads(*model, context);
  add_gc(app, context);
  add_lab(app, context);
  add_env(app, context);
  add_knobs(app, context);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kExitOk : kExitUsage;
  }
  if (!context.run) return kExitUsage;
  try {
    if (auto bad = unknown_knobs(); !bad.empty() && !context.quiet)
      for (const auto& name : bad) std::fprintf(stderr, "spanscope: note: %s is not a known variable (see spanscope knobs)\n", name.c_str());
    return context.run();
  } catch (const std::bad_alloc&) {
    return report_error(make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory for this command"));
  } catch (const std::exception& error) {
    return report_error(make_error(ErrorCode::invalid, "SPAN-INTERNAL", error.what()));
  }
}
