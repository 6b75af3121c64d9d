// SPDX-License-Identifier: GPL-3.0-or-later
// The emulator itself: kernels with planted faults must be told from their right forms.
#include <QProcess>
#include <QTest>

#if defined(__SANITIZE_THREAD__)
constexpr bool isTsan = true;
#else
constexpr bool isTsan = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr bool isAsan = true;
#else
constexpr bool isAsan = false;
#endif

namespace {

/// What of a fault is seen by whom; values alone do not show every race.
struct Planted {
    const char *name;
    bool seenByValues = true;
    const char *said = ""; ///< by the emulator
};

constexpr Planted planted[] = {
    {"block-sum"},
    {"warp-exchange"},
    {"no-wait"},
    {"no-sync-after-wait"},
    {"no-sync-at-end"},
    {"no-last-commit"},
    {"all-reduce"},
    {"early-reader"},
    {"last-block", false},
    {"divergent-barrier"},
    {"shared-overrun"},
    {"misaligned"},
    {"exited-lane"},
    {"unset-flag"},
    {"unawaited-copy", true, "a copy that nobody waited for"},
    {"empty-groups", true, "a copy that nobody waited for"},
    {"stack-overflow"},
    {"off-by-one"},
};

struct Outcome {
    int exitCode = -1;
    QByteArray output;
};

Outcome run(const char *name, const char *form, int seeds)
{
    QProcess process;
    process.setProcessChannelMode(QProcess::MergedChannels);
    process.start(QStringLiteral(PLANTED_BUGS), {name, form, QString::number(seeds)});
    process.waitForFinished(300000);
    return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1, process.readAll()};
}

} // namespace

class SimtTest : public QObject {
    Q_OBJECT

private slots:
    void plantedFault_data();
    void plantedFault();
};

void SimtTest::plantedFault_data()
{
    QTest::addColumn<bool>("seen");
    QTest::addColumn<QByteArray>("said");
    for (const Planted &fault : planted)
        QTest::newRow(fault.name) << (fault.seenByValues || isTsan) << QByteArray(fault.said);
}

void SimtTest::plantedFault()
{
    QFETCH(bool, seen);
    QFETCH(QByteArray, said);
    const int seeds = isTsan || isAsan ? 4 : 16; // all schedules; sanitizers depend little on luck, values much
    const Outcome right = run(QTest::currentDataTag(), "right", seeds);
    QVERIFY2(right.exitCode == 0, right.output.constData());
    if (!seen)
        return;
    const Outcome wrong = run(QTest::currentDataTag(), "wrong", seeds);
    QVERIFY2(wrong.exitCode != 0, "the fault was not seen");
    QVERIFY2(!wrong.output.isEmpty(), "the fault was seen, but nothing was said of it");
    QVERIFY2(wrong.output.contains(said), wrong.output.constData());
}

QTEST_GUILESS_MAIN(SimtTest)
#include "tst_simt.moc"
