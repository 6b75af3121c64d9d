// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/access.h"
#include "app/serve/answer.h"
#include "app/serve/api.h"
#include "app/serve/api_error.h"
#include "app/serve/engine_hub.h"
#include "app/serve/serve_limits.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace serve {

/// What all connections share; outlives them.
struct ServerShared {
    Api &api;
    EngineHub &hub;
    const AccessRules &access;
    ServeLimits limits;
    std::function<void(std::function<void()>)> work; ///< runs a function on the thread for bodies
    std::atomic<int> connections = 0;
};

/// One client. Reads requests one after the other, answers them in order, and cancels what runs when the client
/// leaves. One read is always under way, so that a leaving client is noticed at once; while an answer is being made,
/// further bytes are held up to a limit and then left to the kernel.
///
/// Everything happens on the socket's strand, apart from take(), isDue() and the constructor.
class Connection final : public EventSink, public std::enable_shared_from_this<Connection> {
public:
    using Socket = boost::asio::ip::tcp::socket;
    using Clock = std::chrono::steady_clock;

    /// `socket`'s executor is a strand.
    Connection(Socket socket, ServerShared &shared);
    ~Connection() override;

    void start();
    /// Answers 503 and closes: more clients than allowed.
    void turnAway();
    void take(std::vector<engine::Event> events) override;
    /// Whether a time limit has passed, so that tick() has something to do. Any thread.
    [[nodiscard]] bool isDue(Clock::time_point now) const { return now.time_since_epoch().count() >= m_due.load(); }
    void tick();
    /// Ends what runs with an error and closes.
    void shutDown();
    [[nodiscard]] boost::asio::any_io_executor executor() { return m_socket.get_executor(); }

private:
    enum class State { Idle, Reading, Working, Answering, Draining, Lingering, Closed };
    using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

    void read();
    void onRead(const boost::system::error_code &error, std::size_t bytes);
    void parse();
    [[nodiscard]] bool onHead();
    void onParseFault(const boost::system::error_code &error);
    [[nodiscard]] static RequestHead headOf(const Parser &parser);
    void beginRequest();
    void onRequest();
    void onOutcome(Api::Outcome outcome);

    void submit(CompletionRequest request);
    void onEvent(const engine::Event &event);
    [[nodiscard]] std::size_t choiceOf(engine::RequestId id) const;
    void onFinished(std::size_t choice, const engine::RequestFinished &finished);
    void openAnswer();
    void beginAnswer();
    void failAnswer(const ApiError &error);
    void closeAnswer();
    bool endStream(const std::string &last);
    void abandonAnswer();

    void respond(const HttpResponse &response, bool close = false);
    void refuse(const ApiError &error);
    void send(std::string bytes);
    void sendPiece(const std::string &bytes);
    void write();
    void onWritten(const boost::system::error_code &error, std::size_t bytes);
    void onDrained();
    void linger();
    void close();
    void setDue(Clock::duration wait);

    Socket m_socket;
    ServerShared &m_shared;
    State m_state = State::Idle;
    bool m_reading = false;
    std::vector<char> m_received; ///< what a read fills; m_input may change while one is under way
    boost::beast::flat_buffer m_input;
    std::optional<Parser> m_parser;
    std::optional<HttpResponse> m_verdict; ///< of the head, when it is refused
    bool m_headSeen = false;
    bool m_bodiless = false; ///< the request is a HEAD: its answer has no body
    bool m_keepAlive = true;
    bool m_peerDone = false; ///< nothing more comes from the client
    bool m_chunked = true;   ///< the client takes chunks
    Clock::time_point m_requestStart;
    std::string m_userAgent; ///< of the last request
    std::size_t m_lingered = 0;

    std::string m_pending; ///< to be written after what is being written
    std::string m_writing;
    std::size_t m_written = 0; ///< of m_writing
    Clock::time_point m_lastWrite;
    std::atomic<Clock::rep> m_due;

    // The answer under way.
    std::optional<CompletionRequest> m_request;
    std::unique_ptr<Answer> m_answer;
    std::vector<engine::RequestId> m_ids; ///< by choice
    std::size_t m_accepted = 0;
    std::size_t m_ended = 0;
    bool m_opened = false; ///< the head of the response was sent
    bool m_begun = false;  ///< and what comes before the first token
};

} // namespace serve
