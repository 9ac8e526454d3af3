// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/jobs/session_loader.h"

#include <QFutureWatcher>
#include <QtConcurrent>
#include <new>

#include "core/record/session_schema.h"

namespace spanscope {
namespace {
using Loaded = std::shared_ptr<Result<std::shared_ptr<const SessionData>>>;
}

void SessionLoader::load(const QString& path) {
  const quint64 generation = ++generation_;
  emit started(path);
  auto* watcher = new QFutureWatcher<Loaded>(this);
  connect(watcher, &QFutureWatcher<Loaded>::finished, this, [this, watcher, path, generation] {
    watcher->deleteLater();
    if (generation != generation_) return;
    const Loaded result = watcher->result();
    if (*result) emit loaded(path, result->value());
    else emit failed(path, QString::fromStdString(result->error().line()));
  });
  watcher->setFuture(QtConcurrent::run([file = path.toStdString()]() -> Loaded {
    try {
      return std::make_shared<Result<std::shared_ptr<const SessionData>>>(load_session(file));
    } catch (const std::bad_alloc&) {
      return std::make_shared<Result<std::shared_ptr<const SessionData>>>(
          make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to open the session", file));
    }
  }));
}

}  // namespace spanscope
