// SPDX-License-Identifier: GPL-3.0-or-later
// What every command of the program shares: global options, exit statuses, how errors and results are printed.
// One command per file; each offers add_NAME(), which declares its options on `parent` and sets Context::run.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "core/base/result.h"
#include "core/model/backend.h"

namespace spanscope {

enum ExitStatus : int { kExitOk = 0, kExitFailure = 1, kExitUsage = 2, kExitLoss = 3, kExitStopped = 130 };

struct Context {
  bool json = false, quiet = false, no_color = false;
  std::string log_level = "warning";
  std::string progress = "auto";  // auto (a bar on a terminal), lines, none
  unsigned threads = 0;           // 0: physical cores
  std::string cache_type = "f32";  // what keys and values are kept as
  std::string gpu_math = "exact";  // or fast: 16 bits
  std::string device;             // empty: SPANSCOPE_DEVICE, or auto
  std::function<int()> run;       // set by the command that was chosen
  std::stop_token stop;           // asked by Ctrl-C
};

// One line on stderr, then at most two lines of advice. Returns the exit status that fits the error.
int report_error(const Error& error);
// "spanscope: note: ..." unless --quiet.
void note(const Context& context, const std::string& text);

// --path reference|fast and --device. cuda and cuda:N: that card or an error that says why not. auto: the first card when
// there is one that can run the model, else the CPU, and one note says why. cpu, or the reference path with auto: the CPU.
// needs: what the command will ask for; threads and cache type are the context's.
Result<std::unique_ptr<Backend>> make_backend(std::shared_ptr<const Model> model, const std::string& path, const Context& context,
                                              BackendOptions needs = {});

void add_record(CLI::App& parent, Context& context);
void add_open(CLI::App& parent, Context& context);
void add_info(CLI::App& parent, Context& context);
void add_view(CLI::App& parent, Context& context);
void add_reattend(CLI::App& parent, Context& context);
void add_report(CLI::App& parent, Context& context);
void add_export(CLI::App& parent, Context& context);
void add_verify(CLI::App& parent, Context& context);
void add_repair(CLI::App& parent, Context& context);
void add_gc(CLI::App& parent, Context& context);
void add_lab(CLI::App& parent, Context& context);
void add_env(CLI::App& parent, Context& context);
void add_knobs(CLI::App& parent, Context& context);
// Below `model`:
void add_model_info(CLI::App& parent, Context& context);
void add_model_eval(CLI::App& parent, Context& context);
void add_model_tokenize(CLI::App& parent, Context& context);
void add_model_render(CLI::App& parent, Context& context);
void add_model_bench(CLI::App& parent, Context& context);
void add_model_heads(CLI::App& parent, Context& context);

}  // namespace spanscope
