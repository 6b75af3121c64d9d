// SPDX-License-Identifier: GPL-3.0-or-later
// Devices in a process of their own: faults that the process does not outlive, and the requests that do.
#include "engine/runtime/local_engine.h"
#include "engine/runtime/served_loaded_model.h"
#include "engine/runtime/worker/serve_worker.h"
#include "tests/cuda/faulty_ops.h"
#include "tests/cuda/short_requests.h"
#include "tests/support/engine_driver.h"
#include "tests/support/shared_data.h"

#include <QCoreApplication>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <memory>
#include <string_view>

using namespace engine;
using Kind = EngineNotice::Kind;

namespace {

using Lines = QList<QByteArray>;

Lines linesOf(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll().split('\n') : Lines();
}

void writeLines(const QString &path, const Lines &lines)
{
    QFile file(path);
    if (!file.open(QIODevice::WriteOnly) || file.write(lines.join('\n')) < 0)
        qFatal("%s cannot be written", qPrintable(path));
}

/// A worker whose life is the next line of the file: "lost N" or "died N" at the N-th call of the device's runtime
/// after the load, "copies N" or "graphs N" the same where only copies of a step or launches of graphs count,
/// "uncaptured N" refuses the N-th capture, "refuse" ends before the load, anything else is a long one.
int runWorker(const QString &livesFile)
{
    Lines lives = linesOf(livesFile);
    const Lines words = lives.isEmpty() ? Lines() : lives.takeFirst().split(' ');
    writeLines(livesFile, lives);
    if (words.value(0) == "refuse")
        return 3;
    faulty::Plan plan;
    plan.fault = words.value(0) == "died" ? faulty::Died
        : words.value(0) == "uncaptured"  ? faulty::Launch
                                          : faulty::Lost;
    if (words.value(0) == "copies")
        plan.only = faulty::Call::Copy;
    if (words.value(0) == "graphs")
        plan.only = faulty::Call::LaunchGraph;
    if (words.value(0) == "uncaptured")
        plan.only = faulty::Call::EndCapture;
    return serveWorker(
        [&](const std::string &path, const EngineConfig &config, const auto &progress, std::stop_token stop) {
            LoadedModel::OpsWrapper wrap;
            if (config.device == "simt")
                wrap = [&plan](std::unique_ptr<kernels::Ops>) { return faulty::faultyOps(plan); };
            std::unique_ptr<ServedModel> model = serveLoadedModel(path, config, progress, std::move(stop), wrap);
            plan.failing = words.value(1).toInt();
            return model;
        });
}

/// An engine whose workers live as planned.
struct Rig {
    explicit Rig(const Lines &lives, std::vector<std::string> command = {})
        : engine(processLoader([](const std::string &path, const EngineConfig &config, const auto &progress,
                                  std::stop_token stop) { return serveLoadedModel(path, config, progress, stop); },
                               command.empty() ? std::vector<std::string>{"/proc/self/exe", "worker",
                                                                          folder.filePath("lives").toStdString()}
                                               : std::move(command)),
                 [] { return std::vector<DeviceStats>(1); })
    {
        writeLines(folder.filePath("lives"), lives);
        config.process = DeviceProcess::Worker;
        config.onDeviceLoss = DeviceLoss::Fail;
    }

    bool load() { return driver.load(short_requests::model(), config); }

    std::vector<RequestId> submit(const std::vector<int> &lengths)
    {
        std::vector<Request> requests = short_requests::requests(lengths, 5);
        for (Request &request : requests) {
            request.sampling.seed = 5;
            request.sampling.repetitionPenalty = 1.1;
            request.sampling.logprobs = 1;
        }
        if (requests.size() > 1)
            requests[1].sampling.stopIds = {9}, requests[1].sampling.minTokens = 5; // tokens that may not be drawn
        return engine.submitAll(std::move(requests));
    }

    /// What each of three requests answers; errors are added up.
    std::vector<std::string> answers(const std::vector<RequestId> &ids)
    {
        if (!driver.finish(ids))
            qFatal("a request does not end");
        std::vector<std::string> texts;
        for (const RequestId id : ids) {
            const EngineDriver::Answer &answer = driver.answers[id];
            error += answer.ordered ? answer.finished->error : "events out of order";
            std::string &text = texts.emplace_back(answer.text);
            for (const SampledToken &one : answer.logprobs)
                text += " " + std::to_string(one.token.id) + "/" + std::to_string(one.top.size());
            for (const int token : answer.ids)
                text += " " + std::to_string(token);
        }
        return texts;
    }
    std::vector<std::string> run() { return answers(submit({20, 5, 18})); }

    std::vector<Kind> kinds() const
    {
        std::vector<Kind> found;
        for (const EngineNotice &notice : driver.notices)
            found.push_back(notice.kind);
        return found;
    }

    QTemporaryDir folder;
    EngineConfig config = short_requests::config(3);
    LocalEngine engine;
    EngineDriver driver{engine};
    std::string error;
};

} // namespace

class TestSimtWorker : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
#if defined(__SANITIZE_THREAD__)
        QSKIP("whole models take minutes under TSan; tst_engine_faults tests the engine there");
#endif
        Rig own({});
        own.config.process = DeviceProcess::Own;
        QVERIFY(own.load());
        m_wanted = own.run();
        QCOMPARE(own.error, std::string());
    }

    void sameAsInOneProcess_data()
    {
        QTest::addColumn<QString>("device");
        QTest::newRow("draws on the device") << "simt";
        QTest::newRow("sends logits") << "cpu";
    }

    void sameAsInOneProcess()
    {
        QFETCH(QString, device);
        Rig rig({});
        rig.config.device = device.toStdString();
        rig.config.kv.type = KvType::F16;
        QVERIFY(rig.load());
        QVERIFY(!rig.driver.progress.empty());
        QCOMPARE(rig.driver.loaded[0].effective.device, device.toStdString());
        QCOMPARE(rig.run(), m_wanted);
        QCOMPARE(rig.error, std::string());
        const BatchLimits limits{2, 8};
        (void)rig.engine.setLimits(limits);
        KvPoolConfig kv = rig.driver.loaded[0].effective.kv;
        kv.numBlocks = 16;
        (void)rig.engine.setKvPool(kv);
        QVERIFY(rig.driver.until([&] { return rig.driver.applied.size() == 2; }));
        QCOMPARE(rig.driver.applied[1].effective.limits, limits);
        QCOMPARE(rig.driver.applied[1].effective.kv.numBlocks, 16);
        QCOMPARE(rig.run(), m_wanted);
    }

    /// Whether steps are queued as graphs is said to the worker; without them none is launched.
    void graphsOnAndOff()
    {
        for (const bool graphs : {true, false}) {
            Rig rig({"graphs 1"});
            rig.config.cudaGraphs = graphs;
            QVERIFY(rig.load());
            QCOMPARE(rig.driver.loaded[0].effective.cudaGraphs, graphs);
            QCOMPARE(rig.run(), m_wanted);
            QCOMPARE(rig.error, std::string());
            QCOMPARE(rig.kinds(), graphs ? std::vector({Kind::DeviceLost, Kind::DeviceReplaced}) : std::vector<Kind>());
        }
    }

    /// What the device in the worker says of a graph comes through, once.
    void graphsRefused()
    {
        Rig rig({"uncaptured 1"});
        QVERIFY(rig.load());
        QCOMPARE(rig.run(), m_wanted);
        QCOMPARE(rig.run(), m_wanted);
        QCOMPARE(rig.error, std::string());
        QCOMPARE(rig.kinds(), std::vector({Kind::GraphsOff}));
        QVERIFY(rig.driver.notices[0].message.ends_with("a kernel was not launched"));
    }

    void openedAnew_data()
    {
        QTest::addColumn<Lines>("lives");
        for (const int call : shared_data::fullTier() ? QList<int>{1, 3, 8, 13, 21, 34, 47, 60} : QList<int>{13}) {
            QTest::addRow("lost at %d", call) << Lines{"lost " + QByteArray::number(call)};
            QTest::addRow("died at %d", call) << Lines{"died " + QByteArray::number(call)};
        }
        QTest::newRow("dies again") << Lines{"died 20", "died 25"};
        QTest::newRow("cannot be opened the first time") << Lines{"lost 20", "refuse"};
    }

    /// Requests go on in a fresh process: no token is lost or comes twice.
    void openedAnew()
    {
        QFETCH(Lines, lives);
        Rig rig(lives);
        QVERIFY(rig.load());
        QCOMPARE(rig.run(), m_wanted);
        QCOMPARE(rig.error, std::string());
        QCOMPARE(rig.kinds().front(), Kind::DeviceLost);
        QCOMPARE(rig.kinds().back(), Kind::DeviceReplaced);
        QCOMPARE(rig.driver.applied.back().effective.device, std::string("simt"));
        QCOMPARE(linesOf(rig.folder.filePath("lives")), Lines{""}); // all were lived
        QCOMPARE(rig.run(), m_wanted);                              // and it works on
    }

    void outOfUse_data()
    {
        QTest::addColumn<Lines>("lives");
        QTest::newRow("lost too often") << Lines{"died 20", "lost 25"};
        QTest::newRow("cannot be opened") << Lines{"died 20", "refuse"};
    }

    /// A device that is lost too often: as the rule says.
    void outOfUse()
    {
        QFETCH(Lines, lives);
        for (const DeviceLoss rule : {DeviceLoss::Cpu, DeviceLoss::Fail, DeviceLoss::Ask}) {
            if (rule == DeviceLoss::Ask && lives[1] == "refuse")
                continue; // the same as above
            Rig rig(lives);
            rig.config.deviceRestarts = 1;
            rig.config.onDeviceLoss = rule;
            QVERIFY(rig.load());
            const std::vector<RequestId> ids = rig.submit({20, 5, 18});
            if (rule == DeviceLoss::Ask) {
                QVERIFY(rig.driver.until([&] {
                    return !rig.driver.notices.empty() && rig.driver.notices.back().message.ends_with("another device");
                }));
                rig.engine.continueOn("cpu");
            }
            const std::vector<std::string> found = rig.answers(ids);
            if (rule == DeviceLoss::Fail) {
                const char *why = lives[1] == "refuse" ? "it could not be opened anew" : "lost 2 times in ten minutes";
                QVERIFY2(rig.error.find(why) != std::string::npos, rig.error.c_str());
                QVERIFY(rig.driver.notices.back().message.find("on device cpu they could go on") != std::string::npos);
                continue;
            }
            QCOMPARE(rig.error, std::string());
            QCOMPARE(found, m_wanted);
            QCOMPARE(rig.driver.applied.back().effective.device, std::string("cpu"));
        }
    }

    /// What kills its worker twice at the same token ends; nobody else does.
    void requestAtFault()
    {
        Rig rig({"copies 1", "copies 1"});
        QVERIFY(rig.load());
        (void)rig.answers(rig.submit({5}));
        QVERIFY2(rig.error.find("twice the device was lost while it computed what follows its 5 tokens")
                     != std::string::npos,
                 rig.error.c_str());
        rig.error.clear();
        QCOMPARE(rig.run(), m_wanted);
        QCOMPARE(rig.error, std::string());
    }

    void cannotBeStarted_data()
    {
        QTest::addColumn<QString>("program");
        QTest::addColumn<QString>("said");
        QTest::newRow("no such program") << "/nowhere/at/all" << "/nowhere/at/all";
        QTest::newRow("ends at once") << "" << "ended with exit code 3";
        QTest::newRow("another program") << "/bin/true" << "ended with exit code 0";
    }

    void cannotBeStarted()
    {
        QFETCH(QString, program);
        QFETCH(QString, said);
        Rig rig({"refuse"}, program.isEmpty() ? std::vector<std::string>() : std::vector{program.toStdString()});
        QVERIFY(!rig.load());
        QCOMPARE(rig.driver.failed[0].code, ErrorCode::NoDevice);
        const QString message = QString::fromStdString(rig.driver.failed[0].message);
        QVERIFY2(message.contains(said) && message.contains("device cpu needs n"), qPrintable(message));
    }

    /// What the worker says of a model comes through.
    void refusedModel()
    {
        Rig rig({});
        QVERIFY(!rig.driver.load("/nowhere/model.gguf", rig.config));
        QVERIFY2(rig.driver.failed[0].message.find("/nowhere/model.gguf") != std::string::npos,
                 rig.driver.failed[0].message.c_str());
        QVERIFY(rig.driver.failed[0].message.find("process") == std::string::npos);
    }

private:
    std::vector<std::string> m_wanted;
};

int main(int argc, char **argv)
{
    if (argc == 3 && argv[1] == std::string_view("worker"))
        return runWorker(QString::fromLocal8Bit(argv[2]));
    const QCoreApplication application(argc, argv);
    TestSimtWorker test;
    return QTest::qExec(&test, argc, argv);
}
#include "tst_simt_worker.moc"
