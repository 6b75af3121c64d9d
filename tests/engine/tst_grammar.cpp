// SPDX-License-Identifier: GPL-3.0-or-later
// JSON schemas as grammars: which texts fit, and that masks of tokens say the same as bytes.
#include "engine/api/error.h"
#include "engine/core/json.h"
#include "engine/text/grammar_matcher.h"
#include "engine/text/json_grammar.h"
#include "tests/support/byte_grammar.h"

#include <QTest>

#include <algorithm>
#include <random>

using namespace engine;

namespace {

bool isAllowed(std::span<const std::uint64_t> mask, int token)
{
    return (mask[std::size_t(token) / 64] >> (std::size_t(token) % 64) & 1U) != 0;
}

const char *personSchema = R"({"type":"object","properties":{"name":{"type":"string","maxLength":5},
    "age":{"type":"integer"},"tags":{"type":"array","items":{"enum":["a","b"]},"minItems":1,"maxItems":2},
    "next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["name","next"],"additionalProperties":false})";

} // namespace

class GrammarTest : public QObject {
    Q_OBJECT

private slots:
    void textsThatFit_data();
    void textsThatFit();
    void masksAgreeWithBytes();
    void randomAnswersFit_data();
    void randomAnswersFit();
    void beginsAnewWhenFull();
    void endsOnlyWhenComplete();
};

void GrammarTest::textsThatFit_data()
{
    QTest::addColumn<QString>("schema");
    QTest::addColumn<QString>("text");
    QTest::addColumn<bool>("expected");
    const auto row = [](const char *schema, const char *text, bool expected) {
        QTest::addRow("%s %s", QByteArray(schema).left(60).constData(), text) << schema << text << expected;
    };
    row("{}", "null", true);
    row("{}", R"({"a":[1,2.5e-3,true],"b":{}})", true);
    row("{}", R"({"a":1,})", false);
    row("{}", "[1,]", false);
    row("{}", "01", false);
    row("{}", "-0.5", true);
    row("{}", "1.", false);
    row("{}", R"("\u00e9\n é €")", true);
    row("{}", R"("\ud800")", false);
    row("{}", R"("\x")", false);
    row("{}", "\"\n\"", false);
    row("{}", "[\n  1,\n  2\n]", true);
    row("{}", " 1", false);
    row(R"({"type":"object"})", "[]", false);
    row(R"({"type":"object"})", "{}", true);
    row(R"({"type":"object"})", R"({"x": "y"})", true);
    row(R"({"type":["string","null"]})", "null", true);
    row(R"({"type":["string","null"]})", "1", false);
    row(R"({"type":"integer"})", "-12", true);
    row(R"({"type":"integer"})", "1.5", false);
    row(R"({"type":"boolean"})", "false", true);
    row(R"({"const":{"a":"\"€"}})", R"({"a":"\"€"})", true);
    row(R"({"const":1})", "2", false);
    row(R"({"enum":["red","green",3]})", R"("green")", true);
    row(R"({"enum":["red","green",3]})", R"("gree")", false);
    row(R"({"type":"string","minLength":2,"maxLength":3})", R"("a")", false);
    row(R"({"type":"string","minLength":2,"maxLength":3})", R"("a€")", true);
    row(R"({"type":"string","minLength":2,"maxLength":3})", R"("\n\n\n")", true);
    row(R"({"type":"string","minLength":2,"maxLength":3})", R"("abcd")", false);
    row(R"({"type":"string","minLength":1})", R"("")", false);
    row(R"({"type":"string","minLength":1})", R"("abcdef")", true);
    row(R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})", "[]", false);
    row(R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})", "[null, null]", true);
    row(R"({"type":"array","items":{"type":"null"},"minItems":1,"maxItems":2})", "[null,null,null]", false);
    row(R"({"type":"array","items":{"type":"null"},"minItems":2})", "[null]", false);
    row(R"({"type":"array","items":{"type":"null"},"minItems":2})", "[null,null,null,null]", true);
    row(R"({"type":"array","maxItems":0})", "[]", true);
    row(personSchema, R"({"name":"x","next":null})", true);
    row(personSchema, R"({"name": "x", "age": 3, "tags": ["a", "b"], "next": {"name":"y","next":null}})", true);
    row(personSchema, R"({"name":"x"})", false);
    row(personSchema, R"({"next":null,"name":"x"})", false);
    row(personSchema, R"({"name":"x","next":null,"more":1})", false);
    row(personSchema, R"({"name":"xxxxxx","next":null})", false);
    row(personSchema, R"({"name":"x","tags":["c"],"next":null})", false);
    const char *open = R"({"properties":{"ab":{"type":"null"}},"additionalProperties":{"type":"integer"}})";
    row(open, "{}", true);
    row(open, R"({"ab":null,"abc":1,"a":2,"x":3})", true);
    row(open, R"({"ab":1})", false);
    row(open, R"({"a\u0062":1})", false);
    row(open, R"({"x":"y"})", false);
    const char *optional =
        R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]})";
    row(optional, R"({"b":null})", true);
    row(optional, R"({"a":null,"b":null})", true);
    row(optional, R"({"b":null,"c":null})", true);
    row(optional, R"({"a":null,"c":null})", false);
    row(optional, R"({,"b":null})", false);
    row(R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"null"}}})", "null", true);
    row(R"({"anyOf":[{"type":"null"},{"const":1}],"description":"x"})", "1", true);
    row(R"({"oneOf":[{"type":"null"},{"type":"string"}]})", R"("a")", true);
    const char *tagged = R"({"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
        "a":{"type":"object","properties":{"k":{"const":1}},"required":["k"],"additionalProperties":false},
        "b":{"type":"object","properties":{"k":{"const":2}},"required":["k"],"additionalProperties":false}}})";
    row(tagged, R"({"k":2})", true);
    row(tagged, R"({"k":3})", false);
    row(R"({"allOf":[{"type":"null"}]})", "null", true);
}

void GrammarTest::textsThatFit()
{
    QFETCH(QString, schema);
    QFETCH(QString, text);
    QFETCH(bool, expected);
    QCOMPARE(fits(schema.toStdString(), text.toStdString()), expected);
}

/// A token is allowed where all of its bytes lead on, one after the other, and nowhere else.
void GrammarTest::masksAgreeWithBytes()
{
    const ByteTokenizer tokenizer;
    const auto states = statesOf(personSchema);
    const std::string text = R"({"name": "a€b", "age": 12, "tags": ["a"], "next": {"name":"\u00e9","next":null}})";
    int state = states->start();
    int allowedTokens = 0;
    for (const char c : text) {
        const std::vector<std::uint64_t> mask(states->allowed(state).begin(), states->allowed(state).end());
        for (int token = 0; token < tokenizer.vocabSize(); ++token) {
            int after = tokenizer.isControl(token) ? GrammarStates::dead : state;
            for (const char byte : tokenizer.bytes(token, true))
                after = after == GrammarStates::dead ? after : states->next(after, static_cast<std::uint8_t>(byte));
            const bool expected =
                token == ByteTokenizer::endId ? states->isComplete(state) : after != GrammarStates::dead;
            QCOMPARE(isAllowed(mask, token), expected);
            allowedTokens += expected ? 1 : 0;
        }
        for (int unknown = tokenizer.vocabSize(); unknown < tokenizer.vocabSize() + 3; ++unknown)
            QVERIFY(!isAllowed(mask, unknown)); // a network may have more ids than its tokenizer
        state = states->next(state, static_cast<std::uint8_t>(c));
    }
    QVERIFY(states->isComplete(state));
    QVERIFY(allowedTokens > 1000);
}

void GrammarTest::randomAnswersFit_data()
{
    QTest::addColumn<QString>("schema");
    QTest::newRow("anything") << "{}";
    QTest::newRow("object") << R"({"type":"object"})";
    QTest::newRow("person") << personSchema;
    QTest::newRow("counted members")
        << R"({"properties":{"a":{"enum":[1]},"b":{"enum":[1]},"c":{"enum":[1]},"d":{"enum":[1]}},
        "required":["b"],"minProperties":3,"maxProperties":3})";
    QTest::newRow("strings")
        << R"({"type":"object","properties":{"p":{"type":"string","pattern":"^(?!ab)[a-c\"\n€]{2,5}$"},
        "u":{"type":"string","format":"uri","maxLength":40},"n":{"type":"number","minimum":0.1,"exclusiveMaximum":0.2},
        "m":{"type":"integer","multipleOf":7},"e":{"type":"string","format":"email"},
        "s":{"type":"array","uniqueItems":true,"items":{"enum":["x","y"]}}},"required":["p","u","n","m","e"],
        "additionalProperties":false})";
}

/// Whatever tokens are drawn from the masks, the end gives JSON that fits. Ends are drawn as soon as they may.
void GrammarTest::randomAnswersFit()
{
    QFETCH(QString, schema);
    const ByteTokenizer tokenizer;
    const auto states = statesOf(schema.toStdString());
    const auto others = statesOf(schema.toStdString());
    std::mt19937 random(7);
    int complete = 0;
    for (int answer = 0; answer < 200; ++answer) {
        GrammarMatcher matcher(states);
        std::string text;
        for (int step = 0; step < 300; ++step) {
            const auto mask = matcher.allowed();
            std::vector<int> choices;
            for (int token = 0; token < tokenizer.vocabSize(); ++token)
                if (isAllowed(mask, token))
                    choices.push_back(token);
            QVERIFY(!choices.empty());
            if (isAllowed(mask, ByteTokenizer::endId)) {
                (void)parseJson(text, "answer"); // throws when it is none
                QVERIFY(fits(*others, text));
                ++complete;
                break;
            }
            // Closing bytes are preferred, or strings and lists of strings would hardly ever end.
            const auto closing =
                std::ranges::find_if(choices, [](int id) { return id == '"' || id == '}' || id == ']'; });
            const bool close = closing != choices.end() && random() % 2 == 0;
            const int token = close ? *closing : choices[random() % choices.size()];
            text += tokenizer.bytes(token, true);
            matcher.accept(token);
        }
    }
    QVERIFY2(complete > 100, qPrintable(QString::number(complete)));
}

void GrammarTest::beginsAnewWhenFull()
{
    const auto states = statesOf(personSchema);
    int state = states->start();
    for (const char c : std::string(R"({"name":"x","next":{"name":"y","age":1)"))
        state = states->next(state, static_cast<std::uint8_t>(c));
    const auto [fresh, moved] = states->transfer(state);
    QVERIFY(!fresh->isFull());
    QVERIFY(std::ranges::equal(fresh->allowed(moved), states->allowed(state)));
    int last = moved;
    for (const char c : std::string(R"(,"next":null}})"))
        last = fresh->next(last, static_cast<std::uint8_t>(c));
    QVERIFY(last != GrammarStates::dead && fresh->isComplete(last));
    const auto [again, end] = fresh->transfer(last);
    QVERIFY(again->isComplete(end));
    QCOMPARE(again->next(end, '}'), GrammarStates::dead);
}

void GrammarTest::endsOnlyWhenComplete()
{
    GrammarMatcher matcher(statesOf(R"({"type":"integer"})"));
    QVERIFY(!isAllowed(matcher.allowed(), ByteTokenizer::endId));
    matcher.accept('1');
    QVERIFY(isAllowed(matcher.allowed(), ByteTokenizer::endId));
    QVERIFY(isAllowed(matcher.allowed(), '2'));
    QVERIFY(!isAllowed(matcher.allowed(), ByteTokenizer::controlId));
    matcher.accept(ByteTokenizer::endId); // ignored: changes nothing
    QVERIFY(isAllowed(matcher.allowed(), '2'));
}

QTEST_GUILESS_MAIN(GrammarTest)
#include "tst_grammar.moc"
