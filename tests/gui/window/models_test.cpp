// SPDX-License-Identifier: GPL-3.0-or-later
// Item models under Qt's own tester (in Warning mode with a counted handler: its default mode is silent outside QTest),
// the filter line, and views.
#include <QAbstractItemModelTester>
#include <QClipboard>
#include <QLineEdit>
#include <QTableView>
#include <QTreeView>

#include "tests/gui/support/shown.h"
#include "widgets/document/view_store.h"
#include "widgets/main_window/predicate_bar.h"
#include "widgets/main_window/predicate_edit.h"
#include "widgets/panels/number_rows.h"
#include "widgets/panels/span_table.h"
#include "widgets/panels/view_contents.h"
#include "widgets/plots/threshold_plot.h"

using namespace spanscope;
using test::settle;
using test::Shown;

namespace {

int complaints = 0;
QtMessageHandler before = nullptr;
void count_complaints(QtMsgType type, const QMessageLogContext& context, const QString& text) {
  if (QString(context.category) == "qt.modeltest") ++complaints;
  else if (before) before(type, context, text);
}

// A model that lies about its rows: the tester has to notice, or it proves nothing.
class Liar : public QAbstractTableModel {
 public:
  int rowCount(const QModelIndex& = {}) const override { return rows; }
  int columnCount(const QModelIndex& = {}) const override { return 1; }
  QVariant data(const QModelIndex&, int) const override { return {}; }
  void lie() {
    beginInsertRows({}, 0, 0);
    rows += 3;
    endInsertRows();
  }
  int rows = 1;
};

}  // namespace

TEST_CASE("item models keep their promises") {
  complaints = 0;
  before = qInstallMessageHandler(count_complaints);
  {
    Liar liar;
    QAbstractItemModelTester tester(&liar, QAbstractItemModelTester::FailureReportingMode::Warning);
    liar.lie();
  }
  const int noticed = complaints;
  complaints = 0;
  {
    Shown s;
    QAbstractItemModelTester tree(s.find<QTreeView>("sessionTree")->model(), QAbstractItemModelTester::FailureReportingMode::Warning);
    QAbstractItemModelTester table(s.find<SpanTable>()->model(), QAbstractItemModelTester::FailureReportingMode::Warning);
    QAbstractItemModelTester views(s.find<QTableView>("viewList")->model(), QAbstractItemModelTester::FailureReportingMode::Warning);
    s.window.setTabByName("Table");
    settle();
    Document& d = s.document();
    d.setFilter("total_reads >= 60", Origin::predicate);
    d.setStrength(0.5f);
    d.setTurn(12, Origin::program);
    s.find<SpanTable>()->model()->sort(2, Qt::AscendingOrder);
    s.find<QLineEdit>("findField")->setText("refund");
    settle();
    s.window.setSession("other.span", test::synthetic_session({.seed = 3, .turns = 5}));
    settle();
    s.window.setSession({}, nullptr);
    settle();
  }
  qInstallMessageHandler(before);
  CHECK(noticed > 0);
  CHECK(complaints == 0);
}

TEST_CASE("the table sorts missing values last, both ways") {
  Shown s;
  s.window.setTabByName("Table");
  s.document().setTurn(5, Origin::program);  // most spans are not there yet
  settle();
  auto* model = s.find<SpanTable>()->model();
  for (const Qt::SortOrder order : {Qt::AscendingOrder, Qt::DescendingOrder}) {
    model->sort(1, order);
    bool missing = false;
    int last = order == Qt::AscendingOrder ? -1 : 1 << 30;
    for (int row = 0; row < model->rowCount(); ++row) {
      const QString text = model->index(row, 1).data().toString();
      if (text == QString::fromUtf8("–")) {
        missing = true;
        continue;
      }
      REQUIRE_FALSE(missing);
      const int value = text.toInt();
      REQUIRE((order == Qt::AscendingOrder ? value >= last : value <= last));
      last = value;
    }
    CHECK(missing);
  }
}

TEST_CASE("find keeps ancestors") {
  Shown s;
  auto* tree = s.find<QTreeView>("sessionTree");
  s.find<QLineEdit>("findField")->setText("refund policy");
  settle();
  int visible = 0, hidden = 0;
  for (int i = 0; i < tree->model()->rowCount(); ++i) (tree->isRowHidden(i, {}) ? hidden : visible)++;
  CHECK(visible > 0);
  CHECK(hidden > 0);
  s.find<QLineEdit>("findField")->clear();
  settle();
  for (int i = 0; i < tree->model()->rowCount(); ++i) REQUIRE_FALSE(tree->isRowHidden(i, {}));
}

TEST_CASE("the filter applies while it is typed and says what is wrong") {
  Shown s;
  Document& d = s.document();
  auto* edit = s.find<PredicateEdit>();
  auto* bar = s.find<PredicateBar>();
  edit->setFocus();
  QTest::keyClicks(edit, "total_reads >= 60");
  CHECK(d.filterText() == "total_reads >= 60");
  CHECK(bar->errorText().isEmpty());
  const size_t kept = d.view().refs.size();
  CHECK(kept > 0);
  CHECK(bar->countText().startsWith(QString("%1 of 150 spans").arg(kept)));
  QTest::keyClicks(edit, " and ");
  CHECK(bar->errorText().contains("before"));  // the count uses the text before "and"
  CHECK(d.view().refs.size() == kept);
  s.shot("filter-error");
  QTest::keyClicks(edit, "role = tool");
  CHECK(bar->errorText().isEmpty());
  CHECK(d.view().refs.size() < kept);
  for (const ViewRef& ref : d.view().refs) REQUIRE(d.session()->ledger[ref.span].role == "tool");
  d.setFilter("nonsense >= 3", Origin::predicate);
  CHECK(d.filterErrorAt() == 0);
  CHECK_FALSE(bar->errorText().isEmpty());
  d.setFilter("  totl_reads >= 3", Origin::predicate);
  CHECK(d.filterErrorAt() == 2);
  d.setFilter({}, Origin::predicate);
  CHECK(bar->errorText().isEmpty());
  CHECK(edit->text().isEmpty());
}

TEST_CASE("numbers are stepped under the caret") {
  Shown s;
  auto* edit = s.find<PredicateEdit>();
  edit->setText("total_reads >= 60");
  edit->setCursorPosition(16);
  QTest::keyClick(edit, Qt::Key_Up);
  CHECK(s.document().filterText() == "total_reads >= 61");
  QTest::keyClick(edit, Qt::Key_Down, Qt::ShiftModifier);
  CHECK(s.document().filterText() == "total_reads >= 51");
  edit->setText("spike > 0.30");
  edit->setCursorPosition(12);
  QTest::keyClick(edit, Qt::Key_Up);
  CHECK(s.document().filterText() == "spike > 0.31");
}

TEST_CASE("ready-made views parse, and saved ones come back") {
  Shown s;
  Document& d = s.document();
  ViewStore store;
  for (const SavedView& v : store.views()) {
    d.setFilter(v.predicate, Origin::program);
    INFO(v.name.toStdString());
    CHECK(d.filterError().isEmpty());
  }
  store.save("hot core", "total_reads >= 60");
  ViewStore again;
  CHECK(again.views().back().name == "hot core");
  again.remove("hot core");
  again.remove("all spans");  // ready-made: stays
  CHECK(again.views().front().name == "all spans");
  CHECK(ViewStore().views().size() == store.views().size() - 1);
}

TEST_CASE("view contents tell what leaves while the line is dragged") {
  Shown s;
  Document& d = s.document();
  s.window.setTabByName("Threshold");
  d.setFilter("total_reads >= 60", Origin::predicate);
  settle();
  auto* contents = s.find<ViewContents>();
  const int kept = int(d.view().refs.size());
  CHECK(contents->inView() == kept);
  emit s.find<ThresholdPlot>()->dragChanged(true);
  d.setFilter("total_reads >= 120", Origin::threshold);
  CHECK(contents->leaving() == kept - int(d.view().refs.size()));
  CHECK(contents->leaving() > 0);
  s.shot("leaving");
  d.setFilter("total_reads >= 40", Origin::threshold);
  CHECK(contents->entering() == int(d.view().refs.size()) - kept);
  emit s.find<ThresholdPlot>()->dragChanged(false);
  CHECK(contents->leaving() == 0);
  CHECK(contents->inView() == int(d.view().refs.size()));
}

TEST_CASE("a row of the inspector copies as a sentence") {
  Shown s;
  auto* rows = s.find<NumberRows>("inspectorNumbers");
  rows->setFocus();
  QTest::keySequence(rows, QKeySequence::Copy);
  const QString text = QApplication::clipboard()->text();
  CHECK(text.contains("reads at turn 64 = "));
  CHECK(text.contains("captured; strength 0.30"));
}
