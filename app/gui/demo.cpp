// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/gui/demo.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "core/chat/conversation.h"
#include "core/cpu/backends.h"
#include "core/model/weights.h"
#include "core/record/record_session.h"
#include "core/span/replay.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace spanscope {
namespace fs = std::filesystem;

std::optional<DemoFiles> find_demo(const std::string& program_folder) {
  for (const char* beside : {"../share/spanscope/demo", "../../../resources/demo"}) {
    const fs::path folder = fs::path(program_folder) / beside;
    const fs::path model = folder / "relay-dense.gguf", chat = folder / "demo64.json";
    std::error_code ignored;
    if (fs::exists(model, ignored) && fs::exists(chat, ignored)) return DemoFiles{model.lexically_normal().string(), chat.lexically_normal().string()};
  }
  return {};
}

Result<std::string> record_demo(const DemoFiles& files, const std::string& path, const std::string& program_version, std::stop_token stop,
                                const std::function<void(const std::string& text, uint64_t done, uint64_t total)>& report) {
  report("Opening the demo's model", 0, 0);
  auto model = load_model(files.model);
  if (!model) return std::move(model).error();
  auto conversation = read_conversation(files.chat);
  if (!conversation) return std::move(conversation).error();
  std::vector<MessageInfo> messages;
  for (const Message& m : conversation->messages) messages.push_back({m.role, m.name, m.id});
  auto tokenizer = make_tokenizer((*model)->vocabulary);
  if (!tokenizer) return std::move(tokenizer).error();
  auto chat_template = make_chat_template((*model)->chat_template, (*model)->vocabulary);
  if (!chat_template) return std::move(chat_template).error();
  ReplayOptions options;
  options.context = (*model)->recipe.context;
  auto replay = make_chat_replay(std::move(*conversation), *tokenizer, *chat_template, options);
  if (!replay) return std::move(replay).error();
  auto backend = make_fast_backend(*model, BackendOptions{});
  if (!backend) return std::move(backend).error();

  std::error_code failed;
  fs::create_directories(fs::path(path).parent_path(), failed);
  if (failed) return make_error(ErrorCode::io, "SPAN-WRITE", "the folder cannot be made: " + failed.message(), fs::path(path).parent_path().string());
  const std::string unfinished = path + ".part";
  {
    auto writer = SessionWriter::create(unfinished, true);
    if (!writer) return std::move(writer).error();
    SessionHeader header;
    header.program_version = program_version;
    header.source = files.chat;
    header.mode = "replay";
    header.tokenizer_digest = (*tokenizer)->digest();
    RecordRequest request;
    request.stop = stop;
    request.progress = [&](const RecordProgress& p) { report(fmt::format("Recording the demo: turn {} of {}", p.turn, p.turns), p.turn, p.turns); };
    auto outcome = record_session(**backend, **replay, tokenizer->get(), writer->get(), header, messages, request);
    if (!outcome || outcome->stopped) {
      fs::remove(unfinished, failed);
      if (!outcome) return std::move(outcome).error();
      return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "stopped before the last turn; nothing was kept");
    }
  }
  fs::rename(unfinished, path, failed);
  if (failed) return make_error(ErrorCode::io, "SPAN-WRITE", "the recording cannot be put in its place: " + failed.message(), path);
  return path;
}

}  // namespace spanscope
