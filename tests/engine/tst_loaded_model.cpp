// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/loaded_model.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"
#include "tests/support/windowed_llama.h"

#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

#include <fstream>
#include <unistd.h>

using engine::EngineConfig;
using engine::Error;
using engine::ErrorCode;
using engine::KvPoolConfig;
using engine::LoadedModel;

namespace {

EngineConfig configOf(bool reference = true)
{
    EngineConfig config;
    config.backend = reference ? engine::BackendKind::Reference : engine::BackendKind::Auto;
    config.threads = 2;
    return config;
}

QString tinyFile()
{
    return shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf"));
}

std::unique_ptr<LoadedModel> open(const EngineConfig &config, const QString &file = tinyFile())
{
    return std::make_unique<LoadedModel>(file.toStdString(), config, LoadedModel::ProgressCallback(),
                                         std::stop_token());
}

struct Failure {
    ErrorCode code = ErrorCode::Internal;
    QByteArray message = "nothing was thrown";
};

template<typename Function> Failure failureOf(Function function)
{
    try {
        function();
    } catch (const Error &error) {
        return {error.code(), error.what()};
    }
    return {};
}

bool warns(const LoadedModel &model, const char *word)
{
    const auto &warnings = model.info().warnings;
    return std::any_of(warnings.begin(), warnings.end(),
                       [word](const std::string &text) { return text.find(word) != std::string::npos; });
}

std::size_t residentBytes()
{
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

class LoadedModelTest : public QObject {
    Q_OBJECT
private slots:
    void tellsWhatItIs();
    void effectiveValues();
    void reportsProgress();
    void stopsBetweenTensors();
    void refusesImpossibleOptions();
    void poolSizes();
    void poolsOfWindowedModels();
    void poolsThatDoNotFit();
    void limitsAreApplied();
    void threadsAreApplied();
    void profileIsOptional();
    void goesOnWithoutItsFile_data();
    void goesOnWithoutItsFile();
    void memoryAfterLoading();
};

void LoadedModelTest::tellsWhatItIs()
{
    const auto model = open(configOf());
    const engine::ModelInfo &info = model->info();
    QCOMPARE(info.path, tinyFile().toStdString());
    QCOMPARE(info.name, std::string("llama"));
    QCOMPARE(info.architecture, std::string("llama"));
    QCOMPARE(info.layers, 3);
    QCOMPARE(info.vocabSize, 320);
    QCOMPARE(info.contextLength, 512);
    QCOMPARE(info.backend, std::string("reference"));
    QCOMPARE(info.fileBytes, static_cast<std::size_t>(QFile(tinyFile()).size()));
    QCOMPARE(info.parameters,
             std::int64_t{2 * 320 * 64 + 3 * (2 * 64 + 2 * 64 * 64 + 2 * 32 * 64 + 3 * 64 * 160) + 64});
    QVERIFY(info.workspaceBytes > 0);
    QVERIFY(model->chatTemplate() == nullptr && info.chatTemplate.empty());
    QCOMPARE(model->tokenizer().vocabSize(), 320);
    QVERIFY(model->checkFileUnchanged().empty());
    QVERIFY(!open(configOf(false))->info().isa.empty());
}

void LoadedModelTest::effectiveValues()
{
    const auto model = open(configOf());
    const EngineConfig &effective = model->info().effective;
    QCOMPARE(effective.maxModelLen, 512);
    QCOMPARE(effective.kv.type, engine::KvType::F32);
    QCOMPARE(effective.kv.numBlocks, 64 * 512 / 16);
    // Layers, keys and values, heads, tokens, elements, bytes.
    QCOMPARE(effective.kv.budgetBytes, std::size_t{2048} * 3 * 2 * 2 * 16 * 16 * 4);
    QCOMPARE(model->runner().kvBytes(), effective.kv.budgetBytes);
    QCOMPARE(effective.threads, 2);
    QCOMPARE(effective.device, std::string("cpu"));

    EngineConfig config = configOf(false);
    config.maxModelLen = 100;
    config.kv.blockTokens = 64;
    config.limits.maxNumSeqs = 3;
    const auto other = open(config);
    QCOMPARE(other->info().effective.kv.type, engine::KvType::F16);
    QCOMPARE(other->info().effective.maxModelLen, 100);
    QCOMPARE(other->info().effective.kv.numBlocks, 3 * 2);
    // A mixture of experts in floats keeps its keys in float32, as rounded ones would take other experts.
    QCOMPARE(
        open(config, shared_data::data(QStringLiteral("tiny-deepseek3/deepseek3-f16.gguf")))->info().effective.kv.type,
        engine::KvType::F32);
    config.kv.type = engine::KvType::BF16;
    QCOMPARE(open(config)->info().effective.kv.type, engine::KvType::BF16);
    QCOMPARE(open(config)->info().effective.kv.valueType, engine::KvType::BF16);
    config.kv.type = engine::KvType::F16;
    config.kv.valueType = engine::KvType::Q8_0; // heads of 16: half a block of 34 bytes
    const auto mixed = open(config);
    QCOMPARE(engine::kvTypesText(mixed->info().effective.kv), std::string("f16,q8_0"));
    QCOMPARE(mixed->info().kvBytesPerToken, std::size_t{3 * 2 * (16 * 2 + 34)});
    QCOMPARE(mixed->info().effective.kv.budgetBytes, std::size_t{6 * 64 * 3 * 2 * (16 * 2 + 34)});
    const QString latent = shared_data::data(QStringLiteral("tiny-deepseek3/deepseek3-f16.gguf"));
    const Failure refused = failureOf([&] { (void)open(config, latent); });
    QCOMPARE(refused.code, ErrorCode::InvalidArgument);
    QVERIFY2(refused.message.contains("f16,q8_0") && refused.message.contains("deepseek2"),
             refused.message.constData());
    config.kv.type = engine::KvType::Q8_0; // one vector of 48 for all heads: a block and a half
    QCOMPARE(open(config, latent)->info().kvBytesPerToken, std::size_t{3 * 2 * 34});
    config.kv.type = config.kv.valueType = engine::KvType::FP8;
    QCOMPARE(open(config, latent)->info().kvBytesPerToken, std::size_t{3 * 48});
    config.maxModelLen = 100000;
    const auto longer = open(config);
    QCOMPARE(longer->info().effective.maxModelLen, 512);
    QVERIFY(warns(*longer, "max-model-len"));
}

void LoadedModelTest::reportsProgress()
{
    std::vector<double> fractions;
    std::vector<std::string> stages;
    const LoadedModel model(tinyFile().toStdString(), configOf(),
                            [&](double fraction, const std::string &stage) {
                                fractions.push_back(fraction);
                                stages.push_back(stage);
                            },
                            {});
    QVERIFY(fractions.size() > 20 && std::is_sorted(fractions.begin(), fractions.end()));
    QCOMPARE(fractions.back(), 1.0);
    QCOMPARE(stages.back(), std::string("ready"));
    QVERIFY(std::find(stages.begin(), stages.end(), "packing weights") != stages.end());
}

void LoadedModelTest::stopsBetweenTensors()
{
    std::stop_source stop;
    const Failure failure = failureOf([&] {
        const LoadedModel model(
            tinyFile().toStdString(), configOf(),
            [&](double fraction, const std::string &) {
                if (fraction > 0.3)
                    stop.request_stop();
            },
            stop.get_token());
    });
    QCOMPARE(failure.code, ErrorCode::Cancelled);
}

void LoadedModelTest::refusesImpossibleOptions()
{
    const auto failureWith = [](auto change) {
        EngineConfig config = configOf();
        change(config);
        return failureOf([&] { (void)open(config); });
    };
    Failure failure = failureWith([](EngineConfig &config) { config.device = "cuda:0"; });
    QCOMPARE(failure.code, ErrorCode::NoDevice);
    QVERIFY(failure.message.contains("cuda:0"));
    failure = failureWith([](EngineConfig &config) { config.kv.blockTokens = 24; });
    QCOMPARE(failure.code, ErrorCode::InvalidArgument);
    QVERIFY(failure.message.contains("24"));
    failure = failureWith([](EngineConfig &config) { config.memoryReserve = 2.0; });
    QCOMPARE(failure.code, ErrorCode::InvalidArgument);
    failure = failureWith([](EngineConfig &config) { config.maxModelLen = -1; });
    QCOMPARE(failure.code, ErrorCode::InvalidArgument);
    failure = failureWith([](EngineConfig &config) { config.limits.maxNumSeqs = 0; });
    QCOMPARE(failure.code, ErrorCode::InvalidArgument);
    failure = failureWith([](EngineConfig &config) { config.isa = "z80"; });
    QCOMPARE(failure.code, ErrorCode::InvalidArgument);
    failure = failureOf([] { (void)open(configOf(), QStringLiteral("/nonexistent/x.gguf")); });
    QVERIFY2(failure.message.contains("/nonexistent/x.gguf"), failure.message.constData());
}

void LoadedModelTest::poolSizes()
{
    const auto model = open(configOf());
    const std::size_t block = std::size_t{3} * 2 * 2 * 16 * 16 * 4;
    const engine::BatchLimits limits = model->info().effective.limits;
    QCOMPARE(model->planKvPool({.numBlocks = 7}, limits).blocks, 7);
    QCOMPARE(model->planKvPool({.numBlocks = 7}, limits).bytes, 7 * block);
    QVERIFY(!model->planKvPool({.numBlocks = 7}, limits).note.empty());
    QVERIFY(model->planKvPool({.numBlocks = 32}, limits).note.empty()); // just one request of 512 tokens
    QCOMPARE(model->planKvPool({.budgetBytes = 10 * block + 5}, limits).blocks, 10);
    QCOMPARE(model->planKvPool({.blockTokens = 128}, limits).blocks, 64 * 4);
    QCOMPARE(model->planKvPool({}, {.maxNumSeqs = 2}).blocks, 64);

    const engine::KvPoolPlan plan = model->applyKvPool({.blockTokens = 32, .numBlocks = 9});
    QCOMPARE(plan.blocks, 9);
    QCOMPARE(model->info().effective.kv.numBlocks, 9);
    QCOMPARE(model->info().effective.kv.blockTokens, 32);
    QCOMPARE(model->info().effective.kv.type, engine::KvType::F32);
    QCOMPARE(model->info().effective.kv.budgetBytes, 9 * 2 * block);
    QCOMPARE(model->runner().kvBytes(), 9 * 2 * block);
}

/// Two of three layers see 9 tokens: they hold those of the sequences that may run.
void LoadedModelTest::poolsOfWindowedModels()
{
    const WindowedLlama windowed(9, 2);
    const QString file = windowed.path();
    EngineConfig config = configOf();
    config.limits = {.maxNumSeqs = 2, .maxNumBatchedTokens = 16};
    config.kv.blockTokens = 8;
    config.kv.numBlocks = 64;
    const auto model = open(config, file);
    const engine::ModelInfo &info = model->info();
    QCOMPARE(info.kvWindow, 9);
    QCOMPARE(info.kvWindowBytesPerToken * 3, info.kvBytesPerToken * 2);
    const std::size_t ofLayer = info.kvBytesPerToken / 3 * 8;
    constexpr int window = 2 * (2 + 2) + 2;
    QCOMPARE(info.effective.kv.windowBlocks, window);
    QCOMPARE(info.effective.kv.budgetBytes, ofLayer * (64 + 2 * window));
    QCOMPARE(model->runner().kvBytes(), info.effective.kv.budgetBytes);
    const engine::BatchLimits limits = info.effective.limits;
    QCOMPARE(model->planKvPool({.blockTokens = 8, .budgetBytes = ofLayer * (50 + 2 * window) + 1}, limits).blocks, 50);
    const engine::KvPoolPlan few = model->planKvPool({.blockTokens = 8, .budgetBytes = ofLayer * 3 * 7}, limits);
    QCOMPARE(few.blocks, 7); // each with its window
    QCOMPARE(few.windowBlocks, 7);
    QCOMPARE(few.bytes, ofLayer * 3 * 7);
    // A context within the window needs no pool of its own.
    config.maxModelLen = 9;
    QCOMPARE(open(config, file)->info().kvWindow, 0);
    QCOMPARE(open(config, file)->info().effective.kv.budgetBytes, ofLayer * 3 * 64);
}

void LoadedModelTest::poolsThatDoNotFit()
{
    const auto model = open(configOf());
    const engine::BatchLimits limits = model->info().effective.limits;
    Failure failure = failureOf([&] { (void)model->planKvPool({.budgetBytes = 100}, limits); });
    QCOMPARE(failure.code, ErrorCode::OutOfMemory);
    QVERIFY2(failure.message.contains("100 bytes"), failure.message.constData());
    failure = failureOf([&] { (void)model->planKvPool({.budgetBytes = std::size_t{1} << 50U}, limits); });
    QCOMPARE(failure.code, ErrorCode::OutOfMemory);
    QVERIFY2(failure.message.contains("wanted") && failure.message.contains("free"), failure.message.constData());
    failure = failureOf([&] { (void)model->planKvPool({.numBlocks = INT_MAX}, limits); });
    QCOMPARE(failure.code, ErrorCode::OutOfMemory);
    const int before = model->info().effective.kv.numBlocks;
    failure = failureOf([&] { (void)model->applyKvPool({.numBlocks = INT_MAX}); });
    QCOMPARE(failure.code, ErrorCode::OutOfMemory);
    QCOMPARE(model->info().effective.kv.numBlocks, before);
    EngineConfig config = configOf();
    config.kv.budgetBytes = std::size_t{1} << 50U;
    QCOMPARE(failureOf([&] { (void)open(config); }).code, ErrorCode::OutOfMemory);
}

void LoadedModelTest::limitsAreApplied()
{
    EngineConfig config = configOf();
    config.limits = {.maxNumSeqs = 64, .maxNumBatchedTokens = 16};
    const auto model = open(config);
    QCOMPARE(model->info().effective.limits.maxNumSeqs, 16);
    QVERIFY(warns(*model, "max-num-seqs"));
    const std::size_t workspace = model->info().workspaceBytes;
    QVERIFY(model->applyLimits({.maxNumSeqs = 8, .maxNumBatchedTokens = 64}).empty());
    QCOMPARE(model->info().effective.limits, (engine::BatchLimits{8, 64}));
    QVERIFY(model->info().workspaceBytes > workspace);
    QCOMPARE(failureOf([&] { model->applyLimits({.maxNumSeqs = 0, .maxNumBatchedTokens = 64}); }).code,
             ErrorCode::InvalidArgument);
    QCOMPARE(failureOf([&] { model->applyLimits({.maxNumSeqs = 8, .maxNumBatchedTokens = INT_MAX}); }).code,
             ErrorCode::OutOfMemory);
    QCOMPARE(model->info().effective.limits, (engine::BatchLimits{8, 64}));
    QCOMPARE(tiny_model::allLogits(model->runner(), {1, 2, 3}, 0, 16).size(), std::size_t{3 * 320});
}

void LoadedModelTest::threadsAreApplied()
{
    const auto model = open(configOf());
    model->applyThreads(1);
    QCOMPARE(model->info().effective.threads, 1);
    model->applyThreads(0);
    QVERIFY(model->info().effective.threads >= 1);
}

void LoadedModelTest::profileIsOptional()
{
    QVERIFY(open(configOf())->profile() == nullptr);
    EngineConfig config = configOf();
    config.profile = true;
    const auto model = open(config);
    QVERIFY(model->profile() && model->profile()->report(3).empty());
    (void)tiny_model::allLogits(model->runner(), {1, 2, 3}, 0, 16);
    QVERIFY(QString::fromStdString(model->profile()->report(3)).contains(QStringLiteral("pagedAttention")));
}

void LoadedModelTest::goesOnWithoutItsFile_data()
{
    QTest::addColumn<bool>("reference");
    QTest::newRow("reference") << true;
    QTest::newRow("cpu") << false;
}

/// A file that is cut or deleted under the model is noticed; a backend that packed its weights computes as before.
void LoadedModelTest::goesOnWithoutItsFile()
{
    QFETCH(bool, reference);
    QTemporaryDir dir;
    for (const bool cut : {true, false}) {
        const QString copy = dir.filePath(cut ? QStringLiteral("cut.gguf") : QStringLiteral("deleted.gguf"));
        QVERIFY(QFile::copy(tinyFile(), copy));
        QVERIFY(QFile::setPermissions(copy, QFile::ReadOwner | QFile::WriteOwner));
        const auto model = open(configOf(reference), copy);
        const std::vector<int> ids{5, 6, 7, 8};
        const std::vector<float> before = tiny_model::allLogits(model->runner(), ids, 0, 16);
        QVERIFY(model->checkFileUnchanged().empty());
        QVERIFY(cut ? QFile::resize(copy, 4096) : QFile::remove(copy));
        const std::vector<float> after = tiny_model::allLogits(model->runner(), ids, 0, 16);
        QVERIFY(!model->checkFileUnchanged().empty());
        QCOMPARE(after.size(), before.size());
        if (!reference || !cut)
            QVERIFY(after == before);
    }
}

/// One copy of the weights stays resident: not the file's and the packed ones both.
void LoadedModelTest::memoryAfterLoading()
{
    const QString file = shared_data::demoModel();
    if (file.isEmpty())
        QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is absent (LATHE_DEMO_MODEL)");
    const std::size_t before = residentBytes();
    QElapsedTimer timer;
    timer.start();
    const auto model = open(configOf(false), file);
    const std::size_t grown = residentBytes() - before;
    const auto fileBytes = static_cast<std::size_t>(QFile(file).size());
    qInfo("file %zu MiB, weights %zu MiB, resident %zu MiB more, loaded in %lld ms", fileBytes >> 20U,
          model->info().weightBytes >> 20U, grown >> 20U, static_cast<long long>(timer.elapsed()));
    QVERIFY2(grown <= fileBytes + (std::size_t{60} << 20U), qPrintable(QString::number(grown >> 20U)));
    QVERIFY2(grown <= model->info().weightBytes + (std::size_t{60} << 20U), qPrintable(QString::number(grown >> 20U)));
}

QTEST_GUILESS_MAIN(LoadedModelTest)
#include "tst_loaded_model.moc"
