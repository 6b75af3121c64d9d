// SPDX-License-Identifier: GPL-3.0-or-later
// What a scripted comparison says: verdicts, intervals, Markdown, CSV, and its table.
#include "ui/theme.h"
#include "ui/tune/tune_report.h"

#include <QTest>

#include <algorithm>
#include <cmath>

using ui::Comparison;
using ui::ComparisonRow;
using ui::FigureResult;

namespace {

engine::LoadReport reportOf(double throughput, double ttft)
{
    engine::LoadReport report;
    report.completed = 4;
    report.outputThroughput = throughput;
    report.ttftMs = engine::LatencySummary{ttft, ttft, ttft, ttft, ttft};
    report.serving.kvWaste = 0.05;
    return report;
}

/// Throughput surely higher, time to the first token surely longer, request rate not to be told.
Comparison scripted()
{
    Comparison c;
    c.workload = {4, 2, 8, 4, 0, 3, 7};
    c.model = QStringLiteral("Example|135M");
    c.machine = QStringLiteral("cpu, avx2");
    c.time = QDateTime(QDate(2026, 11, 30), QTime(12, 0));
    c.paired = true;
    c.after.kv.blockTokens = 32;
    c.effectiveBefore.threads = 4;
    c.effectiveAfter = c.effectiveBefore;
    c.effectiveAfter.kv.blockTokens = 32;
    const double before[] = {100, 102, 98}, after[] = {120, 123, 118}, rates[] = {1, -1, 0.5};
    for (int i = 0; i < 3; ++i) {
        c.roundsBefore.push_back(reportOf(before[i], 200));
        c.roundsAfter.push_back(reportOf(after[i], 230 + i));
        c.roundsBefore.back().requestThroughput = 10;
        c.roundsAfter.back().requestThroughput = 10 + rates[i];
    }
    c.notes << QStringLiteral("Other requests ran beside the workload.");
    return c;
}

const FigureResult *figure(const std::vector<FigureResult> &results, std::string_view key)
{
    for (const FigureResult &result : results) {
        if (result.figure->key == key)
            return &result;
    }
    return nullptr;
}

/// The fields of one line of CSV.
QStringList fieldsOf(const QString &line)
{
    QStringList fields{QString()};
    bool quoted = false;
    for (qsizetype i = 0; i < line.size(); ++i) {
        if (line[i] == u'"') {
            if (quoted && i + 1 < line.size() && line[i + 1] == u'"')
                fields.last() += line[i++];
            else
                quoted = !quoted;
        } else if (line[i] == u',' && !quoted) {
            fields << QString();
        } else {
            fields.last() += line[i];
        }
    }
    return fields;
}

} // namespace

class TestTuneReport : public QObject {
    Q_OBJECT
private slots:
    void verdicts()
    {
        const Comparison c = scripted();
        const std::vector<FigureResult> results = ui::figuresOf(c);
        const FigureResult *throughput = figure(results, "output_throughput");
        QVERIFY(throughput && throughput->verdict() == FigureResult::Verdict::Better);
        QCOMPARE(ui::changeText(*throughput), QStringLiteral("+20.3 %"));
        // Changes 20, 21, 20: mean 20.333, standard error 1/3, t(2) = 4.302653, of 100.
        QCOMPARE(ui::intervalText(*throughput), QStringLiteral("+18.9 … +21.8 %"));
        const FigureResult *ttft = figure(results, "ttft_p95");
        QVERIFY(ttft && ttft->verdict() == FigureResult::Verdict::Worse);
        const FigureResult *rate = figure(results, "request_throughput");
        QVERIFY(rate && rate->verdict() == FigureResult::Verdict::None);
        QCOMPARE(ui::changeText(*rate), QStringLiteral("no difference seen"));
        QVERIFY(!figure(results, "refused")); // none anywhere
        QVERIFY(!figure(results, "itl_p50")); // no round has it
        const QString conclusion = ui::conclusionOf(c);
        QVERIFY2(conclusion.contains(QStringLiteral("Better: output throughput +20.3 %"))
                     && conclusion.contains(QStringLiteral("Worse: TTFT P50"))
                     && conclusion.contains(QStringLiteral("No difference seen in")),
                 qPrintable(conclusion));
        const QList<ComparisonRow> rows = ui::tableRows(c);
        QVERIFY(rows[0].hasBar && rows[0].low > 0 && rows[0].high <= 1 && rows[0].low < rows[0].high);
        const auto slower = std::find_if(rows.begin(), rows.end(),
                                         [](const auto &row) { return row.name == QStringLiteral("TTFT P95"); });
        QVERIFY(slower != rows.end() && slower->high < 0 && slower->tone == ComparisonRow::Tone::Worse);
    }

    void onePairSaysNothing()
    {
        Comparison c = scripted();
        c.roundsBefore.resize(1);
        c.roundsAfter.resize(1);
        const FigureResult result = ui::figuresOf(c)[0];
        QCOMPARE(ui::intervalText(result), QStringLiteral("n/a"));
        QCOMPARE(result.verdict(), FigureResult::Verdict::None);
        QVERIFY(ui::conclusionOf(c).contains(QStringLiteral("more rounds")));
    }

    void markdown()
    {
        const QString text = ui::reportMarkdown(scripted());
        for (const char *needed : {"| Output throughput | 100 tok/s | 120 tok/s | +20.3 % | +18.9 … +21.8 % |",
                                   "no difference seen", "Block size 16 tokens → 32 tokens",
                                   "| Block size | 16 tokens | 32 tokens |", "| Threads | auto (in force 4 threads) |",
                                   "Other requests ran beside", "seed 7", "3 pairs of rounds", "KV waste"})
            QVERIFY2(text.contains(QString::fromUtf8(needed)), qPrintable(QString::fromUtf8(needed) + u'\n' + text));
    }

    void csv()
    {
        const QStringList lines = ui::reportCsv(scripted()).split(u'\n', Qt::SkipEmptyParts);
        QVERIFY(lines.size() > 30);
        bool found = false;
        for (const QString &line : lines) {
            const QStringList fields = fieldsOf(line);
            QVERIFY2(fields.size() == 12, qPrintable(line));
            if (fields[1] != QLatin1String("output_throughput"))
                continue;
            found = true;
            QCOMPARE(fields[3].toDouble(), 100.0);
            QVERIFY(std::abs(fields[5].toDouble() - 20.3333333) < 1e-6);
            QVERIFY(std::abs(fields[6].toDouble() - 18.8991) < 1e-3);
            QCOMPARE(fields[8], QStringLiteral("3"));
            QCOMPARE(fields[9], QStringLiteral("better"));
            QCOMPARE(fields[10], QStringLiteral("100 102 98"));
        }
        QVERIFY(found);
        QVERIFY(ui::reportCsv(scripted()).contains(QStringLiteral("effective,threads,threads,4,4,")));
    }

    void tableKeepsItsTextsAtEveryWidth()
    {
        ui::ComparisonTable table(m_theme);
        table.setRows(ui::tableHeads(scripted()), ui::tableRows(scripted()));
        QVERIFY(table.fitsInLines(900));
        QVERIFY(!table.fitsInLines(300));
        QVERIFY(table.heightFor(300) > table.heightFor(900));
        table.resize(300, table.heightFor(300));
        table.show();
        table.setFocus();
        QTest::keyClick(&table, Qt::Key_Down);
        QCOMPARE(table.current(), 1);
        QCOMPARE(table.accessibleDescription(), table.rows()[1].sentence);
        QTest::keyClick(&table, Qt::Key_End);
        QCOMPARE(table.current(), int(table.rows().size()) - 1);
        QTest::keyClick(&table, Qt::Key_Down);
        QCOMPARE(table.current(), int(table.rows().size()) - 1);
        QTest::keyClick(&table, Qt::Key_Home);
        QCOMPARE(table.current(), 0);
    }

private:
    ui::Theme m_theme;
};

QTEST_MAIN(TestTuneReport)
#include "tst_tune_report.moc"
