// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/load_generator.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cli {

/// An OpenAI-compatible server as the target of a load.
struct ServerAddress {
    std::string host;
    std::string port;
    std::string path; ///< in front of /v1, without a slash at its end
};
/// http://host[:port][/path][/v1]. \throws Error InvalidArgument naming what is wanted
[[nodiscard]] ServerAddress parseServerUrl(const std::string &url);

struct HttpLoadOptions {
    ServerAddress address;
    std::string apiKey;
    std::string model; ///< empty: the first one that the server lists
    bool chat = false; ///< /v1/chat/completions in place of /v1/completions
    std::uint64_t seed = 0;
};

/// A load over HTTP with streamed answers, one connection per request; what is timed is what arrives here. All work is
/// done inside send(), wait() and figures(), on the caller's thread.
class HttpLoadTarget final : public engine::LoadTarget {
public:
    /// Asks the server for its model. \throws Error InvalidArgument when the host is not the loopback, IoError when
    /// nobody answers, Refused when the answer names no model
    explicit HttpLoadTarget(const HttpLoadOptions &options);
    ~HttpLoadTarget() override;

    [[nodiscard]] const std::string &model() const;
    [[nodiscard]] int vocabSize() const; ///< 0 where the server does not tell

    [[nodiscard]] double now() const override;
    void send(std::size_t index, const engine::LoadRequest &request) override;
    [[nodiscard]] std::vector<std::pair<std::size_t, engine::LoadSample>> wait(double seconds) override;
    void cancelAll() override;
    [[nodiscard]] engine::ServingFigures figures() override;

private:
    class Client;
    std::unique_ptr<Client> m_client;
};

} // namespace cli
