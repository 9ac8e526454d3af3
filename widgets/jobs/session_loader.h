// SPDX-License-Identifier: GPL-3.0-or-later
// Loads sessions off the UI thread. A result carries a generation: one that a newer request has overtaken is dropped.
#pragma once
#include <QObject>
#include <QString>
#include <memory>

#include "core/base/result.h"
#include "core/record/session_data.h"

namespace spanscope {

class SessionLoader : public QObject {
  Q_OBJECT
 public:
  explicit SessionLoader(QObject* parent = nullptr) : QObject(parent) {}
  void load(const QString& path);
  void cancel() { ++generation_; }  // the running load's result will be dropped

 signals:
  void started(const QString& path);
  void loaded(const QString& path, std::shared_ptr<const spanscope::SessionData> session);
  void failed(const QString& path, const QString& message);

 private:
  quint64 generation_ = 0;
};

}  // namespace spanscope
