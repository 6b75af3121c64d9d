// SPDX-License-Identifier: GPL-3.0-or-later
// Reads every #include line of the tree against the table of who may include whom.
#include <QDir>
#include <QDirIterator>
#include <QFile>
#include <QRegularExpression>
#include <QTest>

namespace {

/// Files whose path begins with `from` may include project files whose path begins with one of `to`.
/// The longest matching `from` counts.
struct Rule {
    const char *from;
    QStringList to;
};

const QList<Rule> &rules()
{
    static const QList<Rule> table{
        {"kernels/", {"kernels/"}},
        {"engine/api/", {"engine/api/"}},
        {"engine/api/error.h", {"kernels/error.h"}},
        {"engine/core/", {"engine/core/", "engine/api/", "kernels/*"}},
        {"engine/io/", {"engine/io/", "engine/core/", "engine/api/", "kernels/*"}},
        {"engine/text/", {"engine/text/", "engine/core/", "engine/api/", "kernels/*"}},
        {"engine/cache/", {"engine/cache/", "engine/core/", "engine/api/", "kernels/*"}},
        {"engine/models/",
         {"engine/models/", "engine/io/", "engine/text/", "engine/cache/", "engine/core/", "engine/api/", "kernels/*"}},
        {"engine/runtime/",
         {"engine/runtime/", "engine/models/", "engine/io/", "engine/text/", "engine/cache/", "engine/core/",
          "engine/api/", "kernels/*"}},
        {"engine/lab/", {"engine/lab/", "engine/api/", "engine/core/"}},
        {"engine/library/", {"engine/library/", "engine/api/", "engine/core/", "engine/io/"}},
        {"ui/", {"ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/chat/", {"ui/chat/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/models/", {"ui/models/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/tune/", {"ui/tune/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/lab/", {"ui/lab/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/devices/", {"ui/devices/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/inspect/", {"ui/inspect/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/server/", {"ui/server/", "ui/widgets/", "ui/*", "engine/api/", "engine/lab/", "engine/library/"}},
        {"ui/main_window", {"ui/", "engine/api/", "engine/lab/", "engine/library/"}},
        {"app/", {"app/", "ui/", "engine/api/", "engine/lab/", "engine/library/"}},
        {"app/window/", {"app/window/", "app/serve/", "ui/server_control.h", "engine/api/"}},
        {"app/cli/", {"app/cli/", "app/serve/", "engine/api/", "engine/lab/", "engine/library/"}},
        {"app/serve/", {"app/serve/", "engine/api/", "engine/lab/", "engine/library/"}},
        {"tests/", {"tests/", "kernels/", "engine/", "ui/", "app/"}},
    };
    return table;
}

const Rule *ruleFor(const QString &file)
{
    const Rule *best = nullptr;
    for (const Rule &rule : rules())
        if (file.startsWith(QLatin1String(rule.from)) && (!best || qstrlen(rule.from) > qstrlen(best->from)))
            best = &rule;
    return best;
}

/// "folder/*" allows the files of that folder itself, "folder/" everything below it.
bool matches(const QString &included, const QString &allowed)
{
    if (!allowed.endsWith(QLatin1Char('*')))
        return included.startsWith(allowed);
    const QString folder = allowed.chopped(1);
    return included.startsWith(folder) && !included.mid(folder.size()).contains(QLatin1Char('/'));
}

bool mayUseQt(const QString &file)
{
    return file.startsWith("ui/") || file == "app/main.cpp" || file.startsWith("tests/");
}

QString faultOf(const QString &file, const QString &included, bool quoted)
{
    static const QRegularExpression qtHeader("^(Qt[A-Z][A-Za-z]*/|Q[A-Z])");
    if (included.contains("qcustomplot") && file != "ui/widgets/plot.cpp")
        return "only ui/widgets/plot.cpp may include qcustomplot.h";
    if (!quoted)
        return qtHeader.match(included).hasMatch() && !mayUseQt(file) ? "Qt is for ui, app/main.cpp and tests"
                                                                      : QString();
    if (included.endsWith(".moc"))
        return {};
    if (!included.contains(QLatin1Char('/')))
        return "project files are included from the repository root";
    const Rule *rule = ruleFor(file);
    for (const QString &allowed : rule ? rule->to : QStringList())
        if (matches(included, allowed))
            return {};
    return "may not be included from here";
}

QStringList sourceFiles()
{
    QStringList files;
    const QDir root(QStringLiteral(LATHE_SOURCE_DIR));
    for (const char *folder : {"kernels", "engine", "ui", "app", "tests"}) {
        QDirIterator it(root.filePath(folder), {"*.h", "*.cpp", "*.cu", "*.cuh"}, QDir::Files,
                        QDirIterator::Subdirectories);
        while (it.hasNext())
            files += root.relativeFilePath(it.next());
    }
    files.sort();
    return files;
}

QByteArray contents(const QString &file)
{
    QFile source(QDir(QStringLiteral(LATHE_SOURCE_DIR)).filePath(file));
    return source.open(QIODevice::ReadOnly) ? source.readAll() : QByteArray();
}

} // namespace

class IncludeRulesTest : public QObject {
    Q_OBJECT

private slots:
    void everyIncludeIsAllowed();
    void everyFileHasItsLicenceAndSize();
    void theTableCatchesBreaches_data();
    void theTableCatchesBreaches();
};

void IncludeRulesTest::everyIncludeIsAllowed()
{
    static const QRegularExpression line("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]",
                                         QRegularExpression::MultilineOption);
    QStringList faults;
    int includes = 0;
    for (const QString &file : sourceFiles()) {
        auto found = line.globalMatch(QString::fromUtf8(contents(file)));
        while (found.hasNext()) {
            const QRegularExpressionMatch match = found.next();
            ++includes;
            if (const QString fault = faultOf(file, match.captured(2), match.captured(1) == "\""); !fault.isEmpty())
                faults += file + " includes " + match.captured(2) + ": " + fault;
        }
    }
    QVERIFY(includes > 100);
    QVERIFY2(faults.isEmpty(), qPrintable("\n" + faults.join('\n')));
}

void IncludeRulesTest::everyFileHasItsLicenceAndSize()
{
    QStringList faults;
    for (const QString &file : sourceFiles()) {
        const QByteArray text = contents(file);
        if (!text.startsWith("// SPDX-License-Identifier: GPL-3.0-or-later\n"))
            faults += file + ": the first line is not the SPDX line";
        const qsizetype limit = file.endsWith(".h") || file.endsWith(".cuh") ? 300 : 600;
        if (text.count('\n') > limit)
            faults += QStringLiteral("%1: %2 lines, at most %3 are allowed").arg(file).arg(text.count('\n')).arg(limit);
    }
    QVERIFY2(faults.isEmpty(), qPrintable("\n" + faults.join('\n')));
}

void IncludeRulesTest::theTableCatchesBreaches_data()
{
    QTest::addColumn<QString>("file");
    QTest::addColumn<QString>("included");
    QTest::addColumn<bool>("quoted");
    QTest::addColumn<bool>("allowed");
    QTest::newRow("kernels must not know engine") << "kernels/cpu/a.cpp" << "engine/api/error.h" << true << false;
    QTest::newRow("engine sees the kernel interface") << "engine/models/a.cpp" << "kernels/ops.h" << true << true;
    QTest::newRow("engine must not know a backend")
        << "engine/models/a.cpp" << "kernels/cpu/cpu_ops.h" << true << false;
    QTest::newRow("siblings") << "engine/io/a.cpp" << "engine/text/tokenizer.h" << true << false;
    QTest::newRow("downwards only") << "engine/core/a.cpp" << "engine/io/checkpoint.h" << true << false;
    QTest::newRow("ui sees the api") << "ui/chat/a.cpp" << "engine/api/engine.h" << true << true;
    QTest::newRow("ui must not go deeper") << "ui/chat/a.cpp" << "engine/runtime/scheduler.h" << true << false;
    QTest::newRow("pages do not meet") << "ui/chat/a.cpp" << "ui/tune/tune_page.h" << true << false;
    QTest::newRow("widgets know no page") << "ui/widgets/a.cpp" << "ui/chat/chat_page.h" << true << false;
    QTest::newRow("no Qt in engine") << "engine/core/a.cpp" << "QString" << false << false;
    QTest::newRow("no Qt module in cli") << "app/cli/a.cpp" << "QtCore/QString" << false << false;
    QTest::newRow("plots stay in one file") << "ui/tune/a.cpp" << "qcustomplot.h" << false << false;
}

void IncludeRulesTest::theTableCatchesBreaches()
{
    QFETCH(QString, file);
    QFETCH(QString, included);
    QFETCH(bool, quoted);
    QFETCH(bool, allowed);
    QCOMPARE(faultOf(file, included, quoted).isEmpty(), allowed);
}

QTEST_GUILESS_MAIN(IncludeRulesTest)
#include "tst_include_rules.moc"
