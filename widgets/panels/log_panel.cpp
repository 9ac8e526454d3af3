// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/log_panel.h"

#include <QTime>

#include "widgets/panels/row_table.h"

namespace spanscope {

LogPanel::LogPanel(Document* document, QWidget* parent) : Panel(document, "logPanel", tr("Log"), parent) {
  table_ = new RowTable("logView", tr("Log"), this);
  table_->setColumns({{tr("Grade"), false, 70, {}}, {tr("What"), false, 0, {}}, {tr("Tag"), false, 170, {}}});
  body()->addWidget(table_);
  setFocusProxy(table_);
  connect(document, &Document::sessionChanged, this, &LogPanel::reload);
  connect(document, &Document::message, this, [this](const QString& text) { add(text); });
}

void LogPanel::add(const QString& text, const QString& tag) {
  said_.push_back({QTime::currentTime().toString("HH:mm:ss"), text, tag});
  if (said_.size() > 500) said_.erase(said_.begin());
  reload();
}

void LogPanel::reload() {
  std::vector<TableRow> rows;
  const auto line = [&](const QString& grade, const QString& text, const QString& tag, bool strong) {
    TableRow row;
    TableCell a, b, c;
    a.text = grade, b.text = text, c.text = tag;
    a.strong = strong;
    b.tip = text;
    a.muted = !strong;
    c.mono = true;
    row.cells = {a, b, c};
    rows.push_back(std::move(row));
  };
  findings_ = 0;
  if (const auto session = document()->session()) {
    static const char* grades[] = {"info", "warning", "loss", "error"};
    for (const Finding& f : session->findings) {
      QString text = QString::fromStdString(f.message);
      if (f.offset) text += tr(" (byte %1)").arg(*f.offset);
      line(tr(grades[size_t(f.grade)]), text, QString::fromStdString(f.tag), f.grade >= Grade::loss);
      ++findings_;
    }
    if (!session->finished) line(tr("info"), tr("The file is unfinished: it ends before its index. What is here is complete."), "SPAN-UNFINISHED", false);
  }
  for (const Line& l : said_) line(l.time, l.text, l.tag, !l.tag.isEmpty());
  if (rows.empty()) line({}, tr("Nothing to report: the file is whole."), {}, false);
  table_->setRows(std::move(rows));
}

}  // namespace spanscope
