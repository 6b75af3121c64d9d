// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"
#include "engine/text/tokenizer.h"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace engine {

/// The tokens of a vocabulary in the order of their bytes, so that a walk over all of them reads what neighbours
/// share once. Control tokens are left out, apart from those that end an answer. Immutable; any thread.
class SortedVocabulary {
public:
    /// `leftOut`: tokens that mean something else than their bytes.
    SortedVocabulary(const Tokenizer &tokenizer, int vocabSize, const std::vector<int> &leftOut = {});

    struct Entry {
        int token = 0;
        std::uint32_t shared = 0; ///< bytes shared with the entry before
        std::string bytes;
    };
    [[nodiscard]] const std::vector<Entry> &entries() const { return m_entries; }
    [[nodiscard]] const std::vector<int> &endTokens() const { return m_endTokens; }
    [[nodiscard]] const std::string *bytesOf(int token) const; ///< null for tokens left out
    [[nodiscard]] int vocabSize() const { return m_vocabSize; }

private:
    int m_vocabSize;
    std::vector<Entry> m_entries;
    std::vector<int> m_endTokens;
    std::vector<int> m_places; ///< by token, index of its entry or -1
};

/// A grammar read byte by byte: what it can be in the middle of is a numbered state, made when it is first met, and
/// each state remembers where bytes lead and which tokens may follow. Thread: one at a time.
/// Source: subset construction on the fly, over a pushdown automaton whose stacks are shared.
class GrammarStates {
public:
    static constexpr int dead = -1;

    GrammarStates(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const SortedVocabulary> vocabulary);

    [[nodiscard]] int start();
    /// The state after `byte`, or dead.
    [[nodiscard]] int next(int state, std::uint8_t byte);
    [[nodiscard]] int afterToken(int state, int token);
    [[nodiscard]] bool isComplete(int state) const { return m_states[static_cast<std::size_t>(state)].complete; }
    /// One bit for each token that may follow; end tokens where the text is complete.
    [[nodiscard]] std::span<const std::uint64_t> allowed(int state);
    /// So much is remembered that it is time to begin anew, with transfer().
    [[nodiscard]] bool isFull() const;
    /// The same state in a fresh object.
    [[nodiscard]] std::pair<std::shared_ptr<GrammarStates>, int> transfer(int state) const;

private:
    /// Where one reading stands: a grammar state, and the calls that it is inside of.
    struct Place {
        int state = 0;
        int stack = -1; ///< index into m_frames, or -1 outside of all calls
        auto operator<=>(const Place &) const = default;
    };
    struct Frame {
        int target = 0; ///< grammar state to go on with
        int below = -1;
        auto operator<=>(const Frame &) const = default;
    };
    struct State {
        std::vector<Place> places; ///< sorted; each has bytes to go on with
        bool complete = false;
        std::array<std::int32_t, 256> next;
        std::vector<std::uint64_t> allowed; ///< empty until asked for
    };

    static constexpr std::int32_t unknown = -2;

    [[nodiscard]] int push(Frame frame);
    /// All places that `places` reach by nothing become a state.
    [[nodiscard]] int intern(std::vector<Place> places);
    void computeAllowed(int state);
    [[nodiscard]] std::vector<int> callsOf(int stack) const;

    std::shared_ptr<const Grammar> m_grammar;
    std::shared_ptr<const SortedVocabulary> m_vocabulary;
    std::vector<Frame> m_frames;
    std::map<Frame, int> m_frameIds;
    std::deque<State> m_states;
    std::map<std::pair<std::vector<Place>, bool>, int> m_stateIds;
    std::size_t m_masks = 0;
};

/// One answer on its way through a grammar. Thread: one at a time, shared with other matchers on the same states.
class GrammarMatcher {
public:
    explicit GrammarMatcher(std::shared_ptr<GrammarStates> states);

    /// One bit for each token that may come next; valid until the next call.
    [[nodiscard]] std::span<const std::uint64_t> allowed();
    /// A token that was not allowed, as an end token that a request ignores, changes nothing.
    void accept(int token);
    [[nodiscard]] bool isComplete() const { return m_states->isComplete(m_state); }

private:
    std::shared_ptr<GrammarStates> m_states;
    int m_state;
};

} // namespace engine
