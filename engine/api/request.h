// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/output.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace engine {

using RequestId = std::uint64_t; ///< never 0

/// Added to the logit of one token.
struct LogitBias {
    int token = 0;
    double bias = 0;
    bool operator==(const LogitBias &) const = default;
};

/// Sampling of one request. Order: penalties, top_k, top_p, min_p, temperature, draw.
/// A whole value, replaced as one; applies from the next step.
struct SamplingParams {
    double temperature = 0.8; ///< 0 = argmax, lowest id on an exact tie
    int topK = 40;            ///< 0 = off
    double topP = 0.95;       ///< 1 = off
    double minP = 0.0;        ///< relative to the largest probability; 0 = off
    double repetitionPenalty = 1.0;
    double presencePenalty = 0.0;
    double frequencyPenalty = 0.0;
    std::optional<std::uint64_t> seed; ///< absent = chosen at random by the engine
    int maxTokens = 0;                 ///< 0 = until the context is full
    std::vector<std::string> stop;
    std::vector<int> stopIds;         ///< tokens that end the answer like the model's own, under ignoreEos too
    int minTokens = 0;                ///< before so many tokens no token that ends the answer is drawn
    std::vector<LogitBias> logitBias; ///< before penalties
    int logprobs = -1;                ///< alternatives per token, 0 = only the chosen one, -1 = none
    bool ignoreEos = false;
    bool operator==(const SamplingParams &) const = default;
};

struct ChatMessage {
    std::string role; ///< system, user, assistant, tool
    std::string content;
    std::string reasoning{};           ///< of an assistant; empty = none. Templates decide what they keep of it
    std::vector<ToolCall> toolCalls{}; ///< of an assistant
    std::string name{};                ///< of the speaker, or of the tool that answers; empty = not said
    std::string toolCallId{};          ///< of a tool: the call that it answers; empty = not said
};

/// One question to the model: exactly one of prompt, ids and messages is used, in this order of preference.
struct Request {
    std::optional<std::string> prompt;             ///< encoded with BOS as the model does
    std::optional<std::vector<int>> ids;           ///< as they are
    std::vector<ChatMessage> messages;             ///< through the model's chat template
    std::optional<std::string> toolsJson;          ///< list of tools offered with `messages`, for the chat template
    std::optional<std::string> templateKwargsJson; ///< object whose members become variables of the chat template
    /// The answer is one JSON value that fits this JSON schema, `{}` being any; every token is chosen among those that
    /// lead there. What the schema may say is listed in the contract; anything else is refused.
    std::optional<std::string> jsonSchema;
    bool parseSpecial = false; ///< read special tokens written in `prompt`
    int priority = 0;          ///< lower first, under the priority policy
    SamplingParams sampling;
    std::string client; ///< who asks, as views name it; empty = the program itself. Nothing depends on it
};

enum class FinishReason { Stop, Length, ContextFull, Cancelled, Failed };

inline constexpr std::size_t finishReasons = 5;

/// "stop", "length", "context", "cancelled", "error"
[[nodiscard]] const char *toString(FinishReason reason);

struct Usage {
    int promptTokens = 0;
    int completionTokens = 0;
    int cachedTokens = 0; ///< of the prompt, taken from the prefix cache
    int missPosition =
        -1;              ///< first prompt token that differs from all that was cached; -1: nothing did, or nothing was
    int preemptions = 0; ///< times its blocks were taken from it
};

/// vLLM's definitions: TTFT = arrival to first token; TPOT = (E2E - TTFT) / (output tokens - 1).
struct Timings {
    double queueMs = 0;
    double ttftMs = 0;
    double tpotMs = 0;
    double e2eMs = 0;
    double prefillMs = 0;             ///< admission to first token
    double decodeMs = 0;              ///< first token to last
    double promptTokensPerSecond = 0; ///< uncached prompt tokens over prefill time
    double tokensPerSecond = 0;       ///< decode only, 1000 / tpotMs
};

/// What a request met on its way, as far as it explains its Timings. Kept where it happens, in schedule and commit.
/// What queueMs holds beyond the three waits is the end of the step under way, a load, or the work of encoding.
struct RequestStory {
    int runningBefore = 0;      ///< requests that had a place when it came
    int waitingBefore = 0;      ///< requests in the queue before it when it came
    double placesMs = 0;        ///< waited since all of max-num-seqs places were taken
    double blocksMs = 0;        ///< waited since the pool had too few blocks for it beyond the reserve
    double turnMs = 0;          ///< waited since the step was full, or others had to come first
    int blocksWanted = 0;       ///< for its prompt, when the pool first had too few
    int blocksFree = 0;         ///< at that time, the reserve not counted
    int prefillSteps = 0;       ///< steps that computed some of its prompt before its first token
    int steps = 0;              ///< steps that it had a share in
    int mostRows = 0;           ///< most requests in one of them, itself included
    double meanRows = 0;        ///< mean of that
    int othersPrefill = 0;      ///< prompt tokens of others in the steps that made its tokens after the first
    double othersPrefillMs = 0; ///< what these steps took
    double longestGapMs = 0;    ///< between two of its tokens
    int longestGapPrefill = 0;  ///< prompt tokens of others in the step that ended it
    double preemptedMs = 0;     ///< from each loss of its blocks to its next token
    int recomputedTokens = 0;   ///< computed a second time for that
    double pausedMs = 0;        ///< kept its blocks and stood still, beyond a lowered max-num-seqs
    int hotSteps = 0;           ///< of its steps, those under a token budget that heat had lowered
    int hotBudget = 0;          ///< the lowest such budget
    bool operator==(const RequestStory &) const = default;
};

} // namespace engine
