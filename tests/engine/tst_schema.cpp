// SPDX-License-Identifier: GPL-3.0-or-later
// What JSON schemas say of strings, numbers and members, as pydantic writes them, and which schemas are refused.
#include "engine/api/error.h"
#include "engine/core/json.h"
#include "tests/support/byte_grammar.h"

#include <QElapsedTimer>
#include <QRegularExpression>
#include <QTest>

#include <array>
#include <cmath>
#include <random>

using namespace engine;

class SchemaTest : public QObject {
    Q_OBJECT

private slots:
    void textsThatFit_data();
    void textsThatFit();
    void wholeNumbersWithin_data();
    void wholeNumbersWithin();
    void numbersWithin_data();
    void numbersWithin();
    void multiplesWithin();
    void patternsFindWhatPcreFinds_data();
    void patternsFindWhatPcreFinds();
    void refusesWhatTakesLong();
    void refusesSchemas_data();
    void refusesSchemas();
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
    format("duration", "P1Y2M3DT4H5M6S", true);
    format("duration", "P1YT5S", true);
    format("duration", "P1Y3D", false);
    format("duration", "P", false);
    format("duration", "PT", false);
    format("hostname", "a-b.example", true);
    format("hostname", "-a.example", false);
    format("ipv6", "fe80::1", true);
    format("ipv6", "::", true);
    format("ipv6", "1:2:3:4:5:6:7:8", true);
    format("ipv6", "1:2:3:4:5:6:7:8:9", false);
    format("ipv6", "1::2::3", false);
    format("uri", "https://example.org/a/b?c=d#e", true);
    format("uri", "example.org", false);
    format("uuid4", "123e4567-e89b-42d3-a456-426614174000", true);
    format("uuid4", "123e4567-e89b-12d3-a456-426614174000", false);
    format("password", "any thing", true);
}

template<typename Row> static void pythonRows(const Row &row)
{
    const char *pair =
        R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"minItems":2,"maxItems":2})";
    row(pair, "[1,null]", true);
    row(pair, "[1]", false);
    row(pair, "[null,1]", false);
    row(pair, "[1,null,1]", false);
    const char *open = R"({"prefixItems":[{"type":"integer"}],"items":{"type":"boolean"}})";
    row(open, "[]", true);
    row(open, "[1, true, false]", true);
    row(open, "[true]", false);
    row(R"({"type":"array","items":[{"type":"null"}],"additionalItems":false})", "[null]", true);
    row(R"({"type":"array","items":[{"type":"null"}],"additionalItems":false})", "[null,null]", false);
    const char *set = R"({"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]},"minItems":2})";
    row(set, R"(["a","c"])", true);
    row(set, R"(["a", "b", "c"])", true);
    row(set, R"(["c"])", false);
    row(set, R"(["a","a"])", false);
    const char *keyed =
        R"({"type":"object","propertyNames":{"enum":["x","y"]},"additionalProperties":{"type":"null"}})";
    row(keyed, R"({"x":null,"y":null})", true);
    row(keyed, R"({"y":null})", true);
    row(keyed, R"({"z":null})", false);
    row(keyed, R"({"y":null,"y":null})", false);
    const char *coded = R"({"type":"object","patternProperties":{"^[a-z]{2}$":{"type":"integer"}}})";
    row(coded, R"({"ab":1,"cd":2})", true);
    row(coded, R"({"abc":1})", false);
    row(coded, R"({"ab":null})", false);
    const char *mixed =
        R"({"properties":{"id":{"type":"null"}},"patternProperties":{"^x":{"type":"integer"}},"additionalProperties":{"type":"boolean"},"required":["id","xy"]})";
    row(mixed, R"({"id":null,"xy":1,"xz":2,"other":true})", true);
    row(mixed, R"({"id":null,"xy":1,"other":2})", false);
    row(mixed, R"({"id":null,"xy":true})", false);
    row(mixed, R"({"id":null,"xz":1})", false);
    const char *counted =
        R"({"properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"minProperties":2,"maxProperties":2})";
    row(counted, R"({"a":null,"b":null})", true);
    row(counted, R"({"b":null,"c":null})", true);
    row(counted, R"({"c":null})", false);
    row(counted, R"({"a":null,"b":null,"c":null})", false);
    row(R"({"type":"object","minProperties":1,"maxProperties":2})", "{}", false);
    row(R"({"type":"object","minProperties":1,"maxProperties":2})", R"({"a":1,"b":2})", true);
    row(R"({"type":"object","minProperties":1,"maxProperties":2})", R"({"a":1,"b":2,"c":3})", false);
    row(R"({"type":"object","required":["x"]})", R"({"x":[]})", true);
    row(R"({"type":"object","required":["x"]})", R"({"x":[],"y":1})", true);
    row(R"({"type":"object","required":["x"]})", R"({"y":1})", false);
    // pydantic's Decimal, and a union told apart by a member that has a default
    const char *decimal = R"({"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"})";
    row(decimal, R"("-12.50")", true);
    row(decimal, R"("+.5")", true);
    row(decimal, R"("+.")", false);
    row(decimal, R"("")", false);
    const char *unions =
        R"({"discriminator":{"propertyName":"k"},"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"$defs":{
        "a":{"type":"object","properties":{"k":{"const":"a","default":"a","type":"string"},"n":{"type":"integer"}}},
        "b":{"type":"object","properties":{"k":{"enum":["b","c"],"type":"string"},"n":{"type":"integer"}}}}})";
    row(unions, R"({"k":"a","n":1})", true);
    row(unions, R"({"k":"c"})", true);
    row(unions, R"({"n":1})", false);
    row(R"({"oneOf":[{"enum":[1,"x"]},{"enum":["y"]},{"type":"null"}]})", R"("y")", true);
    row(R"({"type":"integer","enum":["1",1,1.5]})", "1", true);
    row(R"({"type":"integer","enum":["1",1,1.5]})", "1.5", false);
    row(R"({"type":"integer","format":"int32"})", "2147483648", false);
    row(R"({"type":"integer","format":"int32"})", "-2147483648", true);
    row(R"({"type":"string","x-order":3,"example":"y"})", R"("y")", true);
    row(R"({"minimum":3})", "2.99", false);
    row(R"({"minimum":3})", "3.5", true);
}

void SchemaTest::textsThatFit_data()
{
    QTest::addColumn<QString>("schema");
    QTest::addColumn<QString>("text");
    QTest::addColumn<bool>("expected");
    const auto row = [](const char *schema, const char *text, bool expected) {
        QTest::addRow("%s %s", QByteArray(schema).left(60).constData(), text) << schema << text << expected;
    };
    formatRows(row);
    pythonRows(row);
}

void SchemaTest::textsThatFit()
{
    QFETCH(QString, schema);
    QFETCH(QString, text);
    QFETCH(bool, expected);
    QCOMPARE(fits(schema.toStdString(), text.toStdString()), expected);
}

void SchemaTest::wholeNumbersWithin_data()
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

void SchemaTest::wholeNumbersWithin()
{
    QFETCH(QString, bounds);
    QFETCH(int, low);
    QFETCH(int, high);
    const auto states = statesOf("{\"type\":\"integer\"," + bounds.toStdString() + '}');
    for (int number = low - 30; number <= high + 30; ++number)
        QVERIFY2(fits(*states, std::to_string(number)) == (number >= low && number <= high),
                 std::to_string(number).c_str());
    QVERIFY(!fits(*states, "00"));
    QVERIFY(!fits(*states, ""));
}

void SchemaTest::numbersWithin_data()
{
    QTest::addColumn<QString>("bounds");
    QTest::addColumn<double>("low");
    QTest::addColumn<double>("high"); // the nearest doubles within exclusive bounds
    const auto below = [](double x) { return std::nextafter(x, -1e300); };
    const auto above = [](double x) { return std::nextafter(x, 1e300); };
    QTest::newRow("share") << R"("minimum":0,"maximum":1)" << 0.0 << 1.0;
    QTest::newRow("open share") << R"("exclusiveMinimum":0,"exclusiveMaximum":1)" << above(0) << below(1);
    QTest::newRow("fractions") << R"("minimum":-1.25,"exclusiveMaximum":2.5)" << -1.25 << below(2.5);
    QTest::newRow("same whole") << R"("exclusiveMinimum":3.05,"maximum":3.4)" << above(3.05) << 3.4;
    QTest::newRow("negative") << R"("minimum":-20.5,"maximum":-3.75)" << -20.5 << -3.75;
    QTest::newRow("up to") << R"("maximum":9.5)" << -1e300 << 9.5;
    QTest::newRow("from") << R"("exclusiveMinimum":-2)" << above(-2) << 1e300;
    QTest::newRow("small") << R"("minimum":1e-7,"maximum":0.05)" << 1e-7 << 0.05;
}

void SchemaTest::numbersWithin()
{
    QFETCH(QString, bounds);
    QFETCH(double, low);
    QFETCH(double, high);
    const auto states = statesOf("{\"type\":\"number\"," + bounds.toStdString() + '}');
    std::mt19937 random(4);
    int within = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string text = random() % 3 == 0 ? "-" : "";
        text += std::to_string(random() % (random() % 2 == 0 ? 4 : 30));
        if (const auto digits = random() % 5; digits > 0) {
            text += '.';
            for (unsigned j = 0; j < digits; ++j)
                text += static_cast<char>('0' + (random() % 2 == 0 ? 0 : random() % 10));
        }
        const double number = std::stod(text);
        const bool expected = number >= low && number <= high && !(text[0] == '-' && number == 0);
        if (text[0] == '-' && number == 0)
            continue; // may be spelled, need not
        QVERIFY2(fits(*states, text) == expected, text.c_str());
        within += expected ? 1 : 0;
    }
    QVERIFY(within > 20);
}

void SchemaTest::multiplesWithin()
{
    for (const auto &[low, high, factor] : {std::array{-104, 57, 5}, {0, 1203, 7}, {-230, -19, 12}, {3, 900, 100}}) {
        const std::string schema = "{\"type\":\"integer\",\"minimum\":" + std::to_string(low)
            + ",\"maximum\":" + std::to_string(high) + ",\"multipleOf\":" + std::to_string(factor) + '}';
        const auto states = statesOf(schema);
        for (int number = low - 130; number <= high + 130; ++number)
            QVERIFY2(fits(*states, std::to_string(number)) == (number >= low && number <= high && number % factor == 0),
                     (schema + ' ' + std::to_string(number)).c_str());
    }
    QVERIFY(fits(R"({"type":"number","multipleOf":3})", "-123456789"));
    QVERIFY(!fits(R"({"type":"number","multipleOf":3})", "123456788"));
}

void SchemaTest::patternsFindWhatPcreFinds_data()
{
    QTest::addColumn<QString>("pattern");
    for (const char *pattern : {"ab+c?",
                                "^[A-C]?-?[0-9]{1,3}$",
                                "^(?:a|bc)*d?$",
                                "a$|^b",
                                "^$",
                                "",
                                "^.{2,3}$",
                                "[^a-c]",
                                "^[^a]*$",
                                "(a|ab)(c|bcd)$",
                                "^\\w+( \\w+)*$",
                                "^\\S+$",
                                "\\.",
                                "^(a{2,3}){1,2}$",
                                "^a{2}b{0,1}c{1,}$",
                                "^(?!ab)[a-c]+$",
                                "^(?=.*b)(?!.*c)[a-d]*$",
                                "^(?!^a*$)a?b?c?$",
                                "^(?<year>1?2)-?",
                                "[a-x]{1,}|{,2}",
                                "a{1",
                                "^[\\]\\-a]+$",
                                "^\\u00e9|€$",
                                "b*?c",
                                "^(|a)$",
                                "^[b-]+$",
                                "\\x61\\n",
                                "^\"?\\\\"})
        QTest::newRow(pattern) << QString::fromUtf8(pattern);
}

/// However often a schema says what is hard to read, it is refused before long.
void SchemaTest::refusesWhatTakesLong()
{
    Json many{{"type", "object"}, {"properties", Json::object()}};
    for (int i = 0; i < 100; ++i) // each of them alone is taken
        many["properties"][std::to_string(i)] = {{"type", "string"}, {"pattern", "a.{11}" + std::to_string(i)}};
    Json wide{{"oneOf", {{{"$ref", "#/$defs/0"}}, {{"type", "null"}}}}};
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 10; ++j)
            wide["$defs"][std::to_string(i)]["anyOf"].push_back({{"$ref", "#/$defs/" + std::to_string(i + 1)}});
    wide["$defs"]["8"] = {{"type", "string"}};
    for (const Json &schema : {many, wide}) {
        QElapsedTimer timer;
        timer.start();
        QVERIFY_EXCEPTION_THROWN((void)jsonSchemaGrammar(schema.dump()), Error);
        QVERIFY2(timer.elapsed() < 20'000, qPrintable(QString::number(timer.elapsed())));
    }
    QVERIFY(jsonSchemaGrammar(R"({"type":"string","pattern":"a.{11}0"})").rules() > 0);
}

/// A text is in the grammar exactly when PCRE finds the pattern in it.
void SchemaTest::patternsFindWhatPcreFinds()
{
    QFETCH(QString, pattern);
    QString inPcre = pattern;
    inPcre.replace("\\u00e9", "\\x{e9}").replace("{,2}", "\\{,2}").replace("$", "\\z");
    const QRegularExpression expression(inPcre);
    QVERIFY2(expression.isValid(), qPrintable(expression.errorString()));
    const auto states = statesOf(Json{{"type", "string"}, {"pattern", pattern.toStdString()}}.dump());
    const QStringList letters{"a", "b",  "c", "d", "A",  "B",  "-", "1", "2", ".",
                              " ", "\n", "é", "€", "\"", "\\", "]", "x", "{", ","};
    std::mt19937 random(7);
    int found = 0;
    for (int i = 0; i < 3000; ++i) {
        const int kinds = random() % 2 == 0 ? 4 : int(letters.size()); // many of few letters, so that some fit
        QString text;
        for (auto length = random() % 7; length > 0; --length)
            text += letters[int(random() % unsigned(kinds))];
        const std::string json = Json(text.toStdString()).dump();
        const bool fit = fits(*states, json);
        QVERIFY2(fit == expression.match(text).hasMatch(), json.c_str());
        found += fit ? 1 : 0;
    }
    QVERIFY(found > 0);
}

void SchemaTest::refusesSchemas_data()
{
    QTest::addColumn<QString>("schema");
    QTest::addColumn<QString>("word");
    const auto row = [](const char *schema, const char *word) { QTest::newRow(word) << schema << word; };
    row(R"({"type":"nosuch"})", "\"nosuch\"");
    row(R"({"type":"string","pattern":"(a)\\1"})", "the escape \\1");
    row(R"~({"type":"string","pattern":"a(?!b)"})~", "a lookahead");
    row(R"({"type":"string","pattern":"(?<=a)b"})", "lookbehind");
    row(R"({"type":"string","pattern":"\\bword"})", "the escape \\b");
    row(R"({"type":"string","pattern":"(?i)a"})", "flags");
    row(R"({"type":"string","pattern":"a**"})", "count behind a count");
    row(R"({"type":"string","pattern":"(a"})", "not closed (at character 2)");
    row(R"({"type":"string","pattern":"[z-a]"})", "below its beginning");
    row(R"({"type":"string","pattern":"^(a{1000}){1000}$"})", "more than 50000 parts");
    row(R"({"type":"string","pattern":"a.{20}b"})", "more than 20000 states");
    row(R"({"type":"string","pattern":"^a$","minLength":2})", "no string that fits");
    row(R"({"type":"number","multipleOf":0.1})", "multipleOf: found 0.1");
    row(R"({"type":"integer","minimum":8,"maximum":13,"multipleOf":7})", "no multiple");
    row(R"({"type":"number","exclusiveMinimum":2.5,"maximum":2.5})", "no number between");
    row(R"({"type":"array","uniqueItems":true,"items":{"type":"string"}})", "uniqueItems");
    row(R"({"type":"array","prefixItems":[{}],"items":false,"minItems":2})", "minItems: found 2");
    row(R"({"type":"object","minProperties":2})", "minProperties: found 2");
    row(R"({"properties":{"a":{}},"required":["b"],"additionalProperties":false})", "found \"b\"");
    row(R"({"not":{}})", "\"not\"");
    row(R"({"type":"integer","enum":["a"]})", "no value that is of its type");
    row(R"({"type":"integer","minimum":3.5,"maximum":3.9})", "no whole number");
    row(R"({"type":"integer","minimum":1e300})", "minimum: found 1e+300");
    row(R"({"type":"integer","exclusiveMinimum":true})", "exclusiveMinimum: found true");
    row(R"({"type":"string","format":"regex"})", "format: found \"regex\"");
    row(R"({"type":"string","format":"date","minLength":11})", "lengths: found no string");
    row(R"({"oneOf":[{},{"type":"null"}]})", "oneOf: found");
    row(R"({"oneOf":[{"type":"object","properties":{"a":{"const":1}}},{"type":"object","properties":{"a":{"const":1}}}]})",
        "(objects)");
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
    row(R"({"properties":{"a":7}})", "#/properties/a");
    row(R"(false)", "boolean");
    row(R"({"type":"array","minItems":4000,"items":{"type":"string","minLength":4000,"enum":["a"]}})", "enum together");
    QByteArray deep;
    for (int i = 0; i < 100; ++i)
        deep += R"({"type":"array","items":)";
    QTest::newRow("deep") << QString(deep + "{}" + QByteArray(100, '}')) << "nested";
}

void SchemaTest::refusesSchemas()
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

QTEST_GUILESS_MAIN(SchemaTest)
#include "tst_schema.moc"
