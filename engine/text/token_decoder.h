// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/pretokenizer_regex.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace engine {

/// How the spellings of tokens become text: steps in order, each on the pieces that the one before lets out. Works
/// piece by piece, so that text that comes bit by bit equals the text of all. Immutable once built; any thread.
/// Source of the steps' meaning: huggingface/tokenizers, documentation of decoders.
class TokenDecoder {
public:
    void addByteLevel();                                    ///< a piece is read by the byte-level table
    void addReplace(std::string text, std::string content); ///< in each piece
    void addReplace(Regex pattern, std::string content);    ///< in each piece
    void addBytes();                                        ///< <0xNN> is that byte, at once
    void addByteFallback();                                 ///< neighbouring <0xNN> are text if they are UTF-8
    void addFuse();                                         ///< what follows sees one piece
    void addStrip(char32_t content, std::size_t start, std::size_t stop); ///< at most so many, from each piece
    void addMetaspace(std::string mark, bool dropsFirst);       ///< marks are spaces, but none in the first piece
    void addWordPiece(std::string continuation, bool cleansUp); ///< a space before pieces that do not continue a word
    void addWordEnd(std::string mark);                          ///< marks are spaces, but none in the last piece
    void addCtc(std::string pad, std::string wordEnd, bool cleansUp); ///< repeated pieces are one, pads none
    void addSpaces();                                                 ///< between the pieces

    /// Whether the bytes() of the pieces, joined, are the text.
    [[nodiscard]] bool isPlaceless() const;
    /// The bytes of one piece by itself: without what the steps do by its place among others.
    [[nodiscard]] std::string bytes(std::string_view spelling) const;

    class Stream;

private:
    struct ByteLevel { };
    struct Bytes { };
    struct ByteFallback { };
    struct Fuse { };
    struct Replace {
        std::string text; ///< unless there is a pattern
        std::shared_ptr<const Regex> pattern;
        std::string content;
    };
    struct Strip {
        std::string content;
        std::size_t start = 0;
        std::size_t stop = 0;
        bool whole = false; ///< behind a Fuse
    };
    struct Metaspace {
        std::string mark;
        bool dropsFirst = false;
        bool whole = false;
    };
    struct WordPiece {
        std::string continuation;
        bool cleansUp = false;
    };
    struct WordEnd {
        std::string mark;
    };
    struct Ctc {
        std::string pad;
        std::string wordEnd;
        bool cleansUp = false;
    };
    struct Spaces { };
    using Step =
        std::variant<ByteLevel, Bytes, ByteFallback, Fuse, Replace, Strip, Metaspace, WordPiece, WordEnd, Ctc, Spaces>;

    [[nodiscard]] static std::string changed(const Replace &step, std::string piece);
    [[nodiscard]] static std::string changed(const Strip &step, std::string piece);
    [[nodiscard]] static std::string changed(const WordPiece &step, std::string piece, bool first);
    [[nodiscard]] static std::string changed(const Ctc &step, std::string piece);

    template<typename Added> void addStep(Added step);
    void join();
    void waitForAll();

    std::vector<Step> m_steps;
    bool m_fused = false;
    std::size_t m_fuseStep = 0; ///< index, when fused
    bool m_waitsForAll = false; ///< what follows there needs the whole text
};

/// One text being decoded. Not to be shared between threads.
class TokenDecoder::Stream {
public:
    explicit Stream(const TokenDecoder &decoder);

    /// Appends what became certain to `out`.
    void append(std::string_view spelling, std::string &out);
    /// The same for text that is no spelling: only what follows a Fuse is done to it.
    void appendVerbatim(std::string_view text, std::string &out);
    /// The end of the text; the stream then begins anew.
    void finish(std::string &out);

private:
    struct State {
        std::string held;       ///< bytes of a run, a piece that may be the last, or what may be stripped at the end
        std::size_t pieces = 0; ///< seen so far
        std::size_t taken = 0;  ///< characters stripped in front
        bool inside = false;    ///< past what is stripped in front
    };

    void push(std::size_t step, std::string piece, std::string &out);
    void endRun(std::size_t step, std::string &out);
    /// What becomes of a piece at one step; nothing when it waits there or vanishes.
    [[nodiscard]] std::optional<std::string> through(std::size_t step, std::string piece, std::string &out);
    [[nodiscard]] std::optional<std::string> behind(const Ctc &step, State &state, std::string piece) const;
    [[nodiscard]] std::string strip(const Strip &step, State &state, std::string piece) const;

    const TokenDecoder &m_decoder;
    std::vector<State> m_states; ///< by step
};

} // namespace engine
