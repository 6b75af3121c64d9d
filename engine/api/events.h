// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/error.h"
#include "engine/api/output.h"
#include "engine/api/request.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace engine {

/// Sampling values that a model's own files suggest; absent where they say nothing.
struct SuggestedSampling {
    std::optional<double> temperature;
    std::optional<int> topK;
    std::optional<double> topP;
    std::optional<double> minP;
    std::optional<double> repetitionPenalty;
    bool operator==(const SuggestedSampling &) const = default;
};

/// What a loaded model is, with the effective values of everything that was asked for.
struct ModelInfo {
    std::string path;
    std::string name;
    std::string architecture;
    std::string chatTemplate; ///< empty when the model has none
    SuggestedSampling sampling;
    std::int64_t parameters = 0;
    std::size_t fileBytes = 0;
    std::size_t weightBytes = 0; ///< resident after packing
    std::size_t workspaceBytes = 0;
    std::size_t bytesPerToken = 0;         ///< weight bytes read by one decode step
    std::size_t kvBytesPerToken = 0;       ///< of the KV cache, one token over all layers
    int kvWindow = 0;                      ///< tokens that layers with a window keep; 0 = all layers keep the context
    std::size_t kvWindowBytesPerToken = 0; ///< of those layers alone
    int layers = 0;
    int vocabSize = 0;
    int contextLength = 0; ///< the model's own
    std::string backend;   ///< cpu, reference
    std::string isa;
    EngineConfig effective; ///< threads, maxModelLen, limits, kv.numBlocks, kv.budgetBytes as they are in force
    std::vector<std::string> warnings;
};

struct LoadProgress {
    double fraction = 0;
    std::string stage;
};
struct ModelLoaded {
    ModelInfo info;
};
struct LoadFailed {
    std::string path;
    ErrorCode code = ErrorCode::Internal;
    std::string message;
};
struct ModelUnloaded { };
/// The file under a loaded model was changed, cut or deleted; the model goes on from memory.
struct ModelFileChanged {
    std::string path;
    std::string what;
};

/// The request was taken: its prompt has this many tokens.
struct RequestAccepted {
    RequestId id = 0;
    int promptTokens = 0;
    double arrivedAt = 0; ///< on the clock of StepStats
    std::string client;   ///< Request::client
};

struct TokenLogprob {
    int id = 0;
    std::string piece;
    double logprob = 0;
};
/// One token as sampled. `top` holds the alternatives asked for, best first.
struct SampledToken {
    TokenLogprob token;
    std::vector<TokenLogprob> top;
};

/// The ids of some tokens. One, as a step makes it, has no memory of its own.
class TokenIds {
public:
    TokenIds() = default;
    TokenIds(std::initializer_list<int> ids)
    {
        for (const int id : ids)
            push_back(id);
    }

    void push_back(int id)
    {
        if (m_count == 1)
            m_several.push_back(m_one);
        if (m_count > 0)
            m_several.push_back(id);
        else
            m_one = id;
        ++m_count;
    }
    [[nodiscard]] std::size_t size() const { return m_count; }
    [[nodiscard]] bool empty() const { return m_count == 0; }
    [[nodiscard]] const int *begin() const { return m_count > 1 ? m_several.data() : &m_one; }
    [[nodiscard]] const int *end() const { return begin() + m_count; }

private:
    std::size_t m_count = 0;
    int m_one = 0;
    std::vector<int> m_several; // all of them, where they are more than one
};

/// New output of one request. `text` is complete UTF-8 and may be empty while bytes or a stop string are held back.
/// In a conversation, reasoning and tool calls of families that mark them stand in their own fields.
struct TokenEvent {
    RequestId id = 0;
    std::string text;
    std::string reasoning;
    std::vector<ToolCallDelta> toolCalls;
    TokenIds ids;
    std::vector<SampledToken> logprobs; ///< empty unless asked for
    int cachedTokens = 0;
};

/// New sampling of a running request was refused; the request goes on with what it has.
struct SamplingRefused {
    RequestId id = 0;
    std::string message;
};

/// The last event of a request.
struct RequestFinished {
    RequestId id = 0;
    FinishReason reason = FinishReason::Stop;
    Usage usage;
    Timings timings;
    RequestStory story;
    ErrorCode code = ErrorCode::Internal; ///< with reason Failed
    std::string error;                    ///< with reason Failed
    double retryAfterSeconds = 0;         ///< with code Busy: when a place is likely to be free
    int maxTokens = 0;     ///< most tokens that the answer could have: as asked for, else what the context has room for
    int choices = 1;       ///< answers asked for at once; 0 for all of them but the last one to end
    int longestChoice = 0; ///< with choices above 0: tokens of the longest of those that have ended
};

/// Limits, rules, pool or threads changed; carries what is in force now.
struct ParametersApplied {
    std::uint64_t revision = 0; ///< of the call that asked for it; 0 when the engine changed something by itself
    std::uint64_t step = 0;     ///< first step that uses it
    EngineConfig effective;
    std::string note; ///< why an effective value differs from the requested one, else empty
};

/// Something about the engine itself that a user should hear of; requests go on as far as they can.
struct EngineNotice {
    enum class Kind {
        StepStalled,    ///< a step takes longer than EngineConfig::stepTimeoutSeconds
        StepResumed,    ///< that step came to its end after all
        Overheated,     ///< a device is too hot; the token budget was lowered
        Cooled,         ///< the token budget is whole again
        AuditFailed,    ///< blocks were lost or counted wrongly; the pool was made anew
        MemoryShort,    ///< the system has little left; nobody is let in beside what runs
        MemoryBack,     ///< that has ended
        PoolShrunk,     ///< a step found no memory; the cache was dropped, pool and steps were made smaller
        DeviceLost,     ///< requests wait as token ids; with EngineConfig::onDeviceLoss Ask, for Engine::continueOn
        DeviceReplaced, ///< they go on on another device
        GraphsOff,      ///< the device refused to capture a step; steps are queued kernel by kernel from now on
    };
    Kind kind = Kind::StepStalled;
    std::uint64_t step = 0;
    std::string message; ///< one sentence with the numbers
};

using Event = std::variant<LoadProgress, ModelLoaded, LoadFailed, ModelUnloaded, ModelFileChanged, RequestAccepted,
                           TokenEvent, SamplingRefused, RequestFinished, ParametersApplied, EngineNotice>;

/// The request that an event is of; 0 = none.
[[nodiscard]] RequestId requestOf(const Event &event);

} // namespace engine
