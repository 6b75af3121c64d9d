// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/config.h"
#include "engine/api/parameters.h"
#include "engine/api/request.h"

#include <QTest>

#include <cctype>
#include <cmath>
#include <limits>
#include <set>

using namespace engine;

class TestParameters : public QObject {
    Q_OBJECT

private slots:
    void everyRowIsSound()
    {
        std::set<std::string_view> keys;
        for (const ParameterSpec &spec : parameterSpecs()) {
            const std::string key(spec.key);
            QVERIFY2(keys.insert(spec.key).second, key.c_str());
            QVERIFY2(findParameter(spec.key) == &spec, key.c_str());
            if (!spec.choices.empty())
                QVERIFY2(spec.minimum == 0 && spec.step == 1
                             && spec.maximum == static_cast<double>(spec.choices.size() - 1),
                         key.c_str());
            for (const char c : spec.key)
                QVERIFY2((std::islower(c) != 0) || (std::isdigit(c) != 0) || c == '-', key.c_str());
            QVERIFY2(spec.minimum < spec.maximum && spec.step > 0, key.c_str());
            QVERIFY2(checkParameter(spec, spec.defaultValue).empty(), key.c_str());
            QVERIFY2(checkParameter(spec, spec.minimum).empty(), key.c_str());
            QVERIFY2(checkParameter(spec, spec.maximum).empty(), key.c_str());
            QVERIFY2(spec.group == "sampling" || spec.group == "engine", key.c_str());
            QVERIFY2(!spec.label.empty() && std::isupper(spec.label.front()) != 0, key.c_str());
            QVERIFY2(spec.help.size() > 20 && spec.help.ends_with('.'), key.c_str());
        }
        QCOMPARE(findParameter("no-such-knob"), nullptr);
    }

    void defaultsEqualTheStructures()
    {
        const SamplingParams sampling;
        const EngineConfig config;
        const auto defaultOf = [](std::string_view key) { return findParameter(key)->defaultValue; };
        QCOMPARE(defaultOf("temperature"), sampling.temperature);
        QCOMPARE(defaultOf("top-k"), static_cast<double>(sampling.topK));
        QCOMPARE(defaultOf("top-p"), sampling.topP);
        QCOMPARE(defaultOf("min-p"), sampling.minP);
        QCOMPARE(defaultOf("repetition-penalty"), sampling.repetitionPenalty);
        QCOMPARE(defaultOf("presence-penalty"), sampling.presencePenalty);
        QCOMPARE(defaultOf("frequency-penalty"), sampling.frequencyPenalty);
        QCOMPARE(defaultOf("max-tokens"), static_cast<double>(sampling.maxTokens));
        QCOMPARE(defaultOf("max-num-seqs"), static_cast<double>(config.limits.maxNumSeqs));
        QCOMPARE(defaultOf("max-num-batched-tokens"), static_cast<double>(config.limits.maxNumBatchedTokens));
        QCOMPARE(defaultOf("block-size"), static_cast<double>(config.kv.blockTokens));
        QCOMPARE(defaultOf("kv-cache-memory-bytes"), static_cast<double>(config.kv.budgetBytes));
        QCOMPARE(defaultOf("num-gpu-blocks-override"), static_cast<double>(config.kv.numBlocks));
        QCOMPARE(defaultOf("threads"), static_cast<double>(config.threads));
        QCOMPARE(defaultOf("max-model-len"), static_cast<double>(config.maxModelLen));
        QCOMPARE(defaultOf("memory-reserve"), config.memoryReserve);
        QCOMPARE(defaultOf("admission-reserve"), config.admissionReserve);
        QCOMPARE(defaultOf("max-num-queued-reqs"), static_cast<double>(config.maxNumQueuedReqs));
        QCOMPARE(defaultOf("max-num-queued-tokens"), static_cast<double>(config.maxNumQueuedTokens));
        QCOMPARE(defaultOf("scheduling-policy"), static_cast<double>(config.policy));
        QCOMPARE(defaultOf("enable-prefix-caching"), config.kv.prefixCaching ? 1.0 : 0.0);
    }

    void faultsNameKeyValueAndRange()
    {
        const std::string low = checkParameter(*findParameter("temperature"), -0.5);
        QVERIFY(low.find("temperature") != std::string::npos && low.find("-0.5") != std::string::npos
                && low.find("0 to 5") != std::string::npos);
        QVERIFY(!checkParameter(*findParameter("temperature"), std::nan("")).empty());
        QVERIFY(!checkParameter(*findParameter("top-p"), std::numeric_limits<double>::infinity()).empty());
        QVERIFY(!checkParameter(*findParameter("top-k"), 1.5).empty());
        QVERIFY(!checkParameter(*findParameter("block-size"), 24).empty());
        QVERIFY(!checkParameter(*findParameter("block-size"), 256).empty());
        QVERIFY(checkParameter(*findParameter("block-size"), 32).empty());
    }
};

QTEST_GUILESS_MAIN(TestParameters)
#include "tst_parameters.moc"
