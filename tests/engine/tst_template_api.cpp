// SPDX-License-Identifier: GPL-3.0-or-later
// Where chat templates are found: GGUF files, configurations, folders and bare files.
#include "engine/api/error.h"
#include "engine/api/text.h"
#include "tests/support/shared_data.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

using engine::Error;
using engine::ErrorCode;
using engine::openTemplates;
using engine::RenderRequest;

namespace {

RenderRequest hello()
{
    RenderRequest request;
    request.messagesJson = R"([{"role": "user", "content": "Hi"}])";
    return request;
}

QString rendered(const std::string &path, const std::string &name = "default")
{
    return QString::fromStdString(openTemplates(path)->render(hello(), name));
}

QString errorOf(const std::string &path)
{
    try {
        return rendered(path);
    } catch (const Error &error) {
        return QStringLiteral("error: ") + QString::fromUtf8(error.what());
    }
}

} // namespace

class TestTemplateApi : public QObject {
    Q_OBJECT

private slots:
    void init() { m_dir = std::make_unique<QTemporaryDir>(); }
    void configuration();
    void severalTemplates();
    void folderForms();
    void bareFile();
    void tools();
    void faults();
    void bareTemplate();
    void demoModel();

private:
    std::string write(const QString &name, const QByteArray &content)
    {
        const QString path = m_dir->filePath(name);
        QDir().mkpath(QFileInfo(path).path());
        QFile file(path);
        if (!file.open(QIODevice::WriteOnly) || file.write(content) != content.size())
            qFatal("cannot write %s", qPrintable(path));
        return path.toStdString();
    }

    std::unique_ptr<QTemporaryDir> m_dir;
};

void TestTemplateApi::configuration()
{
    const std::string path =
        write(QStringLiteral("tokenizer_config.json"),
              R"({"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token }}",
                                       "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null})");
    QCOMPARE(rendered(path), QStringLiteral("<s>Hi</s>"));
    QCOMPARE(rendered(m_dir->path().toStdString()), QStringLiteral("<s>Hi</s>"));
    write(QStringLiteral("tokenizer.json"), "{}");
    QCOMPARE(rendered(m_dir->filePath(QStringLiteral("tokenizer.json")).toStdString()), QStringLiteral("<s>Hi</s>"));
}

void TestTemplateApi::severalTemplates()
{
    const std::string path =
        write(QStringLiteral("tokenizer_config.json"),
              R"({"chat_template": [{"name": "rag", "template": "R"}, {"name": "broken", "template": "{{"},
                                                         {"name": "default", "template": "D"}]})");
    const auto model = openTemplates(path);
    QCOMPARE(model->names(), (std::vector<std::string>{"default", "rag", "broken"}));
    QCOMPARE(model->render(hello()), std::string("D"));
    QCOMPARE(model->render(hello(), "rag"), std::string("R"));
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(model->render(hello(), "broken")), Error);
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(model->render(hello(), "other")), Error);
}

void TestTemplateApi::folderForms()
{
    const std::string folder = m_dir->path().toStdString();
    write(QStringLiteral("chat_template.json"), R"({"chat_template": "old {{ bos_token }}"})");
    write(QStringLiteral("tokenizer_config.json"), R"({"bos_token": "B"})");
    QCOMPARE(rendered(folder), QStringLiteral("old B"));
    write(QStringLiteral("chat_template.jinja"), "new {{ bos_token }}\n");
    write(QStringLiteral("additional_chat_templates/tool_use.jinja"), "tools {{ bos_token }}");
    QCOMPARE(rendered(folder), QStringLiteral("new B"));
    QCOMPARE(rendered(folder, "tool_use"), QStringLiteral("tools B"));
}

void TestTemplateApi::bareFile()
{
    QCOMPARE(rendered(write(QStringLiteral("any.jinja"), "{{ messages | length }}{{ tools }}")),
             QStringLiteral("1None"));
}

/// Tools of another shape are never written into the prompt.
void TestTemplateApi::tools()
{
    write(QStringLiteral("any.jinja"), "{% for tool in tools %}[{{ tool.name }}]{% endfor %}");
    const auto model = openTemplates(m_dir->filePath(QStringLiteral("any.jinja")).toStdString());
    RenderRequest request = hello();
    request.toolsJson = R"([{"name": "a"}, {"name": "b"}])";
    QCOMPARE(QString::fromStdString(model->render(request)), QStringLiteral("[a][b]"));
    for (const char *wrong : {R"({"name": "a"})", R"(["a"])", R"("a")", "1"}) {
        request.toolsJson = wrong;
        try {
            (void)model->render(request);
            QFAIL(wrong);
        } catch (const Error &error) {
            QCOMPARE(error.code(), ErrorCode::Refused);
            QVERIFY2(QByteArray(error.what()).contains("tool"), error.what());
        }
    }
}

void TestTemplateApi::faults()
{
    QVERIFY(errorOf(m_dir->filePath(QStringLiteral("absent")).toStdString()).contains(QStringLiteral("no such file")));
    QVERIFY(errorOf(m_dir->path().toStdString()).contains(QStringLiteral("no chat template")));
    QVERIFY(
        errorOf(write(QStringLiteral("c.json"), R"({"chat_template": 5})")).contains(QStringLiteral("chat_template")));
    QVERIFY(errorOf(write(QStringLiteral("d.json"), R"({"chat_template": [{"name": "a"}]})"))
                .contains(QStringLiteral("chat_template")));
    QVERIFY(errorOf(write(QStringLiteral("e.json"), "[]")).contains(QStringLiteral("object")));
    QVERIFY(errorOf(write(QStringLiteral("f.jinja"), "a\n{% nope %}")).contains(QStringLiteral("line 2")));
    const auto model = openTemplates(write(QStringLiteral("g.jinja"), "x"));
    RenderRequest request = hello();
    request.messagesJson = "[";
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(model->render(request)), Error);
    request.messagesJson = "{}";
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(model->render(request)), Error);
    request = hello();
    request.kwargsJson = "[]";
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(model->render(request)), Error);
}

void TestTemplateApi::bareTemplate()
{
    QCOMPARE(
        engine::renderTemplate("{{ a }} {{ strftime_now('%Y') }}", R"({"a": 100000000000000000000})", "2020-01-02"),
        std::string("100000000000000000000 2020"));
    // An integer keeps its digits, whatever their number, and a float stays one.
    QCOMPARE(engine::renderTemplate("{{ a }} {{ a[0] + 1 }} {{ a | tojson }}",
                                    R"({"a": [-123456789012345678901234567890, 1e22, 18446744073709551616, 1e20]})"),
             std::string("[-123456789012345678901234567890, 1e+22, 18446744073709551616, 1e+20]"
                         " -123456789012345678901234567889"
                         " [-123456789012345678901234567890, 1e+22, 18446744073709551616, 1e+20]"));
    QVERIFY_EXCEPTION_THROWN(static_cast<void>(engine::renderTemplate("x", "[]")), Error);
}

void TestTemplateApi::demoModel()
{
    if (shared_data::demoModel().isEmpty())
        QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is absent");
    QCOMPARE(rendered(shared_data::demoModel().toStdString()),
             QStringLiteral(
                 "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
                 "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"));
}

QTEST_GUILESS_MAIN(TestTemplateApi)
#include "tst_template_api.moc"
