// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/http_load_target.h"

#include "app/cli/output.h"
#include "app/cli/prometheus_text.h"
#include "app/cli/sse_reader.h"
#include "engine/api/error.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility> // boost/asio/awaitable.hpp of 1.74 uses std::exchange without it

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <set>

namespace cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using engine::Error;
using engine::ErrorCode;
using engine::LoadOutcome;
using engine::LoadSample;
using tcp = asio::ip::tcp;

constexpr auto metricsInterval = std::chrono::milliseconds(250);
constexpr auto shortCallLimit = std::chrono::seconds(10); // of questions about model and metrics
constexpr std::size_t mostErrorBytes = 1 << 16;
constexpr std::uint64_t mostAnswerBytes = std::uint64_t{1} << 40U; // none at all refuses bodies of a stated length

std::string addressText(const ServerAddress &address)
{
    return "http://" + address.host + ":" + address.port + address.path;
}

/// The sentence of an error body in OpenAI's form, or the beginning of whatever it is.
std::string errorText(const std::string &body)
{
    const Json json = Json::parse(body, nullptr, false);
    if (json.is_object() && json.contains("error")) {
        const Json &error = json["error"];
        if (error.is_string())
            return error.get<std::string>();
        if (error.is_object() && error.contains("message") && error["message"].is_string())
            return error["message"].get<std::string>();
    }
    return body.substr(0, 200);
}

/// An integer member of an object inside an object, when it is there.
std::optional<int> numberAt(const Json &object, const char *key)
{
    if (!object.is_object() || !object.contains(key) || !object[key].is_number())
        return std::nullopt;
    return object[key].get<int>();
}

std::string textAt(const Json &object, const char *key)
{
    return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>()
                                                                                 : std::string();
}

/// One answer as it streams in.
class Answer {
public:
    /// \throws Error Refused for an event that is no JSON, or that tells of an error
    void take(const std::string &data, double now)
    {
        if (data == "[DONE]") {
            m_done = true;
            return;
        }
        const Json event = Json::parse(data, nullptr, false);
        if (!event.is_object())
            throw Error(ErrorCode::Refused, "the stream holds an event that is no JSON object: " + data.substr(0, 100));
        if (event.contains("error"))
            throw Error(ErrorCode::Refused, errorText(data));
        if (event.contains("choices") && event["choices"].is_array())
            for (const Json &choice : event["choices"])
                if (hasOutput(choice))
                    m_times.push_back(now);
        if (event.contains("usage"))
            takeUsage(event["usage"]);
    }

    [[nodiscard]] bool complete() const { return m_done && !m_times.empty(); }

    void fill(LoadSample &sample) const
    {
        sample.promptTokens = m_prompt.value_or(0);
        sample.cachedTokens = m_cached.value_or(0);
        sample.outputTokens = m_output.value_or(static_cast<int>(m_times.size()));
        engine::measureOutputs(sample, m_times);
    }

private:
    static bool hasOutput(const Json &choice)
    {
        if (!choice.is_object())
            return false;
        if (!textAt(choice, "text").empty())
            return true;
        return choice.contains("delta")
            && (!textAt(choice["delta"], "content").empty() || !textAt(choice["delta"], "reasoning_content").empty());
    }

    void takeUsage(const Json &usage)
    {
        if (!usage.is_object())
            return;
        m_prompt = numberAt(usage, "prompt_tokens");
        m_output = numberAt(usage, "completion_tokens");
        if (usage.contains("prompt_tokens_details"))
            m_cached = numberAt(usage["prompt_tokens_details"], "cached_tokens");
    }

    std::vector<double> m_times;
    std::optional<int> m_prompt;
    std::optional<int> m_output;
    std::optional<int> m_cached;
    bool m_done = false;
};

} // namespace

ServerAddress parseServerUrl(const std::string &url)
{
    const auto wrong = [&url] {
        throw Error(ErrorCode::InvalidArgument, "--url: found \"" + url + "\", wanted http://host[:port][/path]");
    };
    const std::string scheme = "http://";
    if (!url.starts_with(scheme))
        wrong();
    const std::string rest = url.substr(scheme.size());
    const std::string authority = rest.substr(0, rest.find('/'));
    ServerAddress address;
    address.path = rest.substr(authority.size());
    while (address.path.ends_with('/'))
        address.path.pop_back();
    if (address.path.ends_with("/v1"))
        address.path.resize(address.path.size() - 3);
    const std::size_t bracket = authority.starts_with('[') ? authority.find(']') : std::string::npos;
    const std::size_t colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
    address.host = bracket == std::string::npos ? authority.substr(0, colon) : authority.substr(1, bracket - 1);
    address.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
    const bool digits =
        !address.port.empty() && std::ranges::all_of(address.port, [](char c) { return c >= '0' && c <= '9'; });
    if (address.host.empty() || !digits || address.port.size() > 5 || std::stoi(address.port) > 65535)
        wrong();
    return address;
}

class HttpLoadTarget::Client {
public:
    explicit Client(const HttpLoadOptions &options)
        : m_options(options)
        , m_model(options.model)
    {
        resolve();
        askForModel();
        m_before = metrics();
        asio::co_spawn(m_io, pollMetrics(), asio::detached);
    }

    [[nodiscard]] const std::string &model() const { return m_model; }
    [[nodiscard]] int vocabSize() const { return m_vocabSize; }
    [[nodiscard]] double now() const
    {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - m_start).count();
    }

    void send(std::size_t index, const engine::LoadRequest &request)
    {
        asio::co_spawn(m_io, ask(index, bodyOf(request)), asio::detached);
        m_io.poll(); // so that it is on its way before the next one is made
    }

    std::vector<std::pair<std::size_t, LoadSample>> wait(double seconds)
    {
        const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
        while (m_ended.empty() && std::chrono::steady_clock::now() < end) {
            if (m_io.stopped())
                m_io.restart();
            m_io.run_one_until(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(end));
        }
        m_io.poll();
        return std::exchange(m_ended, {});
    }

    void cancelAll()
    {
        m_cancelled = true;
        for (tcp::socket *socket : m_open) {
            beast::error_code ignored;
            socket->close(ignored);
        }
    }

    engine::ServingFigures figures()
    {
        const std::string after = metrics();
        takeGauges(after);
        engine::ServingFigures figures;
        figures.maxRunning = m_maxRunning;
        figures.kvPeakUsage = m_peakUsage;
        const auto difference = [&](const char *stem) -> std::optional<double> {
            const auto last = prometheusValue(after, stem);
            if (!last)
                return std::nullopt;
            return *last - prometheusValue(m_before, stem).value_or(0);
        };
        if (const auto preemptions = difference("num_preemptions"))
            figures.preemptions = static_cast<std::uint64_t>(std::max(*preemptions, 0.0));
        const auto queries = difference("prefix_cache_queries");
        const auto hits = difference("prefix_cache_hits");
        if (queries && hits && *queries > 0)
            figures.prefixHitRate = *hits / *queries;
        const auto slots = difference("kv_cache_slot_seconds");
        const auto empty = difference("kv_cache_empty_slot_seconds");
        if (slots && empty && *slots > 0)
            figures.kvWaste = *empty / *slots;
        return figures;
    }

private:
    void resolve()
    {
        beast::error_code error;
        tcp::resolver resolver(m_io);
        m_endpoints = resolver.resolve(m_options.address.host, m_options.address.port, error);
        if (error)
            throw Error(ErrorCode::InvalidArgument,
                        "--url: host \"" + m_options.address.host + "\" is not known (" + error.message()
                            + "), wanted one on the loopback");
        for (const auto &entry : m_endpoints)
            if (!entry.endpoint().address().is_loopback())
                throw Error(ErrorCode::InvalidArgument,
                            "--url: host \"" + m_options.address.host + "\" is "
                                + entry.endpoint().address().to_string() + ", wanted an address of the loopback");
    }

    template<typename Body> void addHeaders(http::request<Body> &request) const
    {
        request.set(http::field::host, m_options.address.host + ":" + m_options.address.port);
        request.set(http::field::user_agent, "lathe-cli");
        request.set(http::field::connection, "close");
        if (!m_options.apiKey.empty())
            request.set(http::field::authorization, "Bearer " + m_options.apiKey);
    }

    /// A whole answer to a short question. \throws boost::system::system_error
    asio::awaitable<http::response<http::string_body>> get(std::string target)
    {
        beast::tcp_stream stream(m_io);
        stream.expires_after(shortCallLimit);
        co_await stream.async_connect(m_endpoints, asio::use_awaitable);
        http::request<http::empty_body> request{http::verb::get, m_options.address.path + target, 11};
        addHeaders(request);
        co_await http::async_write(stream, request, asio::use_awaitable);
        beast::flat_buffer buffer;
        http::response<http::string_body> response;
        co_await http::async_read(stream, buffer, response, asio::use_awaitable);
        co_return response;
    }

    /// The same, waited for. \throws Error IoError
    http::response<http::string_body> getNow(const std::string &target)
    {
        std::optional<http::response<http::string_body>> response;
        std::string fault;
        asio::co_spawn(
            m_io,
            [&]() -> asio::awaitable<void> {
                try {
                    response = co_await get(target);
                } catch (const std::exception &error) {
                    fault = error.what();
                }
            },
            asio::detached);
        while (!response && fault.empty()) {
            if (m_io.stopped())
                m_io.restart();
            m_io.run_one();
        }
        if (!response)
            throw Error(ErrorCode::IoError, addressText(m_options.address) + target + ": no answer (" + fault + ")");
        return *response;
    }

    void askForModel()
    {
        const auto response = getNow("/v1/models");
        const std::string place = addressText(m_options.address) + "/v1/models";
        if (response.result() != http::status::ok)
            throw Error(ErrorCode::Refused,
                        place + ": found status " + std::to_string(response.result_int()) + " ("
                            + errorText(response.body()) + "), wanted 200");
        const Json json = Json::parse(response.body(), nullptr, false);
        const bool hasList = json.is_object() && json.contains("data") && json["data"].is_array();
        const Json first = hasList && !json["data"].empty() ? json["data"].front() : Json();
        if (m_model.empty())
            m_model = textAt(first, "id");
        if (m_model.empty())
            throw Error(ErrorCode::Refused, place + ": wanted at least one model with an id under \"data\"");
        if (first.is_object())
            m_vocabSize = numberAt(first.value("meta", Json()), "n_vocab").value_or(0);
    }

    std::string bodyOf(const engine::LoadRequest &request) const
    {
        Json body{{"model", m_model},
                  {"max_tokens", request.outputTokens},
                  {"temperature", 0},
                  {"seed", m_options.seed},
                  {"ignore_eos", true},
                  {"stream", true},
                  {"stream_options", {{"include_usage", true}}}};
        if (m_options.chat)
            body["messages"] = Json::array({{{"role", "user"}, {"content", request.prompt}}});
        else if (request.ids.empty())
            body["prompt"] = request.prompt;
        else
            body["prompt"] = request.ids;
        return jsonText(body);
    }

    asio::awaitable<void> ask(std::size_t index, std::string body)
    {
        LoadSample sample;
        sample.sentAt = now();
        try {
            co_await exchange(std::move(body), sample);
        } catch (const std::exception &error) {
            sample.outcome = m_cancelled ? LoadOutcome::Cancelled : LoadOutcome::Failed;
            sample.error = error.what();
        }
        sample.endedAt = now();
        m_ended.emplace_back(index, std::move(sample));
    }

    asio::awaitable<void> exchange(std::string body, LoadSample &sample)
    {
        beast::tcp_stream stream(m_io);
        const struct Registered {
            std::set<tcp::socket *> &all;
            tcp::socket *one;
            Registered(std::set<tcp::socket *> &sockets, tcp::socket *socket)
                : all(sockets)
                , one(socket)
            {
                all.insert(one);
            }
            ~Registered() { all.erase(one); }
            Registered(const Registered &) = delete;
            Registered &operator=(const Registered &) = delete;
        } registered(m_open, &stream.socket());
        co_await stream.async_connect(m_endpoints, asio::use_awaitable);
        stream.socket().set_option(tcp::no_delay(true));
        const char *target = m_options.chat ? "/v1/chat/completions" : "/v1/completions";
        http::request<http::string_body> request{http::verb::post, m_options.address.path + target, 11};
        addHeaders(request);
        request.set(http::field::content_type, "application/json");
        request.body() = std::move(body);
        request.prepare_payload();
        co_await http::async_write(stream, request, asio::use_awaitable);
        co_await readAnswer(stream, sample);
    }

    asio::awaitable<void> readAnswer(beast::tcp_stream &stream, LoadSample &sample)
    {
        beast::flat_buffer buffer;
        http::response_parser<http::buffer_body> parser;
        parser.body_limit(mostAnswerBytes);
        co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
        const unsigned status = parser.get().result_int();
        SseReader events;
        Answer answer;
        std::string errorBody;
        std::vector<char> chunk(1 << 14);
        while (!parser.is_done()) {
            parser.get().body().data = chunk.data();
            parser.get().body().size = chunk.size();
            beast::error_code error;
            co_await http::async_read_some(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
            if (error && error != http::error::need_buffer)
                throw beast::system_error(error);
            const std::string_view bytes(chunk.data(), chunk.size() - parser.get().body().size);
            if (status != 200 && errorBody.size() < mostErrorBytes)
                errorBody += bytes;
            if (status == 200)
                for (const std::string &data : events.append(bytes))
                    answer.take(data, now());
        }
        conclude(status, errorBody, answer, sample);
    }

    static void conclude(unsigned status, const std::string &errorBody, const Answer &answer, LoadSample &sample)
    {
        if (status == 200 && answer.complete()) {
            sample.outcome = LoadOutcome::Completed;
            answer.fill(sample);
            return;
        }
        const bool full = status == 429 || status == 503;
        sample.outcome = full ? LoadOutcome::Rejected : LoadOutcome::Failed;
        sample.error = status == 200 ? "the stream ended without any output or without [DONE]"
                                     : "status " + std::to_string(status) + ": " + errorText(errorBody);
    }

    /// Empty when the server has none.
    std::string metrics()
    {
        try {
            const auto response = getNow("/metrics");
            return response.result() == http::status::ok ? response.body() : std::string();
        } catch (const Error &) {
            return {};
        }
    }

    void takeGauges(const std::string &text)
    {
        if (const auto running = prometheusValue(text, "num_requests_running"))
            m_maxRunning = std::max(m_maxRunning.value_or(0), static_cast<int>(*running));
        if (const auto usage = prometheusValue(text, "kv_cache_usage_perc"))
            m_peakUsage = std::max(m_peakUsage.value_or(0), *usage);
    }

    /// Gauges are only seen by looking again and again.
    asio::awaitable<void> pollMetrics()
    {
        asio::steady_timer timer(m_io);
        while (!m_before.empty() && !m_cancelled) {
            timer.expires_after(metricsInterval);
            co_await timer.async_wait(asio::use_awaitable);
            try {
                takeGauges((co_await get("/metrics")).body());
            } catch (const std::exception &) { // a look that fails is a look less
                continue;
            }
        }
    }

    HttpLoadOptions m_options;
    std::string m_model;
    int m_vocabSize = 0;
    std::chrono::steady_clock::time_point m_start = std::chrono::steady_clock::now();
    std::set<tcp::socket *> m_open;
    std::vector<std::pair<std::size_t, LoadSample>> m_ended;
    bool m_cancelled = false;
    std::string m_before; // metrics at the start
    std::optional<int> m_maxRunning;
    std::optional<double> m_peakUsage;
    tcp::resolver::results_type m_endpoints;
    asio::io_context m_io{1}; // last: what runs in it uses all of the above
};

HttpLoadTarget::HttpLoadTarget(const HttpLoadOptions &options)
    : m_client(std::make_unique<Client>(options))
{
}

HttpLoadTarget::~HttpLoadTarget() = default;

const std::string &HttpLoadTarget::model() const
{
    return m_client->model();
}

int HttpLoadTarget::vocabSize() const
{
    return m_client->vocabSize();
}

double HttpLoadTarget::now() const
{
    return m_client->now();
}

void HttpLoadTarget::send(std::size_t index, const engine::LoadRequest &request)
{
    m_client->send(index, request);
}

std::vector<std::pair<std::size_t, engine::LoadSample>> HttpLoadTarget::wait(double seconds)
{
    return m_client->wait(seconds);
}

void HttpLoadTarget::cancelAll()
{
    m_client->cancelAll();
}

engine::ServingFigures HttpLoadTarget::figures()
{
    return m_client->figures();
}

} // namespace cli
