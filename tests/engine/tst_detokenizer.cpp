// SPDX-License-Identifier: GPL-3.0-or-later
// Text that comes token by token equals the text of all tokens at once, and never holds half a character.
#include "engine/text/detokenizer.h"

#include <QString>
#include <QTest>

#include <random>

namespace {

/// A byte-level vocabulary of the 256 bytes, one whole word and one control token.
std::unique_ptr<engine::Tokenizer> byteTokenizer()
{
    engine::VocabularyData data;
    data.model = "gpt2";
    data.pre = "gpt-2";
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        data.tokens.push_back(QString(QChar(printable ? byte : next++)).toStdString());
    }
    data.tokens.insert(data.tokens.end(), {"word", "<|end|>"});
    data.kinds.assign(data.tokens.size(), engine::TokenKind::Normal);
    data.kinds.back() = engine::TokenKind::Control;
    return engine::makeTokenizer(data);
}

constexpr int word = 256;
constexpr int control = 257;

std::vector<int> bytesOf(const std::string &text)
{
    std::vector<int> ids;
    for (const char byte : text)
        ids.push_back(static_cast<unsigned char>(byte));
    return ids;
}

bool isUtf8(const std::string &text)
{
    return QString::fromStdString(text).toStdString() == text;
}

} // namespace

class TestDetokenizer : public QObject {
    Q_OBJECT

private slots:
    void holdsBackUnfinishedCharacters()
    {
        const auto tokenizer = byteTokenizer();
        engine::Detokenizer detokenizer(*tokenizer, false);
        std::vector<std::string> parts;
        for (const int id : bytesOf("a€b"))
            parts.push_back(detokenizer.append(id));
        QCOMPARE(parts, (std::vector<std::string>{"a", "", "", "€", "b"}));
        QCOMPARE(detokenizer.flush(), std::string());
    }

    void replacesWhatCannotBecomeACharacter_data()
    {
        QTest::addColumn<QByteArray>("bytes");
        QTest::addColumn<QString>("text");
        const QString bad(QChar(0xFFFD));
        QTest::newRow("lone continuation") << QByteArray("a\x80z") << "a" + bad + "z";
        QTest::newRow("cut by a letter") << QByteArray("\xE2\x82z") << bad + "z";
        QTest::newRow("cut by the end") << QByteArray("z\xF0\x9F\x98") << "z" + bad;
        QTest::newRow("overlong") << QByteArray("\xC0\xAF") << bad + bad;
        QTest::newRow("surrogate") << QByteArray("\xED\xA0\x80") << bad + bad + bad;
        QTest::newRow("beyond the last plane") << QByteArray("\xF4\x90\x80\x80") << bad + bad + bad + bad;
        QTest::newRow("two starts") << QByteArray("\xE2\xE2\x82\xAC") << bad + QString::fromUtf8("€");
    }
    void replacesWhatCannotBecomeACharacter()
    {
        QFETCH(QByteArray, bytes);
        QFETCH(QString, text);
        const auto tokenizer = byteTokenizer();
        const std::vector<int> ids = bytesOf(bytes.toStdString());
        QCOMPARE(QString::fromStdString(tokenizer->decode(ids, false)), text);
        engine::Detokenizer detokenizer(*tokenizer, false);
        std::string streamed;
        for (const int id : ids)
            streamed += detokenizer.append(id);
        QCOMPARE(QString::fromStdString(streamed + detokenizer.flush()), text);
    }

    void randomTokensEqualOneDecode()
    {
        const auto tokenizer = byteTokenizer();
        std::mt19937 random(7);
        for (int round = 0; round < 2000; ++round) {
            std::vector<int> ids(random() % 20);
            for (int &id : ids)
                id = static_cast<int>(random() % 3 == 0 ? random() % 258 : 0xC0 + random() % 0x40);
            for (const bool skip : {false, true}) {
                engine::Detokenizer detokenizer(*tokenizer, skip);
                std::string streamed;
                for (const int id : ids) {
                    const std::string part = detokenizer.append(id);
                    QVERIFY(isUtf8(part));
                    streamed += part;
                }
                QCOMPARE(streamed + detokenizer.flush(), tokenizer->decode(ids, skip));
            }
        }
    }

    void skipsControlTokens()
    {
        const auto tokenizer = byteTokenizer();
        engine::Detokenizer quiet(*tokenizer, true);
        QCOMPARE(quiet.append(word) + quiet.append(control) + quiet.flush(), std::string("word"));
        engine::Detokenizer loud(*tokenizer, false);
        QCOMPARE(loud.append(word) + loud.append(control), std::string("word<|end|>"));
    }

    void canBeUsedAgainAfterFlush()
    {
        const auto tokenizer = byteTokenizer();
        engine::Detokenizer detokenizer(*tokenizer, false);
        (void)detokenizer.append(0xE2);
        QCOMPARE(detokenizer.flush(), std::string("\uFFFD"));
        QCOMPARE(detokenizer.append('x'), std::string("x"));
    }
};

QTEST_GUILESS_MAIN(TestDetokenizer)
#include "tst_detokenizer.moc"
