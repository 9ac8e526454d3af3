// SPDX-License-Identifier: GPL-3.0-or-later
// Records the demo on a thread of its own, with progress and cancel. How it is recorded is the program's business (it
// chooses the engine); this only runs it. Signals arrive on the UI thread.
#pragma once
#include <QObject>
#include <QString>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "core/base/result.h"

namespace spanscope {

class DemoJob : public QObject {
  Q_OBJECT
 public:
  using Report = std::function<void(const std::string& text, uint64_t done, uint64_t total)>;
  // Gives the path of the session it wrote.
  using Record = std::function<Result<std::string>(std::stop_token, const Report&)>;
  explicit DemoJob(QObject* parent = nullptr) : QObject(parent) {}
  ~DemoJob() override;
  void setRecord(Record record) { record_ = std::move(record); }
  bool available() const { return bool(record_); }
  bool running() const { return running_; }
  void start();
  void cancel();

 signals:
  void progress(const QString& text, quint64 done, quint64 total);
  void finished(const QString& path);
  void failed(const QString& message, bool cancelled);

 private:
  Record record_;
  std::jthread thread_;
  bool running_ = false;
};

}  // namespace spanscope
