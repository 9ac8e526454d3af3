// SPDX-License-Identifier: GPL-3.0-or-later
#include "widgets/panels/reattend_panel.h"

#include <QCheckBox>
#include <QComboBox>
#include <QDir>
#include <QFileDialog>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QRadioButton>
#include <QScrollArea>
#include <QSettings>
#include <QShortcut>
#include <QSpinBox>
#include <QSplitter>
#include <QTextBrowser>
#include <algorithm>
#include <cmath>

#include "widgets/engine/engine.h"
#include "widgets/panels/data/session_access.h"
#include "widgets/panels/panel_kit.h"
#include "widgets/panels/row_table.h"

namespace spanscope {
namespace {

const QString kAskTag = "reattend.question";
const QString kCheckTag = "reattend.check";

QString modelKey(const SessionData& session) { return "models/" + QString::fromStdString(session.header.model_digest); }

QString sentence(const Error& e) {
  QString text = QString::fromStdString(e.message);
  if (!text.isEmpty()) text[0] = text[0].toUpper();
  if (!text.endsWith('.')) text += '.';
  for (const std::string& a : e.advice) {
    QString way = QString::fromStdString(a);
    if (!way.isEmpty()) way[0] = way[0].toUpper();
    text += " " + way + (way.endsWith('.') ? "" : ".");
  }
  return text + " " + QString::fromStdString(e.tag);
}

TableCell number(const QString& text, bool strong = false, bool muted = false) {
  TableCell c;
  c.kind = TableCell::Kind::number;
  c.text = text;
  c.strong = strong;
  c.muted = muted;
  return c;
}

}  // namespace

ReattendPanel::ReattendPanel(Document* document, QWidget* parent) : Panel(document, "reattendPanel", tr("Re-attend"), parent) {
  setAccessibleName(tr("Ask a question over the recorded context"));
  fillWithPanelColor(this);
  setSubtitle(tr("Everything here is computed now, not recorded."));
  setProvenance(Provenance::rerun);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(0);
  auto* scroll = new QScrollArea(this);
  scroll->setObjectName("askPanel");
  scroll->setAccessibleName(tr("Question"));
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setFixedWidth(316);
  auto* ask = new QWidget(scroll);
  fillWithPanelColor(ask);
  buildAsk(ask);
  scroll->setWidget(ask);
  row->addWidget(scroll);
  auto* line = new QFrame(this);
  line->setFixedWidth(1);
  line->setStyleSheet(QString("background:%1").arg(panelColors().border.name()));
  row->addWidget(line);

  auto* right = new QVBoxLayout;
  right->setSpacing(0);
  empty_ = new StateNote(this);
  right->addWidget(empty_, 1);
  results_ = new QWidget(this);
  auto* column = new QVBoxLayout(results_);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  tableHeader_ = new SectionHeader(tr("Which spans the question turns to"), results_);
  table_ = new RowTable("reattendTable", tr("Spans the question turns to"), results_);
  table_->setColumns({{tr("#"), true, 34, {}},
                      {tr("Span"), false, 0, {}},
                      {tr("Tokens"), true, 62, {}},
                      {tr("Share of it"), false, 130, {}},
                      {tr("Answer rows"), true, 92, tr("share of the answer's rows, mean over layers and heads (re-run)")},
                      {tr("Question rows"), true, 104, tr("share of the question's rows, mean over layers and heads (re-run)")},
                      {tr("E"), true, 66, tr("answer rows under E, everything (re-run)")},
                      {tr("Reads at turn"), true, 96, tr("recorded reads at the turn cursor, at the present strength (captured)")}});
  column->addWidget(tableHeader_);
  column->addWidget(table_, 3);
  answerHeader_ = new SectionHeader(tr("Answer"), results_);
  column->addWidget(answerHeader_);
  auto* answers = new QWidget(results_);
  auto* pair = new QHBoxLayout(answers);
  pair->setContentsMargins(0, 0, 0, 0);
  pair->setSpacing(0);
  const auto answerBox = [&](QLabel*& title, QTextBrowser*& text, const QString& name) {
    auto* box = new QWidget(answers);
    auto* v = new QVBoxLayout(box);
    v->setContentsMargins(12, 8, 12, 4);
    v->setSpacing(4);
    title = new QLabel(box);
    text = new QTextBrowser(box);
    text->setObjectName(name);
    text->setFrameShape(QFrame::NoFrame);
    text->setStyleSheet("QTextBrowser{background:transparent;border:none;padding:0}");
    v->addWidget(title);
    v->addWidget(text, 1);
    pair->addWidget(box, 1);
    return box;
  };
  answerBox(titleA_, answerA_, "answerPanel");
  boxE_ = answerBox(titleE_, answerE_, "answerPanelE");
  answers->setMinimumHeight(96);
  answers->setMaximumHeight(190);
  column->addWidget(answers, 1);
  auto* foot = new QWidget(results_);
  auto* feet = new QHBoxLayout(foot);
  feet->setContentsMargins(0, 0, 0, 0);
  feet->setSpacing(0);
  auto* historyBox = new QVBoxLayout;
  historyBox->setSpacing(0);
  historyHeader_ = new SectionHeader(tr("Question history"), foot);
  historyHeader_->setNote(tr("this window; nothing recorded is changed"));
  history_ = new RowTable("questionHistory", tr("History"), foot);
  history_->setColumns({{tr("#"), true, 34, {}}, {tr("Question"), false, 0, {}}, {tr("Subset"), false, 150, {}}, {tr("Mode"), false, 50, {}}, {tr("Tokens"), true, 64, tr("context tokens the new words could see")}, {tr("Time"), true, 70, {}}});
  historyBox->addWidget(historyHeader_);
  historyBox->addWidget(history_, 1);
  auto* costBox = new QVBoxLayout;
  costBox->setSpacing(0);
  auto* costHeader = new SectionHeader(tr("Cost"), foot);
  costHeader->setNote(tr("tokens computed, time"));
  cost_ = new RowTable("reattendCost", tr("Cost of the run"), foot);
  cost_->setColumns({{tr("Step"), false, 0, {}}, {tr("Tokens"), true, 66, {}}, {tr("Time"), true, 74, {}}});
  costBox->addWidget(costHeader);
  costBox->addWidget(cost_, 1);
  feet->addLayout(historyBox, 5);
  feet->addLayout(costBox, 2);
  foot->setMaximumHeight(190);
  column->addWidget(foot, 2);
  right->addWidget(results_, 1);
  row->addLayout(right, 1);
  body()->addLayout(row, 1);

  connect(table_, &RowTable::rowClicked, this, [this](const TableRow& r, Qt::KeyboardModifiers modifiers) {
    if (r.span != kNoSpan) this->document()->select(r.span, Origin::reattend, modifiers & Qt::ControlModifier);
  });
  connect(history_, &RowTable::rowClicked, this, [this](const TableRow& r, Qt::KeyboardModifiers) {
    if (r.key >= 0) choose(size_t(r.key));
  });
  connect(&Engine::instance(), &Engine::progress, this, [this](const QString& tag, const QString& stage, qulonglong done, qulonglong total) {
    if (tag != kAskTag || !running_) return;
    progress_->setRange(0, total ? int(total) : 0);
    progress_->setValue(int(done));
    const QString text = total ? tr("%1: %2 of %3 tokens").arg(stage, count(qint64(done)), count(qint64(total))) : stage;
    progressText_->setText(text);
    emit progressChanged(text, done, total);
  });
  connect(document, &Document::sessionChanged, this, [this] { newSession(); });
  connect(document, &Document::selectionChanged, this, [this](const Selection&, Origin) {
    updateState();
    if (outcome_) fillTable();
  });
  connect(document, &Document::filterChanged, this, [this](Origin) { updateState(); });
  connect(document, &Document::strengthChanged, this, [this] {
    updateState();
    if (outcome_) fillTable();
  });
  newSession();
}

void ReattendPanel::buildAsk(QWidget* ask) {
  auto* column = new QVBoxLayout(ask);
  column->setContentsMargins(12, 10, 12, 10);
  column->setSpacing(6);
  const auto title = [&](const QString& text) {
    auto* l = new QLabel("<b>" + text + "</b>", ask);
    column->addWidget(l);
    return l;
  };
  title(tr("Question"));
  question_ = new QPlainTextEdit(ask);
  question_->setObjectName("questionEdit");
  question_->setAccessibleName(tr("Question, asked as a user message"));
  question_->setPlaceholderText(tr("Which customers must wait for a second approval?"));
  question_->setFixedHeight(64);
  question_->setTabChangesFocus(true);
  column->addWidget(question_);
  auto* tokensRow = new QHBoxLayout;
  auto* tokensLabel = new QLabel(tr("Answer, at most"), ask);
  tokensLabel->setObjectName("muted");
  tokens_ = new QSpinBox(ask);
  tokens_->setObjectName("answerTokens");
  tokens_->setAccessibleName(tr("Most tokens of the answer"));
  tokens_->setRange(0, 4096);
  tokens_->setValue(48);
  tokens_->setButtonSymbols(QAbstractSpinBox::NoButtons);
  tokens_->setSuffix(tr(" tokens"));
  tokensRow->addWidget(tokensLabel);
  tokensRow->addWidget(tokens_);
  tokensRow->addStretch(1);
  column->addLayout(tokensRow);
  column->addSpacing(4);

  title(tr("May read"));
  subset_ = new QComboBox(ask);
  subset_->setObjectName("subsetCombo");
  subset_->setAccessibleName(tr("Subset"));
  subset_->addItems({tr("the current view"), tr("the selected spans")});
  column->addWidget(subset_);
  subsetFacts_ = new QLabel(ask);
  subsetFacts_->setObjectName("muted");
  subsetFacts_->setWordWrap(true);
  column->addWidget(subsetFacts_);
  column->addSpacing(4);

  title(tr("How"));
  const auto mode = [&](const QString& name, const QString& what, const QString& how, QRadioButton*& button) {
    button = new Choice(what, ask);
    button->setObjectName(name);
    auto f = button->font();
    f.setWeight(QFont::DemiBold);
    button->setFont(f);
    column->addWidget(button);
    auto* note = new QLabel(how, ask);
    note->setObjectName("muted");
    note->setWordWrap(true);
    note->setContentsMargins(20, 0, 0, 2);
    column->addWidget(note);
  };
  mode("modeA", tr("A  Kept keys, original places"), tr("New words cannot read the rest directly. The sink tokens stay."), modeA_);
  mode("modeE", tr("E  Everything"), tr("All kept keys: the reference."), modeE_);
  modeA_->setChecked(true);
  compare_ = new Tick(tr("Compare with E, everything"), ask);
  compare_->setObjectName("compareE");
  compare_->setChecked(true);
  column->addWidget(compare_);
  column->addSpacing(4);

  title(tr("Model"));
  auto* modelRow = new QHBoxLayout;
  modelRow->setSpacing(4);
  model_ = new QLineEdit(ask);
  model_->setObjectName("modelEdit");
  model_->setAccessibleName(tr("Model file"));
  model_->setPlaceholderText(tr("the file or folder it was recorded with"));
  auto* browse = new QPushButton(tr("Choose…"), ask);
  browse->setObjectName("modelBrowse");
  modelRow->addWidget(model_, 1);
  modelRow->addWidget(browse);
  column->addLayout(modelRow);
  modelState_ = new QLabel(ask);
  modelState_->setObjectName("muted");
  modelState_->setWordWrap(true);
  column->addWidget(modelState_);
  column->addSpacing(6);

  auto* buttons = new QHBoxLayout;
  run_ = new QPushButton(tr("Re-attend"), ask);
  run_->setObjectName("reattendRun");
  run_->setProperty("primary", true);
  run_->setToolTip(tr("Ctrl+Enter"));
  cancel_ = new QPushButton(tr("Cancel"), ask);
  cancel_->setObjectName("cancelButton");
  cancel_->setEnabled(false);
  buttons->addWidget(run_);
  buttons->addWidget(cancel_);
  buttons->addStretch(1);
  auto* hint = new QLabel(tr("Ctrl+Enter"), ask);
  hint->setObjectName("faint");
  buttons->addWidget(hint);
  column->addLayout(buttons);
  progress_ = new QProgressBar(ask);
  progress_->setObjectName("reattendProgress");
  progress_->setFixedHeight(8);
  progress_->setTextVisible(false);
  progressText_ = new QLabel(ask);
  progressText_->setObjectName("muted");
  progressText_->setWordWrap(true);
  column->addWidget(progress_);
  column->addWidget(progressText_);
  state_ = new QLabel(ask);
  state_->setObjectName("reattendState");
  state_->setWordWrap(true);
  state_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(state_);
  column->addStretch(1);
  progress_->hide();
  progressText_->hide();

  connect(run_, &QPushButton::clicked, this, [this] { run(); });
  connect(cancel_, &QPushButton::clicked, this, [this] { cancel(); });
  connect(question_, &QPlainTextEdit::textChanged, this, [this] { updateState(); });
  connect(subset_, &QComboBox::activated, this, [this] { updateState(); });
  connect(modeA_, &QRadioButton::toggled, this, [this] { updateState(); });
  connect(model_, &QLineEdit::editingFinished, this, [this] { checkModel(); });
  connect(model_, &QLineEdit::textChanged, this, [this] { updateState(); });
  connect(browse, &QPushButton::clicked, this, [this] {
    const QString path = QFileDialog::getOpenFileName(this, tr("Model file"), QFileInfo(model_->text()).path(), tr("Models (*.gguf config.json);;All files (*)"));
    if (path.isEmpty()) return;
    // A Hugging Face model is a folder: its configuration stands for it.
    const QFileInfo chosen(path);
    setModelPath(chosen.fileName() == "config.json" ? chosen.path() : path);
  });
  for (const char* keys : {"Ctrl+Return", "Ctrl+Enter"}) {
    auto* go = new QShortcut(QKeySequence(keys), this);
    go->setContext(Qt::WidgetWithChildrenShortcut);
    connect(go, &QShortcut::activated, this, [this] { run(); });
  }
}

void ReattendPanel::newSession() {
  if (running_) Engine::instance().cancel(kAskTag);
  past_.clear();
  outcome_.reset();
  result_ = {};
  state_->clear();
  if (const auto session = document()->session()) {
    // Where this model was found last; else the path that the session names, if it is there.
    QString path = QSettings().value(modelKey(*session)).toString();
    const QString recorded = QString::fromStdString(session->header.model_path);
    if (!QFileInfo::exists(path)) path.clear();
    if (path.isEmpty() && !recorded.isEmpty()) {
      const QFileInfo beside(QFileInfo(QString::fromStdString(session->path)).dir(), QFileInfo(recorded).fileName());
      path = QFileInfo::exists(recorded) ? QFileInfo(recorded).absoluteFilePath() : beside.exists() ? beside.absoluteFilePath() : QString();
    }
    model_->setText(path);
    checkModel();
  } else {
    model_->clear();
    modelState_->clear();
  }
  fillTable();
  fillAnswers();
  fillHistory();
  updateState();
}

void ReattendPanel::setModelPath(const QString& path) {
  model_->setText(path);
  checkModel();
}
QString ReattendPanel::modelPath() const { return model_->text(); }

void ReattendPanel::checkModel() {
  const auto session = document()->session();
  if (!session) return;
  const QString path = model_->text().trimmed();
  if (path.isEmpty()) {
    modelState_->setText(tr("Reading a session needs no model; asking does. This one was recorded with %1.")
                             .arg(QString::fromStdString(session->header.model_name.empty() ? session->header.model_path : session->header.model_name)));
    return updateState();
  }
  modelState_->setText(tr("Checking the file…"));
  Engine::instance().checkModel(kCheckTag, session, path, this, [this, session, path](const Status& status) {
    if (document()->session() != session || model_->text().trimmed() != path) return;
    if (status) {
      modelState_->setText(tr("Same model as recorded."));
      QSettings().setValue(modelKey(*session), QFileInfo(path).absoluteFilePath());
    } else {
      QString text = sentence(status.error());
      if (status.error().code == ErrorCode::not_found || status.error().code == ErrorCode::io)
        text = tr("%1: %2 Choose the file this session was recorded with, %3.").arg(QFileInfo(path).fileName(), text, QFileInfo(QString::fromStdString(session->header.model_path)).fileName());
      modelState_->setText(text);
    }
    updateState();
  });
}

std::vector<SpanId> ReattendPanel::subset() const {
  if (subset_->currentIndex() == 1) return document()->selection().spans;
  std::vector<SpanId> ids;
  for (const ViewRef& ref : document()->view().refs) ids.push_back(ref.span);
  return ids;
}

QString ReattendPanel::subsetName() const {
  if (modeE_->isChecked()) return tr("everything");
  if (subset_->currentIndex() == 1) return tr("%1 selected").arg(document()->selection().spans.size());
  return document()->filterActive() ? document()->filterText() : tr("all spans");
}

void ReattendPanel::updateState() {
  const auto session = document()->session();
  const bool kept = modeA_->isChecked();
  subset_->setEnabled(kept);
  compare_->setEnabled(kept);
  const auto ids = subset();
  if (session && !session->turns.empty()) {
    uint64_t tokens = 0;
    const auto mask = panels::leaf_mask(*session, ids);
    const TurnRecord& last = session->turns.back();
    for (const LayoutEntry& e : last.layout)
      if (e.leaf < mask.size() && mask[e.leaf]) tokens += e.len;
    subsetFacts_->setText(kept ? tr("%1, %2 tokens, %3 of the context").arg(plural(qint64(ids.size()), tr("span"), tr("spans")), count(qint64(tokens)), wholePercent(last.context ? double(tokens) / last.context : 0))
                               : tr("the whole context, %1 tokens").arg(count(last.context)));
  } else {
    subsetFacts_->clear();
  }
  QString why;
  if (!session) why = tr("Open a session first.");
  else if (!session->header.has_text) why = tr("This session was recorded with --no-text: without token ids nothing can be asked. Record again without it.");
  else if (model_->text().trimmed().isEmpty()) why = tr("Choose the model file first.");
  else if (question_->toPlainText().trimmed().isEmpty()) why = tr("Type a question.");
  else if (kept && ids.empty()) why = subset_->currentIndex() == 1 ? tr("Select the spans that may be read, or choose the view.") : tr("The view is empty: change the filter.");
  run_->setEnabled(why.isEmpty());
  run_->setToolTip(why.isEmpty() ? tr("Ctrl+Enter") : why);
  cancel_->setEnabled(running_);
  empty_->setVisible(!outcome_);
  results_->setVisible(bool(outcome_));
  if (!outcome_) {
    if (running_) empty_->say(tr("Running"), tr("The first question of a session runs the recorded tokens again. Later ones start at once."));
    else empty_->say(tr("Nothing asked yet"), why.isEmpty() ? tr("Press Ctrl+Enter to ask.") : why);
  }
}

void ReattendPanel::say(const QString& text, bool error) {
  state_->setText(text);
  state_->setStyleSheet(text.isEmpty() ? QString() : QString("color:%1").arg((error ? panelColors().error : panelColors().textMuted).name()));
}

QString ReattendPanel::stateText() const { return state_->text().isEmpty() ? empty_->text() : state_->text(); }

void ReattendPanel::run() {
  updateState();
  if (!run_->isEnabled()) {
    say(run_->toolTip(), true);
    return;
  }
  ReattendQuestion q;
  q.session = document()->session();
  q.model_path = model_->text().trimmed().toStdString();
  q.text = question_->toPlainText().trimmed().toStdString();
  q.mode = modeA_->isChecked() ? ReattendMode::kept_keys : ReattendMode::everything;
  if (modeA_->isChecked()) q.subset = subset();
  q.subset_name = subsetName().toStdString();
  q.answer_tokens = uint32_t(tokens_->value());
  q.compare = modeA_->isChecked() && compare_->isChecked();
  running_ = true;
  say({}, false);
  progress_->setRange(0, 0);
  progress_->show();
  progressText_->setText(tr("waiting for the engine"));
  progressText_->show();
  const auto session = q.session;
  Engine::instance().ask(kAskTag, q, this, [this, session](const Result<ReattendOutcome>& result) {
    running_ = false;
    progress_->hide();
    progressText_->hide();
    emit progressChanged({}, 0, 0);
    if (document()->session() == session) show(result);
    updateState();
    emit finished(bool(result));
  });
  updateState();
}

void ReattendPanel::cancel() {
  if (!running_) return;
  progressText_->setText(tr("stopping"));
  Engine::instance().cancel(kAskTag);
}

void ReattendPanel::show(const Result<ReattendOutcome>& result) {
  if (!result) {
    const bool stopped = result.error().code == ErrorCode::cancelled;
    say(stopped ? tr("Cancelled. Earlier results are kept.") : sentence(result.error()), !stopped);
    return;
  }
  past_.push_back(std::make_shared<const ReattendOutcome>(*result));
  choose(past_.size() - 1);
}

void ReattendPanel::choose(size_t index) {
  if (index >= past_.size()) return;
  outcome_ = past_[index];
  result_ = panels::reattend_table(*outcome_->question.session, *outcome_);
  updateState();
  fillTable();
  fillAnswers();
  fillHistory();
}

void ReattendPanel::fillTable() {
  std::vector<TableRow> rows;
  if (outcome_) {
    const SessionData& session = *outcome_->question.session;
    const bool answer = result_.has_answer;
    double top = 0;
    for (const auto& r : result_.rows) top = std::max(top, answer ? r.answer : r.question);
    const int turn = document()->turn();
    const TurnReads* reads = turn >= 0 && turn < int(document()->history().turns.size()) ? &document()->history().turns[size_t(turn)] : nullptr;
    int rank = 0;
    for (const auto& r : result_.rows) {
      if (!r.visible) continue;
      const double share = answer ? r.answer : r.question;
      TableRow row;
      row.span = r.span;
      TableCell name;
      name.kind = TableCell::Kind::span;
      name.span = r.span;
      name.role = spanRole(session, r.span);
      name.text = spanTitle(session, r.span);
      TableCell bar;
      bar.kind = TableCell::Kind::bar;
      bar.bar = top > 0 ? share / top : 0;
      const int n = reads && r.span < reads->reads.size() ? reads->reads[r.span] : -1;
      row.cells = {number(QString::number(++rank)), name, number(count(r.tokens)), bar, number(percent(r.answer), answer), number(percent(r.question), !answer),
                   number(percent(r.everything), false, true), number(n < 0 ? QString(QChar(0x2013)) : count(n))};
      rows.push_back(std::move(row));
    }
    const auto extra = [&](const QString& what, const QString& tokens, double a, double q) {
      TableRow row;
      TableCell name;
      name.kind = TableCell::Kind::span;
      name.text = what;
      name.muted = true;
      row.cells = {{}, name, number(tokens, false, true), {}, number(percent(a), false, true), number(percent(q), false, true), {}, {}};
      rows.push_back(std::move(row));
    };
    extra(tr("sink tokens"), {}, result_.sinks_answer, result_.sinks_question);
    extra(tr("template text"), {}, result_.template_answer, result_.template_question);
    extra(tr("question and answer themselves"), {}, result_.new_answer, result_.new_question);
    if (result_.hidden_spans) extra(tr("left out: %1").arg(plural(result_.hidden_spans, tr("span"), tr("spans"))), count(qint64(result_.hidden_tokens)), 0, 0);
    const ReattendResult& r = outcome_->main.result;
    tableHeader_->setNote(tr("mode %1, share of mass, %2 question and %3 answer rows; last: recorded reads, turn %4")
                              .arg(r.mode == ReattendMode::kept_keys ? "A" : "E")
                              .arg(r.question_rows)
                              .arg(r.answer_rows)
                              .arg(turn + 1));
  }
  table_->setRows(std::move(rows));
  table_->showSelected([&](const TableRow& row) { return row.span != kNoSpan && document()->selection().contains(row.span); });
}

void ReattendPanel::fillAnswers() {
  if (!outcome_) {
    answerA_->clear();
    answerE_->clear();
    return;
  }
  const auto& a = outcome_->main;
  const auto& e = outcome_->everything;
  const QString mode = a.result.mode == ReattendMode::kept_keys ? "A" : "E";
  titleA_->setText(tr("<b>%1</b> <span style='color:%2'>from %3 of %4 tokens</span>")
                       .arg(mode, panelColors().textMuted.name(), count(qint64(a.result.tokens_visible)), count(qint64(a.result.tokens_context))));
  // The common beginning of both answers is plain; from the first different token on it is underlined.
  size_t same = 0;
  if (e)
    while (same < a.result.answer.size() && same < e->result.answer.size() && a.result.answer[same] == e->result.answer[same]) ++same;
  const auto html = [&](const ReattendRun& run, const ReattendRun* other) {
    QString text = QString::fromStdString(run.answer);
    if (text.trimmed().isEmpty()) return tr("<i>no answer tokens</i>");
    if (!other || run.answer == other->answer) return text.toHtmlEscaped().replace("\n", "<br>");
    size_t common = 0;
    while (common < run.answer.size() && common < other->answer.size() && run.answer[common] == other->answer[common]) ++common;
    while (common > 0 && (uint8_t(run.answer[std::min(common, run.answer.size() - 1)]) & 0xC0) == 0x80) --common;
    const QString before = QString::fromStdString(run.answer.substr(0, common)), after = QString::fromStdString(run.answer.substr(common));
    return before.toHtmlEscaped().replace("\n", "<br>") +
           QString("<span style='text-decoration:underline;color:%1'>").arg(panelColors().threshold.name()) + after.toHtmlEscaped().replace("\n", "<br>") + "</span>";
  };
  answerA_->setHtml(html(a, e.get()));
  boxE_->setVisible(bool(e));
  if (e) {
    titleE_->setText(tr("<b>E</b> <span style='color:%1'>from everything</span>").arg(panelColors().textMuted.name()));
    answerE_->setHtml(html(*e, &a));
  }
  QString note = tr("greedy, %1 tokens").arg(a.result.answer.size());
  if (e) note += a.result.answer == e->result.answer ? tr("; the same under E") : tr("; differs from E at token %1").arg(same + 1);
  answerHeader_->setNote(note);

  std::vector<TableRow> rows;
  const auto step = [&](const QString& what, const QString& tokens, const QString& time) {
    TableRow row;
    TableCell name;
    name.text = what;
    name.muted = true;
    row.cells = {name, number(tokens), number(time, true)};
    rows.push_back(std::move(row));
  };
  step(tr("Model"), {}, outcome_->seconds_model > 0 ? seconds(outcome_->seconds_model) : tr("kept"));
  step(tr("Context run again"), outcome_->rebuilt_tokens ? count(outcome_->rebuilt_tokens) : QString(), outcome_->rebuilt_tokens ? seconds(outcome_->seconds_rebuild) : tr("kept"));
  step(tr("%1, question").arg(mode), count(a.result.question_rows), seconds(a.result.seconds_question));
  step(tr("%1, answer").arg(mode), count(a.result.answer_rows), seconds(a.result.seconds_answer));
  if (e) step(tr("E, question and answer"), count(qint64(e->result.question_rows) + e->result.answer_rows), seconds(e->result.seconds_question + e->result.seconds_answer));
  cost_->setRows(std::move(rows));
}

void ReattendPanel::fillHistory() {
  std::vector<TableRow> rows;
  for (size_t i = past_.size(); i-- > 0;) {
    const ReattendOutcome& o = *past_[i];
    TableRow row;
    row.key = qint64(i);
    TableCell question, subset, mode;
    question.text = QString::fromStdString(o.question.text);
    subset.text = QString::fromStdString(o.question.subset_name);
    mode.text = o.question.mode == ReattendMode::kept_keys ? "A" : "E";
    row.cells = {number(QString::number(i + 1)), question, subset, mode, number(count(qint64(o.main.result.tokens_visible))),
                 number(seconds(o.main.result.seconds_question + o.main.result.seconds_answer))};
    rows.push_back(std::move(row));
  }
  history_->setRows(std::move(rows));
  history_->showSelected([&](const TableRow& row) { return row.key >= 0 && past_[size_t(row.key)] == outcome_; });
}

}  // namespace spanscope
