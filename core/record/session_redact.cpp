// SPDX-License-Identifier: GPL-3.0-or-later
#include "core/record/session_redact.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "core/base/digest.h"
#include "core/base/json.h"
#include "core/file/session_reader.h"
#include "core/file/session_writer.h"
#include "core/record/schema_parts.h"
#include "core/record/schema_versions.h"

namespace spanscope {
using namespace schema;

namespace {

// Kinds that hold numbers about places in the context and nothing that was said there. A new kind must be put here before
// redaction keeps it. Not here: keys and values (a key of the first layer names its token to whoever has the model).
constexpr const char* kNumbers[] = {"mass", "profile", "reads", "routing", "tokenstat", "residual", "rows", "pairs", "turn_end", "closing", "gc"};

std::string random_salt() {
  std::random_device device;
  std::string out;
  for (int i = 0; i < 8; ++i) out += std::to_string(device()) + "-";
  return sha256_hex(out);
}

class Redactor {
 public:
  explicit Redactor(Redaction redaction) : names_(redaction == Redaction::names), salt_(random_salt()) {}

  // False: the blob is left out.
  Result<bool> redact(const std::string& kind, Blob& blob) {
    if (kind == "session") return done(header(blob));
    if (kind == "ledger") return done(ledger(blob));
    if (kind == "turn_begin") return done(turn_begin(blob));
    if (kind == "note") return done(note(blob));
    if (kind == "turn_end") blob.metadata.erase("keys"), blob.metadata.erase("values");  // it counts what is not there any more
    return std::any_of(std::begin(kNumbers), std::end(kNumbers), [&](const char* k) { return kind == k; });
  }

 private:
  static Result<bool> done(Status status) {
    if (!status) return std::move(status).error();
    return true;
  }

  static void keep_only(Blob& blob, std::initializer_list<std::string_view> tensors, std::initializer_list<std::string_view> keys) {
    std::erase_if(blob.tensors, [&](const Tensor& t) { return std::find(tensors.begin(), tensors.end(), t.name) == tensors.end(); });
    keep_metadata(blob, keys);
  }
  static void keep_metadata(Blob& blob, std::initializer_list<std::string_view> keys) {
    std::erase_if(blob.metadata, [&](const auto& entry) { return std::find(keys.begin(), keys.end(), entry.first) == keys.end(); });
  }

  Status header(Blob& blob) const {
    auto json = parse_json(blob.metadata["header"], "header");
    if (!json) return std::move(json).error();
    if (!json->is_object()) return make_error(ErrorCode::corrupt, "SPAN-NO-HEADER", "the header is not an object");
    OrderedJson& j = *json;
    j["has_text"] = false;
    j["keys"] = "none";
    j["values"] = false;
    j["redacted"] = names_ ? "names" : "text";
    if (names_) {
      j["source"] = j["model_path"] = "";
      j["knobs"] = OrderedJson::object();
    }
    keep_only(blob, {}, {"header"});
    blob.metadata["header"] = j.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
    return {};
  }

  Status ledger(Blob& blob) const {
    auto kind = blob.get<uint8_t>("kind");
    auto message = blob.get<int32_t>("message");
    if (!kind) return std::move(kind).error();
    if (!message) return std::move(message).error();
    const uint64_t n = kind->size();
    auto role = get_strings(blob, "role", n), name = get_strings(blob, "name", n), producer = get_strings(blob, "producer", n),
         digest = get_strings(blob, "digest", n);
    for (const auto* r : {&role, &name, &producer, &digest})
      if (!*r) return r->error();
    if (message->size() != n) return make_error(ErrorCode::corrupt, "SPAN-LEDGER", "columns of different lengths");
    Strings new_name, new_producer, new_digest, none;
    for (uint64_t i = 0; i < n; ++i) {
      // A name begins with the message's words; sinks and template pieces have fixed names.
      const bool words = SpanKind((*kind)[i]) == SpanKind::content || SpanKind((*kind)[i]) == SpanKind::parent;
      new_name.add(!words ? (*name)[i] : (*message)[i] >= 0 ? "message " + std::to_string((*message)[i]) : (*role)[i]);
      new_producer.add(words ? "" : (*producer)[i]);
      new_digest.add((*digest)[i].empty() ? "" : sha256_hex(salt_ + (*digest)[i]));
    }
    auto ends = blob.get<uint64_t>("message.role.ends");
    if (!ends) return std::move(ends).error();
    for (size_t i = 0; i < ends->size(); ++i) none.add("");
    static const char* fixed[] = {"id", "kind", "taint", "parent", "attached_to", "message", "source_begin", "source_end", "head_skip",
                                  "tail_skip", "birth", "tokens", "pinned", "replaces", "role.bytes", "role.ends", "field.bytes",
                                  "field.ends", "message.role.bytes", "message.role.ends", "message.name.bytes", "message.name.ends",
                                  "message.id.bytes", "message.id.ends"};
    std::erase_if(blob.tensors, [&](const Tensor& t) {
      const bool author = t.name.starts_with("message.name.") || t.name.starts_with("message.id.");
      return (names_ && author) || std::none_of(std::begin(fixed), std::end(fixed), [&](const char* f) { return t.name == f; });
    });
    keep_metadata(blob, {"first_message"});
    new_name.put(blob, "name"), new_producer.put(blob, "producer"), new_digest.put(blob, "digest");
    if (names_) none.put(blob, "message.name"), none.put(blob, "message.id");
    return {};
  }

  static Status turn_begin(Blob& blob) {
    keep_only(blob, {"layout", "phase", "kept", "evicted"}, {"turn_data"});
    return {};
  }

  // The words of a note may quote the conversation; its tag says what it is about.
  static Status note(Blob& blob) {
    auto grade = blob.get<uint8_t>("grade");
    if (!grade) return std::move(grade).error();
    Strings message, where;
    for (size_t i = 0; i < grade->size(); ++i) message.add("(redacted)"), where.add("");
    keep_only(blob, {"grade", "tag.bytes", "tag.ends"}, {});
    message.put(blob, "message"), where.put(blob, "where");
    return {};
  }

  const bool names_;
  const std::string salt_;
};

}  // namespace

Result<RedactReport> redact_session(const std::string& from, const std::string& to, Redaction redaction, bool force) {
  struct stat a {}, b {};
  if (::stat(from.c_str(), &a) == 0 && ::stat(to.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    return make_error(ErrorCode::invalid, "SPAN-SAME-FILE", "redacting writes a new file and never touches the old one; name another", to);
  auto reader = SessionReader::open(from);
  if (!reader) return std::move(reader).error();
  RedactReport report;
  report.was_finished = (*reader)->finished();
  report.findings = (*reader)->findings();
  auto opened = SessionWriter::create(to, force);
  if (!opened) return std::move(opened).error();
  SessionWriter& writer = **opened;
  Redactor redactor(redaction);
  std::string written_by;
  uint64_t lost = 0;
  auto fail = [&](Error e) {
    ::unlink(to.c_str());
    return e;
  };
  for (size_t i = 0; i < (*reader)->frames().size(); ++i) {
    const FrameInfo& info = (*reader)->frames()[i];
    if (info.kind == "loss") continue;  // its finding is among those below
    auto blob = (*reader)->frame(i);
    Status status;
    bool keep = false;
    if (!blob) {
      status = blob.error();
    } else if (const uint32_t version = version_of(info.kind); version == 0) {
      ++report.left_out[info.kind];
      continue;
    } else {
      status = convert(*blob, info.kind, info.version, version, converters(), written_by);
      if (status) {
        auto kept = redactor.redact(info.kind, *blob);
        if (kept) keep = *kept;
        else status = kept.error();
      }
    }
    if (!status) {
      if (info.kind == "session") return fail(std::move(status).error());
      const Error& e = status.error();
      report.findings.push_back({Grade::loss, e.tag, "frame " + std::to_string(info.seq) + " (" + info.kind + "): " + e.message, e.where, e.offset});
      ++lost;
      continue;
    }
    if (!keep) {
      ++report.left_out[info.kind];
      continue;
    }
    if (info.kind == "session")
      if (auto header = read_header(*blob, from)) written_by = header->program_version;
    ++report.kept[info.kind];
    for (const char* stamp : {"kind", "v", "session", "seq", "turn"}) blob->metadata.erase(stamp);
    if (auto appended = writer.append({info.kind, version_of(info.kind), info.turn}, std::move(*blob)); !appended) return fail(std::move(appended).error());
  }
  for (const Finding& f : report.findings) report.lossy = report.lossy || f.grade >= Grade::loss;
  if (report.lossy || !report.was_finished) {
    Blob blob;
    blob.metadata["reason"] = std::string("the session this was made from ") + (report.was_finished ? "" : "was not finished") +
                              (report.lossy && !report.was_finished ? " and " : "") + (report.lossy ? "had losses" : "") +
                              (lost ? ", " + std::to_string(lost) + " frames among them" : "");
    blob.metadata["grade"] = report.lossy ? "loss" : "warning";
    blob.metadata["by"] = "redaction";
    if (auto appended = writer.append({"loss"}, std::move(blob)); !appended) return fail(std::move(appended).error());
  }
  if (auto finished = writer.finish(); !finished) return fail(std::move(finished).error());
  report.output_bytes = writer.bytes_written();
  return report;
}

}  // namespace spanscope
