// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/highlight.h"

#include <QtTest>

using namespace ui;

/// One letter per character: k keyword, t type, s string, n number, c comment, + and - diff lines, . plain.
static QString sketch(const QString &language, const QStringList &lines)
{
    const auto *lang = highlight::find(language);
    if (!lang)
        return QStringLiteral("unknown");
    QStringList out;
    int state = 0;
    for (const QString &line : lines) {
        QVector<highlight::Span> spans;
        state = highlight::lexLine(*lang, line, state, &spans);
        QString marks(line.size(), u'.');
        for (const auto &span : spans)
            for (int i = span.start; i < span.start + span.length; ++i)
                marks[i] = QStringLiteral("ktsnc+-").at(static_cast<int>(span.token));
        out << marks;
    }
    return out.join(u'/');
}

class TestHighlight : public QObject {
    Q_OBJECT

private slots:
    void marksTokens_data();
    void marksTokens();
    void stateOfALineIsEnough();
    void unknownLanguageIsNull();
    void survivesAnything();
};

void TestHighlight::marksTokens_data()
{
    QTest::addColumn<QString>("language");
    QTest::addColumn<QStringList>("lines");
    QTest::addColumn<QString>("marks");
    QTest::newRow("cpp") << "cpp" << QStringList{"int a = 0x1F; // no"} << "ttt.....nnnn..ccccc";
    QTest::newRow("cpp block comment") << "C++" << QStringList{"a /* b", "c */ if"} << "..cccc/cccc.kk";
    QTest::newRow("cpp string with escape") << "c" << QStringList{"\"a\\\"b\" x"} << "ssssss..";
    QTest::newRow("unclosed string ends with its line") << "c" << QStringList{"\"ab", "if"} << "sss/kk";
    QTest::newRow("python triple") << "python" << QStringList{"x = \"\"\"a", "def", "\"\"\" def"}
                                   << "....ssss/sss/sss.kkk";
    QTest::newRow("shell comment needs space") << "sh" << QStringList{"echo $#a # b"} << "tttt.....ccc";
    QTest::newRow("sql any case") << "sql" << QStringList{"SELECT a from t -- x"} << "kkkkkk...kkkk...cccc";
    QTest::newRow("diff") << "diff" << QStringList{"@@ 1", "+a", "-b", " c"} << "kkkk/++/--/..";
    QTest::newRow("html") << "html" << QStringList{"<p class=\"a\">", "</p>"} << ".k.......sss./..k.";
    QTest::newRow("yaml key") << "yaml" << QStringList{"name: true # x"} << "tttt..kkkk.ccc";
    QTest::newRow("json") << "json" << QStringList{"{\"a\": 1.5, \"b\": null}"} << ".sss..nnn..sss..kkkk.";
    QTest::newRow("rust lifetime is no string")
        << "rust" << QStringList{"fn f<'a>(x: &'a str)"} << "kk..............ttt.";
}

void TestHighlight::marksTokens()
{
    QFETCH(QString, language);
    QFETCH(QStringList, lines);
    QFETCH(QString, marks);
    QCOMPARE(sketch(language, lines), marks);
}

void TestHighlight::stateOfALineIsEnough()
{
    const auto *cpp = highlight::find(u"cpp");
    QVERIFY(cpp);
    const int inside = highlight::lexLine(*cpp, u"/* open", 0, nullptr);
    QVERIFY(inside != 0);
    QCOMPARE(highlight::lexLine(*cpp, u"still", inside, nullptr), inside);
    QCOMPARE(highlight::lexLine(*cpp, u"done */ int x;", inside, nullptr), 0);
}

void TestHighlight::unknownLanguageIsNull()
{
    QVERIFY(!highlight::find(u""));
    QVERIFY(!highlight::find(u"klingon"));
}

void TestHighlight::survivesAnything()
{
    quint32 seed = 12345;
    for (const char *name : {"cpp", "js", "rust", "go", "python", "sh", "sql", "json", "yaml", "html", "diff"}) {
        const auto *language = highlight::find(QString::fromLatin1(name));
        QVERIFY2(language, name);
        int state = 0;
        for (int n = 0; n < 500; ++n) {
            QString line;
            for (int i = 0; i < n % 37; ++i) {
                seed = seed * 1664525 + 1013904223;
                line += QStringLiteral("\"'`/*-#<!>\\+@ a1_:\t").at(static_cast<int>(seed >> 16) % 19);
            }
            QVector<highlight::Span> spans;
            state = highlight::lexLine(*language, line, state, &spans);
            int end = 0;
            for (const auto &span : spans) {
                QVERIFY(span.start >= end && span.length > 0);
                end = span.start + span.length;
                QVERIFY(end <= line.size());
            }
        }
    }
}

QTEST_GUILESS_MAIN(TestHighlight)
#include "tst_highlight.moc"
