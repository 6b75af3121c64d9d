// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"
#include "ui/chat/block_splitter.h"
#include "ui/chat/code_lines.h"
#include "ui/chat/markdown.h"

#include <QDir>
#include <QElapsedTimer>
#include <QtTest>

using namespace ui;
using Role = Piece::Role;

namespace {

/// Feeds `source` in pieces of `step` characters (0: all at once) and returns all blocks.
std::vector<SourceRange> split(const QString &source, int step = 0)
{
    BlockSplitter splitter;
    std::vector<SourceRange> all;
    const auto take = [&] {
        for (const SourceRange &range : splitter.takeClosed())
            all.push_back(range);
    };
    for (qsizetype n = step; step > 0 && n < source.size(); n += step) {
        splitter.append(QStringView(source).left(n));
        take();
    }
    splitter.append(source);
    take();
    if (const SourceRange last = splitter.open(source.size()); last.end > last.begin)
        all.push_back(last);
    return all;
}

QString roleName(Role role)
{
    static const char *names[] = {"p", "h1", "h2", "h3", "td", "th", "hr", "code"};
    return QString::fromLatin1(names[static_cast<int>(role)]);
}

/// One line a piece: role, depth, quote, marker, text.
QStringList sketch(const std::vector<Piece> &pieces)
{
    QStringList out;
    for (const Piece &p : pieces)
        out << QStringLiteral("%1 %2%3 %4|%5").arg(roleName(p.role)).arg(p.depth).arg(p.quote).arg(p.marker, p.text);
    return out;
}

QStringList sketchBlocks(const QString &source, int step)
{
    QStringList out;
    for (const SourceRange &range : split(source, step)) {
        if (range.kind != BlockKind::Fence) {
            out += sketch(renderBlock(source, range, false));
            continue;
        }
        CodeLines lines;
        lines.extend(source, range, false);
        QString code = lines.text(source);
        if (code.endsWith(u'\n'))
            code.chop(1);
        out << QStringLiteral("code 00 |") + displayText(code, true);
    }
    return out;
}

QStringList sketchWhole(const QString &source)
{
    return sketch(renderBlock(source, {0, source.size(), BlockKind::Text}, false));
}

} // namespace

class TestMarkdown : public QObject {
    Q_OBJECT

private slots:
    void blocksEqualOneParse_data();
    void blocksEqualOneParse();
    void designDocumentsBlockwise();
    void kinds_data();
    void kinds();
    void rangesCoverTheSource();
    void longBlocksAreCut_data();
    void longBlocksAreCut();
    void tableParts();
    void shortDelimitersMakeATable();
    void longFenceInAListGoesOn();
    void closedBlocksNeverChange();
    void openEmphasisIsEnded_data();
    void openEmphasisIsEnded();
    void links_data();
    void links();
    void lateDefinitions();
    void imagesAndHtmlAreText();
    void displayTextShowsMarks();
    void entities();
    void codeLines();
    void hostile_data();
    void hostile();
};

void TestMarkdown::blocksEqualOneParse_data()
{
    QTest::addColumn<QString>("source");
    QTest::newRow("paragraphs") << "One\ntwo\n\nThree\n\n\nFour";
    QTest::newRow("headings") << "# A\ntext\n## B ##\n\nSetext\n===\n\nOther\n---\n#hashtag\n";
    QTest::newRow("tight list") << "- a\n- b\n  - c\n    - d\n- e\n\ntext";
    QTest::newRow("loose list") << "1. a\n\n   more\n\n2. b\n\n- c\n";
    QTest::newRow("list after text") << "Steps:\n1. a\n2. b\n\n3. c\n\nend";
    QTest::newRow("bullet after text") << "Text\n- a\n- b\nlazy\n";
    QTest::newRow("task list") << "- [ ] open\n- [x] done\n";
    QTest::newRow("fence") << "before\n```cpp\nint a;\n\n# no heading\n```\nafter\n";
    QTest::newRow("fence of tildes holds backticks") << "~~~\n```\nx\n```\n~~~\n";
    QTest::newRow("longer fence") << "````\n```\n````\nx\n";
    QTest::newRow("fence in list") << "1. a\n   ```py\n   x = 1\n\n   y = 2\n   ```\n2. b\n";
    QTest::newRow("quote") << "> a\n> b\n>\n> - c\n\nd";
    QTest::newRow("quote with fence") << "> ```\n> code\n> ```\n\nd";
    QTest::newRow("lazy quote") << "> a\nb\n\nc";
    QTest::newRow("indented code") << "a\n\n    code\n\n    more\n\nb";
    QTest::newRow("table") << "| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\nx";
    QTest::newRow("table without outer pipes") << "a | b\n---|---\n1 | 2\n";
    QTest::newRow("rule") << "a\n\n---\n\nb\n\n* * *\n";
    QTest::newRow("emphasis") << "*a* **b** ***c*** ~~d~~ `e` _f_ __g__ \\*h\\*\n";
    QTest::newRow("hard break") << "a  \nb\\\nc\n";
    QTest::newRow("dash under text is a heading") << "Title\n-\n";
    QTest::newRow("html") << "<div>\n<b>x</b>\n</div>\n\n<script>alert(1)</script>\n";
    QTest::newRow("empty") << "";
    QTest::newRow("blank lines") << "\n\n\n";
    QTest::newRow("crlf") << "a\r\n\r\n- b\r\n- c\r\n";
    QTest::newRow("non-latin") << "量化对比:**Q4_K** 与 AWQ\n\n- 一\n- 二\n\n🙂 emoji\n";
}

void TestMarkdown::blocksEqualOneParse()
{
    QFETCH(QString, source);
    const QStringList wanted = sketchWhole(source);
    for (const int step : {0, 1, 2, 3, 5, 7, 40})
        QCOMPARE(sketchBlocks(source, step), wanted);
}

void TestMarkdown::designDocumentsBlockwise()
{
    const QString folder = shared_data::path(QStringLiteral("design"));
    if (folder.isEmpty())
        QSKIP("design documents are absent (design/*.md)");
    int documents = 0;
    for (const QFileInfo &file : QDir(folder).entryInfoList({QStringLiteral("*.md")})) {
        const QString source = QString::fromUtf8(shared_data::read(file.filePath()));
        QVERIFY(!source.isEmpty());
        // Cuts make two pieces of one paragraph or list, so the texts are compared without their borders.
        const auto letters = [](const QStringList &pieces) {
            QString all;
            for (const QString &piece : pieces)
                all += QString(piece.mid(piece.indexOf(u'|') + 1)).remove(QRegularExpression(QStringLiteral("\\s")));
            return all;
        };
        const QString wanted = letters(sketchWhole(source));
        QCOMPARE(letters(sketchBlocks(source, 5)), wanted);
        QCOMPARE(sketchBlocks(source, 5), sketchBlocks(source, 0));
        ++documents;
    }
    QVERIFY(documents > 0);
}

void TestMarkdown::kinds_data()
{
    QTest::addColumn<QString>("source");
    QTest::addColumn<QString>("kinds");
    QTest::newRow("all") << "t\n\n> q\n\n- l\n\n| a |\n|---|\n\n```\nf\n```\n\n    i\n"
                         << "Text Quote List Table Fence Indented";
    QTest::newRow("heading stands alone") << "a\n# b\nc" << "Text Text Text";
    QTest::newRow("fence ends at its own length") << "````\n```\n````\na" << "Fence Text";
    QTest::newRow("second line makes a table") << "a | b\n--|--\n" << "Table";
}

void TestMarkdown::kinds()
{
    QFETCH(QString, source);
    QFETCH(QString, kinds);
    static const char *names[] = {"Text", "Quote", "List", "Table", "Indented", "Fence"};
    QStringList found;
    for (const SourceRange &range : split(source))
        found << QString::fromLatin1(names[static_cast<int>(range.kind)]);
    QCOMPARE(found.join(u' '), kinds);
}

void TestMarkdown::rangesCoverTheSource()
{
    quint32 seed = 99;
    const QString alphabet = QStringLiteral("ab \n\n-*#`>|1.[]:~_\t");
    for (int round = 0; round < 2000; ++round) {
        QString source;
        for (int i = 0; i < 60; ++i) {
            seed = seed * 1664525 + 1013904223;
            source += alphabet.at(static_cast<int>(seed >> 16) % alphabet.size());
        }
        for (const int step : {0, 1, 4}) {
            qsizetype at = 0;
            for (const SourceRange &range : split(source, step)) {
                QCOMPARE(range.begin, at);
                QVERIFY(range.end > range.begin);
                at = range.end;
                QVERIFY(renderBlock(source, range, true).size() < 200);
            }
            QCOMPARE(at, source.size());
        }
    }
}

void TestMarkdown::longBlocksAreCut_data()
{
    QTest::addColumn<QString>("source");
    QTest::newRow("prose without line ends") << QStringLiteral("lorem ipsum ").repeated(20000);
    QTest::newRow("no space at all") << QString(200000, u'x');
    QTest::newRow("prose with line ends") << QStringLiteral("lorem ipsum dolor sit amet\n").repeated(8000);
    QTest::newRow("list") << QStringLiteral("- item of a list\n").repeated(8000);
    QTest::newRow("one item") << QStringLiteral("- ") + QStringLiteral("word ").repeated(40000);
    QTest::newRow("table") << QStringLiteral("| a | b |\n|---|---|\n") + QStringLiteral("| 1 | 2 |\n").repeated(8000);
    QTest::newRow("quote") << QStringLiteral("> quoted line of text\n").repeated(8000);
    QTest::newRow("indented") << QStringLiteral("    code line\n").repeated(8000);
    QTest::newRow("fence in a list") << QStringLiteral("- a\n  ```\n") + QStringLiteral("  code line\n").repeated(8000);
}

void TestMarkdown::longBlocksAreCut()
{
    QFETCH(QString, source);
    BlockSplitter splitter;
    qsizetype longest = 0;
    for (qsizetype n = 1000; n <= source.size(); n += 1000) {
        splitter.append(QStringView(source).left(n));
        const SourceRange open = splitter.open(n);
        if (open.kind != BlockKind::Fence)
            longest = std::max(longest, open.end - open.begin);
    }
    QVERIFY2(longest <= BlockSplitter::hardLimit + 1024, qPrintable(QString::number(longest)));
}

void TestMarkdown::tableParts()
{
    QString source = QStringLiteral("| name | value |\n|---|--:|\n");
    for (int i = 0; i < 1000; ++i)
        source += QStringLiteral("| row %1 | %2 |\n").arg(i).arg(i * 7);
    int cells = 0;
    int parts = 0;
    for (const SourceRange &range : split(source, 50)) {
        ++parts;
        for (const Piece &piece : renderBlock(source, range, false)) {
            if (piece.role == Role::HeadCell)
                QCOMPARE(range.begin, 0);
            if (piece.role != Role::Cell)
                continue;
            QCOMPARE(piece.text,
                     piece.column == 0 ? QStringLiteral("row %1").arg(cells / 2) : QString::number(cells / 2 * 7));
            QCOMPARE(piece.align, piece.column == 0 ? Qt::AlignLeft : Qt::AlignRight);
            ++cells;
        }
    }
    QCOMPARE(cells, 2000);
    QVERIFY(parts > 3);
}

void TestMarkdown::longFenceInAListGoesOn()
{
    QString source = QStringLiteral("1. item\n   ```cpp\n");
    for (int i = 0; i < 3000; ++i)
        source += QStringLiteral("   int v%1;\n").arg(i);
    source += QStringLiteral("   ```\n\nafter\n");
    const auto blocks = split(source, 100);
    QCOMPARE(blocks.size(), 3u);
    QCOMPARE(blocks[1].kind, BlockKind::Fence);
    CodeLines lines;
    lines.extend(source, blocks[1], false);
    QCOMPARE(lines.languageName(), QStringLiteral("cpp"));
    QCOMPARE(lines.line(source, lines.count() - 1).toString(), QStringLiteral("int v2999;"));
    QCOMPARE(sketch(renderBlock(source, blocks[2], false)), QStringList{QStringLiteral("p 00 |after")});
}

void TestMarkdown::closedBlocksNeverChange()
{
    const QString source =
        QStringLiteral("# T\ntext *a*\n\n- x\n- y\n\n```c\nint a;\n```\n| a |\n|---|\n| 1 |\n\nend of it\n");
    const auto whole = split(source);
    for (int n = 1; n < source.size(); ++n) {
        BlockSplitter splitter;
        splitter.append(QStringView(source).left(n));
        const auto closed = splitter.takeClosed();
        QVERIFY(closed.size() <= whole.size());
        for (std::size_t i = 0; i < closed.size(); ++i) {
            QCOMPARE(closed[i].begin, whole[i].begin);
            QCOMPARE(closed[i].end, whole[i].end);
        }
    }
}

void TestMarkdown::openEmphasisIsEnded_data()
{
    QTest::addColumn<QString>("source");
    QTest::addColumn<QString>("shown");
    QTest::addColumn<int>("style");
    QTest::newRow("strong") << "a **bo" << "a bo" << int(TextSpan::Strong);
    QTest::newRow("emphasis") << "a *it" << "a it" << int(TextSpan::Emphasis);
    QTest::newRow("code") << "a `co" << "a co" << int(TextSpan::Code);
    QTest::newRow("marker alone is hidden") << "a **" << "a " << 0;
    QTest::newRow("half an end marker") << "a **bo*" << "a bo" << int(TextSpan::Strong);
    QTest::newRow("lone bullet is held") << "text\n\n-" << "text" << 0;
    QTest::newRow("number is held") << "text\n12." << "text" << 0;
    QTest::newRow("hash is held") << "##" << "" << 0;
    QTest::newRow("fence beginning is held") << "text\n``" << "text" << 0;
}

void TestMarkdown::openEmphasisIsEnded()
{
    QFETCH(QString, source);
    QFETCH(QString, shown);
    QFETCH(int, style);
    QString text;
    int styles = 0;
    for (const SourceRange &range : split(source))
        for (const Piece &piece : renderBlock(source, range, true)) {
            text += piece.text;
            for (const TextSpan &span : piece.spans)
                styles |= span.style;
        }
    QCOMPARE(text.trimmed(), shown.trimmed());
    QCOMPARE(styles, style);
}

void TestMarkdown::links_data()
{
    QTest::addColumn<QString>("address");
    QTest::addColumn<bool>("safe");
    for (const char *good : {"http://a.b", "https://a.b/c?d=e", "HTTPS://A.B", "mailto:a@b.c"})
        QTest::newRow(good) << QString::fromLatin1(good) << true;
    for (const char *bad :
         {"javascript:alert(1)", "file:///etc/passwd", "\\\\\\\\host\\\\share", "//host/x", "data:text/html,x",
          "vbscript:x", "smb://h/s", "relative/path", "#anchor", "java\tscript:x", " javascript:x", "ftp://a"})
        QTest::newRow(bad) << QString::fromLatin1(bad) << false;
}

void TestMarkdown::links()
{
    QFETCH(QString, address);
    QFETCH(bool, safe);
    QCOMPARE(isSafeLink(address), safe);
    const QString source = QStringLiteral("[text](<%1>)").arg(address);
    for (const Piece &piece : renderBlock(source, {0, source.size(), BlockKind::Text}, false))
        for (const TextSpan &span : piece.spans)
            QVERIFY(safe && (span.style & TextSpan::Link));
}

void TestMarkdown::lateDefinitions()
{
    const QString source = QStringLiteral("See [the page][p].\n\nMore.\n\n[p]: https://example.org/x\n");
    BlockSplitter splitter;
    splitter.append(source);
    QVERIFY(splitter.references().contains(QStringLiteral("https://example.org/x")));
    const auto blocks = split(source);
    QVERIFY(renderBlock(source, blocks[0], false)[0].spans.isEmpty());
    const auto pieces = renderBlock(source, blocks[0], false, splitter.references());
    QCOMPARE(pieces[0].text, QStringLiteral("See the page."));
    QCOMPARE(pieces[0].spans.size(), 1);
    QCOMPARE(pieces[0].spans[0].href, QStringLiteral("https://example.org/x"));
}

void TestMarkdown::shortDelimitersMakeATable()
{
    for (const char *delimiters : {"|-|-|", "|:-:|--|", "-|-", "|---|:-|"}) {
        const QString source = QStringLiteral("| a | b |\n%1\n| 1 | - |").arg(QLatin1String(delimiters));
        const auto pieces = renderBlock(source, split(source, 3)[0], false);
        QCOMPARE(pieces.size(), std::size_t(4));
        QVERIFY2(pieces[0].role == Role::HeadCell && pieces[3].role == Role::Cell, delimiters);
        QCOMPARE(pieces[3].text, QStringLiteral("-"));
    }
}

void TestMarkdown::imagesAndHtmlAreText()
{
    QCOMPARE(sketchWhole(QStringLiteral("![alt text](http://x/y.png) <img src=x>")),
             QStringList{QStringLiteral("p 00 |alt text <img src=x>")});
    QCOMPARE(sketchWhole(QStringLiteral("---")).size(), 1);
}

void TestMarkdown::displayTextShowsMarks()
{
    QCOMPARE(displayText(QStringLiteral("a\u202Eb"), true), QStringLiteral("a<U+202E>b"));
    QCOMPARE(displayText(QStringLiteral("a\u202Eb"), false), QStringLiteral("a\u202Eb"));
    QCOMPARE(displayText(QStringView(u"a\x1b[0m\x7f"), false), QStringLiteral("a\u241B[0m\u2421"));
    QCOMPARE(displayText(QStringLiteral("a\tb\nc"), true), QStringLiteral("a\tb\nc"));
    QCOMPARE(displayText(QString(u'e') + QString(20000, QChar(0x301)), false).size(), 9);
    QCOMPARE(displayText(QString(QChar(0xD800)) + u'x', false), QStringLiteral("\uFFFDx"));
    QCOMPARE(displayText(QStringLiteral("🙂"), true), QStringLiteral("🙂"));
    const auto code = renderBlock(u"`a\u202Eb`", {0, 5, BlockKind::Text}, false);
    QCOMPARE(code[0].text, QStringLiteral("a<U+202E>b"));
}

void TestMarkdown::entities()
{
    QCOMPARE(sketchWhole(QStringLiteral("&amp; &lt;b&gt; &hellip; &#8212; &#x41; &nosuch; &#0; &#xD800;")),
             QStringList{QStringLiteral("p 00 |& <b> … — A &nosuch; \uFFFD \uFFFD")});
}

void TestMarkdown::codeLines()
{
    const QString source =
        QStringLiteral("```cpp title\nint a;\n\n/* b\nc */\n") + QString(5000, u'x') + QStringLiteral("\n```\n");
    CodeLines grown;
    for (qsizetype n = 1; n < source.size(); ++n)
        grown.extend(source, {0, n, BlockKind::Fence}, true);
    grown.extend(source, {0, source.size(), BlockKind::Fence}, false);
    CodeLines whole;
    whole.extend(source, {0, source.size(), BlockKind::Fence}, false);
    QCOMPARE(whole.languageName(), QStringLiteral("cpp"));
    QCOMPARE(whole.count(), 9);
    QCOMPARE(grown.count(), whole.count());
    for (int i = 0; i < whole.count(); ++i) {
        QCOMPARE(grown.line(source, i), whole.line(source, i));
        QCOMPARE(grown.state(i), whole.state(i));
        QCOMPARE(whole.isBroken(source, i), i >= 4 && i <= 7);
    }
    QVERIFY(whole.state(3) != 0);
    QCOMPARE(whole.text(source), source.mid(13).chopped(4));
    CodeLines open;
    open.extend(u"```\nab\n``", {0, 9, BlockKind::Fence}, true);
    QCOMPARE(open.count(), 1);
    CodeLines empty;
    empty.extend(u"```\n```", {0, 7, BlockKind::Fence}, false);
    QCOMPARE(empty.count(), 0);
}

void TestMarkdown::hostile_data()
{
    QTest::addColumn<QString>("source");
    QTest::newRow("asterisks") << QString(100000, u'*') + u'a';
    QTest::newRow("open brackets") << QString(50000, u'[') + QStringLiteral("a]");
    QTest::newRow("open links") << QStringLiteral("[a](").repeated(20000);
    QTest::newRow("quotes in quotes") << QString(20000, u'>') + u'a';
    QTest::newRow("backticks of every length") << [] {
        QString s;
        for (int n = 1; n < 400; ++n)
            s += QString(n, u'`') + u'a';
        return s;
    }();
    QTest::newRow("wide table") << QStringLiteral("|a").repeated(2000) + u'\n' + QStringLiteral("|-").repeated(2000)
            + u'\n' + QStringLiteral("|1").repeated(2000) + u'\n';
    QTest::newRow("deep list") << [] {
        QString s;
        for (int n = 0; n < 500; ++n)
            s += QString(n * 2, u' ') + QStringLiteral("- x\n");
        return s;
    }();
    QTest::newRow("combining marks") << QString(u'e') + QString(20000, QChar(0x301));
    QTest::newRow("definitions") << QStringLiteral("[a]: http://x\n").repeated(8000) + QStringLiteral("\n[a]");
    const hostile::Cases cases;
    for (const hostile::Case &input : cases.group(QStringLiteral("markdown")))
        QTest::newRow(qPrintable(input.name)) << QString::fromUtf8(shared_data::read(input.path));
}

/// Splitting and parsing as the view does, one flush a kilobyte; every flush stays far under a frame.
void TestMarkdown::hostile()
{
    QFETCH(QString, source);
    BlockSplitter splitter;
    QElapsedTimer timer;
    qint64 worst = 0;
    std::size_t most = 0;
    for (qsizetype n = 0; n < source.size();) {
        n = std::min(n + 1000, source.size());
        timer.start();
        splitter.append(QStringView(source).left(n));
        auto blocks = splitter.takeClosed();
        blocks.push_back(splitter.open(n));
        for (const SourceRange &range : blocks)
            if (range.kind != BlockKind::Fence)
                for (const Piece &piece : renderBlock(source, range, range.end == n)) {
                    QVERIFY(piece.depth <= maxListDepth && piece.quote <= maxQuoteDepth
                            && piece.column < maxTableColumns);
                    most = std::max<std::size_t>(most, static_cast<std::size_t>(piece.text.size()));
                }
        worst = std::max(worst, timer.nsecsElapsed());
    }
    qInfo("worst flush %.2f ms, longest piece %zu", double(worst) / 1e6, most);
    QVERIFY2(worst < 50'000'000, "one flush took 50 ms or more");
}

QTEST_GUILESS_MAIN(TestMarkdown)
#include "tst_markdown.moc"
