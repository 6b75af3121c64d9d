// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/connection.h"

#include "app/serve/api_error.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace serve {

namespace asio = boost::asio;
namespace http = boost::beast::http;

Connection::Connection(Socket socket, ServerShared &shared)
    : m_socket(std::move(socket))
    , m_shared(shared)
    , m_due(std::numeric_limits<Clock::rep>::max())
{
    ++m_shared.connections;
}

Connection::~Connection()
{
    --m_shared.connections;
}

void Connection::start()
{
    setDue(m_shared.limits.stall); // the first request comes at once, or the port was only knocked at
    read();
}

void Connection::turnAway()
{
    ApiError error(503,
                   "this server has its greatest number of clients, " + std::to_string(m_shared.limits.connections)
                       + ", already");
    error.retryAfter = 1;
    refuse(error);
}

void Connection::setDue(Clock::duration wait)
{
    m_due = (Clock::now() + wait).time_since_epoch().count();
}

// Input.

void Connection::read()
{
    constexpr std::size_t small = 4096;
    constexpr std::size_t large = 65536;
    const bool holding = m_state == State::Working || m_state == State::Answering || m_state == State::Draining;
    if (m_reading || m_state == State::Closed || (holding && m_input.size() >= m_shared.limits.heldInputBytes))
        return;
    m_reading = true;
    if (const std::size_t wanted = m_headSeen ? large : small; m_received.size() != wanted)
        m_received = std::vector<char>(wanted); // an idle client costs little
    m_socket.async_read_some(asio::buffer(m_received),
                             [self = shared_from_this()](const boost::system::error_code &error, std::size_t bytes) {
                                 self->onRead(error, bytes);
                             });
}

void Connection::onRead(const boost::system::error_code &error, std::size_t bytes)
{
    m_reading = false;
    if (error) {
        m_keepAlive = false;
        m_peerDone = true;
        const bool finishes = m_state == State::Draining || m_state == State::Working;
        if (error == asio::error::eof && finishes)
            return; // it has asked all it wants and waits for the answer that is ready or nearly so
        if (error == asio::error::eof && m_state == State::Reading) {
            refuse({400, "the request ended before all of it had come"});
            return;
        }
        abandonAnswer();
        close();
        return;
    }
    m_input.commit(asio::buffer_copy(m_input.prepare(bytes), asio::buffer(m_received), bytes));
    switch (m_state) {
    case State::Idle:
        beginRequest();
        parse();
        break;
    case State::Reading:
        parse();
        break;
    case State::Lingering:
        m_input.consume(m_input.size());
        m_lingered += bytes;
        if (m_lingered > 2 * m_shared.limits.bodyBytes)
            close();
        break;
    default:
        break;
    }
    read();
}

void Connection::beginRequest()
{
    m_state = State::Reading;
    m_requestStart = Clock::now();
    m_headSeen = false;
    m_bodiless = false;
    m_verdict.reset();
    m_parser.emplace();
    m_parser->header_limit(static_cast<std::uint32_t>(m_shared.limits.headerBytes));
    m_parser->body_limit(m_shared.limits.bodyBytes);
}

void Connection::parse()
{
    while (m_state == State::Reading) {
        boost::system::error_code error;
        const std::size_t used = m_parser->put(m_input.data(), error);
        m_input.consume(used);
        if (error && error != http::error::need_more) {
            onParseFault(error);
            return;
        }
        if (!m_headSeen && m_parser->is_header_done()) {
            m_headSeen = true;
            if (!onHead())
                return;
            if (!m_parser->is_done() && m_input.size() > 0)
                continue; // the body, from now on at once
        }
        if (m_parser->is_done()) {
            onRequest();
            return;
        }
        if (error == http::error::need_more || used == 0 || m_input.size() == 0) {
            const auto left = m_requestStart + m_shared.limits.request - Clock::now();
            setDue(std::min<Clock::duration>(m_shared.limits.stall, left));
            return;
        }
    }
}

RequestHead Connection::headOf(const Parser &parser)
{
    const auto &message = parser.get();
    RequestHead head;
    head.method = std::string(message.method_string());
    head.target = std::string(message.target());
    head.authorization = std::string(message[http::field::authorization]);
    head.contentType = std::string(message[http::field::content_type]);
    head.contentEncoding = std::string(message[http::field::content_encoding]);
    head.userAgent = std::string(message[http::field::user_agent]);
    for (const auto &field : message) {
        if (field.name() == http::field::host)
            head.hosts.emplace_back(field.value());
        else if (field.name() == http::field::origin)
            head.origins.emplace_back(field.value());
    }
    return head;
}

/// Framing and sizes first, then what AccessRules checks. A refusal waits for the end of a small body, so that the
/// framing of all of the request is known to be right before anything else is judged.
bool Connection::onHead()
{
    const auto &message = m_parser->get();
    m_bodiless = message.method() == http::verb::head;
    m_keepAlive = m_parser->keep_alive();
    m_chunked = message.version() >= 11;
    const auto lines = std::distance(message.begin(), message.end());
    if (lines > m_shared.limits.headerLines) {
        refuse({431,
                "found " + std::to_string(lines) + " header lines, wanted at most "
                    + std::to_string(m_shared.limits.headerLines)});
        return false;
    }
    const bool encoded = message.count(http::field::transfer_encoding) > 0;
    if (message.version() < 10 || message.version() > 11 || (encoded && !m_parser->chunked())
        || (encoded && message.count(http::field::content_length) > 0)) {
        refuse({400, "the request is not framed as HTTP/1.1 wants it: one Content-Length, or chunks alone"});
        return false;
    }
    const bool waits = message.count(http::field::expect) > 0;
    if (waits && !boost::beast::iequals(message[http::field::expect], "100-continue")) {
        refuse(
            {417,
             "Expect: found \"" + std::string(message[http::field::expect]).substr(0, 64) + "\", wanted 100-continue"});
        return false;
    }
    m_verdict = m_shared.access.check(headOf(*m_parser));
    m_parser->eager(true);
    if (m_verdict)
        m_parser->body_limit(m_shared.limits.refusedBodyBytes);
    const auto length = m_parser->content_length();
    if (m_verdict && (waits || (length && *length > m_shared.limits.refusedBodyBytes))) {
        respond(*m_verdict, true);
        return false;
    }
    if (waits && !m_parser->is_done())
        send("HTTP/1.1 100 Continue\r\n\r\n");
    return true;
}

void Connection::onParseFault(const boost::system::error_code &error)
{
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        refuse(
            {431,
             "the request line and headers have more than " + std::to_string(m_shared.limits.headerBytes) + " bytes"});
    else if (error == http::error::body_limit && m_verdict)
        respond(*m_verdict, true);
    else if (error == http::error::body_limit)
        refuse({413, "the request body has more than " + std::to_string(m_shared.limits.bodyBytes) + " bytes"});
    else
        refuse({400, "the request is not valid HTTP: " + error.message()});
}

void Connection::onRequest()
{
    m_state = State::Working;
    m_due = std::numeric_limits<Clock::rep>::max();
    if (m_verdict) {
        respond(*m_verdict);
        return;
    }
    auto request = std::make_shared<HttpRequest>();
    request->head = headOf(*m_parser);
    request->body = std::move(m_parser->get().body());
    m_userAgent = request->head.userAgent;
    m_parser.reset();
    m_headSeen = false;
    m_shared.work([self = shared_from_this(), request] {
        auto outcome = std::make_shared<Api::Outcome>(self->m_shared.api.handle(*request));
        asio::post(self->executor(), [self, outcome] { self->onOutcome(std::move(*outcome)); });
    });
}

void Connection::onOutcome(Api::Outcome outcome)
{
    if (m_state != State::Working)
        return;
    if (const auto *response = std::get_if<HttpResponse>(&outcome))
        respond(*response);
    else if (m_peerDone)
        close(); // the client has gone before its work began
    else
        submit(std::move(std::get<CompletionRequest>(outcome)));
}

// Output.

void Connection::respond(const HttpResponse &response, bool close)
{
    if (close)
        m_keepAlive = false;
    m_state = State::Draining;
    setDue(m_shared.limits.write);
    send(headText(response, Framing::Length, m_keepAlive) + (m_bodiless ? std::string() : response.body));
}

void Connection::refuse(const ApiError &error)
{
    respond(errorResponse(error), true);
}

void Connection::send(std::string bytes)
{
    if (m_pending.empty())
        m_pending = std::move(bytes);
    else
        m_pending += bytes;
    if (m_writing.empty() && !m_pending.empty())
        write();
}

void Connection::write()
{
    if (m_writing.empty()) {
        std::swap(m_writing, m_pending);
        m_written = 0;
        m_lastWrite = Clock::now();
    }
    m_socket.async_write_some(asio::buffer(m_writing.data() + m_written, m_writing.size() - m_written),
                              [self = shared_from_this()](const boost::system::error_code &error, std::size_t bytes) {
                                  self->onWritten(error, bytes);
                              });
}

void Connection::onWritten(const boost::system::error_code &error, std::size_t bytes)
{
    constexpr std::size_t keptCapacity = 65536;
    if (m_state == State::Closed)
        return;
    if (error) {
        abandonAnswer();
        close();
        return;
    }
    m_written += bytes;
    m_lastWrite = Clock::now();
    if (m_written < m_writing.size()) {
        write();
        return;
    }
    m_writing.clear();
    m_written = 0;
    if (m_writing.capacity() > keptCapacity)
        m_writing.shrink_to_fit();
    if (!m_pending.empty())
        write();
    else if (m_state == State::Draining)
        onDrained();
}

void Connection::onDrained()
{
    if (!m_keepAlive) {
        linger();
        return;
    }
    m_state = State::Idle;
    setDue(m_shared.limits.idle);
    if (m_input.size() > 0) {
        beginRequest();
        parse();
    } else {
        m_input.shrink_to_fit();
        m_writing.shrink_to_fit();
        m_pending.shrink_to_fit();
    }
    read();
}

/// Says that no more comes and waits a little for the client to close: closing on unread bytes would reset the
/// connection and take the answer away from it.
void Connection::linger()
{
    m_state = State::Lingering;
    boost::system::error_code ignored;
    m_socket.shutdown(Socket::shutdown_send, ignored);
    setDue(m_shared.limits.linger);
    m_input.consume(m_input.size());
    read();
}

void Connection::close()
{
    m_state = State::Closed;
    m_due = std::numeric_limits<Clock::rep>::max();
    boost::system::error_code ignored;
    m_socket.close(ignored);
}

void Connection::tick()
{
    const Clock::time_point now = Clock::now();
    if (!isDue(now))
        return;
    const bool stuck = !m_writing.empty() && now - m_lastWrite >= m_shared.limits.write;
    switch (m_state) {
    case State::Reading:
        refuse({408, "the request did not come to its end in time"});
        break;
    case State::Answering:
        if (stuck) {
            abandonAnswer();
            close();
            break;
        }
        if (m_opened && m_request->stream && m_writing.empty())
            sendPiece(": still working\n\n");
        setDue(m_shared.limits.ping);
        break;
    case State::Draining:
        if (stuck)
            close();
        else
            setDue(m_shared.limits.write);
        break;
    case State::Idle:
    case State::Lingering:
        close();
        break;
    case State::Working:
    case State::Closed:
        break;
    }
}

void Connection::shutDown()
{
    const ApiError error(503, "the server is shutting down");
    m_keepAlive = false;
    if (m_state == State::Answering)
        failAnswer(error);
    else if (m_state == State::Working)
        refuse(error);
    else if (m_state != State::Draining)
        close();
}

} // namespace serve
