// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/jobs/demo_job.h"

#include <QMetaObject>
#include <exception>
#include <memory>

namespace spanscope {

DemoJob::~DemoJob() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void DemoJob::cancel() { thread_.request_stop(); }

void DemoJob::start() {
  if (running_ || !record_) return;
  if (thread_.joinable()) thread_.join();  // of an earlier run, which has ended
  running_ = true;
  thread_ = std::jthread([this](std::stop_token stop) {
    const Report report = [this](const std::string& text, uint64_t done, uint64_t total) {
      QMetaObject::invokeMethod(this, [this, text, done, total] { emit progress(QString::fromStdString(text), done, total); }, Qt::QueuedConnection);
    };
    Result<std::string> result = make_error(ErrorCode::memory, "SPAN-MEMORY", "not enough memory to record the demo");
    try {
      result = record_(stop, report);
    } catch (const std::exception&) {
      // The error above says it: nothing but an allocation throws here.
    }
    auto shared = std::make_shared<Result<std::string>>(std::move(result));
    QMetaObject::invokeMethod(this, [this, shared] {
      running_ = false;
      if (*shared) emit finished(QString::fromStdString(shared->value()));
      else emit failed(QString::fromStdString(shared->error().line()), shared->error().code == ErrorCode::cancelled);
    }, Qt::QueuedConnection);
  });
}

}  // namespace spanscope
