// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/main_window/start_page.h"

#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QLineEdit>
#include <QListWidget>
#include <QPainter>
#include <QPushButton>
#include <QStyledItemDelegate>
#include <QSvgRenderer>
#include <QVBoxLayout>

#include "widgets/style/style.h"

namespace spanscope {
namespace {

enum Role { kPath = Qt::UserRole, kFacts, kWhen, kThere };

QString tilde(const QString& path) {
  const QString home = QDir::homePath();
  return path.startsWith(home + "/") ? "~" + path.mid(home.size()) : path;
}

class RecentDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;
  QSize sizeHint(const QStyleOptionViewItem&, const QModelIndex&) const override { return {200, 68}; }
  void paint(QPainter* painter, const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    const Palette& p = style::colors();
    const bool selected = option.state & QStyle::State_Selected, there = index.data(kThere).toBool();
    const QRect r = option.rect;
    painter->save();
    painter->fillRect(r, style::q(selected ? p.selection : option.state & QStyle::State_MouseOver ? p.hover : p.panel));
    painter->setPen(style::q(p.border));
    painter->drawLine(r.bottomLeft(), r.bottomRight());
    style::drawIcon(*painter, QRectF(r.left() + 14, r.top() + 16, 36, 36), there ? "spanscope-session" : "missing", style::q(p.textFaint));
    const QRect text = r.adjusted(64, 10, -16, -8);
    const QFileInfo info(index.data(kPath).toString());
    painter->setFont(style::sized(12, true));
    painter->setPen(style::q(selected ? p.onSelection : p.text));
    const QString when = index.data(kWhen).toString();
    const int whenWidth = QFontMetrics(style::sized(12)).horizontalAdvance(when) + 16;
    painter->drawText(QRect(text.left(), text.top(), text.width() - whenWidth, 16), Qt::AlignVCenter, painter->fontMetrics().elidedText(info.fileName(), Qt::ElideMiddle, text.width() - whenWidth));
    painter->setFont(style::sized(12));
    painter->setPen(style::q(selected ? p.onSelection : p.textMuted));
    painter->drawText(QRect(text.right() - whenWidth, text.top() + 16, whenWidth, 16), Qt::AlignRight | Qt::AlignVCenter, when);
    const QString facts = there ? index.data(kFacts).toString() : QObject::tr("Moved or on a drive that is not connected. Del forgets it.");
    painter->drawText(QRect(text.left(), text.top() + 17, text.width() - whenWidth, 16), Qt::AlignVCenter, painter->fontMetrics().elidedText(facts, Qt::ElideRight, text.width() - whenWidth));
    painter->drawText(QRect(text.left(), text.top() + 34, text.width(), 16), Qt::AlignVCenter, painter->fontMetrics().elidedText(tilde(info.absolutePath()), Qt::ElideMiddle, text.width()));
    painter->restore();
  }
};

class RecentList : public QListWidget {
 public:
  using QListWidget::QListWidget;

 protected:
  void paintEvent(QPaintEvent* event) override {
    QListWidget::paintEvent(event);
    // Below the entries: where to drop.
    QPainter painter(viewport());
    const Palette& p = style::colors();
    int y = 12;
    for (int i = 0; i < count(); ++i)
      if (!item(i)->isHidden()) y = std::max(y, visualItemRect(item(i)).bottom() + 13);
    const QRect box(12, y, viewport()->width() - 25, std::min(72, viewport()->height() - y - 12));
    if (box.height() < 30) return;
    painter.setPen(QPen(style::q(p.borderStrong), 1, Qt::DashLine));
    painter.drawRect(box);
    painter.setPen(style::q(p.textMuted));
    painter.drawText(box, Qt::AlignCenter, count() ? QObject::tr("Drop a .span file to open it") : QObject::tr("No sessions yet. Open the demo, record a chat, or drop a .span file here."));
  }
};

}  // namespace

QPushButton* StartPage::card(const QString& name, const QString& icon, const QString& title, const QString& text, const QStringList& keys, bool primary) {
  auto* b = new QPushButton(this);
  b->setObjectName("card");
  b->setProperty("action", name);
  b->setProperty("primary", primary);
  b->setAccessibleName(title);
  b->setAccessibleDescription(text);
  b->setFixedSize(372, 56);
  auto* row = new QHBoxLayout(b);
  row->setContentsMargins(15, 8, 14, 8);
  row->setSpacing(13);
  auto* picture = new QLabel(b);
  picture->setPixmap(style::icon(icon).pixmap(18, 18));
  auto* words = new QVBoxLayout;
  words->setSpacing(0);
  auto* head = new QLabel(title, b);
  head->setObjectName("strong");
  auto* more = new QLabel(text, b);
  more->setObjectName("muted");
  words->addWidget(head);
  words->addWidget(more);
  row->addWidget(picture);
  row->addLayout(words, 1);
  auto* keyRow = new QHBoxLayout;
  keyRow->setSpacing(3);
  for (const QString& k : keys) {
    auto* key = new QLabel(k, b);
    key->setObjectName("key");
    keyRow->addWidget(key, 0, Qt::AlignTop);
  }
  row->addLayout(keyRow);
  for (QLabel* l : b->findChildren<QLabel*>()) l->setAttribute(Qt::WA_TransparentForMouseEvents);
  return b;
}

StartPage::StartPage(QWidget* parent) : QWidget(parent) {
  setObjectName("startPage");
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(48, 40, 40, 28);
  row->setSpacing(40);
  auto* left = new QVBoxLayout;
  left->setSpacing(9);
  auto* brand = new QHBoxLayout;
  auto* logo = new QLabel(this);
  const double ratio = devicePixelRatioF();
  QPixmap pixmap(QSize(60, 60) * ratio);
  pixmap.setDevicePixelRatio(ratio);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  QSvgRenderer(QString(":/icons/spanscope.svg")).render(&painter, QRectF(0, 0, 60, 60));
  painter.end();
  logo->setPixmap(pixmap);
  logo->setAccessibleName(tr("Spanscope"));
  auto* names = new QVBoxLayout;
  names->setSpacing(0);
  auto* name = new QLabel(tr("Spanscope"), this);
  name->setStyleSheet("font-size:26px;font-weight:700;");
  auto* what = new QLabel(tr("What the model really read."), this);
  what->setObjectName("muted");
  names->addStretch(1);
  names->addWidget(name);
  names->addWidget(what);
  names->addStretch(1);
  brand->addWidget(logo);
  brand->addSpacing(14);
  brand->addLayout(names);
  brand->addStretch(1);
  left->addLayout(brand);
  left->addSpacing(22);
  demo_ = card("openDemo", "play", tr("Open the demo"), tr("A chat of 64 turns, recorded here in seconds."), {"D"}, true);
  open_ = card("open", "open", tr("Open a session…"), tr("A .span file. You can also drop one here."), {"Ctrl", "O"}, false);
  demo_->setShortcut(QKeySequence(Qt::Key_D));
  left->addWidget(demo_);
  left->addWidget(open_);
  auto* box = new QFrame(this);
  box->setObjectName("card");
  box->setFixedWidth(372);
  auto* boxColumn = new QVBoxLayout(box);
  boxColumn->setContentsMargins(15, 10, 14, 12);
  boxColumn->setSpacing(5);
  auto* record = new QLabel(tr("Record a chat"), box);
  record->setObjectName("strong");
  auto* how = new QLabel(tr("In a terminal, with a GGUF model and messages you have:"), box);
  how->setObjectName("muted");
  how->setWordWrap(true);
  auto* command = new QLabel("spanscope record --model M.gguf \\\n    --chat talk.json -o talk.span", box);
  command->setObjectName("code");
  command->setFont(style::mono());
  command->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  boxColumn->addWidget(record);
  boxColumn->addWidget(how);
  boxColumn->addWidget(command);
  left->addWidget(box);
  left->addSpacing(14);
  auto* two = new QLabel(tr("In two minutes"), this);
  two->setObjectName("strong");
  left->addWidget(two);
  const std::pair<QString, QString> steps[] = {{tr("Open the demo and look at the last turn"), tr("the last answer")},
                                               {tr("See which spans it read"), tr("map, transcript")},
                                               {tr("Drag the threshold until 80 % is kept"), tr("view")},
                                               {tr("Ask a new question of those spans"), tr("Re-attend")},
                                               {tr("Export the report"), tr("HTML")}};
  int n = 0;
  for (const auto& [step, where] : steps) {
    auto* line = new QLabel(QString("%1.&nbsp;&nbsp;%2&nbsp;&nbsp;<span style='color:%3'>%4</span>").arg(++n).arg(step, style::q(style::colors().textFaint).name(), where), this);
    left->addWidget(line);
  }
  left->addStretch(1);
  auto* foot = new QLabel(tr("Works offline. Nothing is sent anywhere.\nSession files contain the prompts."), this);
  foot->setObjectName("muted");
  left->addWidget(foot);
  row->addLayout(left);
  auto* right = new QVBoxLayout;
  right->setSpacing(6);
  auto* top = new QHBoxLayout;
  auto* recentTitle = new QLabel(tr("Recent sessions"), this);
  recentTitle->setStyleSheet("font-size:13px;font-weight:600;");
  find_ = new QLineEdit(this);
  find_->setObjectName("recentFind");
  find_->setAccessibleName(tr("Find in recent sessions"));
  find_->setPlaceholderText(tr("Find"));
  find_->addAction(style::icon("search"), QLineEdit::LeadingPosition);
  find_->setMaximumWidth(240);
  top->addWidget(recentTitle);
  top->addStretch(1);
  top->addWidget(find_, 1);
  right->addLayout(top);
  recent_ = new RecentList(this);
  recent_->setObjectName("recentList");
  recent_->setAccessibleName(tr("Recent sessions"));
  recent_->setItemDelegate(new RecentDelegate(recent_));
  recent_->setMouseTracking(true);
  recent_->setVerticalScrollMode(QAbstractItemView::ScrollPerPixel);
  auto* frame = new QFrame(this);
  frame->setObjectName("panelFrame");
  auto* inside = new QVBoxLayout(frame);
  inside->setContentsMargins(1, 1, 1, 1);
  inside->addWidget(recent_);
  right->addWidget(frame, 1);
  row->addLayout(right, 1);
  connect(open_, &QPushButton::clicked, this, &StartPage::openRequested);
  connect(demo_, &QPushButton::clicked, this, &StartPage::demoRequested);
  connect(find_, &QLineEdit::textChanged, this, &StartPage::filter);
  const auto openItem = [this](QListWidgetItem* item) {
    if (item->data(kThere).toBool()) emit fileRequested(item->data(kPath).toString());
  };
  connect(recent_, &QListWidget::itemActivated, this, openItem);
  auto* forget = new QAction(tr("Forget"), recent_);
  forget->setShortcut(QKeySequence::Delete);
  forget->setShortcutContext(Qt::WidgetShortcut);
  connect(forget, &QAction::triggered, this, [this] {
    if (auto* item = recent_->currentItem()) emit forgetRequested(item->data(kPath).toString());
  });
  recent_->addAction(forget);
  recent_->setContextMenuPolicy(Qt::ActionsContextMenu);
  setDemo(false);
  setRecent({});
}

void StartPage::setDemo(bool available) {
  demo_->setVisible(available);
  style::mark(open_, "primary", !available);
  (available ? demo_ : open_)->setFocus();
}

void StartPage::filter() {
  for (int i = 0; i < recent_->count(); ++i)
    recent_->item(i)->setHidden(!recent_->item(i)->data(kPath).toString().contains(find_->text(), Qt::CaseInsensitive));
  recent_->viewport()->update();
}

void StartPage::setRecent(const std::vector<RecentSession>& sessions) {
  recent_->clear();
  for (const RecentSession& s : sessions) {
    const QFileInfo info(s.path);
    auto* item = new QListWidgetItem(recent_);
    const QDateTime when = info.lastModified();
    const qint64 days = when.isValid() ? when.daysTo(QDateTime::currentDateTime()) : -1;
    item->setText(info.fileName());  // for screen readers
    item->setData(kPath, s.path);
    item->setData(kThere, info.exists());
    item->setData(kFacts, s.facts.isEmpty() ? style::bytes(quint64(info.size())) : s.facts);
    item->setData(kWhen, !info.exists() ? QString() : days == 0 ? when.toString("HH:mm") : days == 1 ? tr("Yesterday %1").arg(when.toString("HH:mm")) : when.toString("d MMM"));
    item->setToolTip(s.path);
  }
  filter();
}

}  // namespace spanscope
