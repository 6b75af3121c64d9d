// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cache/window_pool.h"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace engine {

/// Sizes of a KV pool: what its bookkeeping and its bytes are made by.
struct KvSizes {
    int blocks = 0;
    int blockTokens = 16; ///< a power of two
    int window = 0;       ///< tokens that some layers see at most and hold no longer; 0 = all hold all
    int windowBlocks = 0; ///< blocks that those layers have; the others have `blocks`
    bool operator==(const KvSizes &) const = default;
};

/// Window blocks that `sequences` sequences need at once whatever they do, in steps of at most `stepTokens` tokens:
/// each its window with the block that straddles its edge and one that is begun, and the step its new tokens. Never
/// more than there are blocks; 0 without a window. The one rule, at start-up and at run time.
[[nodiscard]] int windowBlocksFor(const KvSizes &sizes, int sequences, int stepTokens);

/// Tokens whose keys and values go from consecutive slots of one pool to consecutive slots of another. A slot is
/// block * blockTokens + offset; a move never crosses the end of a block on either side.
struct SlotMove {
    int from = 0;
    int to = 0;
    int tokens = 0;
    bool window = false; ///< in the layers that hold a window, whose blocks have numbers of their own
};

/// A block that is to be copied over another of the same pool.
struct BlockCopy {
    int from = 0;
    int to = 0;
    bool window = false; ///< as in SlotMove
};

/// Appends the moves of the tokens at positions [first, last) from one table to another.
void appendMoves(std::vector<SlotMove> &moves, std::span<const int> from, int fromBlockTokens, std::span<const int> to,
                 int toBlockTokens, int first, int last);

/// The blocks of one sequence, in the order of its tokens; appended to, released as a whole, and where a block is
/// shared with another sequence, given one of its own before it is written.
/// Filled by BlockManager; everything but `blocks` is its bookkeeping.
struct BlockTable {
    std::vector<int> blocks;
    int publishedBlocks = 0;             ///< leading blocks whose content has been offered to the prefix cache
    std::uint64_t chain = 0;             ///< content id of the last published block, 0 before the first
    std::array<std::uint64_t, 2> hash{}; ///< of all tokens up to it
    int variant = 0;                     ///< how its tokens are computed; only blocks of one variant are equal
    int windowFirst = 0;                 ///< blocks [windowFirst, windowEnd) hold their window slots for this table
    int windowEnd = 0;
};

/// A cached prefix as match() found it; valid until the next change of the manager.
struct PrefixMatch {
    std::vector<int> blocks;
    int tokens = 0;
    int unreferenced = 0; ///< of `blocks`, those that nobody uses and that adopting takes out of the free count
    int variant = 0;
    int windowFirst = 0; ///< the first of `blocks` whose window slot is needed
    int knownTokens = 0; ///< at least `tokens`: what is known though its window is gone
    int lastKnown = -1;  ///< the block that they end with
};

/// Content that nobody uses but that can still be found, from its first token on.
struct CachedPrefix {
    std::vector<int> tokens; ///< whole blocks of them
    std::vector<int> blocks;
    int variant = 0;
};

/// What one block is doing, for maps and audits.
struct BlockView {
    int refCount = 0;
    bool published = false;
    std::span<const int> tokens; ///< its content when published; valid until the manager changes
};

/// Which KV blocks belong to whom: reference counts, a free list and an index of full blocks by content. Pure
/// logic over block numbers; the bytes are KvCache's.
///
/// A published block is found by the chained 128-bit hash of all tokens up to its end; a hit is taken only when
/// its own tokens and its parent's content id are equal too, so an equal hash is never taken for identity.
/// Blocks nobody references stay findable until they are reused, least recently used first, tails before heads.
///
/// Where some layers see a window only, a block has a slot in those layers (WindowPool) while a sequence may see it,
/// and as long as nobody wants the slot. A hit needs the slots of its last window, no others.
///
/// Thread: the engine thread only. Source: Kwon et al. 2023, arXiv:2309.06180; vLLM's design of prefix caching.
class BlockManager {
public:
    /// \pre blocks >= 1, blockTokens >= 1
    BlockManager(int blocks, int blockTokens, bool prefixCaching)
        : BlockManager(KvSizes{blocks, blockTokens}, prefixCaching)
    {
    }
    /// With layers that hold only a window. \pre window == 0 or windowBlocks >= 1
    BlockManager(const KvSizes &sizes, bool prefixCaching);

    [[nodiscard]] KvSizes sizes() const { return {blocks(), m_blockTokens, m_windowTokens, m_window.size()}; }
    [[nodiscard]] int blocks() const { return static_cast<int>(m_blocks.size()); }
    [[nodiscard]] int blockTokens() const { return m_blockTokens; }
    [[nodiscard]] int freeBlocks() const { return m_free; }     ///< without owner: empty or kept for prefix hits
    [[nodiscard]] int cachedBlocks() const { return m_cached; } ///< of those, kept for prefix hits
    [[nodiscard]] int usedBlocks() const { return blocks() - m_free; }
    [[nodiscard]] int blocksForTokens(std::int64_t tokens) const;
    [[nodiscard]] const WindowPool &window() const { return m_window; }

    static constexpr int atItsEnd = -1;
    static constexpr int withoutWindow = std::numeric_limits<int>::max();
    /// The longest cached prefix of `tokens` in whole blocks, never all of them: the last token is always left to
    /// compute, since its logits are wanted. Blocks of other variants are never part of it, and it ends where the
    /// window of the next token to be computed is still there: the one behind the prefix, or the one at `next`.
    [[nodiscard]] PrefixMatch match(std::span<const int> tokens, int variant = 0, int next = atItsEnd) const;
    /// Takes a reference on every block of a match, and its variant. \pre `table` is empty and nothing changed since
    /// match()
    void adopt(BlockTable &table, const PrefixMatch &match);
    /// Appends blocks until `table` holds `tokens` tokens; all or nothing. False when too few are free.
    [[nodiscard]] bool grow(BlockTable &table, int tokens);
    /// Takes window slots for the tokens up to `tokens`, which the table has blocks for; all or nothing.
    [[nodiscard]] bool holdWindow(BlockTable &table, int tokens);
    /// Leading tokens that holdWindow() grants; without a window, all.
    [[nodiscard]] int windowReach(const BlockTable &table) const;
    /// Gives back window slots that no token from position `computed` on sees.
    void passWindow(BlockTable &table, int computed);
    /// First block of which a token at that position sees something through the window.
    [[nodiscard]] int firstWindowBlock(int position) const;
    /// Tokens at the beginning of that block which it does not see.
    [[nodiscard]] int unseenInFirst(int position) const;
    /// For a table that takes over the window of another pool: the content of a block lacks this many leading tokens.
    void setWindowMissing(int block, int tokens) { m_window.setMissing(block, tokens); }
    /// A window slot for a published block without one, for hits alone; false when none is empty.
    [[nodiscard]] bool keepWindow(int block) { return m_window.keep(block); }
    /// Lets another sequence of the same tokens use all blocks of `from`. \pre `to` is empty
    void share(BlockTable &to, const BlockTable &from);
    /// Makes the block behind `position` the table's own, so that it can be written; a shared one is replaced by a new
    /// block, and the copy that this takes is appended to `copies`. False when none is free for it.
    [[nodiscard]] bool own(BlockTable &table, int position, std::vector<BlockCopy> &copies);
    /// Offers every full block within the first `computed` tokens to the prefix cache.
    void publish(BlockTable &table, std::span<const int> tokens, int computed);
    /// Drops all references, last block first. `forget` also takes the content out of the prefix cache, for blocks
    /// whose values cannot be trusted.
    void release(BlockTable &table, bool forget = false);
    /// Blocks that release() would make free: those that only this table references.
    [[nodiscard]] int exclusiveBlocks(const BlockTable &table) const;

    /// Everything that is cached without owner, most recently used first; a prefix that is part of another one is not
    /// named again.
    [[nodiscard]] std::vector<CachedPrefix> cachedPrefixes() const;
    /// Keeps these bits of hashes only, so that different contents meet under one: for tests of what a hit compares.
    /// \pre nothing is published
    void weakenHashes(std::uint64_t bits) { m_hashBits = bits; }
    /// Off: forgets all content.
    void setPrefixCaching(bool on);
    [[nodiscard]] bool prefixCaching() const { return m_prefixCaching; }
    /// The first position at which `tokens` differ from everything cached, where `match` is what match() found of them;
    /// -1 when they do not differ, or nothing is cached.
    [[nodiscard]] int missPosition(std::span<const int> tokens, const PrefixMatch &match) const;

    [[nodiscard]] BlockView view(int block) const;
    /// Recounts everything against the live tables; empty when all is consistent, else what is wrong.
    [[nodiscard]] std::string audit(std::span<const BlockTable *const> tables) const;

private:
    using Hash = std::array<std::uint64_t, 2>;
    struct Block {
        int refCount = 0;
        int previous = -1; // neighbours in the free list
        int next = -1;
        bool published = false;
        Hash hash{};
        std::uint64_t content = 0; // of this and all blocks before it; never given twice
        std::uint64_t parent = 0;
        int nextInBucket = -1; // of the index, while published
    };

    /// Stands where the content id of a first block's parent would.
    [[nodiscard]] static std::uint64_t rootOf(int variant)
    {
        return std::uint64_t{0} - static_cast<std::uint64_t>(variant);
    }
    [[nodiscard]] int takeFree();
    void cutToWindow(PrefixMatch &match, int next) const;
    void takeOver(int from, int to);
    [[nodiscard]] CachedPrefix prefixEndingAt(int block, const std::unordered_map<std::uint64_t, int> &byContent) const;
    [[nodiscard]] Hash chainHash(const Hash &parent, std::span<const int> tokens) const;
    [[nodiscard]] int find(const Hash &hash, std::uint64_t parent, std::span<const int> tokens) const;
    [[nodiscard]] std::span<const int> tokensOf(int block) const;
    [[nodiscard]] int &bucketOf(const Hash &hash) { return m_buckets[hash[0] & (m_buckets.size() - 1)]; }
    void enter(int block);
    void reference(int block);
    void unreference(int block);
    void unpublish(int block);
    void link(int block, bool reuseFirst);
    void unlink(int block);
    [[nodiscard]] std::string auditWindow(std::span<const BlockTable *const> tables) const;

    int m_blockTokens;
    int m_windowTokens;
    bool m_prefixCaching;
    WindowPool m_window;
    std::vector<Block> m_blocks;
    int m_head = -1; // next to be reused
    int m_tail = -1;
    int m_free = 0;
    int m_cached = 0;
    std::uint64_t m_nextContent = 1;
    std::uint64_t m_hashBits = ~std::uint64_t{0};
    // The index has all its memory from the beginning: blocks of one bucket form a chain, the newest first.
    std::vector<int> m_tokens;  // [blocks, blockTokens]; of published blocks, their content
    std::vector<int> m_buckets; // as many as blocks or more, a power of two; -1 = empty
    std::size_t m_indexed = 0;
};

} // namespace engine
