// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/engine/engine.h"

#include <QCoreApplication>
#include <QPointer>

#include "core/cpu/backends.h"
#include "core/model/weights.h"

namespace spanscope {
namespace {

ReattendState::MakeBackend& factory() {
  static ReattendState::MakeBackend make = [](std::shared_ptr<const Model> model) {
    return make_fast_backend(std::move(model));
  };
  return make;
}

Error cancelled() {
  return make_error(ErrorCode::cancelled, "SPAN-CANCELLED", "cancelled; earlier results are kept");
}

}  // namespace

void Engine::setBackendFactory(ReattendState::MakeBackend make) { factory() = std::move(make); }

Engine& Engine::instance() {
  static Engine* engine = [] {
    auto* e = new Engine;
    // The thread must be gone before Qt is: its results are posted to Qt's event queue.
    qAddPostRoutine([] { Engine::instance().queue_.shutdown(); });
    return e;
  }();
  return *engine;
}

Engine::Engine()
    : state_(std::make_unique<ReattendState>([](std::shared_ptr<const Model> model) { return factory()(std::move(model)); })) {}
Engine::~Engine() = default;

uint64_t Engine::submit(const QString& tag, EngineQueue::Work work, EngineQueue::Ended ended) {
  return queue_.submit(tag.toStdString(), std::move(work), std::move(ended));
}

bool Engine::cancel(const QString& tag) { return queue_.cancel(tag.toStdString()); }

uint64_t Engine::ask(const QString& tag, const ReattendQuestion& question, QObject* context, Done done) {
  auto result = std::make_shared<Result<ReattendOutcome>>(cancelled());
  QPointer<QObject> guard(context);
  auto work = [this, tag, question, result](std::stop_token stop) {
    auto last = std::chrono::steady_clock::time_point{};
    std::string stage;
    *result = state_->ask(question, stop, [&](const ReattendProgress& p) {
      // At most 20 a second, every new stage at once: the UI thread must not drown in them.
      const auto now = std::chrono::steady_clock::now();
      if (p.stage == stage && now - last < std::chrono::milliseconds(50)) return;
      stage = p.stage;
      last = now;
      emit progress(tag, QString::fromStdString(p.stage), p.done, p.total);
    });
  };
  auto ended = [this, tag, guard, done = std::move(done), result](EngineQueue::End end) {
    QMetaObject::invokeMethod(
        this,
        [this, tag, guard, done, result, end] {
          emit finished(tag, end != EngineQueue::End::done);
          if (end == EngineQueue::End::replaced || !guard) return;
          if (end == EngineQueue::End::cancelled) *result = cancelled();
          done(*result);
        },
        Qt::QueuedConnection);
  };
  return queue_.submit(tag.toStdString(), std::move(work), std::move(ended));
}

uint64_t Engine::checkModel(const QString& tag, std::shared_ptr<const SessionData> session, const QString& modelPath,
                            QObject* context, Checked done) {
  auto result = std::make_shared<Status>(cancelled());
  QPointer<QObject> guard(context);
  auto work = [this, session, modelPath, result](std::stop_token) {
    *result = session ? state_->check(*session, modelPath.toStdString()) : Status(cancelled());
  };
  auto ended = [this, guard, done = std::move(done), result](EngineQueue::End end) {
    QMetaObject::invokeMethod(
        this,
        [guard, done, result, end] {
          if (end == EngineQueue::End::replaced || !guard) return;
          done(*result);
        },
        Qt::QueuedConnection);
  };
  return queue_.submit(tag.toStdString(), std::move(work), std::move(ended));
}

}  // namespace spanscope
