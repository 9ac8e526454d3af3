// SPDX-License-Identifier: GPL-3.0-or-later
// The engine as the window sees it: one per process, owns the model and the rebuilt context on its own thread. Requests
// are tagged; a newer one with the same tag replaces the older. Call from the UI thread; signals arrive on the UI thread.
#pragma once
#include <QObject>
#include <QString>
#include <cstdint>
#include <functional>
#include <memory>

#include "widgets/engine/engine_queue.h"
#include "widgets/engine/reattend_job.h"

namespace spanscope {

class Engine : public QObject {
  Q_OBJECT
 public:
  using Done = std::function<void(const Result<ReattendOutcome>&)>;
  using Checked = std::function<void(const Status&)>;

  static Engine& instance();
  // Which backend runs a model (default: the fast CPU path). Takes effect with the next model that is opened.
  static void setBackendFactory(ReattendState::MakeBackend factory);

  // done is called on the UI thread unless the request was replaced or `context` is gone; a cancelled one gets SPAN-CANCELLED.
  uint64_t ask(const QString& tag, const ReattendQuestion& question, QObject* context, Done done);
  uint64_t checkModel(const QString& tag, std::shared_ptr<const SessionData> session, const QString& modelPath,
                      QObject* context, Checked done);
  // Anything else that must not run beside the engine (tests use it too).
  uint64_t submit(const QString& tag, EngineQueue::Work work, EngineQueue::Ended ended = {});
  bool cancel(const QString& tag);
  bool busy() const { return queue_.busy(); }

 signals:
  void progress(const QString& tag, const QString& stage, qulonglong done, qulonglong total);
  void finished(const QString& tag, bool cancelled);

 private:
  Engine();
  ~Engine() override;
  std::unique_ptr<ReattendState> state_;  // touched by the engine thread only
  EngineQueue queue_;                     // last member: its thread ends before the state goes
};

}  // namespace spanscope
