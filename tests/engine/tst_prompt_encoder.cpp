// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/prompt_encoder.h"

#include "engine/api/error.h"
#include "tests/support/fake_served_model.h"

#include <QTest>

#include <algorithm>

using namespace engine;

namespace {

constexpr int context = 64;

Request chat(const std::vector<ChatMessage> &messages)
{
    Request request;
    request.messages = messages;
    return request;
}

QString failure(const PromptEncoder &encoder, const Request &request)
{
    try {
        (void)encoder.encode(request);
    } catch (const Error &error) {
        return error.code() == ErrorCode::Refused ? QString::fromLatin1(error.what()) : QStringLiteral("wrong code");
    }
    return {};
}

} // namespace

class TestPromptEncoder : public QObject {
    Q_OBJECT

private slots:
    /// The template writes its special tokens itself: they are read as such, and no second BOS is put before them.
    void messagesGoThroughTheTemplate()
    {
        const FakeTokenizer tokenizer;
        const ChatTemplate chatTemplate(
            "{{ bos_token }}{% for m in messages %}{{ m.role[0] }}.{{ m.content }}{{ eos_token }}"
            "{% endfor %}{% if add_generation_prompt %}a.{% endif %}");
        const PromptEncoder encoder(tokenizer, &chatTemplate, FakeTokenizer::size, context);
        const std::vector<int> ids = encoder.encode(chat({{"user", "the b"}}));
        QCOMPARE(ids, tokenizer.encode("<s>u.the b</s>a.", {false, true}));
        QCOMPARE(ids[0], FakeTokenizer::bosId);
        QVERIFY(ids[1] != FakeTokenizer::bosId);
        QCOMPARE(std::ranges::count(ids, FakeTokenizer::endId), 1);
    }

    void aTemplateThatRaisesRefusesTheRequest()
    {
        const FakeTokenizer tokenizer;
        const ChatTemplate chatTemplate("{{ raise_exception('roles must alternate') }}");
        const PromptEncoder encoder(tokenizer, &chatTemplate, FakeTokenizer::size, context);
        QVERIFY(failure(encoder, chat({{"user", "a"}})).contains("roles must alternate"));
    }

    void aTextPromptIsPreferredToIdsAndMessages()
    {
        const FakeTokenizer tokenizer;
        const PromptEncoder encoder(tokenizer, nullptr, FakeTokenizer::size, context);
        Request request = chat({{"user", "a"}});
        request.ids = std::vector<int>{5, 6};
        QCOMPARE(encoder.encode(request), (std::vector<int>{5, 6}));
        request.prompt = "a";
        QCOMPARE(encoder.encode(request), (std::vector<int>{FakeTokenizer::bosId, 2}));
    }

    void specialTextIsReadOnlyWhenAskedFor()
    {
        const FakeTokenizer tokenizer;
        const PromptEncoder encoder(tokenizer, nullptr, FakeTokenizer::size, context);
        Request request;
        request.prompt = "a</s>";
        QCOMPARE(std::ranges::count(encoder.encode(request), FakeTokenizer::endId), 0);
        request.parseSpecial = true;
        QCOMPARE(std::ranges::count(encoder.encode(request), FakeTokenizer::endId), 1);
    }

    void samplingIsChecked()
    {
        QCOMPARE(checkSampling({}), std::string());
        SamplingParams params;
        params.stop = std::vector<std::string>(65, "x");
        QVERIFY(checkSampling(params).find("65") != std::string::npos);
        params = {};
        params.topK = -1;
        QVERIFY(checkSampling(params).find("top-k: found -1") != std::string::npos);
        params = {};
        params.maxTokens = -5;
        QVERIFY(checkSampling(params).find("max-tokens") != std::string::npos);
        params = {};
        params.logprobs = 100000;
        QVERIFY(checkSampling(params).find("logprobs") != std::string::npos);
    }
};

QTEST_GUILESS_MAIN(TestPromptEncoder)
#include "tst_prompt_encoder.moc"
