// SPDX-License-Identifier: GPL-3.0-or-later
// Answers of every family that marks reasoning and tool calls, token by token, come apart into the right fields.
#include "engine/api/text.h"
#include "engine/text/call_scanner.h"
#include "engine/text/output_parser.h"
#include "tests/support/shared_data.h"

#include <QString>
#include <QTest>

#include <map>

namespace {

using engine::Answer;
using engine::OutputDelta;
using engine::ToolCall;

/// 256 bytes, then the markers that a test names, then an end token.
class Vocabulary {
public:
    explicit Vocabulary(std::initializer_list<const char *> markers)
    {
        engine::VocabularyData data;
        data.model = "gpt2";
        data.pre = "gpt-2";
        int next = 256;
        for (int byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
            data.tokens.push_back(QString(QChar(printable ? byte : next++)).toStdString());
        }
        data.kinds.assign(data.tokens.size(), engine::TokenKind::Normal);
        for (const char *marker : markers) {
            m_markers[marker] = static_cast<int>(data.tokens.size());
            data.tokens.emplace_back(marker);
            data.kinds.push_back(engine::TokenKind::UserDefined);
        }
        data.eos = static_cast<int>(data.tokens.size());
        data.tokens.emplace_back("<|stop|>");
        data.kinds.push_back(engine::TokenKind::Control);
        m_tokenizer = engine::makeTokenizer(data);
    }

    [[nodiscard]] const engine::Tokenizer &tokenizer() const { return *m_tokenizer; }

    /// Markers where they are written, single bytes elsewhere.
    [[nodiscard]] std::vector<int> ids(std::string_view text) const
    {
        std::vector<int> ids;
        while (!text.empty()) {
            const auto marker =
                std::ranges::find_if(m_markers, [text](const auto &one) { return text.starts_with(one.first); });
            ids.push_back(marker != m_markers.end() ? marker->second : static_cast<unsigned char>(text.front()));
            text.remove_prefix(marker != m_markers.end() ? marker->first.size() : 1);
        }
        return ids;
    }

    [[nodiscard]] Answer read(std::string_view answer, std::string_view prompt = {}, bool offersTools = false) const
    {
        return engine::readAnswer(*m_tokenizer, ids(answer), ids(prompt), offersTools);
    }

private:
    std::map<std::string, int> m_markers;
    std::unique_ptr<engine::Tokenizer> m_tokenizer;
};

const Vocabulary &tagged()
{
    static const Vocabulary vocabulary{"<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>"};
    return vocabulary;
}

const Vocabulary &harmony()
{
    static const Vocabulary vocabulary{"<|start|>",     "<|end|>",    "<|message|>", "<|channel|>",
                                       "<|constrain|>", "<|return|>", "<|call|>"};
    return vocabulary;
}

const Vocabulary &deepSeek()
{
    static const Vocabulary vocabulary{"<think>",
                                       "</think>",
                                       "<｜tool▁calls▁begin｜>",
                                       "<｜tool▁calls▁end｜>",
                                       "<｜tool▁call▁begin｜>",
                                       "<｜tool▁call▁end｜>",
                                       "<｜tool▁sep｜>"};
    return vocabulary;
}

const Vocabulary &mistral()
{
    static const Vocabulary vocabulary{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"};
    return vocabulary;
}

const Vocabulary &llama()
{
    static const Vocabulary vocabulary{"<|python_tag|>", "<|start_header_id|>", "<|eot_id|>"};
    return vocabulary;
}

using Calls = std::vector<ToolCall>;

} // namespace

class TestOutputParser : public QObject {
    Q_OBJECT

private slots:
    void splitsReasoningFromContent()
    {
        const Answer answer = tagged().read("<think>\nFirst,\n\nsecond.\n</think>\n\nThe answer.\n");
        QCOMPARE(answer.reasoning, std::string("First,\n\nsecond."));
        QCOMPARE(answer.content, std::string("The answer.\n"));
        QVERIFY(answer.toolCalls.empty());
    }

    void keepsWrittenMarkersAsText()
    {
        // The characters, not the token: as when a model explains the markup.
        std::vector<int> ids;
        for (const char byte : std::string("use <think> here"))
            ids.push_back(static_cast<unsigned char>(byte));
        QCOMPARE(engine::readAnswer(tagged().tokenizer(), ids, {}, false).content, std::string("use <think> here"));
    }

    void beginsWhereThePromptLeavesOff()
    {
        const Answer open = tagged().read("Hm.</think>Yes", "<|im_start|>assistant\n<think>\n");
        QCOMPARE(open.reasoning, std::string("Hm."));
        QCOMPARE(open.content, std::string("Yes"));
        const Answer closed = tagged().read("Yes", "<|im_start|>assistant\n<think>\n\n</think>\n\n");
        QCOMPARE(closed.reasoning, std::string());
        QCOMPARE(closed.content, std::string("Yes"));
    }

    void keepsReasoningThatWasCutOff()
    {
        const Answer answer = tagged().read("<think>\nGoing on and");
        QCOMPARE(answer.reasoning, std::string("Going on and"));
        QCOMPARE(answer.content, std::string());
    }

    void readsTaggedCalls()
    {
        const Answer answer = tagged().read(
            "Let me look.\n<tool_call>\n{\"name\": \"find\", \"arguments\": {\"q\": \"a }\\\" b\", \"n\": [1, {}]}}\n"
            "</tool_call>\n<tool_call>\n{\"arguments\": {\"x\": 1}, \"name\": \"go\"}\n</tool_call>");
        QCOMPARE(answer.content, std::string("Let me look."));
        QCOMPARE(answer.toolCalls, (Calls{{"find", "{\"q\": \"a }\\\" b\", \"n\": [1, {}]}"}, {"go", "{\"x\": 1}"}}));
    }

    void keepsWhatIsNoCallAsContent()
    {
        const Answer answer = tagged().read("<tool_call>{\"nome\": 1}</tool_call>");
        QVERIFY(answer.toolCalls.empty());
        QCOMPARE(answer.content, std::string("{\"nome\": 1}"));
        QCOMPARE(tagged().read("<tool_call>call it").content, std::string("callit")); // white space belongs to no field
    }

    void readsHarmonyChannels()
    {
        const Answer answer = harmony().read("<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>"
                                             "commentary<|message|>One moment.<|end|><|start|>assistant<|channel|>final"
                                             "<|message|>Done.",
                                             "<|start|>user<|message|>hi<|end|><|start|>assistant");
        QCOMPARE(answer.reasoning, std::string("Think."));
        QCOMPARE(answer.content, std::string("One moment.\n\nDone."));
    }

    void readsHarmonyCalls_data()
    {
        QTest::addColumn<QString>("text");
        QTest::newRow("after the channel")
            << "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"a\":1}";
        QTest::newRow("after the role")
            << "<|channel|>analysis<|message|>x<|end|><|start|>assistant to=functions.get<|channel|>commentary "
               "<|constrain|>json<|message|>{\"a\":1}<|call|>";
    }
    void readsHarmonyCalls()
    {
        QFETCH(QString, text);
        const Answer answer = harmony().read(text.toStdString(), "<|start|>assistant");
        QCOMPARE(answer.content, std::string());
        QCOMPARE(answer.toolCalls, (Calls{{"get", "{\"a\":1}"}}));
    }

    void followsAHarmonyPromptIntoAMessage()
    {
        const Answer answer = harmony().read("deep<|end|><|start|>assistant<|channel|>final<|message|>ok",
                                             "<|start|>assistant<|channel|>analysis<|message|>");
        QCOMPARE(answer.reasoning, std::string("deep"));
        QCOMPARE(answer.content, std::string("ok"));
        QCOMPARE(harmony().read("no header at all", "<|start|>assistant").content, std::string("no header at all"));
        QCOMPARE(harmony().read("plain", "text").content, std::string("plain"));
    }

    void readsDeepSeekCalls_data()
    {
        QTest::addColumn<QString>("text");
        QTest::newRow("V3")
            << "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"a\": 1}\n"
               "```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>put\n```json\n{}\n```"
               "<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
        QTest::newRow("V3.1") << "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get<｜tool▁sep｜>{\"a\": 1}"
                                 "<｜tool▁call▁end｜><｜tool▁call▁begin｜>put<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
                                 "<｜tool▁calls▁end｜>";
    }
    void readsDeepSeekCalls()
    {
        QFETCH(QString, text);
        const Answer answer = deepSeek().read("<think>so</think>I look." + text.toStdString());
        QCOMPARE(answer.reasoning, std::string("so"));
        QCOMPARE(answer.content, std::string("I look."));
        QCOMPARE(answer.toolCalls, (Calls{{"get", "{\"a\": 1}"}, {"put", "{}"}}));
    }

    void readsMistralCalls_data()
    {
        QTest::addColumn<QString>("text");
        QTest::newRow("list")
            << "[TOOL_CALLS] [{\"name\": \"get\", \"arguments\": {\"a\": 1}}, {\"name\": \"put\", \"arguments\": {}}]";
        QTest::newRow("arguments marker") << "[TOOL_CALLS]get[ARGS]{\"a\": 1}[TOOL_CALLS]put[ARGS]{}";
        QTest::newRow("call ids") << "[TOOL_CALLS]get[CALL_ID]abc123[ARGS]{\"a\": 1}[TOOL_CALLS]put[CALL_ID]d[ARGS]{}";
        QTest::newRow("name and object") << "[TOOL_CALLS]get{\"a\": 1}[TOOL_CALLS]put{}";
    }
    void readsMistralCalls()
    {
        QFETCH(QString, text);
        const Answer answer = mistral().read("[THINK]so[/THINK]" + text.toStdString());
        QCOMPARE(answer.reasoning, std::string("so"));
        QCOMPARE(answer.content, std::string());
        QCOMPARE(answer.toolCalls, (Calls{{"get", "{\"a\": 1}"}, {"put", "{}"}}));
    }

    void readsLlamaCalls()
    {
        const char *call = "{\"name\": \"get\", \"parameters\": {\"a\": \"1\"}}";
        QCOMPARE(llama().read(std::string("<|python_tag|>") + call).toolCalls, (Calls{{"get", "{\"a\": \"1\"}"}}));
        QCOMPARE(llama().read(call, {}, true).toolCalls, (Calls{{"get", "{\"a\": \"1\"}"}}));
        QCOMPARE(llama().read(call).content, std::string(call)); // no tools were offered: JSON is the answer
        QCOMPARE(llama().read("{\"x\": 2}", {}, true).content, std::string("{\"x\": 2}"));
        QCOMPARE(llama().read(" plain", {}, true).content, std::string(" plain"));
        QCOMPARE(llama().read("<|python_tag|>print(1)").toolCalls, (Calls{{"python", "{\"code\":\"print(1)\"}"}}));
    }

    void streamsNamesAndArgumentsEarly()
    {
        engine::CallScanner scanner;
        std::vector<engine::ToolCallDelta> out;
        scanner.append("[{\"name\": \"get\"", out);
        QCOMPARE(out.size(), std::size_t(1));
        QCOMPARE(out[0].name, std::string("get"));
        out.clear();
        scanner.append(", \"arguments\": {\"a\": \"x", out);
        QCOMPARE(out.size(), std::size_t(1));
        QCOMPARE(out[0].arguments, std::string("{\"a\": \"x"));
        out.clear();
        scanner.append("y\"}}, {\"name\": \"b\", \"arguments\": \"{\\\"k\\\": 1}\"}]", out);
        std::vector<ToolCall> calls;
        engine::appendToolCalls(calls, out);
        QCOMPARE(calls, (Calls{{"", "y\"}"}, {"b", "{\"k\": 1}"}}));
        QCOMPARE(scanner.finish(), std::string());
    }

    /// Every answer, cut after any number of tokens, loses nothing but markup and never crashes.
    void takesAnswersCutAnywhere()
    {
        const std::string text =
            "<think>a\n</think>b<tool_call>{\"name\": \"f\", \"arguments\": {\"k\": [1]}}</tool_call>c";
        const std::vector<int> ids = tagged().ids(text);
        for (std::size_t count = 0; count <= ids.size(); ++count) {
            const std::vector<int> some(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
            const Answer answer = engine::readAnswer(tagged().tokenizer(), some, {}, false);
            QVERIFY(std::string("a").starts_with(answer.reasoning.substr(0, 1)));
            QVERIFY(answer.toolCalls.size() <= 1);
        }
    }

    /// The published vocabularies have the markers as tokens of their own.
    void readsAnswersOfPublishedVocabularies_data()
    {
        QTest::addColumn<QString>("name");
        QTest::addColumn<QString>("text");
        QTest::addColumn<QString>("reasoning");
        QTest::newRow("qwen3") << "qwen3"
                               << "<think>\nso\n</think>\n\nHi<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": "
                                  "\"é\"}}\n</tool_call>"
                               << "so";
        QTest::newRow("qwen2.5") << "qwen2_5"
                                 << "Hi<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": \"é\"}}\n</tool_call>"
                                 << "";
        QTest::newRow("gpt-oss")
            << "gptoss"
            << "<|channel|>analysis<|message|>so<|end|><|start|>assistant<|channel|>commentary<|message|>Hi<|end|>"
               "<|start|>assistant<|channel|>commentary to=functions.get <|constrain|>json<|message|>{\"a\": "
               "\"é\"}<|call|>"
            << "so";
        QTest::newRow("deepseek-v3")
            << "deepseek_v3"
            << "Hi<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get\n```json\n{\"a\": "
               "\"é\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            << "";
        QTest::newRow("mistral-nemo") << "mistral_nemo"
                                      << "Hi[TOOL_CALLS][{\"name\": \"get\", \"arguments\": {\"a\": \"é\"}}]"
                                      << "";
        QTest::newRow("llama-3.2") << "llama3_2"
                                   << "Hi<|python_tag|>{\"name\": \"get\", \"parameters\": {\"a\": \"é\"}}<|eom_id|>"
                                   << "";
    }
    void readsAnswersOfPublishedVocabularies()
    {
        QFETCH(QString, name);
        QFETCH(QString, text);
        QFETCH(QString, reasoning);
        const QString folder = shared_data::path("tokenizers/" + name);
        if (folder.isEmpty())
            QSKIP(qPrintable("no reference tokenizer " + name));
        const auto model = engine::openTextModel(folder.toStdString());
        const Answer answer =
            engine::readAnswer(*model, model->encode(text.toStdString(), {false, true}),
                               model->encode(name == "gptoss" ? "<|start|>assistant" : "x", {false, true}), true);
        QCOMPARE(answer.content, std::string("Hi"));
        QCOMPARE(answer.reasoning, reasoning.toStdString());
        QCOMPARE(answer.toolCalls, (Calls{{"get", "{\"a\": \"é\"}"}}));
    }
};

QTEST_GUILESS_MAIN(TestOutputParser)
#include "tst_output_parser.moc"
