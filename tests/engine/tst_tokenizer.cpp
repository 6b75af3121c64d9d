// SPDX-License-Identifier: GPL-3.0-or-later
// The rules of tokenizer files one by one, on vocabularies small enough to work out by hand.
#include "engine/text/pretokenizer_table.h"
#include "engine/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <QElapsedTimer>
#include <QTest>
#include <set>

#include <thread>

using nlohmann::json;
using Ids = std::vector<int>;

namespace {

/// Characters as tokens: a b c, space, merges ab, aa, aaaa.
json plainFile()
{
    return json::parse(R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, " ": 3, "ab": 4, "aa": 5, "aaaa": 6, "<s>": 7},
                  "merges": ["a b", "a a", "aa aa"]}})");
}

json addedToken(int id, const std::string &content)
{
    return {{"id", id},        {"content", content}, {"special", false},    {"normalized", false},
            {"lstrip", false}, {"rstrip", false},    {"single_word", false}};
}

std::unique_ptr<engine::Tokenizer> make(const json &file, const std::string &config = {})
{
    return engine::makeTokenizer(file.dump(), config);
}

Ids encode(const engine::Tokenizer &tokenizer, const std::string &text)
{
    return tokenizer.encode(text, {false, true});
}

engine::VocabularyData byteVocabulary()
{
    engine::VocabularyData data;
    data.model = "gpt2";
    data.pre = "smollm";
    data.tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    data.kinds.assign(3, engine::TokenKind::Control);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        data.tokens.push_back(QString(QChar(printable ? byte : next++)).toStdString());
    }
    data.tokens.insert(data.tokens.end(), {"he", "ll", "hell", "12"});
    data.merges = {"h e", "l l", "he ll", "1 2"};
    data.kinds.resize(data.tokens.size(), engine::TokenKind::Normal);
    data.bos = 1;
    data.eos = 2;
    return data;
}

constexpr int firstByte = 3;
constexpr int hell = firstByte + 256 + 2;

QString refusalOf(const std::function<void()> &action)
{
    try {
        action();
    } catch (const engine::Error &error) {
        return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what())
                                                          : QStringLiteral("other code");
    }
    return {};
}

} // namespace

class TestTokenizer : public QObject {
    Q_OBJECT

private slots:
    void mergesLowestRankLeftmostFirst()
    {
        const auto tokenizer = make(plainFile());
        QCOMPARE(encode(*tokenizer, "ab aab"), (Ids{4, 3, 0, 4}));
        QCOMPARE(encode(*tokenizer, "aaaaa"), (Ids{6, 0}));
        QCOMPARE(encode(*tokenizer, "aaa"), (Ids{5, 0}));
        QCOMPARE(encode(*tokenizer, ""), Ids{});
        QCOMPARE(encode(*tokenizer, "axb"), (Ids{4})); // no unk_token: x is left out, as the format's library does
        QCOMPARE(tokenizer->decode({4, 3, 0, 4}, false), std::string("ab aab"));
    }

    /// The merge over a heap and the one that looks again after each merge agree; both sides of the switch.
    void longWordsMergeAsShortOnes()
    {
        const auto tokenizer = make(plainFile());
        for (int length = 1; length < 80; ++length) {
            const int whole = length / 4;
            Ids wanted(static_cast<std::size_t>(whole), 6);
            if (length % 4 >= 2)
                wanted.push_back(5);
            if (length % 2 == 1)
                wanted.push_back(0);
            QCOMPARE(encode(*tokenizer, std::string(static_cast<std::size_t>(length), 'a')), wanted);
        }
    }

    void aWordOfAMegabyteIsQuick()
    {
        const auto tokenizer = make(plainFile());
        QElapsedTimer clock;
        clock.start();
        QCOMPARE(encode(*tokenizer, std::string(1U << 20U, 'a')).size(), std::size_t(1U << 18U));
        QVERIFY2(clock.elapsed() < 10000, qPrintable(QString::number(clock.elapsed()))); // quadratic: hours
    }

    void unknownCharacters()
    {
        json file = plainFile();
        file["model"]["unk_token"] = "<s>";
        QCOMPARE(encode(*make(file), "axyb"), (Ids{0, 7, 7, 1}));
        file["model"]["fuse_unk"] = true;
        QCOMPARE(encode(*make(file), "axyb"), (Ids{0, 7, 1}));
    }

    void ignoreMergesTakesWholeWords()
    {
        json file = plainFile();
        file["model"]["vocab"]["aba"] = 8;
        QCOMPARE(encode(*make(file), "aba"), (Ids{4, 0}));
        file["model"]["ignore_merges"] = true;
        QCOMPARE(encode(*make(file), "aba"), (Ids{8}));
    }

    void addedTokens_data()
    {
        QTest::addColumn<QString>("flags");
        QTest::addColumn<QString>("text");
        QTest::addColumn<Ids>("ids");
        QTest::newRow("plain") << "" << "a<x> a" << Ids{0, 8, 3, 0};
        QTest::newRow("lstrip") << "lstrip" << "a  <x> a" << Ids{0, 8, 3, 0};
        QTest::newRow("rstrip") << "rstrip" << "a <x>  a" << Ids{0, 3, 8, 0};
        QTest::newRow("single_word, none beside") << "single_word" << "a <x> a" << Ids{0, 3, 8, 3, 0};
        QTest::newRow("single_word, a letter before") << "single_word" << "a<x> a" << Ids{0, 3, 0};
        QTest::newRow("single_word, a letter behind") << "single_word" << "<x>a" << Ids{0};
        QTest::newRow("longest") << "" << "<x><x>y<x>" << Ids{9, 8};
    }
    void addedTokens()
    {
        QFETCH(QString, flags);
        QFETCH(QString, text);
        QFETCH(Ids, ids);
        json file = plainFile();
        file["added_tokens"] = {addedToken(8, "<x>"), addedToken(9, "<x><x>y")};
        if (!flags.isEmpty())
            file["added_tokens"][0][flags.toStdString()] = true;
        QCOMPARE(encode(*make(file), text.toStdString()), ids);
    }

    void specialTokensAreReadOnlyWhenAsked()
    {
        json file = plainFile();
        file["added_tokens"] = {addedToken(8, "ca"), addedToken(9, "bb")};
        file["added_tokens"][0]["special"] = true;
        const auto tokenizer = make(file);
        QCOMPARE(tokenizer->encode("cabb", {false, true}), (Ids{8, 9}));
        QCOMPARE(tokenizer->encode("cabb", {false, false}), (Ids{2, 0, 9}));
        QVERIFY(tokenizer->isControl(8) && !tokenizer->isControl(9));
        QCOMPARE(tokenizer->decode({8, 9, 0}, true), std::string("bba"));
        QCOMPARE(tokenizer->decode({8, 9, 0}, false), std::string("cabba"));
    }

    void normalizedTokensMatchAfterNfc()
    {
        json file = plainFile();
        file["normalizer"] = {{"type", "NFC"}};
        file["model"]["vocab"]["é"] = 8;
        file["added_tokens"] = {addedToken(9, "bé"), addedToken(10, "cé")};
        file["added_tokens"][1]["normalized"] = true;
        const auto tokenizer = make(file);
        QCOMPARE(encode(*tokenizer, "ae\u0301"), (Ids{0, 8}));
        QCOMPARE(encode(*tokenizer, "be\u0301"), (Ids{1, 8})); // searched before normalization
        QCOMPARE(encode(*tokenizer, "ce\u0301"), (Ids{10}));
    }

    void postProcessorAndEnds()
    {
        json file = plainFile();
        file["added_tokens"] = {addedToken(7, "<s>"), addedToken(8, "</s>"), addedToken(9, "<|im_end|>")};
        for (json &token : file["added_tokens"])
            token["special"] = true;
        file["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "</s>"}}],
            "special_tokens": {"<s>": {"ids": [7]}, "</s>": {"ids": [8]}}})");
        const auto tokenizer = make(file, R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
        QCOMPARE(tokenizer->encode("ab", {true, false}), (Ids{7, 4, 8}));
        QCOMPARE(tokenizer->encode("ab", {false, false}), (Ids{4}));
        QCOMPARE(tokenizer->bos().value(), 7);
        QCOMPARE(tokenizer->eos().value(), 8);
        QVERIFY(tokenizer->addsBos());
        QVERIFY(tokenizer->isEndOfGeneration(8) && tokenizer->isEndOfGeneration(9) && !tokenizer->isEndOfGeneration(7));
    }

    void splitBehaviors_data()
    {
        QTest::addColumn<QString>("behavior");
        QTest::addColumn<bool>("invert");
        QTest::addColumn<Ids>("ids");
        // Words of "a c a" cut at spaces; a token stands for each way to join them.
        QTest::newRow("isolated") << "Isolated" << false << Ids{0, 3, 2, 3, 0};
        QTest::newRow("removed") << "Removed" << false << Ids{0, 2, 0};
        QTest::newRow("removed, inverted") << "Removed" << true << Ids{3, 3};
        QTest::newRow("with the previous") << "MergedWithPrevious" << false << Ids{8, 9, 0};
        QTest::newRow("with the next") << "MergedWithNext" << false << Ids{0, 10, 11};
    }
    void splitBehaviors()
    {
        QFETCH(QString, behavior);
        QFETCH(bool, invert);
        QFETCH(Ids, ids);
        json file = plainFile();
        file["model"]["vocab"].update({{"a ", 8}, {"c ", 9}, {" c", 10}, {" a", 11}});
        file["model"]["ignore_merges"] = true;
        file["pre_tokenizer"] = {{"type", "Split"},
                                 {"pattern", {{"String", " "}}},
                                 {"behavior", behavior.toStdString()},
                                 {"invert", invert}};
        QCOMPARE(encode(*make(file), "a c a"), ids);
    }

    void prefixSpaceStandsBeforeEveryWord()
    {
        json file = plainFile();
        file["model"]["vocab"]["Ġ"] = 8;
        file["decoder"] = {{"type", "ByteLevel"}};
        file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", true}};
        const auto tokenizer = make(file);
        QCOMPARE(encode(*tokenizer, "ab"), (Ids{8, 4}));
        QCOMPARE(encode(*tokenizer, " ab"), (Ids{8, 4}));
        QCOMPARE(tokenizer->decode({8, 4}, false), std::string(" ab"));
    }

    /// U+180E is no white space and U+3000 is, whatever the regular-expression library thinks.
    void whiteSpaceIsUnicodes()
    {
        json file = plainFile();
        file["model"]["vocab"].update({{"\u180E", 8}, {"\u3000", 9}});
        file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "\\s"}}}, {"behavior", "Removed"}};
        QCOMPARE(encode(*make(file), "a\u180Eb\u3000c d"), (Ids{0, 8, 1, 2}));
    }

    /// U+11F04 and U+1FA77 came with Unicode 15, after the library's tables: a letter and a symbol.
    void newerCharactersHaveTheirProperties()
    {
        json file = plainFile();
        file["model"]["vocab"].update({{"\U00011F04", 8}, {"\U0001FA77", 9}});
        file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "[^\\p{L}]"}}}, {"behavior", "Removed"}};
        QCOMPARE(encode(*make(file), "a\U00011F04\U0001FA77b"), (Ids{0, 8, 1}));
        file["pre_tokenizer"]["pattern"]["Regex"] = "\\P{S}";
        QCOMPARE(encode(*make(file), "a\U00011F04\U0001FA77b"), (Ids{9}));
    }

    void aCostlyPatternEnds()
    {
        json file = plainFile();
        file["pre_tokenizer"] = {
            {"type", "Split"}, {"pattern", {{"Regex", "(?:a|aa|(?:aaa)+)+c"}}}, {"behavior", "Isolated"}};
        const auto tokenizer = make(file);
        QElapsedTimer clock;
        clock.start();
        QVERIFY(!encode(*tokenizer, std::string(5000, 'a') + "b").empty());
        QVERIFY2(clock.elapsed() < 5000, qPrintable(QString::number(clock.elapsed())));
        // Searches that succeed, each after almost as many steps as one may take.
        file["pre_tokenizer"]["pattern"]["Regex"] = "(?:(?=(?:a|aa){1,16}c)|)a";
        clock.start();
        // One token per letter if it had been let run (minutes), a quarter of that for the part behind the stop.
        const std::size_t found = encode(*make(file), std::string(200000, 'a')).size();
        QVERIFY2(found >= 50000 && found < 190000, qPrintable(QString::number(found)));
        QVERIFY2(clock.elapsed() < 20000, qPrintable(QString::number(clock.elapsed())));
    }

    void bytesThatAreNoUtf8AreReplaced()
    {
        const auto tokenizer = engine::makeTokenizer(byteVocabulary());
        QCOMPARE(tokenizer->decode(tokenizer->encode("a\xFFz", {}), false), std::string("a\uFFFDz"));
    }

    void ggufVocabulary()
    {
        const auto tokenizer = engine::makeTokenizer(byteVocabulary());
        QCOMPARE(tokenizer->encode("hello", {}), (Ids{hell, firstByte + 'o'}));
        // smollm isolates digits, so that "1 2" never merges.
        QCOMPARE(tokenizer->encode("12", {}), (Ids{firstByte + '1', firstByte + '2'}));
        QCOMPARE(tokenizer->encode("<|im_end|>", {false, true}), (Ids{2}));
        QCOMPARE(tokenizer->encode("<|im_end|>", {false, false}).size(), std::size_t(10));
        QCOMPARE(tokenizer->encode("o", {true, false}), (Ids{firstByte + 'o'}));
        QVERIFY(!tokenizer->addsBos() && tokenizer->isEndOfGeneration(2) && tokenizer->isEndOfGeneration(0));
        QVERIFY(!tokenizer->isEndOfGeneration(1));
        QCOMPARE(tokenizer->find("hell").value(), hell);
        QVERIFY(!tokenizer->find("nothing"));
        QCOMPARE(tokenizer->vocabSize(), firstByte + 256 + 4);
        QCOMPARE(tokenizer->piece(firstByte + ' '), std::string("Ġ"));
    }

    void ggufAddsBosAndEosAsItsKeysSay()
    {
        engine::VocabularyData data = byteVocabulary();
        data.addBos = true;
        data.addEos = true;
        const auto tokenizer = engine::makeTokenizer(data);
        QCOMPARE(tokenizer->encode("o", {true, false}), (Ids{1, firstByte + 'o', 2}));
        QVERIFY(tokenizer->addsBos());
        data.addBos.reset();
        data.pre = "llama-bpe"; // adds it unless told otherwise
        QVERIFY(engine::makeTokenizer(data)->addsBos());
    }

    void everyNameOfThePreTableCompiles()
    {
        std::vector<std::string_view> names;
        for (const engine::PreTokenizerRow &row : engine::preTokenizerTable())
            names.insert(names.end(), row.names.begin(), row.names.end());
        QVERIFY(names.size() > 70 && std::set(names.begin(), names.end()).size() == names.size());
        for (const std::string_view pre : names) {
            engine::VocabularyData data = byteVocabulary();
            data.pre = pre;
            const auto tokenizer = engine::makeTokenizer(data);
            const std::string text = "Hello, it's 2024!\n\n  \u00e9t\u00e9 \u4f60\u597d \u0e44\u0e17\u0e22 100000";
            QVERIFY2(tokenizer->decode(tokenizer->encode(text, {}), false) == text, std::string(pre).c_str());
        }
    }

    void refusals()
    {
        const auto refused = [](const std::function<void(engine::VocabularyData &)> &change) {
            engine::VocabularyData data = byteVocabulary();
            change(data);
            return refusalOf([&] { (void)engine::makeTokenizer(data); });
        };
        QVERIFY(refused([](auto &data) { data.pre = "no-such-split"; }).contains(QStringLiteral("no-such-split")));
        QVERIFY(refused([](auto &data) { data.model = "bert"; }).contains(QStringLiteral("WordPiece")));
        QVERIFY(refused([](auto &data) { data.kinds.pop_back(); }).contains(QStringLiteral("token_type")));
        QVERIFY(refused([](auto &data) { data.scores = {1}; }).contains(QStringLiteral("scores")));
        QVERIFY(refused([](auto &data) { data.bos = 100000; }).contains(QStringLiteral("bos_token_id 100000")));
        QVERIFY(refused([](auto &data) { data.eos = -1; }).contains(QStringLiteral("eos_token_id -1")));
        QVERIFY(refused([](auto &data) { data.merges[1] = "nospace"; }).contains(QStringLiteral("merges[1]")));
        QVERIFY(refused([](auto &data) { data.merges[2] = "h o"; }).contains(QStringLiteral("\"ho\"")));
        QVERIFY(refused([](auto &data) { data = {}; }).contains(QStringLiteral("empty")));
        const auto tokenizer = engine::makeTokenizer(byteVocabulary());
        for (const int id : {-1, tokenizer->vocabSize()}) {
            QVERIFY(refusalOf([&] { (void)tokenizer->decode({id}, false); }).contains(QString::number(id)));
            QVERIFY(refusalOf([&] { (void)tokenizer->piece(id); }).contains(QString::number(id)));
        }
    }

    void manyThreadsShareOne()
    {
        const auto tokenizer = engine::makeTokenizer(byteVocabulary());
        std::string text;
        for (int i = 0; i < 200; ++i)
            text += "hello 12 hell" + std::to_string(i) + " \u4f60\n";
        const Ids wanted = engine::makeTokenizer(byteVocabulary())->encode(text, {});
        std::vector<int> equal(4, 0);
        {
            std::vector<std::jthread> threads;
            for (int &result : equal)
                threads.emplace_back([&] { result = tokenizer->encode(text, {}) == wanted ? 1 : 0; });
        }
        QCOMPARE(equal, std::vector<int>(4, 1));
    }
};

QTEST_GUILESS_MAIN(TestTokenizer)
#include "tst_tokenizer.moc"
