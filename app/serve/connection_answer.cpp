// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/api_error.h"
#include "app/serve/client_name.h"
#include "app/serve/connection.h"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <utility>

namespace serve {
void Connection::submit(CompletionRequest request)
{
    m_answer = makeAnswer(request, m_shared.api.newAnswer(request.chat));
    std::vector<engine::Request> prompts = std::move(request.prompts);
    for (engine::Request &prompt : prompts)
        prompt.client = clientName(m_userAgent, prompt.client);
    m_request = std::move(request);
    m_state = State::Answering;
    m_accepted = m_ended = 0;
    m_opened = m_begun = false;
    setDue(m_shared.limits.ping);
    m_shared.hub.submit(std::move(prompts), m_request->n, shared_from_this(),
                        [this](const std::vector<engine::RequestId> &ids) { m_ids = ids; });
}

void Connection::take(std::vector<engine::Event> events)
{
    auto batch = std::make_shared<std::vector<engine::Event>>(std::move(events));
    boost::asio::post(executor(), [self = shared_from_this(), batch] {
        for (const engine::Event &event : *batch)
            self->onEvent(event);
    });
}

std::size_t Connection::choiceOf(engine::RequestId id) const
{
    return static_cast<std::size_t>(std::ranges::find(m_ids, id) - m_ids.begin());
}

/// Events of an answer that was given up come on until its requests have ended; they find no choice.
void Connection::onEvent(const engine::Event &event)
{
    if (m_state != State::Answering)
        return;
    if (const auto *accepted = std::get_if<engine::RequestAccepted>(&event)) {
        const std::size_t choice = choiceOf(accepted->id);
        if (choice >= m_ids.size())
            return;
        m_answer->accepted(choice, accepted->promptTokens);
        if (++m_accepted == m_ids.size())
            openAnswer();
    } else if (const auto *token = std::get_if<engine::TokenEvent>(&event)) {
        const std::size_t choice = choiceOf(token->id);
        if (choice >= m_ids.size())
            return;
        beginAnswer();
        sendPiece(m_answer->tokens(choice, *token));
        if (m_state == State::Answering && m_answer->heldBytes() > m_shared.limits.answerBytes)
            failAnswer({400,
                        "the answer has more than " + std::to_string(m_shared.limits.answerBytes)
                            + " bytes; ask for it as a stream, for less of it or without logprobs"});
    } else if (const auto *finished = std::get_if<engine::RequestFinished>(&event)) {
        if (const std::size_t choice = choiceOf(finished->id); choice < m_ids.size())
            onFinished(choice, *finished);
    }
}

void Connection::onFinished(std::size_t choice, const engine::RequestFinished &finished)
{
    if (finished.reason == engine::FinishReason::Failed || finished.reason == engine::FinishReason::Cancelled) {
        failAnswer(fromFinished(finished));
        return;
    }
    beginAnswer();
    sendPiece(m_answer->finished(choice, finished));
    if (m_state == State::Answering && ++m_ended == m_ids.size())
        closeAnswer();
}

/// The head of a stream waits until the engine has taken all choices, so that a refusal has its own status.
void Connection::openAnswer()
{
    if (std::exchange(m_opened, true) || !m_request->stream)
        return;
    HttpResponse response;
    response.contentType = "text/event-stream; charset=utf-8";
    response.headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
    m_keepAlive = m_keepAlive && m_chunked;
    send(headText(response, m_chunked ? Framing::Chunks : Framing::Close, m_keepAlive));
}

/// What an answer begins with comes with its first output, by which clients tell the time to it.
void Connection::beginAnswer()
{
    openAnswer();
    if (!std::exchange(m_begun, true))
        sendPiece(m_answer->begin());
}

/// A reader that lets more than the limit pile up loses its answer: its requests are cancelled at once and the
/// connection is closed, so that it cannot hold blocks of the cache that others wait for.
void Connection::sendPiece(const std::string &bytes)
{
    if (bytes.empty())
        return;
    const std::size_t waiting = m_pending.size() + (m_writing.size() - m_written);
    if (m_request->stream && !m_writing.empty() && waiting + bytes.size() > m_shared.limits.outputBytes) {
        abandonAnswer();
        close();
        return;
    }
    send(m_chunked ? chunk(bytes) : bytes);
}

/// The last piece of a stream. False when the reader was too slow for it and the connection is closed.
bool Connection::endStream(const std::string &last)
{
    sendPiece(last);
    if (m_state != State::Answering)
        return false;
    m_state = State::Draining;
    setDue(m_shared.limits.write);
    if (m_chunked)
        send("0\r\n\r\n");
    return true;
}

void Connection::closeAnswer()
{
    if (!m_request->stream) {
        HttpResponse response;
        response.body = m_answer->end();
        respond(response);
    } else {
        if (!endStream(m_answer->end()))
            return;
    }
    m_answer.reset();
    m_request.reset();
    m_ids.clear();
}

/// One choice has failed, so all have: the error is the status of a response, or the last event of a stream.
void Connection::failAnswer(const ApiError &error)
{
    m_shared.hub.cancel(std::exchange(m_ids, {}));
    if (!m_opened || !m_request->stream) {
        respond(errorResponse(error));
    } else {
        if (!endStream("data: " + errorJson(error) + "\n\n"))
            return;
    }
    m_answer.reset();
    m_request.reset();
}

void Connection::abandonAnswer()
{
    if (m_state == State::Answering)
        m_shared.hub.cancel(std::exchange(m_ids, {}));
}

} // namespace serve
