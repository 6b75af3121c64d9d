// SPDX-License-Identifier: GPL-3.0-or-later
// Tensors and keys of Hugging Face folders in the form of GGUF files, beyond what whole models show.
#include "engine/runtime/gguf_form_limits.h"
#include "engine/runtime/gguf_form_parts.h"
#include "tests/support/tiny_model.h"

#include <QTest>

#include <cstring>

using engine::gguf_form::Bytes;
using engine::gguf_form::FormedTensor;
using kernels::DType;
using tiny_model::MemoryCheckpoint;

namespace {

std::vector<float> count(std::size_t values)
{
    std::vector<float> all(values);
    for (std::size_t i = 0; i < values; ++i)
        all[i] = static_cast<float>(i);
    return all;
}

std::vector<float> floats(const Bytes &bytes)
{
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

} // namespace

class TestGgufForm : public QObject {
    Q_OBJECT

private slots:
    /// Two heads with two key rows and one value row each, over a latent vector of three.
    void latentHeadsAreSplit()
    {
        MemoryCheckpoint model;
        model.setTensor("blk.4.attn_kv_b.weight", {6, 3}, count(18));
        const auto parts = engine::gguf_form::splitLatentHeads(model, *model.find("blk.4.attn_kv_b.weight"), 2, 1);
        QCOMPARE(parts.size(), 2U);
        QCOMPARE(parts[0].info.name, std::string("blk.4.attn_k_b.weight"));
        QCOMPARE(parts[0].info.shape, (std::vector<std::int64_t>{2, 3, 2}));
        QCOMPARE(floats(parts[0].make()), (std::vector<float>{0, 3, 1, 4, 2, 5, 9, 12, 10, 13, 11, 14}));
        QCOMPARE(parts[1].info.name, std::string("blk.4.attn_v_b.weight"));
        QCOMPARE(parts[1].info.shape, (std::vector<std::int64_t>{2, 1, 3}));
        QCOMPARE(floats(parts[1].make()), (std::vector<float>{6, 7, 8, 15, 16, 17}));
        QCOMPARE(parts[0].info.bytes, 48U);
        QCOMPARE(parts[1].info.bytes, 24U);
    }

    void headsThatDoNotDivide()
    {
        MemoryCheckpoint model;
        model.setTensor("blk.0.attn_kv_b.weight", {7, 3}, count(21));
        try {
            (void)engine::gguf_form::splitLatentHeads(model, *model.find("blk.0.attn_kv_b.weight"), 2, 1);
            QFAIL("was split");
        } catch (const engine::Error &error) {
            QCOMPARE(error.code(), engine::ErrorCode::Refused);
            QVERIFY2(std::string(error.what()).find("7 rows, wanted a multiple of the 2 + 1") != std::string::npos,
                     error.what());
        }
    }

    void rotatingRows()
    {
        const std::vector<float> rows = count(10);
        const auto moved = [&](const engine::gguf_form::HeadRows &head) {
            return floats(engine::gguf_form::interleavedRows(std::as_bytes(std::span(rows)), 10, head));
        };
        QCOMPARE(moved({5, 0, 4}), (std::vector<float>{0, 2, 1, 3, 4, 5, 7, 6, 8, 9}));
        QCOMPARE(moved({5, 1, 4}), (std::vector<float>{0, 1, 3, 2, 4, 5, 6, 8, 7, 9}));
        QCOMPARE(moved({10, 4, 6}), (std::vector<float>{0, 1, 2, 3, 4, 7, 5, 8, 6, 9}));
    }

    void limits_data()
    {
        QTest::addColumn<QString>("architecture");
        QTest::addColumn<QString>("key");
        QTest::addColumn<bool>("flag");
        QTest::addColumn<int>("number");
        QTest::addColumn<QString>("named");
        const auto row = [](const char *name, const char *architecture, const char *key, int number, bool flag,
                            const char *named) {
            QTest::newRow(name) << architecture << key << flag << number << named;
        };
        row("window", "llama", "attention.sliding_window", 16, false, "llama.attention.sliding_window");
        row("window that is read", "gemma3", "attention.sliding_window", 16, false, "");
        row("window beyond the context", "llama", "attention.sliding_window", 512, false, "");
        row("norm", "qwen3moe", "expert_weights_norm", 0, false, "qwen3moe.expert_weights_norm");
        row("norm as it is", "qwen3moe", "expert_weights_norm", 0, true, "");
        row("ramp", "gpt-oss", "rope.scaling.yarn_truncate", 0, false, "gpt-oss.rope.scaling.yarn_truncate");
        row("queries without a rank", "deepseek2", "block_count", 3, false, "26, 27 or 48 layers");
        row("queries without a rank, 27 layers", "deepseek2", "block_count", 27, false, "");
    }
    void limits()
    {
        QFETCH(QString, architecture);
        QFETCH(QString, key);
        QFETCH(bool, flag);
        QFETCH(int, number);
        QFETCH(QString, named);
        MemoryCheckpoint model;
        const std::string prefix = architecture.toStdString() + '.';
        model.set("general.architecture", architecture.toStdString());
        model.set(prefix + "context_length", std::uint64_t{256});
        model.set(prefix + "rope.scaling.type", std::string("yarn"));
        if (number > 0)
            model.set(prefix + key.toStdString(), static_cast<std::uint64_t>(number));
        else
            model.set(prefix + key.toStdString(), flag);
        const std::vector<std::string> found = engine::limitsOfOtherReaders(model);
        QCOMPARE(found.size(), named.isEmpty() ? 0U : 1U);
        QVERIFY(named.isEmpty() || QString::fromStdString(found[0]).contains(named));
    }

    /// What other programs would compute otherwise, or would not open at all.
    void limitsOfAttention()
    {
        const auto model = [](const char *architecture, const char *key, const engine::MetadataValue &value) {
            MemoryCheckpoint made;
            made.set("general.architecture", std::string(architecture));
            made.set(architecture + ('.' + std::string(key)), value);
            return made;
        };
        const auto names = [](const MemoryCheckpoint &checkpoint, const char *text) {
            const std::vector<std::string> found = engine::limitsOfOtherReaders(checkpoint);
            return found.size() == 1 && found[0].find(text) != std::string::npos;
        };
        QVERIFY(names(model("olmoe", "attention.clamp_kqv", 1.5), "olmoe.attention.clamp_kqv"));
        QVERIFY(names(model("starcoder2", "hidden_activation", std::string("gelu")), "another activation than gelu"));
        QVERIFY(names(model("phi3", "rope.scaling.type", std::string("longrope")), "long factors"));
        QVERIFY(engine::limitsOfOtherReaders(model("phi2", "hidden_activation", std::string("gelu_new"))).empty());
        QVERIFY(engine::limitsOfOtherReaders(model("llama", "hidden_activation", std::string("silu"))).empty());
        MemoryCheckpoint norms = model("stablelm", "parallel", true);
        norms.setTensor("blk.0.attn_q_norm.0.weight", {4}, count(4));
        QVERIFY(names(norms, "blk.0.attn_q_norm.0.weight"));
    }

    void groupsByTheirBest()
    {
        MemoryCheckpoint model;
        model.set("general.architecture", std::string("deepseek2"));
        model.set("deepseek2.attention.q_lora_rank", std::uint64_t{8});
        model.set("deepseek2.expert_group_count", std::uint64_t{4});
        model.set("deepseek2.expert_group_rule", std::string("top2"));
        QVERIFY(engine::limitsOfOtherReaders(model).empty());
        model.set("deepseek2.expert_group_rule", std::string("max"));
        QCOMPARE(engine::limitsOfOtherReaders(model).size(), 1U);
    }

    void layersWithoutExperts()
    {
        MemoryCheckpoint model;
        model.set("general.architecture", std::string("qwen3moe"));
        model.set("qwen3moe.expert_count", std::uint64_t{4});
        QVERIFY(engine::limitsOfOtherReaders(model).empty());
        model.setTensor("blk.0.ffn_gate.weight", {2, 2}, count(4));
        const std::vector<std::string> found = engine::limitsOfOtherReaders(model);
        QCOMPARE(found.size(), 1U);
        QVERIFY(found[0].find("blk.0.ffn_gate.weight") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestGgufForm)

#include "tst_gguf_form.moc"
