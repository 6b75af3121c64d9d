// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/stop_matcher.h"

#include <QElapsedTimer>
#include <QTest>

#include <random>

using namespace engine;

namespace {

struct Streamed {
    std::string text;
    bool matched = false;
};

/// Feeds `pieces` until a match and then ends the text.
Streamed stream(const std::vector<std::string> &stops, const std::vector<std::string> &pieces)
{
    StopMatcher matcher(stops);
    Streamed result;
    for (const std::string &piece : pieces) {
        result.text += matcher.append(piece);
        if (matcher.matched())
            return {result.text, true};
    }
    result.text += matcher.flush();
    return result;
}

/// The definition: cut before the stop string that ends first, of those the longest.
Streamed naive(const std::vector<std::string> &stops, const std::string &text)
{
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string &stop : stops)
            if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
                longest = std::max(longest, stop.size());
        if (longest > 0)
            return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

} // namespace

class TestStopMatcher : public QObject {
    Q_OBJECT

private slots:
    void holdsBackWhatMayBecomeAStop()
    {
        StopMatcher matcher({"END"});
        QCOMPARE(matcher.append("abE"), std::string("ab"));
        QCOMPARE(matcher.append("N"), std::string());
        QCOMPARE(matcher.append("x"), std::string("ENx"));
        QCOMPARE(matcher.append("EEN"), std::string("E"));
        QCOMPARE(matcher.append("D tail"), std::string());
        QVERIFY(matcher.matched());
        QCOMPARE(matcher.append("more"), std::string());
        QCOMPARE(matcher.flush(), std::string());
    }

    void flushGivesTheRest()
    {
        StopMatcher matcher({"END"});
        QCOMPARE(matcher.append("abEN"), std::string("ab"));
        QCOMPARE(matcher.flush(), std::string("EN"));
        QVERIFY(!matcher.matched());
    }

    void acrossPiecesAndCharacters()
    {
        const std::string stop = "\xE2\x82\xAC!"; // a euro sign and an exclamation mark
        const Streamed result = stream({stop}, {"5 \xE2\x82\xAC", " and \xE2\x82\xAC", "!", "x"});
        QVERIFY(result.matched);
        QCOMPARE(result.text, std::string("5 \xE2\x82\xAC and "));
    }

    void withoutStopsTextPasses()
    {
        StopMatcher matcher({});
        QCOMPARE(matcher.append("anything"), std::string("anything"));
        QVERIFY(!matcher.matched());
    }

    void limits()
    {
        QCOMPARE(StopMatcher::check({"a", "\n\n", std::string(4096, 'x'), "\xF0\x9F\x98\x80"}), std::string());
        QVERIFY(StopMatcher::check({"a", ""}).find("stop string 1 is empty") != std::string::npos);
        QVERIFY(StopMatcher::check({std::string(4097, 'x')}).find("4097") != std::string::npos);
        QVERIFY(StopMatcher::check(std::vector<std::string>(65, "x")).find("65") != std::string::npos);
        QCOMPARE(StopMatcher::check(std::vector<std::string>(64, "x")), std::string());
        for (const char *bad : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xE2\x82"})
            QVERIFY(StopMatcher::check({bad}).find("UTF-8") != std::string::npos);
    }

    void randomTextsAgreeWithTheDefinition()
    {
        std::mt19937 random(7);
        const auto letters = [&random](int length) {
            std::string text;
            for (int i = 0; i < length; ++i)
                text += static_cast<char>('a' + random() % 3);
            return text;
        };
        int matches = 0;
        for (int round = 0; round < 20000; ++round) {
            std::vector<std::string> stops;
            for (unsigned i = random() % 5; i > 0; --i)
                stops.push_back(letters(1 + static_cast<int>(random() % 7)));
            std::string text = letters(static_cast<int>(random() % 40));
            std::vector<std::string> pieces;
            for (std::size_t at = 0; at < text.size();) {
                const std::size_t length = std::min<std::size_t>(1 + random() % 6, text.size() - at);
                pieces.push_back(text.substr(at, length));
                at += length;
            }
            const Streamed got = stream(stops, pieces);
            const Streamed want = naive(stops, text);
            QCOMPARE(got.matched, want.matched);
            QCOMPARE(got.text, want.text);
            matches += got.matched ? 1 : 0;
        }
        QVERIFY(matches > 1000 && matches < 19000);
    }

    void timeIsLinearInTheText()
    {
        // Every stop string almost matches everywhere; a matcher that restarts would need 4096 times longer.
        std::vector<std::string> stops;
        for (std::size_t i = 0; i < StopMatcher::maxStrings; ++i)
            stops.push_back(std::string(StopMatcher::maxBytes - 1 - i, 'a') + 'b');
        StopMatcher matcher(stops);
        QElapsedTimer timer;
        timer.start();
        std::size_t shown = 0;
        const std::string piece(64, 'a');
        for (int i = 0; i < 16384; ++i)
            shown += matcher.append(piece).size();
        shown += matcher.flush().size();
        QCOMPARE(shown, std::size_t{1} << 20U);
        QVERIFY2(timer.elapsed() < 5000, qPrintable(QString::number(timer.elapsed())));
    }
};

QTEST_GUILESS_MAIN(TestStopMatcher)
#include "tst_stop_matcher.moc"
