// SPDX-License-Identifier: GPL-3.0-or-later
// Named filters: the ready-made ones, and those that people keep. Kept per user, in the settings. UI thread.
#pragma once
#include <QObject>
#include <QString>
#include <vector>

namespace spanscope {

struct SavedView {
  QString name, predicate;
  bool ready = false;  // ready-made: cannot be renamed or removed
};

class ViewStore : public QObject {
  Q_OBJECT
 public:
  explicit ViewStore(QObject* parent = nullptr);
  const std::vector<SavedView>& views() const { return views_; }
  void save(const QString& name, const QString& predicate);  // an own view of that name is replaced
  void remove(const QString& name);
  QString suggestedName() const;

 signals:
  void changed();

 private:
  void keep() const;
  std::vector<SavedView> views_;
};

}  // namespace spanscope
