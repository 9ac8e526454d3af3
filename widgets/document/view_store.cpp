// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/document/view_store.h"

#include <QSettings>
#include <algorithm>

namespace spanscope {

ViewStore::ViewStore(QObject* parent) : QObject(parent) {
  views_ = {{tr("all spans"), "", true},
            {tr("hottest ten"), "top 10 by total_reads", true},
            {tr("last answer"), "reads >= 1", true},
            {tr("never read"), "last_read = 0 and birth < turn - 1", true},
            {tr("cold for 8 turns"), "last_read > 0 and last_read < turn - 7", true},
            {tr("tool results"), "role = tool", true}};
  QSettings settings;
  const int n = settings.beginReadArray("views");
  for (int i = 0; i < n; ++i) {
    settings.setArrayIndex(i);
    views_.push_back({settings.value("name").toString(), settings.value("predicate").toString(), false});
  }
  settings.endArray();
}

void ViewStore::keep() const {
  QSettings settings;
  settings.remove("views");
  settings.beginWriteArray("views");
  int i = 0;
  for (const SavedView& v : views_) {
    if (v.ready) continue;
    settings.setArrayIndex(i++);
    settings.setValue("name", v.name);
    settings.setValue("predicate", v.predicate);
  }
  settings.endArray();
}

void ViewStore::save(const QString& name, const QString& predicate) {
  const auto it = std::find_if(views_.begin(), views_.end(), [&](const SavedView& v) { return !v.ready && v.name == name; });
  if (it != views_.end()) it->predicate = predicate;
  else views_.push_back({name, predicate, false});
  keep();
  emit changed();
}

void ViewStore::remove(const QString& name) {
  const auto it = std::find_if(views_.begin(), views_.end(), [&](const SavedView& v) { return !v.ready && v.name == name; });
  if (it == views_.end()) return;
  views_.erase(it);
  keep();
  emit changed();
}

QString ViewStore::suggestedName() const {
  for (int i = 1;; ++i) {
    const QString name = tr("view %1").arg(i);
    if (std::none_of(views_.begin(), views_.end(), [&](const SavedView& v) { return v.name == name; })) return name;
  }
}

}  // namespace spanscope
