// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/start_page.h"

#include <QDateTime>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QSvgRenderer>
#include <QVBoxLayout>

#include "widgets/style/style.h"

namespace spanscope {

StartPage::StartPage(QWidget* parent) : QWidget(parent) {
  setObjectName("startPage");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(48, 44, 48, 32);
  row->setSpacing(40);
  auto* left = new QVBoxLayout;
  left->setSpacing(8);
  auto* brand = new QHBoxLayout;
  auto* logo = new QLabel(this);
  QPixmap pixmap(64, 64);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  QSvgRenderer(QString(":/icons/spanscope.svg")).render(&painter);
  logo->setPixmap(pixmap);
  logo->setAccessibleName(tr("Spanscope"));
  auto* names = new QVBoxLayout;
  auto* name = new QLabel(tr("Spanscope"), this);
  QFont big = name->font();
  big.setPixelSize(26);
  big.setBold(true);
  name->setStyleSheet("font-size:26px;font-weight:700;");
  auto* what = new QLabel(tr("What the model really read."), this);
  what->setObjectName("muted");
  names->addWidget(name);
  names->addWidget(what);
  brand->addWidget(logo);
  brand->addSpacing(12);
  brand->addLayout(names);
  brand->addStretch(1);
  left->addLayout(brand);
  left->addSpacing(26);
  auto* open = new QPushButton(tr("Open a session…   Ctrl+O"), this);
  open->setObjectName("openButton");
  open->setProperty("primary", true);
  open->setMinimumHeight(40);
  open->setMinimumWidth(360);
  left->addWidget(open);
  auto* hint = new QLabel(tr("A .span file. You can also drop one here."), this);
  hint->setObjectName("muted");
  left->addWidget(hint);
  left->addSpacing(14);
  auto* record = new QLabel(tr("<b>Record a chat</b><br>In a terminal, with any GGUF model of the llama family and OpenAI-style messages:"), this);
  record->setWordWrap(true);
  left->addWidget(record);
  auto* command = new QLabel("spanscope record --model M.gguf --chat talk.json \\\n    -o talk.span", this);
  command->setFont(style::mono());
  command->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  command->setStyleSheet(QString("background:%1;border:1px solid %2;border-radius:3px;padding:8px;").arg(style::q(style::colors().panel).name(), style::q(style::colors().border).name()));
  left->addWidget(command);
  left->addSpacing(18);
  auto* two = new QLabel(tr("<b>In two minutes</b>"), this);
  left->addWidget(two);
  const QString steps[] = {tr("1   Open a session; the last answer is selected"), tr("2   See which spans it read: map, transcript"),
                           tr("3   Drag the threshold line until 80 % of the reads are kept"), tr("4   Ask a new question of those spans: Re-attend"),
                           tr("5   Export the report")};
  for (const QString& s : steps) {
    auto* label = new QLabel(s, this);
    label->setObjectName("muted");
    left->addWidget(label);
  }
  left->addStretch(1);
  auto* foot = new QLabel(tr("Works offline. Nothing is sent anywhere. Session files contain the prompts."), this);
  foot->setObjectName("muted");
  left->addWidget(foot);
  row->addLayout(left);
  auto* right = new QVBoxLayout;
  right->addWidget(new QLabel(tr("<b>Recent sessions</b>"), this));
  recent_ = new QListWidget(this);
  recent_->setObjectName("recentList");
  recent_->setAccessibleName(tr("Recent sessions"));
  recent_->setStyleSheet(QString("QListWidget{border:1px solid %1;} QListWidget::item{padding:8px 12px;border-bottom:1px solid %1;}").arg(style::q(style::colors().border).name()));
  right->addWidget(recent_, 1);
  row->addLayout(right, 1);
  connect(open, &QPushButton::clicked, this, &StartPage::openRequested);
  connect(recent_, &QListWidget::itemActivated, this, [this](QListWidgetItem* item) {
    if (item->flags() & Qt::ItemIsEnabled) emit fileRequested(item->data(Qt::UserRole).toString());
  });
  setRecent({});
}

void StartPage::setRecent(const QStringList& files) {
  recent_->clear();
  for (const QString& path : files) {
    const QFileInfo info(path);
    auto* item = new QListWidgetItem(recent_);
    if (info.exists())
      item->setText(tr("%1\n%2 · %3 MB · %4").arg(info.fileName(), info.absolutePath()).arg(double(info.size()) / 1e6, 0, 'f', 1).arg(info.lastModified().toString("d MMM hh:mm")));
    else
      item->setText(tr("%1\nMoved or deleted: %2").arg(info.fileName(), info.absolutePath()));
    if (!info.exists()) item->setFlags(item->flags() & ~Qt::ItemIsEnabled);
    item->setData(Qt::UserRole, path);
  }
  if (files.isEmpty()) {
    auto* item = new QListWidgetItem(tr("No sessions yet. Record one, or drop a .span file into this window."), recent_);
    item->setFlags(Qt::NoItemFlags);
  }
}

}  // namespace spanscope
