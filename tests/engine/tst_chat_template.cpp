// SPDX-License-Identifier: GPL-3.0-or-later
// Chat templates against recorded renders: whole templates on conversations, and one feature of the language each.
#include "engine/text/chat_template.h"
#include "tests/support/shared_data.h"
#include "tests/support/template_goldens.h"

#include <QElapsedTimer>
#include <QTest>

#include <map>

using engine::ChatTemplate;
using engine::Error;
using engine::Json;
using engine::TemplateInput;

namespace {

struct Outcome {
    bool failed = false;
    QByteArray text; ///< or the error
    const char *when = "";
};

template<class Render> Outcome outcomeOf(const std::string &source, const Render &render)
{
    std::unique_ptr<ChatTemplate> parsed;
    try {
        parsed = std::make_unique<ChatTemplate>(source);
    } catch (const Error &error) {
        return {true, error.what(), "compile"};
    }
    try {
        return {false, QByteArray::fromStdString(render(*parsed)), ""};
    } catch (const Error &error) {
        return {true, error.what(), "render"};
    }
}

QByteArray textOf(const Json &text)
{
    return QByteArray::fromStdString(text.get<std::string>());
}

void checkGolden(const Outcome &outcome, const Json &wanted, const QByteArray &label)
{
    if (wanted.contains("text")) {
        QVERIFY2(!outcome.failed, (label + ": " + outcome.text).constData());
        QVERIFY2(outcome.text == textOf(wanted["text"]), (label + " gave\n" + outcome.text).constData());
        return;
    }
    QVERIFY2(outcome.failed, (label + " gave a text instead of an error").constData());
    if (wanted["error"]["type"] == "TemplateError")
        QCOMPARE(outcome.text, textOf(wanted["error"]["message"]));
}

} // namespace

class TestChatTemplate : public QObject {
    Q_OBJECT

private slots:
    void conversations_data();
    void conversations();
    void features_data();
    void features();
    void messagesArePrepared();
    void dateIsFrozenOrNow();
    void longConversationIsQuick();
};

void TestChatTemplate::conversations_data()
{
    QTest::addColumn<QString>("folder");
    QTest::newRow("kept here") << shared_data::data(QStringLiteral("template"));
    QTest::newRow("reference data") << shared_data::path(QStringLiteral("goldens/template"));
}

void TestChatTemplate::conversations()
{
    QFETCH(QString, folder);
    if (folder.isEmpty())
        QSKIP("goldens/template is absent");
    std::map<std::string, Json> conversations;
    for (const Json &conversation : template_goldens::lines(folder + QStringLiteral("/conversations.jsonl")))
        conversations[conversation["id"].get<std::string>()] = conversation;
    int checked = 0;
    for (const auto &golden : template_goldens::goldens(folder)) {
        for (const Json &row : golden.rows) {
            const Json &conversation = conversations.at(row["id"].get<std::string>());
            TemplateInput input;
            input.messages = conversation["messages"];
            input.tools = conversation.value("tools", Json());
            input.documents = conversation.value("documents", Json());
            input.kwargs = conversation.value("kwargs", Json());
            input.addGenerationPrompt = row["add_generation_prompt"].get<bool>();
            input.date = template_goldens::kDate;
            input.specialTokens = golden.specialTokens;
            const QByteArray label = golden.name.toUtf8() + ", " + textOf(row["id"]);
            checkGolden(outcomeOf(golden.source, [&](const ChatTemplate &parsed) { return parsed.renderChat(input); }),
                        row, label);
            if (QTest::currentTestFailed())
                return;
            // Without the preparation of messages, where that makes a difference.
            Json context = golden.specialTokens;
            context.update(input.kwargs.is_null() ? Json::object() : input.kwargs);
            context["messages"] = input.messages;
            context["tools"] = input.tools;
            context["documents"] = input.documents;
            context["add_generation_prompt"] = input.addGenerationPrompt;
            checkGolden(
                outcomeOf(golden.source,
                          [&](const ChatTemplate &parsed) { return parsed.render(context, template_goldens::kDate); }),
                row.contains("raw") ? row["raw"] : row, label + ", raw");
            if (QTest::currentTestFailed())
                return;
            ++checked;
        }
    }
    QVERIFY(checked >= 270);
}

void TestChatTemplate::features_data()
{
    QTest::addColumn<QString>("path");
    QTest::newRow("features") << shared_data::data(QStringLiteral("template/jinja_features.jsonl"));
    QTest::newRow("semantics") << shared_data::data(QStringLiteral("template/jinja_semantics.jsonl"));
    QTest::newRow("reference data") << shared_data::path(QStringLiteral("goldens/template/jinja_features.jsonl"));
}

void TestChatTemplate::features()
{
    QFETCH(QString, path);
    if (path.isEmpty())
        QSKIP("goldens/template/jinja_features.jsonl is absent");
    const std::vector<Json> rows = template_goldens::lines(path);
    const Json context = rows.at(0)["context"];
    QVERIFY(rows.size() > 150);
    for (std::size_t i = 1; i < rows.size(); ++i) {
        const auto source = rows[i]["template"].get<std::string>();
        const Outcome outcome = outcomeOf(
            source, [&](const ChatTemplate &parsed) { return parsed.render(context, template_goldens::kDate); });
        const QByteArray label = QByteArray::fromStdString(source) + "\ngave " + outcome.when + " " + outcome.text;
        if (rows[i].contains("text"))
            QVERIFY2(!outcome.failed && outcome.text == textOf(rows[i]["text"]), label.constData());
        else
            QVERIFY2(outcome.when == textOf(rows[i]["error"]["when"]), label.constData());
    }
}

void TestChatTemplate::messagesArePrepared()
{
    const ChatTemplate shown("{{ messages | tojson }}{{ tools is none }}{{ documents is none }}{{ x }}");
    TemplateInput input;
    input.messages = Json::parse(R"([{"role": "user", "content": null, "thinking": "t"}])");
    input.kwargs = Json::parse(R"({"x": 5})");
    QCOMPARE(
        QString::fromStdString(shown.renderChat(input)),
        QStringLiteral(R"([{"role": "user", "thinking": "t", "reasoning_content": "t", "reasoning": "t"}]TrueTrue5)"));
    input.messages = Json::array();
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(shown.renderChat(input)), Error);
    input.messages = Json::parse(R"(["text"])");
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(shown.renderChat(input)), Error);
}

void TestChatTemplate::dateIsFrozenOrNow()
{
    const ChatTemplate shown("{{ strftime_now('%d %b %Y %H:%M') }}");
    const Json none = Json::object();
    QCOMPARE(QString::fromStdString(shown.render(none, "2024-02-29")), QStringLiteral("29 Feb 2024 00:00"));
    QCOMPARE(QString::fromStdString(shown.render(none, "1999-12-31T23:59:58")), QStringLiteral("31 Dec 1999 23:59"));
    QVERIFY(QString::fromStdString(ChatTemplate("{{ strftime_now('%Y') }}").render(none)).toInt() > 2024);
    for (const char *wrong : {"2024-13-01", "2024-01-01T", "yesterday", "2024-01-01T25:00:00", "2024-01-01T10:00:00Z"})
        QVERIFY_EXCEPTION_THROWN(static_cast<void>(shown.render(none, wrong)), Error);
}

void TestChatTemplate::longConversationIsQuick()
{
    const auto source = shared_data::read(shared_data::data(QStringLiteral("template/qwen3.jinja"))).toStdString();
    const ChatTemplate qwen(source);
    TemplateInput input;
    input.messages = Json::array();
    for (int i = 0; i < 1000; ++i) {
        input.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                                  {"content", std::string(1000, 'x') + "<think>\nt\n</think>\n\nanswer"}});
    }
    QElapsedTimer timer;
    timer.start();
    const std::string text = qwen.renderChat(input);
    // Generous, for sanitizers on a busy machine; a thousand messages take some milliseconds.
    QVERIFY2(timer.elapsed() < 3000, qPrintable(QString::number(timer.elapsed()) + QStringLiteral(" ms")));
    qInfo("1000 messages, %lld ms", static_cast<long long>(timer.elapsed()));
    QVERIFY(text.size() > 500'000);
}

QTEST_GUILESS_MAIN(TestChatTemplate)
#include "tst_chat_template.moc"
