// SPDX-License-Identifier: GPL-3.0-or-later
// Tokenizers of Hugging Face folders written as GGUF keys and read again.
#include "engine/api/error.h"
#include "engine/runtime/gguf_form.h"
#include "engine/runtime/model_text.h"
#include "engine/runtime/vocabulary.h"
#include "engine/text/pretokenizer_table.h"
#include "tests/support/shared_data.h"

#include <nlohmann/json.hpp>

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using nlohmann::json;
using Ids = std::vector<int>;

namespace {

constexpr const char *mark = "\xE2\x96\x81";

std::vector<std::string> corpus()
{
    std::vector<std::string> texts;
    for (const QByteArray &line : shared_data::read(shared_data::data("tokenizer/corpus.jsonl.xz")).split('\n')) {
        if (!line.isEmpty())
            texts.push_back(QByteArray::fromHex(QByteArray::fromStdString(json::parse(line.toStdString()).at("utf8")))
                                .toStdString());
    }
    return texts;
}

/// Keys without tensors.
class KeysOnly final : public engine::Checkpoint {
public:
    engine::Metadata keys;

    [[nodiscard]] const std::string &path() const override { return m_path; }
    [[nodiscard]] const engine::Metadata &metadata() const override { return keys; }
    [[nodiscard]] const std::vector<engine::TensorInfo> &tensors() const override { return m_tensors; }
    [[nodiscard]] const engine::TensorInfo *find(std::string_view) const override { return nullptr; }
    [[nodiscard]] std::span<const std::byte> bytes(const engine::TensorInfo &) const override { return {}; }
    [[nodiscard]] std::uint64_t fileBytes() const override { return 0; }
    [[nodiscard]] std::vector<std::string> warnings() const override { return {}; }
    [[nodiscard]] std::string checkUnchanged() const override { return {}; }
    void releasePages(const engine::TensorInfo &) const override { }

private:
    std::string m_path = "keys";
    std::vector<engine::TensorInfo> m_tensors;
};

/// The keys of a folder and the tokenizer they make.
struct Written {
    KeysOnly checkpoint;
    std::vector<std::string> warnings;
    std::unique_ptr<engine::Tokenizer> tokenizer;

    [[nodiscard]] std::string text(const char *key) const
    {
        const std::string *found = checkpoint.metadata().text(key);
        return found != nullptr ? *found : std::string("absent");
    }
    [[nodiscard]] bool hasSteps() const { return text(engine::tokenizerStepsKey) != "absent"; }
};

Written writeFolder(const QString &folder, const std::string &architecture = "llama", const std::string &name = "model")
{
    Written written;
    engine::Metadata &keys = written.checkpoint.keys;
    keys.add("general.architecture", architecture);
    keys.add("general.name", name);
    engine::addTokenizerKeys(folder.toStdString(), keys, written.warnings);
    written.tokenizer = engine::makeTokenizer(engine::readVocabulary(written.checkpoint));
    return written;
}

void put(const QString &path, const std::string &text)
{
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QCOMPARE(file.write(QByteArray::fromStdString(text)), static_cast<qint64>(text.size()));
}

json metaspace(const char *scheme, bool split)
{
    return {{"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", scheme}, {"split", split}};
}

/// A Unigram vocabulary of a few words.
json unigram()
{
    const std::string space = mark;
    json vocabulary = json::array({{"<unk>", 0.0}, {"<s>", 0.0}, {"</s>", 0.0}, {space, -3.0}});
    for (const char *word : {"the", "there", "re", "a", "at", "cat", "s"}) {
        vocabulary.push_back({word, -6.0 - 0.25 * static_cast<double>(vocabulary.size())});
        vocabulary.push_back({space + word, -5.0 - 0.25 * static_cast<double>(vocabulary.size())});
    }
    for (const char *letter : {"t", "h", "e", "r", "c"})
        vocabulary.push_back({letter, -12.5});
    json added = json::array();
    for (int id = 0; id < 3; ++id)
        added.push_back({{"id", id}, {"content", vocabulary[static_cast<std::size_t>(id)][0]}, {"special", true}});
    return {{"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", metaspace("always", true)},
            {"decoder", metaspace("always", true)},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "</s>"}}}}}},
              {"special_tokens", {{"</s>", {{"id", "</s>"}, {"ids", {2}}}}}}}},
            {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocabulary}}}};
}

/// SentencePiece BPE over a few words with all bytes, merges as `merges` lists them.
json sentencePiece(const std::vector<std::pair<std::string, std::string>> &merges)
{
    json vocabulary = {{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
    const auto add = [&](const std::string &token) {
        if (!vocabulary.contains(token))
            vocabulary[token] = vocabulary.size();
    };
    for (int byte = 0; byte < 256; ++byte) {
        char name[8];
        std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
        add(name);
    }
    for (const char *letter : {mark, "a", "b", "c", "d"})
        add(letter);
    json pairs = json::array();
    for (const auto &[left, right] : merges) {
        add(left + right);
        pairs.push_back({left, right});
    }
    json added = json::array();
    for (const char *token : {"<unk>", "<s>", "</s>"})
        added.push_back({{"id", vocabulary[token]}, {"content", token}, {"special", true}});
    return {{"added_tokens", added},
            {"normalizer",
             {{"type", "Sequence"},
              {"normalizers",
               {{{"type", "Prepend"}, {"prepend", mark}},
                {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", mark}}}}}},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder",
             {{"type", "Sequence"},
              {"decoders",
               {{{"type", "Replace"}, {"pattern", {{"String", mark}}}, {"content", " "}},
                {{"type", "ByteFallback"}},
                {{"type", "Fuse"}},
                {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}}},
            {"model",
             {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"fuse_unk", true},
              {"byte_fallback", true},
              {"vocab", vocabulary},
              {"merges", pairs}}}};
}

const std::vector<std::pair<std::string, std::string>> &plainMerges()
{
    static const std::vector<std::pair<std::string, std::string>> merges{
        {"a", "b"}, {mark, "a"}, {"c", "d"}, {"ab", "cd"}, {std::string(mark) + "a", "b"}, {mark, "ab"}};
    return merges;
}

} // namespace

class TestGgufVocabulary : public QObject {
    Q_OBJECT

private slots:
    void init()
    {
        m_dir = std::make_unique<QTemporaryDir>();
        QVERIFY(m_dir->isValid());
    }

    void cutDown_data()
    {
        QTest::addColumn<QString>("pre");
        QTest::addColumn<bool>("steps");
        QTest::newRow("qwen3") << "qwen2" << true; // NFC
        QTest::newRow("mistral_nemo") << "tekken" << false;
        QTest::newRow("gptoss") << "gpt-4o" << false;
        QTest::newRow("internlm2") << "default" << true; // lacks merges of tokens that it has
        QTest::newRow("yi") << "default" << false;
    }
    /// The cut-down tokenizers of tests/data: same ids and same text, whichever way they are stored.
    void cutDown()
    {
        QFETCH(QString, pre);
        QFETCH(bool, steps);
        const QString name = QString::fromLatin1(QTest::currentDataTag());
        QVERIFY(QFile::copy(shared_data::data("tokenizer/" + name + ".json.xz"), at("tokenizer.json.xz")));
        compareWithFolder(m_dir->path(), pre, steps);
    }

    void tokenizers_data()
    {
        QTest::addColumn<QString>("pre");
        QTest::addColumn<bool>("steps");
        QTest::newRow("command_r_plus") << "smollm" << true;
        QTest::newRow("deepseek_v3") << "deepseek-v3" << true; // its configuration adds a token that it does not
        QTest::newRow("gpt4o") << "gpt-4o" << false;
        QTest::newRow("gptoss") << "gpt-4o" << false;
        QTest::newRow("internlm2") << "default" << true; // drops a space when decoding that it does not add
        QTest::newRow("llama2") << "default" << false;
        QTest::newRow("llama3") << "llama-bpe" << false;
        QTest::newRow("llama3_1") << "llama-bpe" << false;
        QTest::newRow("mistral_nemo") << "tekken" << false;
        QTest::newRow("qwen2_5") << "qwen2" << true;
        QTest::newRow("yi") << "default" << false;
    }
    void tokenizers()
    {
        QFETCH(QString, pre);
        QFETCH(bool, steps);
        const QString folder = shared_data::path(QStringLiteral("tokenizers/") + QTest::currentDataTag());
        if (folder.isEmpty())
            QSKIP(qPrintable(QStringLiteral("tokenizers/%1 is absent").arg(QTest::currentDataTag())));
        const QStringList quick{"llama2", "llama3", "qwen2_5"};
        if (!shared_data::fullTier() && !quick.contains(QString::fromLatin1(QTest::currentDataTag())))
            QSKIP("of the full tier (LATHE_TEST_TIER=full)");
        compareWithFolder(folder, pre, steps);
    }

    void sentencePieceKeys()
    {
        put(at("tokenizer.json"), sentencePiece(plainMerges()).dump());
        put(at("tokenizer_config.json"),
            R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": true, "chat_template": "T"})");
        const Written written = writeFolder(m_dir->path());
        const engine::Metadata &keys = written.checkpoint.metadata();
        QCOMPARE(written.text("tokenizer.ggml.model"), std::string("llama"));
        QCOMPARE(written.text("tokenizer.chat_template"), std::string("T"));
        QVERIFY(keys.boolean("tokenizer.ggml.add_space_prefix").value());
        QVERIFY(keys.boolean("tokenizer.ggml.add_bos_token").value());
        QVERIFY(!keys.boolean("tokenizer.ggml.add_eos_token").value());
        QCOMPARE(keys.integer("tokenizer.ggml.bos_token_id").value(), 1);
        QCOMPARE(keys.integer("tokenizer.ggml.eos_token_id").value(), 2);
        QCOMPARE(keys.integer("tokenizer.ggml.unknown_token_id").value(), 0);
        const auto kinds = keys.integers("tokenizer.ggml.token_type").value();
        QCOMPARE((Ids{static_cast<int>(kinds[0]), static_cast<int>(kinds[1]), static_cast<int>(kinds[3]),
                      static_cast<int>(kinds[260])}),
                 (Ids{2, 3, 6, 1}));
        const auto scores = keys.numbers("tokenizer.ggml.scores").value();
        const auto score = [&](const std::string &token) {
            return scores[static_cast<std::size_t>(written.tokenizer->find(token).value())];
        };
        QCOMPARE(score("ab"), 0.0);
        QCOMPARE(score("cd"), -2.0);
        QVERIFY(score("abcd") < score("cd") && score(std::string(mark) + "ab") < score("abcd"));
        // The configuration adds a token that the file does not: the keys follow it, this program the file.
        QVERIFY(written.hasSteps() && written.warnings.size() == 1);
        QCOMPARE(written.tokenizer->encode("ab", {true, false}), written.tokenizer->encode("ab", {}));
    }

    void mergesInTwoPlaces()
    {
        auto merges = plainMerges();
        std::swap(merges[3], merges[4]); // "▁ab" on both sides of "abcd", which one score cannot say
        put(at("tokenizer.json"), sentencePiece(merges).dump());
        const Written written = writeFolder(m_dir->path());
        QCOMPARE(written.warnings.size(), 1U);
        const auto folder = engine::openFolderTokenizer(m_dir->path().toStdString());
        for (const char *text : {"abcd", "ab cd ab", "aabcd abab"})
            QCOMPARE(written.tokenizer->encode(text, {}), folder->encode(text, {}));
        QVERIFY2(written.warnings[0].find("\xE2\x96\x81"
                                          "ab")
                     != std::string::npos,
                 written.warnings[0].c_str());
    }

    void metaspaceOnlyInFront()
    {
        json file = sentencePiece(plainMerges());
        file["normalizer"] = nullptr;
        file["pre_tokenizer"] = metaspace("first", false);
        put(at("tokenizer.json"), file.dump());
        const Written written = writeFolder(m_dir->path());
        QVERIFY(written.hasSteps());
        QVERIFY2(written.warnings.at(0).find("prepend_scheme first") != std::string::npos, written.warnings[0].c_str());
        const auto folder = engine::openFolderTokenizer(m_dir->path().toStdString());
        for (const char *text : {"ab", "</s>ab", " ab</s> ab", "<s>cd ab</s>a\xC3\xA9"})
            QCOMPARE(written.tokenizer->encode(text, {false, true}), folder->encode(text, {false, true}));
    }

    void phi3DropsSpacesBehindTokens()
    {
        json file = sentencePiece(plainMerges());
        file["added_tokens"][2]["rstrip"] = true;
        put(at("tokenizer.json"), file.dump());
        const Written named = writeFolder(m_dir->path(), "phi3", "Phi-3-mini");
        QVERIFY2(named.warnings.empty() && !named.hasSteps(), named.warnings.empty() ? "" : named.warnings[0].c_str());
        const Written other = writeFolder(m_dir->path(), "llama", "some model");
        QVERIFY(other.hasSteps());
        const auto folder = engine::openFolderTokenizer(m_dir->path().toStdString());
        const Ids wanted = folder->encode("<s> ab</s> \n ab", {false, true});
        QCOMPARE(named.tokenizer->encode("<s> ab</s> \n ab", {false, true}), wanted);
        QCOMPARE(other.tokenizer->encode("<s> ab</s> \n ab", {false, true}), wanted);
    }

    void unigramKeys_data()
    {
        QTest::addColumn<QByteArray>("normalizer");
        QTest::addColumn<bool>("steps");
        QTest::newRow("no normalizer") << QByteArray("null") << true; // no space before one
        QTest::newRow("map and spaces") << QByteArray(
            R"({"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": ""},
                {"type": "Strip", "strip_left": false, "strip_right": true},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"}]})")
                                        << false;
        QTest::newRow("spaces at the end")
            << QByteArray(R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "\u2581"})") << true;
        QTest::newRow("lower case") << QByteArray(R"({"type": "Lowercase"})") << true;
    }
    void unigramKeys()
    {
        QFETCH(QByteArray, normalizer);
        QFETCH(bool, steps);
        json file = unigram();
        file["normalizer"] = json::parse(normalizer.toStdString());
        put(at("tokenizer.json"), file.dump());
        put(at("tokenizer_config.json"), R"({"eos_token": "</s>", "unk_token": "<unk>"})");
        const Written written = writeFolder(m_dir->path());
        QCOMPARE(written.text("tokenizer.ggml.model"), std::string("t5"));
        QCOMPARE(written.hasSteps(), steps);
        const engine::Metadata &keys = written.checkpoint.metadata();
        QVERIFY(keys.boolean("tokenizer.ggml.add_eos_token").value());
        QVERIFY(keys.boolean("tokenizer.ggml.add_space_prefix").value());
        QCOMPARE(keys.integer("tokenizer.ggml.unknown_token_id").value(), 0);
        const auto folder = engine::openFolderTokenizer(m_dir->path().toStdString());
        for (const char *text : {"the cats at there", "THE cat", "a  cat ", "  at", "cat</s>the", "xyz at <s>"}) {
            QCOMPARE(written.tokenizer->encode(text, {true, true}), folder->encode(text, {true, true}));
            const Ids ids = folder->encode(text, {});
            QCOMPARE(written.tokenizer->decode(ids, false), folder->decode(ids, false));
        }
    }

    /// As llama.cpp reads these keys: runs of spaces count as one, and control tokens are no words of the text.
    void unigramOfAFile()
    {
        engine::VocabularyData data;
        data.model = "t5";
        const std::string space = mark;
        data.tokens = {"<pad>", "</s>", "<unk>", space + "a", "b", space, "</", "a"};
        data.kinds.assign(data.tokens.size(), engine::TokenKind::Normal);
        data.kinds[0] = data.kinds[1] = engine::TokenKind::Control;
        data.kinds[2] = engine::TokenKind::Unknown;
        data.scores = {0, 0, 0, -2, -3, -4, -5, -6};
        data.eos = 1;
        data.unk = 2;
        data.removeExtraSpaces = true;
        auto tokenizer = engine::makeTokenizer(data);
        QCOMPARE(tokenizer->encode("  a   b ", {true, false}), (Ids{3, 5, 4, 1}));
        QCOMPARE(tokenizer->encode("</s>", {}), (Ids{5, 6, 2}));
        QCOMPARE(tokenizer->encode("   ", {}), Ids{});
        QCOMPARE(tokenizer->decode({3, 5, 4}, false), std::string("a b"));
        data.removeExtraSpaces = false;
        tokenizer = engine::makeTokenizer(data);
        QCOMPARE(tokenizer->encode(" ab  ", {}), (Ids{3, 4, 5, 5}));
        data.addSpacePrefix = true;
        tokenizer = engine::makeTokenizer(data);
        QCOMPARE(tokenizer->encode("ab", {}), (Ids{3, 4}));
    }

    void brokenSteps_data()
    {
        QTest::addColumn<QByteArray>("steps");
        QTest::addColumn<QString>("named");
        QTest::newRow("no JSON") << QByteArray("{") << engine::tokenizerStepsKey;
        QTest::newRow("no object") << QByteArray("[]") << engine::tokenizerStepsKey;
        QTest::newRow("id too large") << QByteArray(R"({"outside_model": [9]})") << "outside_model holds 9";
        QTest::newRow("negative id") << QByteArray(R"({"outside_model": [-1]})") << "outside_model holds -1";
        QTest::newRow("unknown step") << QByteArray(R"({"normalizer": {"type": "X"}, "decoder": {"type": "Fuse"}})")
                                      << "normalizer \"X\"";
        QTest::newRow("flag") << QByteArray(R"({"model": {"fuse_unk": 1}, "decoder": {"type": "Fuse"}})") << "fuse_unk";
    }
    void brokenSteps()
    {
        QFETCH(QByteArray, steps);
        QFETCH(QString, named);
        engine::VocabularyData data;
        data.model = "llama";
        data.tokens = {"a", "b"};
        data.steps = steps.toStdString();
        try {
            (void)engine::makeTokenizer(data);
            QFAIL("was read");
        } catch (const engine::Error &error) {
            QCOMPARE(error.code(), engine::ErrorCode::Refused);
            QVERIFY2(QString::fromUtf8(error.what()).contains(named), error.what());
        }
    }

    void unwritable()
    {
        json file = sentencePiece(plainMerges());
        file["model"]["byte_fallback"] = false;
        put(at("tokenizer.json"), file.dump());
        engine::Metadata metadata;
        std::vector<std::string> warnings;
        engine::addTokenizerKeys(m_dir->path().toStdString(), metadata, warnings);
        QCOMPARE(warnings.size(), 1U);
        QVERIFY2(warnings[0].find("without a fallback to bytes") != std::string::npos, warnings[0].c_str());
        QVERIFY(metadata.find("tokenizer.ggml.model") == nullptr);
    }

    void namesOfSplits_data()
    {
        QTest::addColumn<QStringList>("patterns");
        QTest::addColumn<bool>("ignoreMerges");
        QTest::addColumn<QString>("architecture");
        QTest::addColumn<QString>("name");
        const QString gpt2 = QString::fromUtf8(engine::gpt2Pattern().data(), qsizetype(engine::gpt2Pattern().size()));
        const QString llama3 = QStringLiteral(
            R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re");
        const QStringList digits{QStringLiteral("\\p{N}"), gpt2};
        QTest::newRow("gpt-2") << QStringList{gpt2} << false << "gpt2" << "gpt-2";
        QTest::newRow("smollm") << digits << false << "llama" << "smollm";
        QTest::newRow("command-r") << digits << false << "command-r" << "command-r";
        QTest::newRow("starcoder") << digits << false << "starcoder2" << "starcoder";
        QTest::newRow("refact") << digits << false << "granite" << "refact";
        QTest::newRow("llama-bpe") << QStringList{llama3} << true << "llama" << "llama-bpe";
        QTest::newRow("dbrx") << QStringList{llama3} << false << "olmo2" << "dbrx";
        QTest::newRow("chatglm") << QStringList{llama3} << false << "chatglm" << "chatglm-bpe";
        QTest::newRow("stablelm2") << QStringList{QString(llama3).replace("{1,3}", "")} << false << "stablelm"
                                   << "stablelm2";
        QTest::newRow("written with characters")
            << QStringList{QStringLiteral("\\p{N}{1,3}"), QStringLiteral(u"[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                           QStringLiteral(
                               "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?"
                               "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+")}
            << false << "deepseek2" << "deepseek-v3";
        QTest::newRow("seed-coder") << QStringList{QStringLiteral(
            "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|"
            "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+")}
                                    << false << "llama" << "seed-coder";
        QTest::newRow("deepseek-coder") << QStringList{"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                                       QStringLiteral(u"[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"),
                                                       "\\p{N}"}
                                        << false << "llama" << "deepseek-coder";
        QTest::newRow("unknown") << QStringList{"[a-z]+"} << false << "llama" << "";
    }
    void namesOfSplits()
    {
        QFETCH(QStringList, patterns);
        QFETCH(bool, ignoreMerges);
        QFETCH(QString, architecture);
        std::vector<std::string> list;
        for (const QString &pattern : patterns)
            list.push_back(pattern.toStdString());
        QTEST(QString::fromStdString(engine::preTokenizerName(list, ignoreMerges, architecture.toStdString())), "name");
    }

private:
    [[nodiscard]] QString at(const QString &name) const { return m_dir->filePath(name); }

    static void compareWithFolder(const QString &path, const QString &pre, bool steps)
    {
        const auto folder = engine::openFolderTokenizer(path.toStdString());
        const Written written = writeFolder(path);
        QCOMPARE(QString::fromStdString(written.text("tokenizer.ggml.pre")), pre);
        QCOMPARE(written.hasSteps(), steps);
        QCOMPARE(written.warnings.size(), steps ? 1U : 0U);
        for (const std::string &text : corpus()) {
            const Ids ids = folder->encode(text, {false, true});
            QCOMPARE(written.tokenizer->encode(text, {false, true}), ids);
            QCOMPARE(written.tokenizer->encode(text, {true, false}), folder->encode(text, {true, false}));
            QCOMPARE(written.tokenizer->decode(ids, true), folder->decode(ids, true));
        }
    }

    std::unique_ptr<QTemporaryDir> m_dir;
};

QTEST_GUILESS_MAIN(TestGgufVocabulary)

#include "tst_gguf_vocabulary.moc"
