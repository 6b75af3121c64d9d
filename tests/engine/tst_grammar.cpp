// SPDX-License-Identifier: GPL-3.0-or-later
// JSON schemas as grammars: which texts fit, which schemas are refused, and that masks of tokens say the same as bytes.
#include "engine/api/error.h"
#include "engine/core/json.h"
#include "engine/text/grammar_matcher.h"
#include "engine/text/json_grammar.h"

#include <QTest>

#include <algorithm>
#include <random>

using namespace engine;

namespace {

/// Every byte, some longer tokens that cross the borders of JSON's parts, an end token and a control token.
class ByteTokenizer final : public Tokenizer {
public:
    static constexpr int endId = 256;
    static constexpr int controlId = 257;

    ByteTokenizer()
    {
        for (int byte = 0; byte < 256; ++byte)
            m_pieces.emplace_back(1, static_cast<char>(byte));
        m_pieces.emplace_back("<end>");
        m_pieces.emplace_back("<control>");
        for (const char *piece :
             {"{\"", "\":",  "\": ",       "\", \"", "\"}",  "}}", "[]",    "],", "true", "false", "null",
              "12",  "name", "{\"name\":", " ",      "\n  ", "€",  "\\u00", "ab", "abc",  "{}",    "[{"})
            m_pieces.emplace_back(piece);
    }
    std::vector<int> encode(std::string_view, const EncodeOptions &) const override { return {}; }
    std::string decode(const std::vector<int> &ids, bool) const override
    {
        std::string text;
        for (const int id : ids)
            text += bytes(id, true);
        return text;
    }
    std::string piece(int id) const override { return m_pieces.at(std::size_t(id)); }
    int vocabSize() const override { return int(m_pieces.size()); }
    bool isControl(int id) const override { return id == endId || id == controlId; }
    std::string bytes(int id, bool) const override { return isControl(id) ? std::string() : piece(id); }
    std::optional<int> bos() const override { return {}; }
    std::optional<int> eos() const override { return endId; }
    bool addsBos() const override { return false; }
    bool isEndOfGeneration(int id) const override { return id == endId; }
    std::optional<int> find(std::string_view) const override { return {}; }

private:
    std::vector<std::string> m_pieces;
};

std::shared_ptr<GrammarStates> statesOf(const std::string &schema)
{
    static const ByteTokenizer tokenizer;
    static const auto vocabulary = std::make_shared<const SortedVocabulary>(tokenizer, tokenizer.vocabSize() + 3);
    return std::make_shared<GrammarStates>(std::make_shared<const Grammar>(jsonSchemaGrammar(schema)), vocabulary);
}

bool fits(const std::string &schema, const std::string &text)
{
    const auto states = statesOf(schema);
    int state = states->start();
    for (const char c : text) {
        state = states->next(state, static_cast<std::uint8_t>(c));
        if (state == GrammarStates::dead)
            return false;
    }
    return states->isComplete(state);
}

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
    void wholeNumbersWithin_data();
    void wholeNumbersWithin();
    void refusesSchemas_data();
    void refusesSchemas();
    void masksAgreeWithBytes();
    void randomAnswersFit_data();
    void randomAnswersFit();
    void beginsAnewWhenFull();
    void endsOnlyWhenComplete();
};

template<typename Row> static void formatRows(const Row &row)
{
    const auto format = [&row](const char *name, const char *text, bool expected) {
        const QByteArray schema = QByteArray(R"({"type":"string","format":")") + name + "\"}";
        row(schema.constData(), (QByteArray("\"") + text + '"').constData(), expected);
    };
    format("date", "2026-02-28", true);
    format("date", "2026-02-30", false);
    format("date", "2026-13-01", false);
    format("date", "2026-1-01", false);
    format("time", "23:59:59Z", true);
    format("time", "24:00:00Z", false);
    format("time", "10:00:00", false);
    format("date-time", "2026-11-30T05:45:01.25+02:00", true);
    format("date-time", "2026-11-30 05:45:01Z", false);
    format("uuid", "123e4567-e89b-12d3-a456-426614174000", true);
    format("uuid", "123e4567-e89b-12d3-a456-42661417400", false);
    format("ipv4", "255.0.19.200", true);
    format("ipv4", "256.0.0.1", false);
    format("ipv4", "01.0.0.1", false);
    format("email", "a.b-c@d-e.example.org", true);
    format("email", "a..b@example.org", false);
    format("email", "a@localhost", false);
}

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
    formatRows(row);
}

void GrammarTest::textsThatFit()
{
    QFETCH(QString, schema);
    QFETCH(QString, text);
    QFETCH(bool, expected);
    QCOMPARE(fits(schema.toStdString(), text.toStdString()), expected);
}

void GrammarTest::wholeNumbersWithin_data()
{
    QTest::addColumn<QString>("bounds");
    QTest::addColumn<int>("low");
    QTest::addColumn<int>("high");
    QTest::newRow("one digit") << R"("minimum":3,"maximum":7)" << 3 << 7;
    QTest::newRow("lengths") << R"("minimum":8,"maximum":1203)" << 8 << 1203;
    QTest::newRow("signs") << R"("minimum":-104,"maximum":57)" << -104 << 57;
    QTest::newRow("negative") << R"("minimum":-230,"maximum":-19)" << -230 << -19;
    QTest::newRow("exclusive") << R"("exclusiveMinimum":0,"exclusiveMaximum":10)" << 1 << 9;
    QTest::newRow("fractions") << R"("minimum":-1.5,"exclusiveMaximum":99.5)" << -1 << 99;
    QTest::newRow("zero") << R"("minimum":0,"maximum":0)" << 0 << 0;
}

void GrammarTest::wholeNumbersWithin()
{
    QFETCH(QString, bounds);
    QFETCH(int, low);
    QFETCH(int, high);
    const auto states = statesOf("{\"type\":\"integer\"," + bounds.toStdString() + '}');
    const auto fit = [&states](const std::string &text) {
        int state = states->start();
        for (const char c : text)
            if (state = states->next(state, static_cast<std::uint8_t>(c)); state == GrammarStates::dead)
                return false;
        return states->isComplete(state);
    };
    for (int number = low - 30; number <= high + 30; ++number)
        QVERIFY2(fit(std::to_string(number)) == (number >= low && number <= high), std::to_string(number).c_str());
    QVERIFY(!fit("00"));
    QVERIFY(!fit(""));
}

void GrammarTest::refusesSchemas_data()
{
    QTest::addColumn<QString>("schema");
    QTest::addColumn<QString>("word");
    const auto row = [](const char *schema, const char *word) { QTest::newRow(word) << schema << word; };
    row(R"({"type":"nosuch"})", "\"nosuch\"");
    row(R"({"type":"string","pattern":"a+"})", "\"pattern\"");
    row(R"({"type":"number","minimum":3})", "\"minimum\"");
    row(R"({"minimum":3})", "without type");
    row(R"({"type":"integer","minimum":3.5,"maximum":3.9})", "no whole number");
    row(R"({"type":"integer","maximum":1e300})", "maximum: found 1e+300");
    row(R"({"type":"string","format":"iri"})", "format: found \"iri\"");
    row(R"({"type":"string","format":"date","minLength":3})", "format together");
    row(R"({"oneOf":[{}]})", "oneOf: found");
    row(R"({"oneOf":[{"type":"integer"},{"type":"number"}]})", "(number)");
    row(R"({"allOf":[{"type":"null"},{"type":"null"}]})", "allOf: found 2");
    row(R"({"$ref":"#"})", "back to itself");
    row(R"({"anyOf":[{"$ref":"#/anyOf/1"},{"$ref":"#/anyOf/0"}]})", "schema: a $ref");
    row(R"({"$ref":"file:///etc/passwd"})", "file:///etc/passwd");
    row(R"({"$ref":"#/nowhere"})", "no such place");
    row(R"({"type":"array","minItems":1000000000})", "minItems: found 1000000000");
    row(R"({"type":"array","minItems":3,"maxItems":2})", "below 3");
    row(R"({"type":"string","maxLength":-1})", "maxLength: found -1");
    row(R"({"enum":[]})", "enum");
    row(R"({"type":"object","required":["x"]})", "required");
    row(R"({"properties":{"a":7}})", "#/properties/a");
    row(R"(false)", "boolean");
    row(R"({"type":"array","minItems":4000,"items":{"type":"string","minLength":4000,"enum":["a"]}})", "enum together");
    QByteArray deep;
    for (int i = 0; i < 100; ++i)
        deep += R"({"type":"array","items":)";
    QTest::newRow("deep") << QString(deep + "{}" + QByteArray(100, '}')) << "nested";
}

void GrammarTest::refusesSchemas()
{
    QFETCH(QString, schema);
    QFETCH(QString, word);
    try {
        (void)jsonSchemaGrammar(schema.toStdString());
        QFAIL("was accepted");
    } catch (const Error &error) {
        QCOMPARE(error.code(), ErrorCode::Refused);
        QVERIFY2(QString(error.what()).contains(word), error.what());
        QVERIFY2(QString(error.what()).contains("schema"), error.what());
    }
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
}

/// Whatever tokens are drawn from the masks, the end gives JSON that fits. Ends are drawn as soon as they may.
void GrammarTest::randomAnswersFit()
{
    QFETCH(QString, schema);
    const ByteTokenizer tokenizer;
    const auto states = statesOf(schema.toStdString());
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
                QVERIFY(fits(schema.toStdString(), text));
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
