// SPDX-License-Identifier: GPL-3.0-or-later
// SentencePiece BPE, from a list of merges and from scores, and Unigram.
#include "engine/api/error.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <random>

using engine::TokenKind;
using nlohmann::json;
using Ids = std::vector<int>;

namespace {

const std::string mark = "\u2581";
constexpr int firstByte = 3;

/// <unk>, <s>, </s>, the 256 bytes, then what each test needs from id 259 on.
struct Vocabulary {
    engine::VocabularyData data;

    Vocabulary()
    {
        data.model = "llama";
        data.bos = 1;
        data.eos = 2;
        data.unk = 0;
        add("<unk>", 0, TokenKind::Unknown);
        add("<s>", 0, TokenKind::Control);
        add("</s>", 0, TokenKind::Control);
        for (int byte = 0; byte < 256; ++byte)
            add(QString::asprintf("<0x%02X>", byte).toStdString(), 0, TokenKind::Byte);
    }
    int add(const std::string &text, float score, TokenKind kind = TokenKind::Normal)
    {
        data.tokens.push_back(text);
        data.scores.push_back(score);
        data.kinds.push_back(kind);
        return static_cast<int>(data.tokens.size()) - 1;
    }
};

/// Words of a, b and c with scores that decide which merges come first.
struct Letters : Vocabulary {
    int space = add(mark, -10);
    int a = add("a", -10);
    int b = add("b", -10);
    int c = add("c", -10);
    int ab = add("ab", -2);
    int bc = add("bc", -1);
    int spaceA = add(mark + "a", -3);
};

/// The plainest reading of the rule: the pair whose text has the highest score, the leftmost of equals, becomes one.
Ids mergedPlainly(const engine::VocabularyData &data, const std::vector<std::string> &characters)
{
    std::map<std::string, std::size_t> known;
    for (std::size_t id = 0; id < data.tokens.size(); ++id) {
        if (data.kinds[id] == TokenKind::Normal)
            known[data.tokens[id]] = id;
    }
    std::vector<std::string> parts = characters;
    for (;;) {
        std::optional<std::size_t> best;
        float bestScore = 0;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = known.find(parts[i] + parts[i + 1]);
            if (found == known.end() || (best && data.scores[found->second] <= bestScore))
                continue;
            best = i;
            bestScore = data.scores[found->second];
        }
        if (!best)
            break;
        parts[*best] += parts[*best + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
    }
    Ids ids;
    for (const std::string &part : parts)
        ids.push_back(known.contains(part) ? static_cast<int>(known[part])
                                           : firstByte + static_cast<unsigned char>(part[0]));
    return ids;
}

json unigramFile(const std::vector<std::pair<std::string, double>> &vocabulary)
{
    json file = {{"decoder", {{"type", "Fuse"}}}, {"model", {{"type", "Unigram"}, {"unk_id", 0}}}};
    for (const auto &[piece, score] : vocabulary)
        file["model"]["vocab"].push_back({piece, score});
    return file;
}

QString refusal(const json &file)
{
    try {
        (void)engine::makeTokenizer(file.dump(), {});
    } catch (const engine::Error &error) {
        return QString::fromUtf8(error.what());
    }
    return {};
}

} // namespace

class TestTokenizerModels : public QObject {
    Q_OBJECT

private slots:
    void highestScoreMergesFirst()
    {
        const Letters letters;
        const auto tokenizer = engine::makeTokenizer(letters.data);
        // "▁abc": bc before ab, then ▁a; the space is put in front.
        QCOMPARE(tokenizer->encode("abc", {}), (Ids{letters.spaceA, letters.bc}));
        QCOMPARE(tokenizer->encode("abc", {true, false}), (Ids{1, letters.spaceA, letters.bc}));
        QCOMPARE(tokenizer->encode("b ab", {}), (Ids{letters.space, letters.b, letters.space, letters.ab}));
        QVERIFY(tokenizer->addsBos() && tokenizer->isEndOfGeneration(2) && tokenizer->isControl(1));
    }

    void whatTheVocabularyLacksBecomesBytes()
    {
        const Letters letters;
        const auto tokenizer = engine::makeTokenizer(letters.data);
        const Ids wanted{letters.spaceA, firstByte + 0xC3, firstByte + 0xA9, firstByte + '\n', letters.b};
        QCOMPARE(tokenizer->encode("a\u00e9\nb", {}), wanted);
        QCOMPARE(tokenizer->decode(wanted, false), std::string("a\u00e9\nb"));
        QCOMPARE(tokenizer->bytes(letters.spaceA, false), std::string(" a"));
        QCOMPARE(tokenizer->bytes(firstByte + 0xC3, false), std::string("\xC3"));
    }

    void spacePrefixIsAKey()
    {
        Letters letters;
        letters.data.addSpacePrefix = false;
        letters.data.addBos = false;
        letters.data.addEos = true;
        const auto tokenizer = engine::makeTokenizer(letters.data);
        QCOMPARE(tokenizer->encode("ab", {true, false}), (Ids{letters.ab, 2}));
        QCOMPARE(tokenizer->decode({letters.spaceA}, false), std::string(" a"));
    }

    void controlTokensAreNeverMerged()
    {
        Letters letters;
        letters.add("<", -10);
        const int s = letters.add("s>", -1);
        letters.add("s", -10);
        letters.add(">", -10);
        letters.add("bb", 5, TokenKind::UserDefined);
        const auto tokenizer = engine::makeTokenizer(letters.data);
        const Ids plain = tokenizer->encode("<s>", {false, false});
        QVERIFY(std::find(plain.begin(), plain.end(), 1) == plain.end());
        QCOMPARE(plain.back(), s);
        QCOMPARE(tokenizer->encode("a<s>a", {false, true}), (Ids{letters.spaceA, 1, letters.spaceA}));
        // The space in front of a text goes; the one that each part got stays.
        QCOMPARE(tokenizer->decode({letters.spaceA, 1, letters.spaceA}, false), std::string("a<s> a"));
        QCOMPARE(tokenizer->decode({1, letters.spaceA}, true), std::string("a"));
        QCOMPARE(tokenizer->decode({1, letters.spaceA}, false), std::string("<s> a"));
    }

    /// Equal scores are one rank: the leftmost pair goes first. Without scores all are equal.
    void equalScoresGoLeftmost()
    {
        Letters letters;
        letters.data.scores.clear();
        letters.data.addSpacePrefix = false;
        const auto tokenizer = engine::makeTokenizer(letters.data);
        QCOMPARE(tokenizer->encode("abc", {}), (Ids{letters.ab, letters.c}));
        QCOMPARE(tokenizer->encode("cbc", {}), (Ids{letters.c, letters.bc}));
    }

    /// Short words, long ones and ones cut in between, on vocabularies made at random, some with equal scores.
    void scoresMergeAsThePlainRuleSays()
    {
        std::mt19937 random(5);
        for (unsigned round = 0; round < 40; ++round) {
            Vocabulary vocabulary;
            vocabulary.data.addSpacePrefix = false;
            std::vector<std::string> words{"a", "b", "c", mark};
            for (const std::string &word : words)
                vocabulary.add(word, -1000);
            for (int i = 0; i < 40; ++i) {
                const std::string word = words[random() % words.size()] + words[random() % words.size()];
                if (word.size() > 12 || std::find(words.begin(), words.end(), word) != words.end())
                    continue;
                words.push_back(word);
                vocabulary.add(word, static_cast<float>(random() % (round % 2 == 0 ? 5 : 100000)) - 3);
            }
            const auto tokenizer = engine::makeTokenizer(vocabulary.data);
            for (int i = 0; i < 50; ++i) {
                std::string text;
                std::vector<std::string> characters;
                for (unsigned length = random() % 80; length > 0; --length) {
                    text += "abc x"[random() % 5];
                    characters.push_back(text.back() == ' ' ? mark : std::string(1, text.back()));
                }
                const Ids ids = tokenizer->encode(text, {});
                QCOMPARE(ids, mergedPlainly(vocabulary.data, characters));
                QCOMPARE(tokenizer->decode(ids, false), text);
            }
        }
    }

    void streamEqualsDecode()
    {
        const Letters letters;
        std::mt19937 random(11);
        json file = {{"model", {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}}}};
        for (std::size_t id = 0; id < letters.data.tokens.size(); ++id)
            file["model"]["vocab"][letters.data.tokens[id]] = id;
        file["decoder"] = json::parse(R"({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})");
        const auto fromKeys = engine::makeTokenizer(letters.data);
        const auto fromFile = engine::makeTokenizer(file.dump(), {});
        for (int round = 0; round < 3000; ++round) {
            Ids ids(random() % 12);
            for (int &id : ids)
                id = static_cast<int>(random() % 2 == 0 ? random() % letters.data.tokens.size()
                                                        : firstByte + 0xC0 + random() % 0x40);
            for (const auto *tokenizer : {fromKeys.get(), fromFile.get()}) {
                engine::Detokenizer stream(*tokenizer, false);
                std::string streamed;
                for (const int id : ids)
                    streamed += stream.append(id);
                QCOMPARE(streamed + stream.flush(), tokenizer->decode(ids, false));
            }
        }
    }

    /// Text from keys comes at once, byte by byte; only half a character waits.
    void streamIsLive()
    {
        const Letters letters;
        const auto tokenizer = engine::makeTokenizer(letters.data);
        engine::Detokenizer stream(*tokenizer, false);
        QCOMPARE(stream.append(letters.spaceA), std::string("a"));
        QCOMPARE(stream.append(firstByte + '\n'), std::string("\n"));
        QCOMPARE(stream.append(firstByte + 0xC3), std::string());
        QCOMPARE(stream.append(firstByte + 0xA9), std::string("\u00e9"));
        QCOMPARE(stream.append(letters.spaceA), std::string(" a"));
    }

    void unknownsInAList_data()
    {
        QTest::addColumn<bool>("fuse");
        QTest::addColumn<bool>("bytes");
        QTest::addColumn<Ids>("ids");
        QTest::newRow("each") << false << false << Ids{0, 0, 1, 0};
        QTest::newRow("fused") << true << false << Ids{0, 1, 0};
        // x has its byte, z does not; the unknown waits until a known token or the end comes.
        QTest::newRow("bytes, some") << true << true << Ids{3, 0, 1, 0};
    }
    void unknownsInAList()
    {
        QFETCH(bool, fuse);
        QFETCH(bool, bytes);
        QFETCH(Ids, ids);
        json file = {{"decoder", {{"type", "Fuse"}}}};
        file["model"] = {{"type", "BPE"},
                         {"unk_token", "<unk>"},
                         {"fuse_unk", fuse},
                         {"byte_fallback", bytes},
                         {"vocab", {{"<unk>", 0}, {"a", 1}, {"aa", 2}, {"<0x78>", 3}}},
                         {"merges", {"a a"}}};
        QCOMPARE(engine::makeTokenizer(file.dump(), {})->encode("zxaz", {}), ids);
    }

    void unigramTakesTheBestSum()
    {
        const auto tokenizer = engine::makeTokenizer(
            unigramFile({{"<unk>", 0}, {"a", -3}, {"b", -3}, {"ab", -4}, {"abc", -9}, {"c", -1}, {"bc", -3.5}}).dump(),
            {});
        QCOMPARE(tokenizer->encode("ab", {}), (Ids{3}));
        QCOMPARE(tokenizer->encode("abc", {}), (Ids{3, 5}));  // -5, before a bc at -6.5 and abc at -9
        QCOMPARE(tokenizer->encode("xyab", {}), (Ids{0, 3})); // neighbouring unknowns are one
        QCOMPARE(tokenizer->decode({3, 5}, false), std::string("abc"));
    }

    void unigramFallsBackToBytes()
    {
        std::vector<std::pair<std::string, double>> vocabulary{{"<unk>", 0}, {"a", -1}};
        for (int byte = 0; byte < 256; ++byte)
            vocabulary.emplace_back(QString::asprintf("<0x%02X>", byte).toStdString(), -5);
        json file = unigramFile(vocabulary);
        file["model"]["byte_fallback"] = true;
        QCOMPARE(engine::makeTokenizer(file.dump(), {})->encode("a\u00e9", {}), (Ids{1, 2 + 0xC3, 2 + 0xA9}));
    }

    void unigramRefusals()
    {
        json file = unigramFile({{"<unk>", 0}, {"a", -1}});
        file["model"]["unk_id"] = 2;
        QVERIFY(refusal(file).contains(QStringLiteral("unk_id 2")));
        file["model"]["unk_id"] = 0;
        const json vocabulary = file["model"]["vocab"];
        for (const char *entry : {R"("a")", R"(["a"])", R"(["a", "b"])", R"([1, "a"])", R"(["a", 1, 2])", R"({})",
                                  R"([["a"], 1])", "3", "[]"}) {
            file["model"]["vocab"] = vocabulary;
            file["model"]["vocab"].push_back(json::parse(entry));
            QVERIFY2(refusal(file).contains(QStringLiteral("entry 2 must be a pair")), entry);
        }
        file["model"]["vocab"] = vocabulary;
        file["model"]["vocab"].push_back({std::string(2000, 'a'), -1});
        QVERIFY(refusal(file).contains(QStringLiteral("too long")));
        file["model"]["vocab"] = {{"a", 0}};
        QVERIFY(refusal(file).contains(QStringLiteral("must be a list")));
        file["model"]["vocab"] = json::array();
        QVERIFY(refusal(file).contains(QStringLiteral("empty")));
    }

    /// One word of a text without any place to cut: eight times the text takes about eight times as long.
    void longWordsTakeLinearTime()
    {
        Letters letters;
        std::string token = "a";
        for (int i = 0; i < 5; ++i)
            letters.add(token += token, static_cast<float>(i));
        std::vector<std::pair<std::string, double>> pieces{{"<unk>", 0}};
        for (std::size_t length = 1; length <= 16; ++length)
            pieces.emplace_back(std::string(length, 'a'), -1.0 / static_cast<double>(length));
        const auto merging = engine::makeTokenizer(letters.data);
        const auto unigram = engine::makeTokenizer(unigramFile(pieces).dump(), {});
        for (const auto *tokenizer : {merging.get(), unigram.get()}) {
            const auto seconds = [&](std::size_t bytes) {
                const std::string text(bytes, 'a');
                const std::clock_t start = std::clock();
                (void)tokenizer->encode(text, {});
                return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
            };
            const double small = std::max(seconds(50000), 0.004);
            QVERIFY2(seconds(400000) < small * 40, "time grows faster than the text");
        }
    }
};

QTEST_GUILESS_MAIN(TestTokenizerModels)
#include "tst_tokenizer_models.moc"
