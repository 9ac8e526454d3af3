// SPDX-License-Identifier: GPL-3.0-or-later
// spanscope open: starts the window. The program beside this one is preferred, then the search path.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "app/commands/command.h"

namespace spanscope {

void add_open(CLI::App& parent, Context& context) {
  auto session = std::make_shared<std::string>();
  auto* c = parent.add_subcommand("open", "Start the window, with a session or without");
  c->footer("Example:\n  spanscope open demo12.span");
  c->add_option("session", *session, "Session file");
  c->callback([session, &context] {
    context.run = [session] {
      std::error_code ignored;
      const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
      const std::string beside = ignored ? "" : (self.parent_path() / "spanscope-gui").string();
      std::string program = "spanscope-gui";
      if (!beside.empty() && ::access(beside.c_str(), X_OK) == 0) program = beside;
      std::string argument = *session;
      char* arguments[] = {program.data(), argument.empty() ? nullptr : argument.data(), nullptr};
      ::execvp(program.c_str(), arguments);
      Error error = make_error(ErrorCode::not_found, "SPAN-GUI",
                               std::string("cannot start the window: ") + std::strerror(errno), program);
      error.advice.push_back("build with -DSPANSCOPE_GUI=ON, or use spanscope report SESSION -o report.html");
      return report_error(error);
    };
  });
}

}  // namespace spanscope
