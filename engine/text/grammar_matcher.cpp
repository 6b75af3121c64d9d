// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/grammar_matcher.h"

#include "engine/api/error.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace engine {
namespace {

constexpr std::size_t mostMatcherStates = 20'000; // a kilobyte each
constexpr std::size_t maxFrames = 400'000;
constexpr std::size_t maxMasks = 1'000; // some kilobytes each

} // namespace

SortedVocabulary::SortedVocabulary(const Tokenizer &tokenizer, int vocabSize, const std::vector<int> &leftOut)
    : m_vocabSize(vocabSize)
    , m_places(static_cast<std::size_t>(vocabSize), -1)
{
    for (int id = 0; id < std::min(tokenizer.vocabSize(), vocabSize); ++id) {
        if (std::ranges::find(leftOut, id) != leftOut.end())
            continue;
        if (tokenizer.isEndOfGeneration(id))
            m_endTokens.push_back(id);
        else if (std::string bytes = tokenizer.bytes(id, true); !tokenizer.isControl(id) && !bytes.empty())
            m_entries.push_back({id, 0, std::move(bytes)});
    }
    std::ranges::sort(m_entries, {}, &Entry::bytes);
    for (std::size_t i = 0; i < m_entries.size(); ++i) {
        m_places[static_cast<std::size_t>(m_entries[i].token)] = static_cast<int>(i);
        if (i == 0)
            continue;
        const std::string &before = m_entries[i - 1].bytes;
        const std::string &now = m_entries[i].bytes;
        const auto differ = std::ranges::mismatch(before, now);
        m_entries[i].shared = static_cast<std::uint32_t>(differ.in2 - now.begin());
    }
}

const std::string *SortedVocabulary::bytesOf(int token) const
{
    if (token < 0 || token >= m_vocabSize || m_places[static_cast<std::size_t>(token)] < 0)
        return nullptr;
    return &m_entries[static_cast<std::size_t>(m_places[static_cast<std::size_t>(token)])].bytes;
}

GrammarStates::GrammarStates(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const SortedVocabulary> vocabulary)
    : m_grammar(std::move(grammar))
    , m_vocabulary(std::move(vocabulary))
{
}

int GrammarStates::start()
{
    return intern({{m_grammar->rule(0).start, -1}});
}

int GrammarStates::push(Frame frame)
{
    const auto [at, isNew] = m_frameIds.try_emplace(frame, static_cast<int>(m_frames.size()));
    if (isNew)
        m_frames.push_back(frame);
    return at->second;
}

int GrammarStates::intern(std::vector<Place> open)
{
    std::set<Place> seen(open.begin(), open.end());
    std::vector<Place> kept;
    bool complete = false;
    const auto reach = [&](Place place) {
        if (seen.insert(place).second)
            open.push_back(place);
    };
    while (!open.empty()) {
        const Place place = open.back();
        open.pop_back();
        const Grammar::State &state = m_grammar->state(place.state);
        if (!state.edges.empty())
            kept.push_back(place);
        if (state.ends && place.stack < 0)
            complete = true;
        else if (state.ends)
            reach({m_frames[static_cast<std::size_t>(place.stack)].target,
                   m_frames[static_cast<std::size_t>(place.stack)].below});
        for (const int next : state.empty)
            reach({next, place.stack});
        for (const Grammar::Call &call : state.calls)
            reach({m_grammar->rule(call.rule).start, push({call.target, place.stack})});
    }
    if (kept.empty() && !complete)
        return dead;
    std::ranges::sort(kept);
    const auto [at, isNew] = m_stateIds.try_emplace({kept, complete}, static_cast<int>(m_states.size()));
    if (isNew) {
        State &state = m_states.emplace_back();
        state.places = std::move(kept);
        state.complete = complete;
        state.next.fill(unknown);
    }
    return at->second;
}

int GrammarStates::next(int state, std::uint8_t byte)
{
    const std::int32_t known = m_states[static_cast<std::size_t>(state)].next[byte];
    if (known != unknown)
        return known;
    std::vector<Place> places;
    for (const Place &place : m_states[static_cast<std::size_t>(state)].places)
        for (const Grammar::Edge &edge : m_grammar->state(place.state).edges)
            if (byte >= edge.low && byte <= edge.high)
                places.push_back({edge.target, place.stack});
    std::ranges::sort(places);
    const auto repeated = std::ranges::unique(places);
    places.erase(repeated.begin(), repeated.end());
    const int next = places.empty() ? dead : intern(std::move(places));
    return m_states[static_cast<std::size_t>(state)].next[byte] = next;
}

int GrammarStates::afterToken(int state, int token)
{
    const std::string *bytes = m_vocabulary->bytesOf(token);
    if (!bytes)
        return dead;
    for (std::size_t i = 0; i < bytes->size() && state != dead; ++i)
        state = next(state, static_cast<std::uint8_t>((*bytes)[i]));
    return state;
}

std::span<const std::uint64_t> GrammarStates::allowed(int state)
{
    if (m_states[static_cast<std::size_t>(state)].allowed.empty())
        computeAllowed(state);
    return m_states[static_cast<std::size_t>(state)].allowed;
}

/// Walks the sorted tokens with the states behind the bytes read so far; what begins as a token that failed is skipped.
void GrammarStates::computeAllowed(int state)
{
    constexpr std::size_t wordBits = 64;
    const auto vocab = static_cast<std::size_t>(m_vocabulary->vocabSize());
    std::vector<std::uint64_t> mask((vocab + wordBits - 1) / wordBits);
    const auto allow = [&mask](int token) {
        mask[static_cast<std::size_t>(token) / wordBits] |= std::uint64_t{1}
            << (static_cast<std::size_t>(token) % wordBits);
    };
    std::vector<int> path{state};           // [bytes read + 1]
    std::size_t failed = std::string::npos; // bytes that are known to lead nowhere
    for (const SortedVocabulary::Entry &entry : m_vocabulary->entries()) {
        if (failed != std::string::npos && entry.shared >= failed)
            continue;
        failed = std::string::npos;
        path.resize(std::min<std::size_t>(path.size(), entry.shared + 1));
        while (path.size() <= entry.bytes.size()) {
            const int next = this->next(path.back(), static_cast<std::uint8_t>(entry.bytes[path.size() - 1]));
            if (next == dead) {
                failed = path.size();
                break;
            }
            path.push_back(next);
        }
        if (failed == std::string::npos)
            allow(entry.token);
    }
    if (isComplete(state))
        for (const int token : m_vocabulary->endTokens())
            allow(token);
    m_states[static_cast<std::size_t>(state)].allowed = std::move(mask);
    ++m_masks;
}

bool GrammarStates::isFull() const
{
    return m_states.size() > mostMatcherStates || m_frames.size() > maxFrames || m_masks > maxMasks;
}

std::vector<int> GrammarStates::callsOf(int stack) const
{
    std::vector<int> targets;
    for (; stack >= 0; stack = m_frames[static_cast<std::size_t>(stack)].below)
        targets.push_back(m_frames[static_cast<std::size_t>(stack)].target);
    return targets;
}

std::pair<std::shared_ptr<GrammarStates>, int> GrammarStates::transfer(int state) const
{
    auto fresh = std::make_shared<GrammarStates>(m_grammar, m_vocabulary);
    std::vector<Place> places;
    for (const Place &place : m_states[static_cast<std::size_t>(state)].places) {
        const std::vector<int> targets = callsOf(place.stack);
        int stack = -1;
        for (auto target = targets.rbegin(); target != targets.rend(); ++target)
            stack = fresh->push({*target, stack});
        places.push_back({place.state, stack});
    }
    // Completeness is no place, so it is brought along as the end of the language.
    if (isComplete(state))
        places.push_back({m_grammar->rule(0).end, -1});
    return {fresh, fresh->intern(std::move(places))};
}

GrammarMatcher::GrammarMatcher(std::shared_ptr<GrammarStates> states)
    : m_states(std::move(states))
    , m_state(m_states->start())
{
    CHECK(m_state != GrammarStates::dead);
}

std::span<const std::uint64_t> GrammarMatcher::allowed()
{
    if (m_states->isFull())
        std::tie(m_states, m_state) = m_states->transfer(m_state);
    return m_states->allowed(m_state);
}

void GrammarMatcher::accept(int token)
{
    if (const int next = m_states->afterToken(m_state, token); next != GrammarStates::dead)
        m_state = next;
}

} // namespace engine
