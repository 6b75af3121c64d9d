// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/access.h"
#include "app/serve/answer.h"
#include "app/serve/completion_request.h"
#include "app/serve/engine_hub.h"
#include "app/serve/http.h"
#include "engine/api/events.h"
#include "engine/api/text.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

namespace serve {

/// The model behind the server. Null texts: the paths that need them answer 503.
struct ServedModel {
    engine::ModelInfo info;
    std::string name; ///< as clients see it
    std::shared_ptr<const engine::TextModel> text;
    std::shared_ptr<const engine::TemplateModel> templates;
};

/// What each path does, apart from the network. Thread: any.
class Api {
public:
    /// \pre `hub` outlives this
    Api(ServedModel model, EngineHub &hub, bool vllmNames);

    using Outcome = std::variant<HttpResponse, CompletionRequest>;
    /// A ready response, errors included, or a request for the engine. \pre the head passed AccessRules::check()
    [[nodiscard]] Outcome handle(const HttpRequest &request) const;

    /// Names a new answer.
    [[nodiscard]] AnswerInfo newAnswer(bool chat);

private:
    [[nodiscard]] Outcome post(Route route, const HttpRequest &request) const;
    [[nodiscard]] HttpResponse get(Route route, std::string_view path) const;
    [[nodiscard]] std::string modelsJson() const;
    [[nodiscard]] std::string slotsJson() const;
    [[nodiscard]] std::string tokenize(const Json &body) const;
    [[nodiscard]] std::string detokenize(const Json &body) const;
    [[nodiscard]] std::string applyTemplate(const Json &body) const;
    [[nodiscard]] std::string render(const Json &body) const;
    [[nodiscard]] Json modelJson() const;

    ServedModel m_model;
    EngineHub &m_hub;
    bool m_vllmNames;
    std::int64_t m_started;
    std::string m_salt; ///< makes ids of different runs differ
    std::atomic<std::uint64_t> m_nextAnswer = 1;
};

} // namespace serve
