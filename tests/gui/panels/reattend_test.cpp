// SPDX-License-Identifier: GPL-3.0-or-later
// The re-attend panel on the demo model: a session is recorded here, then asked through the engine thread.
#include <QApplication>
#include <QComboBox>
#include <QElapsedTimer>
#include <QPlainTextEdit>
#include <QRadioButton>
#include <QSignalSpy>
#include <QTest>
#include <cmath>
#include <thread>

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include "core/chat/conversation.h"
#include "core/cpu/backends.h"
#include "core/record/record_session.h"
#include "core/text/chat_template.h"
#include "widgets/engine/engine.h"
#include "widgets/panels/reattend_panel.h"

using namespace spanscope;

namespace {

std::string demo(const std::string& name) { return std::string(SPANSCOPE_DEMO_DIR) + "/" + name; }

std::shared_ptr<const SessionData> record_demo() {
  static std::shared_ptr<const SessionData> session = [] {
    auto model = load_model(demo("relay-dense.gguf"));
    REQUIRE(model);
    auto tokenizer = make_tokenizer((*model)->vocabulary);
    REQUIRE(tokenizer);
    auto chat_template = make_chat_template((*model)->chat_template, (*model)->vocabulary);
    REQUIRE(chat_template);
    auto conversation = read_conversation(demo("demo12.json"));
    REQUIRE(conversation);
    std::vector<MessageInfo> messages;
    for (const Message& m : conversation->messages) messages.push_back({m.role, m.name, m.id});
    auto replay = make_chat_replay(*conversation, *tokenizer, *chat_template);
    REQUIRE(replay);
    auto backend = make_fast_backend(*model, {.threads = 1});
    REQUIRE(backend);
    SessionHeader header;
    header.tokenizer_digest = (*tokenizer)->digest();
    auto outcome = record_session(**backend, **replay, tokenizer->get(), nullptr, header, messages, {});
    REQUIRE(outcome);
    REQUIRE(outcome->session);
    REQUIRE(outcome->session->header.model_digest == (*model)->digest);
    return outcome->session;
  }();
  return session;
}

bool wait_for(const std::function<bool()>& done, int ms = 20000) {
  QElapsedTimer timer;
  timer.start();
  while (!done() && timer.elapsed() < ms) QTest::qWait(5);
  return done();
}

void type(ReattendPanel& panel, const QString& question) { panel.findChild<QPlainTextEdit*>("questionEdit")->setPlainText(question); }

}  // namespace

TEST_CASE("re-attend: shares add up, A over everything is E, the answer comes back") {
  Document d;
  d.setSession(record_demo());
  ReattendPanel panel(&d);
  panel.setModelPath(QString::fromStdString(demo("relay-dense.gguf")));
  type(panel, "What is the desk number for Omar?");
  std::vector<SpanId> all;
  for (SpanId id : spans_at_level(*d.session(), Level::message)) all.push_back(id);
  d.selectSpans(all, Origin::program);
  panel.findChild<QComboBox*>("subsetCombo")->setCurrentIndex(1);
  QSignalSpy finished(&panel, &ReattendPanel::finished);
  panel.run();
  CHECK(panel.running());
  REQUIRE(wait_for([&] { return finished.count() > 0; }));
  INFO(panel.stateText().toStdString());
  REQUIRE(finished[0][0].toBool());
  const ReattendOutcome& o = *panel.outcome();
  const auto& table = panel.result();
  CHECK(o.rebuilt_tokens == d.session()->turns.back().context);
  double question = table.sinks_question + table.template_question + table.new_question;
  double answer = table.sinks_answer + table.template_answer + table.new_answer;
  for (const auto& row : table.rows) question += row.question, answer += row.answer;
  // Mode A hides the template text, so only visible keys share the mass: every row still sums to 1.
  CHECK(question == Approx(1.0).margin(1e-4));
  CHECK(answer == Approx(1.0).margin(1e-4));
  REQUIRE(o.everything);
  CHECK(!o.main.answer.empty());
  CHECK(o.everything->answer.find("<|") == std::string::npos);
  for (size_t i = 1; i < table.rows.size(); ++i)
    if (table.rows[i].visible) CHECK(table.rows[i - 1].answer >= table.rows[i].answer);

  // The second question finds model and context in place.
  type(panel, "What is the locker code for Ivan?");
  panel.findChild<QRadioButton*>("modeE")->setChecked(true);
  panel.run();
  REQUIRE(wait_for([&] { return finished.count() > 1; }));
  REQUIRE(finished[1][0].toBool());
  CHECK(panel.outcome()->rebuilt_tokens == 0);
  CHECK(panel.outcome()->main.result.tokens_visible == panel.outcome()->main.result.tokens_context);
}

TEST_CASE("re-attend: cancel ends within a second and keeps earlier results") {
  Document d;
  d.setSession(record_demo());
  ReattendPanel panel(&d);
  panel.setModelPath(QString::fromStdString(demo("relay-dense.gguf")));
  type(panel, "What is the desk number for Omar?");
  panel.findChild<QRadioButton*>("modeE")->setChecked(true);
  QSignalSpy finished(&panel, &ReattendPanel::finished);
  panel.run();
  REQUIRE(wait_for([&] { return finished.count() == 1; }));
  const auto before = panel.outcome();

  // The engine is held busy by another request: the question waits and is cancelled before it runs.
  std::atomic<bool> release{false};
  Engine::instance().submit("test.block", [&](std::stop_token stop) {
    while (!release && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  panel.run();
  QElapsedTimer timer;
  timer.start();
  panel.cancel();
  REQUIRE(wait_for([&] { return finished.count() == 2; }, 2000));
  CHECK(timer.elapsed() < 1000);
  CHECK_FALSE(finished[1][0].toBool());
  CHECK_FALSE(panel.running());
  CHECK(panel.stateText().contains("Cancelled"));
  CHECK(panel.outcome() == before);
  release = true;

  // A newer question replaces a waiting one: one result, the newer.
  std::atomic<bool> release2{false};
  Engine::instance().submit("test.block", [&](std::stop_token stop) {
    while (!release2 && !stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  type(panel, "What is the desk number for Marc?");
  panel.run();
  type(panel, "What is the desk number for Ruth?");
  panel.run();
  release2 = true;
  REQUIRE(wait_for([&] { return finished.count() == 3; }));
  QTest::qWait(50);
  CHECK(finished.count() == 3);
  CHECK(panel.outcome()->question.text == "What is the desk number for Ruth?");
}

TEST_CASE("re-attend: what is missing is said in a sentence with a way out") {
  Document d;
  ReattendPanel panel(&d);
  panel.run();
  CHECK(panel.stateText().contains("session"));
  d.setSession(record_demo());
  panel.setModelPath("");
  panel.run();
  CHECK(panel.stateText().contains("model file"));
  panel.setModelPath(QString::fromStdString(demo("relay-dense.gguf")));
  panel.run();
  CHECK(panel.stateText().contains("question"));

  // Another model than the recorded one is refused with both digests.
  type(panel, "Who?");
  panel.setModelPath(QString::fromStdString(demo("relay-moe.gguf")));
  QSignalSpy finished(&panel, &ReattendPanel::finished);
  panel.run();
  REQUIRE(wait_for([&] { return finished.count() == 1; }));
  CHECK_FALSE(finished[0][0].toBool());
  CHECK(panel.stateText().contains("SPAN-OTHER-MODEL"));

  panel.setModelPath("/nowhere/model.gguf");
  panel.run();
  REQUIRE(wait_for([&] { return finished.count() == 2; }));
  CHECK_FALSE(finished[1][0].toBool());
  CHECK(panel.stateText().contains("SPAN-"));

  auto without = std::make_shared<SessionData>(*record_demo());
  without->header.has_text = false;
  d.setSession(without);
  type(panel, "Who?");
  panel.setModelPath(QString::fromStdString(demo("relay-dense.gguf")));
  panel.run();
  CHECK(panel.stateText().contains("--no-text"));
}
