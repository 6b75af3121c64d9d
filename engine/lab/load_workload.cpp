// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/load_workload.h"

#include "engine/api/error.h"
#include "engine/core/json.h"
#include "engine/lab/lab_random.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

namespace engine {
namespace {

constexpr int mostLength = 1 << 24;
constexpr int leastTokens = 4; // the limits of vLLM's benchmark on ShareGPT
constexpr int mostPromptTokens = 1024;
constexpr int mostTokens = 2048;
constexpr std::uint64_t arrivalStream = 0x61727269766131ULL; // arrivals and contents are drawn apart

constexpr std::array<std::string_view, 48> words{
    "time",  "year",   "people", "way",     "day",     "man",     "thing",    "woman",   "life",   "child",
    "world", "school", "state",  "family",  "student", "group",   "country",  "problem", "hand",   "part",
    "place", "case",   "week",   "company", "system",  "program", "question", "work",    "number", "night",
    "point", "home",   "water",  "room",    "mother",  "area",    "money",    "story",   "fact",   "month",
    "lot",   "right",  "study",  "book",    "eye",     "job",     "word",     "business"};

std::string randomWords(int count, LabRandom &random)
{
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += i == 0 ? "" : " ";
        text += words[static_cast<std::size_t>(random.integer(0, static_cast<int>(words.size()) - 1))];
    }
    return text;
}

std::vector<int> randomIds(int count, int vocabSize, LabRandom &random)
{
    std::vector<int> ids(static_cast<std::size_t>(count));
    for (int &id : ids)
        id = random.integer(0, vocabSize - 1);
    return ids;
}

int drawLength(const LengthRange &range, LabRandom &random)
{
    return random.integer(range.from, range.to);
}

struct Conversation {
    std::string prompt;
    std::string answer;
};

[[noreturn]] void wrongDataset(const std::string &name, const std::string &fault)
{
    throw Error(ErrorCode::Refused, name + ": " + fault);
}

std::string turnText(const Json &turn, const std::string &name, const std::string &place)
{
    if (!turn.is_object() || !turn.contains("value") || !turn["value"].is_string())
        wrongDataset(name, place + " found " + turn.type_name() + ", wanted an object with a text under \"value\"");
    return turn["value"].get<std::string>();
}

std::vector<Conversation> readConversations(const std::string &text, const std::string &name)
{
    const Json root = parseJson(text, name);
    if (!root.is_array())
        wrongDataset(name, std::string("found ") + root.type_name() + ", wanted a list of conversations");
    std::vector<Conversation> conversations;
    for (std::size_t i = 0; i < root.size(); ++i) {
        const std::string place = "[" + std::to_string(i) + "]";
        const Json &entry = root[i];
        if (!entry.is_object())
            wrongDataset(name, place + ": found " + entry.type_name() + ", wanted an object with \"conversations\"");
        const char *key = entry.contains("conversations") ? "conversations" : "conversation";
        if (!entry.contains(key) || !entry[key].is_array())
            wrongDataset(name, place + ": wanted a list under \"conversations\"");
        const Json &turns = entry[key];
        if (turns.size() < 2)
            continue;
        const std::string turnPlace = place + "." + key;
        conversations.push_back(
            {turnText(turns[0], name, turnPlace + "[0]:"), turnText(turns[1], name, turnPlace + "[1]:")});
    }
    return conversations;
}

/// An order of 0..count-1 drawn by the seed (Fisher and Yates).
std::vector<std::size_t> shuffled(std::size_t count, LabRandom &random)
{
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    for (std::size_t i = count; i > 1; --i)
        std::swap(order[i - 1], order[static_cast<std::size_t>(random.integer(0, static_cast<int>(i) - 1))]);
    return order;
}

} // namespace

Request requestOf(const LoadRequest &request)
{
    Request wanted;
    if (request.ids.empty())
        wanted.prompt = request.prompt;
    else
        wanted.ids = request.ids;
    wanted.sampling.temperature = 0;
    wanted.sampling.ignoreEos = true;
    wanted.sampling.maxTokens = request.outputTokens;
    return wanted;
}

LengthRange parseLengthRange(const std::string &text, const char *option)
{
    LengthRange range;
    const char *end = text.data() + text.size();
    const auto first = std::from_chars(text.data(), end, range.from);
    bool good = first.ec == std::errc();
    range.to = range.from;
    if (good && first.ptr != end) {
        const auto second = std::from_chars(first.ptr + 1, end, range.to);
        good = *first.ptr == ':' && second.ec == std::errc() && second.ptr == end;
    }
    if (!good || range.from < 1 || range.to < range.from || range.to > mostLength)
        throw Error(ErrorCode::InvalidArgument,
                    std::string(option) + ": found \"" + text
                        + "\", wanted A or A:B with 1 <= A <= B <= " + std::to_string(mostLength));
    return range;
}

std::vector<LoadRequest> makeRandomRequests(const RandomWorkload &workload)
{
    LabRandom random(workload.seed);
    const bool known = workload.vocabSize > 0;
    std::vector<int> prefixIds;
    std::string prefix;
    if (known)
        prefixIds = randomIds(workload.sharedPrefix, workload.vocabSize, random);
    else if (workload.sharedPrefix > 0)
        prefix = randomWords(workload.sharedPrefix, random) + ' ';
    const auto shifted = [&workload](int id) {
        constexpr std::int64_t stride = 7919; // a prime, so that variants part in any vocabulary
        return static_cast<int>((id + stride * workload.variant) % workload.vocabSize);
    };
    std::vector<LoadRequest> requests(static_cast<std::size_t>(workload.requests));
    for (LoadRequest &request : requests) {
        const int input = drawLength(workload.input, random);
        request.outputTokens = drawLength(workload.output, random);
        if (known) {
            request.ids = prefixIds;
            const std::vector<int> own = randomIds(input, workload.vocabSize, random);
            request.ids.insert(request.ids.end(), own.begin(), own.end());
            std::ranges::transform(request.ids, request.ids.begin(), shifted);
        } else {
            request.prompt = prefix + randomWords(input, random);
        }
    }
    return requests;
}

std::vector<LoadRequest> makeDatasetRequests(const std::string &text, const std::string &name,
                                             const DatasetWorkload &workload,
                                             const std::function<int(const std::string &)> &countTokens)
{
    const std::vector<Conversation> conversations = readConversations(text, name);
    LabRandom random(workload.seed);
    const std::string prefix = workload.sharedPrefix > 0 ? randomWords(workload.sharedPrefix, random) + "\n\n" : "";
    std::vector<LoadRequest> kept;
    for (const std::size_t index : shuffled(conversations.size(), random)) {
        if (static_cast<int>(kept.size()) == workload.requests)
            break;
        const Conversation &one = conversations[index];
        const int prompt = countTokens(one.prompt);
        const int answer = countTokens(one.answer);
        if (prompt < leastTokens || answer < leastTokens || prompt > mostPromptTokens || prompt + answer > mostTokens)
            continue;
        LoadRequest request;
        request.prompt = prefix + one.prompt;
        request.outputTokens = workload.output ? drawLength(*workload.output, random) : answer;
        const int input = prefix.empty() ? prompt : countTokens(request.prompt);
        if (workload.maxTokens > 0 && input + request.outputTokens + 1 > workload.maxTokens)
            continue;
        kept.push_back(std::move(request));
    }
    if (kept.empty())
        wrongDataset(name,
                     "none of its " + std::to_string(conversations.size())
                         + " conversations with two turns can be used; wanted are at least 4 tokens in question and "
                           "answer, at most 1024 in the question, 2048 together, and room in the context");
    const std::size_t unique = kept.size();
    while (static_cast<int>(kept.size()) < workload.requests)
        kept.push_back(kept[kept.size() % unique]);
    return kept;
}

std::vector<double> arrivalTimes(int requests, double rate, std::uint64_t seed)
{
    std::vector<double> times(static_cast<std::size_t>(requests));
    if (rate <= 0)
        return times;
    LabRandom random(seed ^ arrivalStream);
    for (std::size_t i = 1; i < times.size(); ++i)
        times[i] = times[i - 1] + random.exponential(1.0 / rate);
    return times;
}

} // namespace engine
