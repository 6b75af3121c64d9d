// SPDX-License-Identifier: GPL-3.0-or-later
// Broken and costly templates end as the collection's manifest says, and a sound one still works afterwards.
#include "engine/text/chat_template.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"

#include <QFile>
#include <QJsonDocument>
#include <QTest>

#include <ctime>

using engine::ChatTemplate;
using engine::Error;
using engine::Json;

namespace {

// Sanitizers slow everything down and shadow the memory; the manifest's limits are for ordinary builds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSlack = 5;
constexpr double kKeptMib = 256; // freed memory that AddressSanitizer holds back
#else
constexpr double kSlack = 1;
constexpr double kKeptMib = 0;
#endif

double statusKib(const char *key)
{
    QFile status(QStringLiteral("/proc/self/status"));
    if (!status.open(QIODevice::ReadOnly))
        return 0;
    for (const QByteArray &line : status.readAll().split('\n')) {
        if (line.startsWith(key))
            return line.mid(static_cast<int>(qstrlen(key))).trimmed().split(' ').first().toDouble();
    }
    return 0;
}

void resetPeak()
{
    QFile file(QStringLiteral("/proc/self/clear_refs"));
    if (file.open(QIODevice::WriteOnly))
        file.write("5");
}

/// Seconds of processor time: tests run beside others, whose load must not count.
double processorSeconds()
{
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

struct Outcome {
    bool refused = false;
    QString text;
};

Outcome render(const std::string &source, const Json &context)
{
    try {
        return {false, QString::fromStdString(ChatTemplate(source).render(context))};
    } catch (const Error &error) {
        return {true, QString::fromUtf8(error.what())};
    }
}

std::string fileText(const QString &path)
{
    return shared_data::read(path).toStdString();
}

} // namespace

class TestChatTemplateHostile : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void cases_data();
    void cases();
    void everyPrefixOfTheControl();
    void budgets_data();
    void budgets();
    void valuesThatHoldThemselves();
    void longChainsOfValues();

private:
    void checkControl();

    hostile::Cases m_cases;
    Json m_context = Json::object();
};

void TestChatTemplateHostile::initTestCase()
{
    const auto context = m_cases.manifest().value(QStringLiteral("template_context")).toObject();
    if (!context.isEmpty())
        m_context = Json::parse(QJsonDocument(context).toJson().toStdString());
}

void TestChatTemplateHostile::checkControl()
{
    const Outcome control = render(fileText(m_cases.control(QStringLiteral("template")).path), m_context);
    QVERIFY2(!control.refused, qPrintable(control.text));
    QVERIFY(control.text.contains(QStringLiteral("Hello")));
}

void TestChatTemplateHostile::cases_data()
{
    if (!m_cases.problem().isEmpty())
        QSKIP(qPrintable(m_cases.problem()));
    QTest::addColumn<int>("number");
    const auto all = m_cases.group(QStringLiteral("template"));
    QVERIFY(all.size() >= 45);
    for (int i = 0; i < all.size(); ++i)
        QTest::newRow(qPrintable(all[i].name)) << i;
}

void TestChatTemplateHostile::cases()
{
    QFETCH(int, number);
    const hostile::Case input = m_cases.group(QStringLiteral("template")).at(number);
    const std::string source = fileText(input.path);
    resetPeak();
    const double before = statusKib("VmRSS:");
    const double start = processorSeconds();
    const Outcome outcome = render(source, m_context);
    const double seconds = processorSeconds() - start;
    const double extraMib = (statusKib("VmHWM:") - before) / 1024;
    QVERIFY2(seconds < input.seconds * kSlack, qPrintable(QString::number(seconds)));
    QVERIFY2(extraMib < input.extraMib * kSlack + kKeptMib, qPrintable(QString::number(extraMib)));
    QVERIFY2(!outcome.refused || input.outcome != QStringLiteral("accept"), qPrintable(outcome.text));
    QVERIFY2(outcome.refused || input.outcome != QStringLiteral("refuse"), qPrintable(outcome.text.left(200)));
    if (outcome.refused) {
        const QString missing = hostile::missingWords(input, outcome.text);
        QVERIFY2(missing.isEmpty(), qPrintable(outcome.text + QStringLiteral("\nlacks ") + missing));
        QVERIFY(outcome.text.size() < 8192);
    } else {
        QVERIFY(static_cast<double>(outcome.text.toUtf8().size()) <= input.outputKib * 1024);
    }
    checkControl();
}

void TestChatTemplateHostile::everyPrefixOfTheControl()
{
    if (!m_cases.problem().isEmpty())
        QSKIP(qPrintable(m_cases.problem()));
    const std::string source = fileText(m_cases.control(QStringLiteral("template")).path);
    int refused = 0;
    for (std::size_t size = 0; size < source.size(); ++size)
        refused += render(source.substr(0, size), m_context).refused ? 1 : 0;
    QVERIFY(refused > 20);
    checkControl();
}

void TestChatTemplateHostile::budgets_data()
{
    QTest::addColumn<QByteArray>("source");
    QTest::addColumn<QByteArray>("word"); ///< empty where an end without error is right
    const auto row = [](const char *name, const QByteArray &source, const char *word) {
        QTest::newRow(name) << source << QByteArray(word);
    };
    const QByteArray loops = "{% for a in range(100000) %}{% for b in range(100000) %}";
    row("nested loops", loops + "{% endfor %}{% endfor %}", "limit");
    row("nested loops with output", loops + "x{% endfor %}{% endfor %}", "limit");
    row("search in a loop",
        "{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% if 'b' in s %}{% endif %}{% endfor %}", "limit");
    row("search from the end",
        "{% set s = 'a' * 1000000 %}{% set n = 'a' + 'b' * 500000 %}{% for a in range(1000) %}{{ s.rfind(n) }}{% "
        "endfor %}",
        "limit");
    row("upper in a loop", "{% set s = 'a' * 1000000 %}{% for a in range(100000) %}{% set t = s | upper %}{% endfor %}",
        "limit");
    row("sort in a loop", "{% set l = range(100000) | list %}{% for a in l %}{% set t = l | sort %}{% endfor %}",
        "limit");
    row("equal lists in a loop",
        "{% set l = range(100000) | list %}{% set m = range(100000) | list %}{% for a in l %}{% if l == m %}{% endif "
        "%}{% endfor %}",
        "limit");
    row("power", "{{ 9 ** (9 ** 9) }}", "limit");
    row("large product",
        "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x > 0 }}",
        "limit");
    row("many digits", "{{ 7 ** 6000 }}", "limit");
    row("list times", "{{ [0] * 100000000 }}", "limit");
    row("growing list",
        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}", "limit");
    row("values in values",
        "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
        "limit");
    row("the same as json",
        "{% set ns = namespace(l=[1]) %}{% for i in range(64) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | "
        "tojson }}",
        "limit");
    row("deep values",
        "{% set ns = namespace(l=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}",
        "level");
    row("deep values compared",
        "{% set ns = namespace(l=[1], m=[1]) %}{% for i in range(5000) %}{% set ns.l = [ns.l] %}{% set ns.m = [ns.m] "
        "%}{% endfor %}{{ ns.l == ns.m }}",
        "level");
    row("slices", "{{ [1] | slice(100000000) | list | length }}", "limit");
    row("batches", "{{ [1] | batch(1000000000, 0) | list | length }}", "limit");
    row("indent", "{{ ('a\n' * 100000) | indent(100000) | length }}", "limit");
    row("ljust", "{{ 'x'.ljust(4000000000) }}", "limit");
    row("zfill", "{{ 'x'.zfill(9223372036854775807) }}", "limit");
    row("expandtabs", "{{ '\t'.expandtabs(9223372036854775807) }}", "limit");
    row("format width", "{{ '{:2000000000}'.format(1) }}", "limit");
    row("format precision", "{{ '%.2000000000f' % 1 }}", "limit");
    row("recursive loop", "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}", "limit");
    row("self in a block", "{% block a %}{{ self.a() }}{% endblock %}", "limit");
    row("caller in caller", "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}", "limit");
    row("long sum", "{{ 1" + QByteArray("+1").repeated(50000) + " }}", "");
    row("long chain of attributes", "{{ a" + QByteArray(".b").repeated(50000) + " }}", "level");
    row("long chain of filters", "{{ 'a'" + QByteArray("|trim").repeated(50000) + " }}", "level");
    row("nots", "{{ " + QByteArray("not ").repeated(50000) + "1 }}", "level");
    row("conditions", "{{ 1" + QByteArray(" if 1 else 1").repeated(50000) + " }}", "level");
    row("brackets in brackets", "{{ a" + QByteArray("[a").repeated(50000) + QByteArray("]").repeated(50000) + " }}",
        "level");
    row("calls in calls", "{{ a" + QByteArray("(a").repeated(50000) + QByteArray(")").repeated(50000) + " }}", "level");
    row("half a million braces", QByteArray("{ ").repeated(500000), "");
    row("many tags", QByteArray("{{ 1 }}").repeated(400000), "limit");
}

void TestChatTemplateHostile::budgets()
{
    QFETCH(QByteArray, source);
    QFETCH(QByteArray, word);
    resetPeak();
    const double before = statusKib("VmRSS:");
    const double start = processorSeconds();
    const Outcome outcome = render(source.toStdString(), m_context);
    const double seconds = processorSeconds() - start;
    QVERIFY2(seconds < kSlack, qPrintable(QString::number(seconds)));
    const double extraMib = (statusKib("VmHWM:") - before) / 1024;
    QVERIFY2(extraMib < 64 * kSlack + kKeptMib, qPrintable(QString::number(extraMib)));
    QVERIFY2(outcome.refused == !word.isEmpty(), qPrintable(outcome.text.left(200)));
    QVERIFY2(outcome.text.contains(QString::fromUtf8(word)), qPrintable(outcome.text.left(200)));
}

void TestChatTemplateHostile::valuesThatHoldThemselves()
{
    const Outcome printed = render("{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns }}", m_context);
    QVERIFY(printed.refused);
    const Outcome compared = render("{% set a = namespace() %}{% set b = namespace() %}{% set a.x = {'k': a} %}"
                                    "{% macro m() %}{{ a }}{% endmacro %}{% set a.m = m %}{{ a == b }}{{ [a] == [a] }}",
                                    m_context);
    QCOMPARE(compared.text, QStringLiteral("FalseTrue"));
}

void TestChatTemplateHostile::longChainsOfValues()
{
    // A linked list of namespaces, dropped at once: freeing it must not recurse.
    const Outcome outcome =
        render("{% set ns = namespace(head=none) %}{% for i in range(50000) %}"
               "{% set ns.head = namespace(next=ns.head) %}{% endfor %}{% set ns.head = 1 %}{{ ns.head }}",
               m_context);
    QCOMPARE(outcome.text, QStringLiteral("1"));
}

QTEST_GUILESS_MAIN(TestChatTemplateHostile)
#include "tst_chat_template_hostile.moc"
