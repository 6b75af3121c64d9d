// SPDX-License-Identifier: GPL-3.0-or-later
// Each step of a tokenizer.json by itself. A vocabulary of single characters shows what a text became: without bytes or
// unknowns to fall back on, tokens joined are the text that reached the model. Expected results are those of the
// `tokenizers` library, 0.23.3.
#include "engine/api/error.h"
#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"

#include <nlohmann/json.hpp>

#include <QElapsedTimer>
#include <QTest>

using nlohmann::json;

namespace {

/// Every character of `text` is a token.
json characterFile(const QString &text)
{
    json file = {{"model", {{"type", "BPE"}, {"vocab", json::object()}, {"merges", json::array()}}},
                 {"decoder", {{"type", "Fuse"}}}};
    json &vocab = file["model"]["vocab"];
    for (const char32_t code : text.toStdU32String()) {
        const std::string spelling = QString::fromUcs4(&code, 1).toStdString();
        if (!vocab.contains(spelling))
            vocab[spelling] = static_cast<int>(vocab.size());
    }
    return file;
}

std::unique_ptr<engine::Tokenizer> make(const json &file)
{
    return engine::makeTokenizer(file.dump(), {});
}

QString refusal(const json &file)
{
    try {
        (void)make(file);
    } catch (const engine::Error &error) {
        return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what()) : QString();
    }
    return {};
}

QByteArray stepJson(const char *text)
{
    return text;
}

} // namespace

class TestTokenizerSteps : public QObject {
    Q_OBJECT

private slots:
    void normalizers_data()
    {
        QTest::addColumn<QByteArray>("step");
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("result");
        const auto row = [](const char *name, const char *step, const char16_t *text, const char16_t *result) {
            QTest::newRow(name) << stepJson(step) << QString::fromUtf16(text) << QString::fromUtf16(result);
        };
        row("NFC", R"({"type": "NFC"})", u"e\u0301 \ufb01 \u1112\u1161\u11ab", u"\u00e9 \ufb01 \ud55c");
        // Marks that came after Unicode 9 move past no other, and nothing combines across them.
        row("NFC newer marks", R"({"type": "NFC"})", u"e\u1abf\u0301 \u0ccd\u0c3c \U00010f4c\U00010f4d e\u0316\u0301",
            u"e\u1abf\u0301 \u0ccd\u0c3c \U00010f4c\U00010f4d \u00e9\u0316");
        row("NFC newer letters", R"({"type": "NFC"})", u"\U00011935\U00011930 \U00011938",
            u"\U00011935\U00011930 \U00011938");
        row("NFKC newer letters", R"({"type": "NFKC"})", u"\u32ff\ua7f2", u"\u32ff\ua7f2");
        row("NFD", R"({"type": "NFD"})", u"\u00e9\ud55c", u"e\u0301\u1112\u1161\u11ab");
        row("NFD orders marks", R"({"type": "NFD"})", u"a\u0301\u0323\u0316", u"a\u0323\u0316\u0301");
        row("NFKC", R"({"type": "NFKC"})", u"\ufb01\u2460\uff76\uff9e", u"fi1\u30ac");
        row("NFKD", R"({"type": "NFKD"})", u"\ufb01\u1e9b\u0323", u"fis\u0323\u0307");
        row("Lowercase", R"({"type": "Lowercase"})", u"A\u0130\u03a3\u00c4z", u"ai\u0307\u03c3\u00e4z");
        row("StripAccents", R"({"type": "StripAccents"})", u"e\u0301\u00e9a", u"e\u00e9a");
        row("StripAccents, older Unicode", R"({"type": "StripAccents"})", u"a\u0301\u0816\u1abf", u"a\u1abf");
        row("Lowercase, newer", R"({"type": "Lowercase"})", u"\ua7dc\U00016ea0", u"\u019b\U00016ebb");
        row("Nmt", R"({"type": "Nmt"})", u"a\u0001\u200b\u2581b", u"a  b");
        row("BertNormalizer", R"({"type": "BertNormalizer"})", u"\u00c9\u4e2d\ufffd\u3000\u00adX", u"e \u4e2d  x");
        row("BertNormalizer, parts", R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false,
            "strip_accents": null, "lowercase": false})",
            u"\u00c9\u4e2d\u3000", u"\u00c9\u4e2d\u3000");
        row("ByteLevel", R"({"type": "ByteLevel"})", u"a \u00e9", u"a\u0120\u00c3\u00a9");
        row("Strip", R"({"type": "Strip", "strip_left": true, "strip_right": true})", u" \u3000a b\n", u"a b");
        row("Strip left", R"({"type": "Strip", "strip_left": true, "strip_right": false})", u" a ", u"a ");
        row("Strip all", R"({"type": "Strip", "strip_left": true, "strip_right": true})", u" \n", u"");
        row("Prepend", R"({"type": "Prepend", "prepend": "_"})", u"a", u"_a");
        row("Prepend nothing to nothing", R"({"type": "Prepend", "prepend": "_"})", u"", u"");
        row("Replace text", R"({"type": "Replace", "pattern": {"String": "."}, "content": "--"})", u".a..", u"--a----");
        row("Replace pattern", R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "_"})", u"a  b c   ",
            u"a_b c_");
        row("Sequence", R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"},
            {"type": "Lowercase"}]})",
            u"\u00c9t\u00e9", u"ete");
    }
    void normalizers()
    {
        QFETCH(QByteArray, step);
        QFETCH(QString, text);
        QFETCH(QString, result);
        json file = characterFile(text + result + QStringLiteral("a"));
        file["normalizer"] = json::parse(step.toStdString());
        const auto tokenizer = make(file);
        const QString found =
            QString::fromStdString(tokenizer->decode(tokenizer->encode(text.toStdString(), {}), false));
        QCOMPARE(found, result);
    }

    /// A map of two entries, a -> "xy" and e-with-mark (two characters) -> "E", as SentencePiece lays it out.
    void characterMap()
    {
        json file = characterFile(QStringLiteral("abxyEe\u0301"));
        file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", charsMap()}};
        const auto tokenizer = make(file);
        const auto found = [&](const char *text) { return tokenizer->decode(tokenizer->encode(text, {}), false); };
        QCOMPARE(found("bab"), std::string("bxyb"));
        QCOMPARE(found("ae\u0301e"), std::string("xyEe"));
        QCOMPARE(found("a\u0301"), std::string("xy")); // a short cluster is looked up by its beginning
        for (const char *broken : {"!", "AAA", "/////w==", "BAAAAAAA", "BAAAAAAAAAD/"}) {
            file["normalizer"]["precompiled_charsmap"] = broken;
            QVERIFY2(refusal(file).contains(QStringLiteral("precompiled_charsmap")), broken);
        }
    }

    void longRunsOfMarksAreSorted()
    {
        std::string text = "a";
        std::string wanted = "a";
        for (int i = 0; i < 60000; ++i)
            text += i % 2 == 0 ? "\u0301" : "\u0316";
        for (int i = 0; i < 60000; ++i)
            wanted += i < 30000 ? "\u0316" : "\u0301";
        json file = characterFile(QStringLiteral("a\u0301\u0316"));
        file["normalizer"] = {{"type", "NFD"}};
        const auto tokenizer = make(file);
        QElapsedTimer clock;
        clock.start();
        QVERIFY(tokenizer->decode(tokenizer->encode(text, {}), false) == wanted);
        QVERIFY2(clock.elapsed() < 2000, qPrintable(QString::number(clock.elapsed())));
    }

    void growthIsBounded()
    {
        json file = characterFile(QStringLiteral("a"));
        json steps = json::array();
        for (int i = 0; i < 6; ++i)
            steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(100, 'a')}});
        file["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
        const auto tokenizer = make(file);
        try {
            (void)tokenizer->encode("a", {});
            QFAIL("a text grew without measure");
        } catch (const engine::Error &error) {
            QVERIFY(QString::fromUtf8(error.what()).contains(QStringLiteral("normalizer")));
        }
        QVERIFY(tokenizer->encode("", {}).empty());
    }

    /// Words are shown by brackets: a merge of ignore_merges makes a word that is a token be that token.
    void preTokenizers_data()
    {
        QTest::addColumn<QByteArray>("step");
        QTest::addColumn<QString>("text");
        QTest::addColumn<QStringList>("words");
        const auto row = [](const char *name, const char *step, const char *text, const QStringList &words) {
            QTest::newRow(name) << stepJson(step) << QString::fromUtf8(text) << words;
        };
        const char *const metaspace =
            R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "%1", "split": %2})";
        const auto meta = [&](const char *scheme, const char *split) {
            return QString::fromLatin1(metaspace).arg(QLatin1String(scheme), QLatin1String(split)).toUtf8();
        };
        QTest::newRow("Metaspace") << meta("always", "true") << "a  b " << QStringList{"_a", "_", "_b", "_"};
        QTest::newRow("Metaspace, has one") << meta("always", "true") << " a" << QStringList{"_a"};
        QTest::newRow("Metaspace, never") << meta("never", "true") << "a b" << QStringList{"a", "_b"};
        QTest::newRow("Metaspace, whole") << meta("first", "false") << "a b" << QStringList{"_a_b"};
        row("Metaspace, old key", R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})", "a",
            {"a"});
        row("Whitespace", R"({"type": "Whitespace"})", "ab  c_1,.\u00e9", {"ab", "c_1", ",.", "\u00e9"});
        row("WhitespaceSplit", R"({"type": "WhitespaceSplit"})", " ab,\n\u3000c ", {"ab,", "c"});
        row("Punctuation", R"({"type": "Punctuation"})", "a,.b", {"a", ",", ".", "b"});
        row("Punctuation, contiguous", R"({"type": "Punctuation", "behavior": "Contiguous"})", "a,.b",
            {"a", ",.", "b"});
        row("Digits", R"({"type": "Digits", "individual_digits": false})", "a12b", {"a", "12", "b"});
        row("Digits, one by one", R"({"type": "Digits", "individual_digits": true})", "a12", {"a", "1", "2"});
        row("BertPreTokenizer", R"({"type": "BertPreTokenizer"})", "a, b", {"a", ",", "b"});
        row("Split, contiguous",
            R"({"type": "Split", "pattern": {"Regex": "[,;]"}, "behavior": "Contiguous", "invert": false})", "a,;b",
            {"a", ",;", "b"});
        row("Sequence", R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]})",
            "a b", {"_a", "b"});
        row("CharDelimiterSplit", R"({"type": "CharDelimiterSplit", "delimiter": "\u00e9"})", "a\u00e9\u00e9b",
            {"a", "b"});
        row("FixedLength", R"({"type": "FixedLength", "length": 2})", "a\u00e9bcd", {"a\u00e9", "bc", "d"});
        // Punctuation of a later Unicode is none here; \u24b6 is a letter, \u00b2 no part of a word.
        row("Punctuation, newer", R"({"type": "Punctuation"})", "a\u2e4fb\u00b7c", {"a\u2e4fb", "\u00b7", "c"});
        row("Whitespace, letters", R"({"type": "Whitespace"})", "a\u24b6 x\u00b2", {"a\u24b6", "x", "\u00b2"});
        row("Split, empty matches stand between",
            R"({"type": "Split", "pattern": {"Regex": "\\b"}, "behavior": "MergedWithPrevious", "invert": true})",
            "ab, c", {"ab", ", ", "c"});
        row("Sequence, first word removed", R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}]})",
            " a", {"a"});
    }
    void preTokenizers()
    {
        QFETCH(QByteArray, step);
        QFETCH(QString, text);
        QFETCH(QStringList, words);
        json file = characterFile(text + words.join(QString()));
        json &vocab = file["model"]["vocab"];
        for (const QString &word : words) {
            if (!vocab.contains(word.toStdString()))
                vocab[word.toStdString()] = static_cast<int>(vocab.size());
        }
        file["model"]["ignore_merges"] = true;
        file["pre_tokenizer"] = json::parse(step.toStdString());
        const auto tokenizer = make(file);
        QStringList found;
        for (const int id : tokenizer->encode(text.toStdString(), {}))
            found.append(QString::fromStdString(tokenizer->piece(id)));
        QCOMPARE(found, words);
    }

    /// Only the very first word of a text counts as first, not one behind an added token.
    void metaspaceFirstIsTheTextsFirst()
    {
        json file = characterFile(QStringLiteral("ab_"));
        file["added_tokens"] = {{{"id", 3}, {"content", "<x>"}, {"special", false}}};
        file["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}};
        const auto tokenizer = make(file);
        QCOMPARE(tokenizer->encode("a<x>b", {}), (std::vector<int>{2, 0, 3, 1}));
        QCOMPARE(tokenizer->encode("<x>b", {}), (std::vector<int>{3, 1}));
    }

    /// What stands behind a token that takes white space along is searched in that white space, too.
    void tokensInStrippedSpace()
    {
        json file = characterFile(QStringLiteral("ab \n"));
        file["added_tokens"] = {{{"id", 4}, {"content", "<x>"}, {"special", false}, {"rstrip", true}},
                                {{"id", 3}, {"content", "\n"}, {"special", false}},
                                {{"id", 9}, {"content", "<y>"}, {"special", false}, {"lstrip", true}}};
        const auto tokenizer = make(file);
        QCOMPARE(tokenizer->encode("<x> \n a", {}), (std::vector<int>{4, 3, 2, 0}));
        QCOMPARE(tokenizer->encode("a <y><x> <y>", {}),
                 (std::vector<int>{0, 5, 4, 5})); // numbered by place, not as said
        // Each run of white space is walked once.
        QElapsedTimer clock;
        clock.start();
        std::string spaces = "<x>";
        for (int i = 0; i < 100000; ++i)
            spaces += "\n";
        QCOMPARE(tokenizer->encode(spaces, {}).size(), 100001U);
        QVERIFY2(clock.elapsed() < 2000, qPrintable(QString::number(clock.elapsed())));
    }

    /// A character that is a token only because it was added is none of the model's.
    void addedCharactersAreNoSymbols()
    {
        json file = characterFile(QStringLiteral("ab"));
        file["model"]["unk_token"] = "b";
        file["added_tokens"] = {{{"id", 2}, {"content", "\u00e9"}, {"special", true}}};
        const auto tokenizer = make(file);
        QCOMPARE(tokenizer->encode("a\u00e9", {}), (std::vector<int>{0, 1}));
        QCOMPARE(tokenizer->encode("a\u00e9", {false, true}), (std::vector<int>{0, 2}));
    }

    void unknownTextWithoutATokenIsRefused_data()
    {
        QTest::addColumn<QByteArray>("model");
        QTest::newRow("BPE") << stepJson(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "u"})");
        QTest::newRow("Unigram") << stepJson(R"({"type": "Unigram", "vocab": [["a", -1.5]], "unk_id": null})");
        QTest::newRow("WordLevel") << stepJson(R"({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "u"})");
        QTest::newRow("WordPiece") << stepJson(R"({"type": "WordPiece", "vocab": {"a": 0}, "unk_token": "u",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 9})");
    }
    void unknownTextWithoutATokenIsRefused()
    {
        QFETCH(QByteArray, model);
        const auto tokenizer = make({{"model", json::parse(model.toStdString())}});
        QCOMPARE(tokenizer->encode("a", {}), (std::vector<int>{0}));
        try {
            (void)tokenizer->encode("x", {});
            QFAIL("unknown text was encoded");
        } catch (const engine::Error &error) {
            QVERIFY(QString::fromUtf8(error.what()).contains(QStringLiteral("\"x\" is not in the vocabulary")));
        }
    }

    void decoders_data()
    {
        QTest::addColumn<QByteArray>("step");
        QTest::addColumn<QStringList>("tokens");
        QTest::addColumn<QString>("text");
        const auto row = [](const char *name, const char *step, const QStringList &tokens, const char *text) {
            QTest::newRow(name) << stepJson(step) << tokens << QString::fromUtf8(text);
        };
        const char *const bytes = R"({"type": "ByteFallback"})";
        row("bytes joined", bytes, {"a", "<0xC3>", "<0xA9>", "b"}, "a\u00e9b");
        row("bytes that are no text, each by itself", bytes, {"<0x41>", "<0xC3>", "b"}, "\ufffd\ufffdb");
        row("bytes cut by the end", bytes, {"<0xE2>", "<0x82>"}, "\ufffd\ufffd");
        row("no byte", bytes, {"<0xZZ>", "<0x1>"}, "<0xZZ><0x1>");
        row("Replace", R"({"type": "Replace", "pattern": {"String": "_"}, "content": " "})", {"_a", "b_"}, " ab ");
        row("Strip each", R"({"type": "Strip", "content": "_", "start": 1, "stop": 1})", {"__a", "b_"}, "_ab");
        row("Strip whole", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Strip", "content": "_", "start": 1, "stop": 1}]})",
            {"__a", "b_", "_"}, "_ab_");
        row("Strip whole across tokens", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Strip", "content": "_", "start": 3, "stop": 2}]})",
            {"_", "_", "_a", "_", "b", "_", "__"}, "a_b_");
        row("Metaspace", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"})", {"__a", "_b", "c"},
            "a bc");
        row("Metaspace, never", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"})", {"_a"},
            " a");
        row("WordPiece", R"({"type": "WordPiece", "prefix": "##", "cleanup": true})", {"##a", "b", "##c", "!"},
            "##a bc!");
        row("BPEDecoder", R"({"type": "BPEDecoder", "suffix": "</w>"})", {"a</w>", "b", "c</w>"}, "a bc");
        row("CTC", R"({"type": "CTC", "pad_token": "_", "word_delimiter_token": "|", "cleanup": true})",
            {"a", "a", "_", "a", "|", "b"}, "aa b");
        row("no decoder", "null", {"a", "b"}, "a b");
        row("Replace behind Fuse", R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
            {"type": "Replace", "pattern": {"String": "ab"}, "content": "x"}]})",
            {"a", "b", "a"}, "xa");
        row("SentencePiece", R"({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "_"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
            {"_a", "<0x20>", "_b"}, "a  b");
    }
    void decoders()
    {
        QFETCH(QByteArray, step);
        QFETCH(QStringList, tokens);
        QFETCH(QString, text);
        json file = characterFile(QStringLiteral("a"));
        json &vocab = file["model"]["vocab"];
        std::vector<int> ids;
        for (const QString &token : tokens) {
            if (!vocab.contains(token.toStdString()))
                vocab[token.toStdString()] = static_cast<int>(vocab.size());
            ids.push_back(vocab[token.toStdString()].get<int>());
        }
        file["decoder"] = json::parse(step.toStdString());
        const auto tokenizer = make(file);
        QCOMPARE(QString::fromStdString(tokenizer->decode(ids, false)), text);
        engine::Detokenizer stream(*tokenizer, false);
        for (int round = 0; round < 2; ++round) { // flush begins anew
            std::string streamed;
            for (const int id : ids)
                streamed += stream.append(id);
            QCOMPARE(QString::fromStdString(streamed + stream.flush()), text);
        }
    }

    void refusals_data()
    {
        QTest::addColumn<QString>("place");
        QTest::addColumn<QByteArray>("step");
        QTest::addColumn<QString>("words");
        const auto row = [](const char *place, const char *step, const char *words) {
            QTest::newRow(words) << QString::fromLatin1(place) << stepJson(step) << QString::fromLatin1(words);
        };
        row("normalizer", R"({"type": "Nonesuch"})", "normalizer \"Nonesuch\"");
        row("normalizer", R"({"type": "Prepend"})", "normalizer.prepend is missing");
        row("normalizer", R"({"type": "Replace", "pattern": "a", "content": ""})", "normalizer.pattern");
        row("pre_tokenizer", R"({"type": "Metaspace", "replacement": "ab"})", "pre_tokenizer.replacement");
        row("pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "x"})",
            "pre_tokenizer.prepend_scheme");
        row("decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})", "decoder.start");
        row("decoder", R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})", "decoder.content");
        row("decoder", R"({"type": "Nonesuch"})", "decoder \"Nonesuch\"");
        row("pre_tokenizer", "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(?s).\"}}",
            "option s");
        row("pre_tokenizer", "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"[a[b]\"}}",
            "missing terminating ]");
        row("model", "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}",
            "model.dropout 0.1");
        row("model", "{\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}, \"unk_token\": \"a\"}",
            "continuing_subword_prefix");
        row("model", "{\"type\": \"WordLevel\", \"vocab\": {\"a\": 0}}", "model.unk_token is missing");
    }
    void refusals()
    {
        QFETCH(QString, place);
        QFETCH(QByteArray, step);
        QFETCH(QString, words);
        json file = characterFile(QStringLiteral("a"));
        file[place.toStdString()] = json::parse(step.toStdString());
        QVERIFY2(refusal(file).contains(words), qPrintable(refusal(file)));
    }

private:
    /// The double array: the root's children lie at offset 0x100, the leaf of a node at its own offset.
    static std::string charsMap()
    {
        QByteArray units(4 * 0x400, '\0');
        const auto put = [&](int at, quint32 offset, quint32 label, bool leaf) {
            const quint32 unit = offset << 10U | (leaf ? 1U << 8U : 0U) | label;
            for (int i = 0; i < 4; ++i)
                units[at * 4 + i] = static_cast<char>(unit >> 8U * static_cast<unsigned>(i) & 0xFFU);
        };
        const auto value = [&](int at, int text) {
            units[at * 4] = static_cast<char>(text);
            units[at * 4 + 3] = static_cast<char>(0x80);
        };
        // A node's offset is relative: the next place is its own, xor the offset, xor the byte.
        put(0, 0x100, 0, false);
        put(0x100 ^ 'a', 0x80, 'a', true);
        value(0x100 ^ 'a' ^ 0x80, 0); // "xy"
        put(0x100 ^ 'e', 0x200, 'e', false);
        const int mark = 0x100 ^ 'e' ^ 0x200 ^ 0xCC;
        put(mark, 0x10, 0xCC, false);
        const int end = mark ^ 0x10 ^ 0x81;
        put(end, 0x20, 0x81, true);
        value(end ^ 0x20, 3); // "E"
        const QByteArray size = QByteArray::fromHex("00100000");
        return (size + units + QByteArray("xy\0E\0", 5)).toBase64().toStdString();
    }
};

QTEST_GUILESS_MAIN(TestTokenizerSteps)
#include "tst_tokenizer_steps.moc"
