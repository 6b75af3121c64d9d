// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_manager.h"

#include "engine/api/error.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

namespace engine {

int windowBlocksFor(const KvSizes &sizes, int sequences, int stepTokens)
{
    if (sizes.window == 0)
        return 0;
    const std::int64_t size = sizes.blockTokens;
    const std::int64_t each = (sizes.window + size - 1) / size + 2;
    return static_cast<int>(std::min<std::int64_t>(sizes.blocks, each * sequences + (stepTokens + size - 1) / size));
}

BlockManager::BlockManager(const KvSizes &sizes, bool prefixCaching)
    : m_blockTokens(sizes.blockTokens)
    , m_windowTokens(sizes.window)
    , m_prefixCaching(prefixCaching)
    , m_blocks(static_cast<std::size_t>(std::max(sizes.blocks, 0)))
{
    CHECK(sizes.blocks >= 1 && sizes.blockTokens >= 1 && sizes.window >= 0);
    m_tokens.resize(m_blocks.size() * static_cast<std::size_t>(m_blockTokens));
    m_buckets.assign(std::bit_ceil(m_blocks.size()), -1);
    if (m_windowTokens > 0)
        m_window = WindowPool(sizes.blocks, sizes.windowBlocks);
    for (int block = 0; block < sizes.blocks; ++block)
        link(block, false);
}

int BlockManager::blocksForTokens(std::int64_t tokens) const
{
    return static_cast<int>((tokens + m_blockTokens - 1) / m_blockTokens);
}

BlockManager::Hash BlockManager::chainHash(const Hash &parent, std::span<const int> tokens) const
{
    const XXH128_hash_t own = XXH3_128bits(tokens.data(), tokens.size_bytes());
    const std::array<std::uint64_t, 4> link{parent[0], parent[1], own.low64, own.high64};
    const XXH128_hash_t digest = XXH3_128bits(link.data(), sizeof(link));
    return {digest.low64 & m_hashBits, digest.high64 & m_hashBits};
}

int BlockManager::find(const Hash &hash, std::uint64_t parent, std::span<const int> tokens) const
{
    int number = m_buckets[hash[0] & (m_buckets.size() - 1)];
    while (number >= 0) {
        const Block &block = m_blocks[static_cast<std::size_t>(number)];
        if (block.hash == hash && block.parent == parent && std::ranges::equal(tokensOf(number), tokens))
            break;
        number = block.nextInBucket;
    }
    return number;
}

std::span<const int> BlockManager::tokensOf(int block) const
{
    const auto size = static_cast<std::size_t>(m_blockTokens);
    return std::span(m_tokens).subspan(static_cast<std::size_t>(block) * size, size);
}

/// Makes a block findable whose content is complete.
void BlockManager::enter(int number)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    block.published = true;
    block.nextInBucket = std::exchange(bucketOf(block.hash), number);
    ++m_indexed;
}

PrefixMatch BlockManager::match(std::span<const int> tokens, int variant, int next) const
{
    PrefixMatch match;
    match.variant = variant;
    if (!m_prefixCaching || tokens.empty())
        return match;
    Hash hash{};
    std::uint64_t parent = rootOf(variant);
    const auto size = static_cast<std::size_t>(m_blockTokens);
    const std::size_t whole = (tokens.size() - 1) / size;
    for (std::size_t i = 0; i < whole; ++i) {
        const std::span<const int> part = tokens.subspan(i * size, size);
        hash = chainHash(hash, part);
        const int found = find(hash, parent, part);
        if (found < 0)
            break;
        parent = m_blocks[static_cast<std::size_t>(found)].content;
        match.blocks.push_back(found);
    }
    match.knownTokens = static_cast<int>(match.blocks.size() * size);
    match.lastKnown = match.blocks.empty() ? -1 : match.blocks.back();
    cutToWindow(match, next);
    match.unreferenced = static_cast<int>(std::ranges::count_if(
        match.blocks, [this](int block) { return m_blocks[static_cast<std::size_t>(block)].refCount == 0; }));
    match.tokens = static_cast<int>(match.blocks.size() * size);
    return match;
}

/// Shortens a match to where what the next token sees through the window is there.
void BlockManager::cutToWindow(PrefixMatch &match, int next) const
{
    const int known = static_cast<int>(match.blocks.size());
    int end = 0;   // the longest that will do
    int whole = 0; // blocks [whole, i) have whole slots
    for (int i = 0; i <= known; ++i) {
        const int position = next == atItsEnd ? i * m_blockTokens : next;
        const int first = m_windowTokens > 0 ? std::min(firstWindowBlock(position), i) : i;
        const auto block = [&match](int index) { return match.blocks[static_cast<std::size_t>(index)]; };
        if (first == i || (first + 1 >= whole && m_window.holds(block(first), unseenInFirst(position)))) {
            end = i;
            match.windowFirst = first;
        }
        if (i < known && m_windowTokens > 0 && !m_window.holds(block(i), 0))
            whole = i + 1;
    }
    match.blocks.resize(static_cast<std::size_t>(end));
}

int BlockManager::firstWindowBlock(int position) const
{
    return m_windowTokens > 0 ? std::max(0, position - m_windowTokens + 1) / m_blockTokens : 0;
}

int BlockManager::unseenInFirst(int position) const
{
    return m_windowTokens > 0 ? std::max(0, position - m_windowTokens + 1) % m_blockTokens : 0;
}

void BlockManager::adopt(BlockTable &table, const PrefixMatch &match)
{
    CHECK(table.blocks.empty());
    for (const int block : match.blocks)
        reference(block);
    table.blocks = match.blocks;
    table.variant = match.variant;
    table.chain = rootOf(match.variant);
    table.publishedBlocks = static_cast<int>(match.blocks.size());
    table.windowFirst = match.windowFirst;
    table.windowEnd = table.publishedBlocks;
    for (int i = table.windowFirst; i < table.windowEnd; ++i)
        m_window.reference(table.blocks[static_cast<std::size_t>(i)]);
    if (!match.blocks.empty()) {
        const Block &last = m_blocks[static_cast<std::size_t>(match.blocks.back())];
        CHECK(last.published);
        table.chain = last.content;
        table.hash = last.hash;
    }
}

bool BlockManager::grow(BlockTable &table, int tokens)
{
    const int missing = blocksForTokens(tokens) - static_cast<int>(table.blocks.size());
    if (missing > m_free)
        return false;
    for (int i = 0; i < missing; ++i)
        table.blocks.push_back(takeFree());
    return true;
}

int BlockManager::takeFree()
{
    const int block = m_head;
    CHECK(block >= 0);
    unpublish(block);
    reference(block);
    return block;
}

void BlockManager::share(BlockTable &to, const BlockTable &from)
{
    CHECK(to.blocks.empty());
    for (const int block : from.blocks)
        reference(block);
    for (int i = from.windowFirst; i < from.windowEnd; ++i)
        m_window.reference(from.blocks[static_cast<std::size_t>(i)]);
    to = from;
}

bool BlockManager::holdWindow(BlockTable &table, int tokens)
{
    if (m_windowTokens == 0)
        return true;
    const int end = blocksForTokens(tokens);
    CHECK(end <= static_cast<int>(table.blocks.size()));
    if (end - table.windowEnd > m_window.free())
        return false;
    for (; table.windowEnd < end; ++table.windowEnd)
        m_window.take(table.blocks[static_cast<std::size_t>(table.windowEnd)]);
    return true;
}

int BlockManager::windowReach(const BlockTable &table) const
{
    constexpr std::int64_t all = std::numeric_limits<int>::max();
    if (m_windowTokens == 0)
        return static_cast<int>(all);
    return static_cast<int>(std::min(all, (std::int64_t{table.windowEnd} + m_window.free()) * m_blockTokens));
}

void BlockManager::passWindow(BlockTable &table, int computed)
{
    if (m_windowTokens == 0)
        return;
    const int first = firstWindowBlock(computed);
    for (; table.windowFirst < std::min(first, table.windowEnd); ++table.windowFirst) {
        const int block = table.blocks[static_cast<std::size_t>(table.windowFirst)];
        m_window.unreference(block, m_blocks[static_cast<std::size_t>(block)].published);
    }
    table.windowFirst = std::max(table.windowFirst, first);
    table.windowEnd = std::max(table.windowEnd, table.windowFirst);
}

bool BlockManager::own(BlockTable &table, int position, std::vector<BlockCopy> &copies)
{
    const int index = position / m_blockTokens;
    int &entry = table.blocks.at(static_cast<std::size_t>(index));
    if (m_blocks[static_cast<std::size_t>(entry)].refCount == 1)
        return true;
    const bool windowed = table.windowFirst <= index && index < table.windowEnd;
    if (m_free == 0 || (windowed && m_window.free() == 0))
        return false;
    const int shared = entry;
    entry = takeFree();
    copies.push_back({shared, entry});
    if (windowed) {
        m_window.take(entry);
        m_window.setMissing(entry, m_window.missing(shared));
        copies.push_back({m_window.slotOf(shared), m_window.slotOf(entry), true});
        m_window.unreference(shared, m_blocks[static_cast<std::size_t>(shared)].published);
    }
    unreference(shared);
    return true;
}

void BlockManager::publish(BlockTable &table, std::span<const int> tokens, int computed)
{
    if (!m_prefixCaching)
        return;
    const auto size = static_cast<std::size_t>(m_blockTokens);
    CHECK(computed <= static_cast<int>(tokens.size()));
    while ((table.publishedBlocks + 1) * m_blockTokens <= computed) {
        const auto index = static_cast<std::size_t>(table.publishedBlocks++);
        const std::span<const int> part = tokens.subspan(index * size, size);
        table.hash = chainHash(table.hash, part);
        const int number = table.blocks[index];
        const int equal = find(table.hash, table.chain, part);
        if (equal >= 0) { // a neighbour computed the same at the same time, or its window was gone
            table.chain = m_blocks[static_cast<std::size_t>(equal)].content;
            if (m_windowTokens > 0 && !m_window.holds(equal, 0) && m_window.holds(number, 0))
                takeOver(equal, number);
            continue;
        }
        Block &block = m_blocks[static_cast<std::size_t>(number)];
        CHECK(!block.published);
        block.hash = table.hash;
        block.parent = table.chain;
        block.content = m_nextContent++;
        std::ranges::copy(part, m_tokens.begin() + static_cast<std::ptrdiff_t>(number) * m_blockTokens);
        table.chain = block.content;
        enter(number);
    }
}

/// A block with the same content, and the window that the other one lacks, is found in its place from now on.
void BlockManager::takeOver(int from, int to)
{
    Block &old = m_blocks[static_cast<std::size_t>(from)];
    Block &block = m_blocks[static_cast<std::size_t>(to)];
    CHECK(old.published && !block.published && block.refCount > 0);
    block.hash = old.hash;
    block.content = old.content;
    block.parent = old.parent;
    std::ranges::copy(tokensOf(from), m_tokens.begin() + static_cast<std::ptrdiff_t>(to) * m_blockTokens);
    unpublish(from);
    enter(to);
    if (old.refCount == 0) {
        unlink(from);
        link(from, true);
    }
}

void BlockManager::release(BlockTable &table, bool forget)
{
    for (int i = static_cast<int>(table.blocks.size()) - 1; i >= 0; --i) {
        const int block = table.blocks[static_cast<std::size_t>(i)];
        if (forget)
            unpublish(block);
        if (table.windowFirst <= i && i < table.windowEnd)
            m_window.unreference(block, m_blocks[static_cast<std::size_t>(block)].published);
        unreference(block);
    }
    table = {};
}

int BlockManager::exclusiveBlocks(const BlockTable &table) const
{
    return static_cast<int>(std::ranges::count_if(
        table.blocks, [this](int block) { return m_blocks[static_cast<std::size_t>(block)].refCount == 1; }));
}

void BlockManager::setPrefixCaching(bool on)
{
    m_prefixCaching = on;
    for (int block = 0; !on && block < blocks(); ++block)
        unpublish(block);
}

std::vector<CachedPrefix> BlockManager::cachedPrefixes() const
{
    std::vector<CachedPrefix> prefixes;
    std::unordered_map<std::uint64_t, int> byContent;
    for (int block = 0; block < blocks(); ++block)
        if (const Block &entry = m_blocks[static_cast<std::size_t>(block)]; entry.published)
            byContent.emplace(entry.content, block);
    std::unordered_set<std::uint64_t> parents; // of content without owner
    for (int block = m_head; block >= 0; block = m_blocks[static_cast<std::size_t>(block)].next)
        if (const Block &entry = m_blocks[static_cast<std::size_t>(block)]; entry.published)
            parents.insert(entry.parent);
    for (int block = m_tail; block >= 0; block = m_blocks[static_cast<std::size_t>(block)].previous) {
        const Block &entry = m_blocks[static_cast<std::size_t>(block)];
        if (!entry.published || parents.contains(entry.content))
            continue;
        CachedPrefix prefix = prefixEndingAt(block, byContent);
        if (!prefix.blocks.empty())
            prefixes.push_back(std::move(prefix));
    }
    return prefixes;
}

/// Empty when a block before it is gone: nothing can find it any more.
CachedPrefix BlockManager::prefixEndingAt(int last, const std::unordered_map<std::uint64_t, int> &byContent) const
{
    CachedPrefix prefix;
    for (int block = last;;) {
        prefix.blocks.push_back(block);
        const std::uint64_t parent = m_blocks[static_cast<std::size_t>(block)].parent;
        const auto before = byContent.find(parent);
        if (before != byContent.end()) {
            block = before->second;
            continue;
        }
        if (parent != 0 && parent < m_nextContent)
            return {};
        prefix.variant = static_cast<int>(std::uint64_t{0} - parent);
        break;
    }
    std::ranges::reverse(prefix.blocks);
    for (const int block : prefix.blocks) {
        const std::span<const int> tokens = tokensOf(block);
        prefix.tokens.insert(prefix.tokens.end(), tokens.begin(), tokens.end());
    }
    return prefix;
}

int BlockManager::missPosition(std::span<const int> tokens, const PrefixMatch &match) const
{
    if (m_indexed == 0)
        return -1;
    const std::uint64_t parent =
        match.lastKnown < 0 ? rootOf(match.variant) : m_blocks[static_cast<std::size_t>(match.lastKnown)].content;
    const std::span<const int> rest = tokens.subspan(static_cast<std::size_t>(match.knownTokens));
    std::ptrdiff_t most = -1;
    for (int number = 0; number < blocks(); ++number) {
        const Block &block = m_blocks[static_cast<std::size_t>(number)];
        if (!block.published || block.parent != parent)
            continue;
        const std::span<const int> own = tokensOf(number);
        const auto differs = std::ranges::mismatch(own, rest);
        if (differs.in1 == own.end() || differs.in2 == rest.end())
            return -1; // the prompt ends here, or only its last token is computed again
        most = std::max(most, differs.in2 - rest.begin());
    }
    const bool couldGoOn = match.lastKnown >= 0 && static_cast<int>(rest.size()) > m_blockTokens;
    return most < 0 && !couldGoOn ? -1 : match.knownTokens + static_cast<int>(std::max<std::ptrdiff_t>(most, 0));
}

void appendMoves(std::vector<SlotMove> &moves, std::span<const int> from, int fromBlockTokens, std::span<const int> to,
                 int toBlockTokens, int first, int last)
{
    for (int position = first; position < last;) {
        const int fromOffset = position % fromBlockTokens;
        const int toOffset = position % toBlockTokens;
        const int tokens = std::min({fromBlockTokens - fromOffset, toBlockTokens - toOffset, last - position});
        moves.push_back({from[static_cast<std::size_t>(position / fromBlockTokens)] * fromBlockTokens + fromOffset,
                         to[static_cast<std::size_t>(position / toBlockTokens)] * toBlockTokens + toOffset, tokens});
        position += tokens;
    }
}

BlockView BlockManager::view(int number) const
{
    const Block &block = m_blocks[static_cast<std::size_t>(number)];
    return {block.refCount, block.published, block.published ? tokensOf(number) : std::span<const int>()};
}

void BlockManager::reference(int number)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    if (block.refCount++ == 0)
        unlink(number);
}

void BlockManager::unreference(int number)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    CHECK(block.refCount > 0);
    if (--block.refCount == 0)
        link(number, !block.published);
}

void BlockManager::unpublish(int number)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    if (!block.published)
        return;
    int *link = &bucketOf(block.hash);
    while (*link != number) {
        CHECK(*link >= 0);
        link = &m_blocks[static_cast<std::size_t>(*link)].nextInBucket;
    }
    *link = std::exchange(block.nextInBucket, -1);
    --m_indexed;
    if (block.refCount == 0)
        --m_cached;
    block.published = false;
    m_window.forget(number);
}

/// Puts a block without owner into the free list: at its head when there is nothing in it worth keeping.
void BlockManager::link(int number, bool reuseFirst)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    block.previous = reuseFirst ? -1 : m_tail;
    block.next = reuseFirst ? m_head : -1;
    int &before = block.previous < 0 ? m_head : m_blocks[static_cast<std::size_t>(block.previous)].next;
    int &after = block.next < 0 ? m_tail : m_blocks[static_cast<std::size_t>(block.next)].previous;
    before = number;
    after = number;
    ++m_free;
    m_cached += block.published ? 1 : 0;
}

void BlockManager::unlink(int number)
{
    Block &block = m_blocks[static_cast<std::size_t>(number)];
    (block.previous < 0 ? m_head : m_blocks[static_cast<std::size_t>(block.previous)].next) = block.next;
    (block.next < 0 ? m_tail : m_blocks[static_cast<std::size_t>(block.next)].previous) = block.previous;
    block.previous = block.next = -1;
    --m_free;
    m_cached -= block.published ? 1 : 0;
}

std::string BlockManager::audit(std::span<const BlockTable *const> tables) const
{
    std::vector<int> references(m_blocks.size(), 0);
    for (const BlockTable *table : tables)
        for (const int block : table->blocks)
            ++references[static_cast<std::size_t>(block)];
    int listed = 0;
    int cached = 0;
    int previous = -1;
    for (int block = m_head; block >= 0 && listed <= blocks(); block = m_blocks[static_cast<std::size_t>(block)].next) {
        const Block &entry = m_blocks[static_cast<std::size_t>(block)];
        if (entry.refCount != 0 || entry.previous != previous)
            return "block " + std::to_string(block) + " is in the free list with " + std::to_string(entry.refCount)
                + " references";
        previous = block;
        cached += entry.published ? 1 : 0;
        ++listed;
    }
    int unused = 0;
    std::size_t published = 0;
    for (std::size_t i = 0; i < m_blocks.size(); ++i) {
        if (m_blocks[i].refCount != references[i])
            return "block " + std::to_string(i) + " counts " + std::to_string(m_blocks[i].refCount)
                + " references, but " + std::to_string(references[i]) + " tables hold it";
        unused += references[i] == 0 ? 1 : 0;
        published += m_blocks[i].published ? 1 : 0;
    }
    if (listed != unused || listed != m_free || cached != m_cached || published != m_indexed)
        return "the free list holds " + std::to_string(listed) + " blocks (" + std::to_string(cached)
            + " cached), counted are " + std::to_string(m_free) + " (" + std::to_string(m_cached) + " cached), "
            + std::to_string(unused) + " have no owner; " + std::to_string(published) + " are published, "
            + std::to_string(m_indexed) + " indexed";
    return auditWindow(tables);
}

std::string BlockManager::auditWindow(std::span<const BlockTable *const> tables) const
{
    if (m_windowTokens == 0)
        return {};
    std::vector<int> references(m_blocks.size(), 0);
    for (const BlockTable *table : tables)
        for (int i = table->windowFirst; i < std::min(table->windowEnd, static_cast<int>(table->blocks.size())); ++i)
            ++references[static_cast<std::size_t>(table->blocks[static_cast<std::size_t>(i)])];
    for (int block = 0; block < blocks(); ++block)
        if (m_window.isKept(block) && !m_blocks[static_cast<std::size_t>(block)].published)
            return "block " + std::to_string(block) + " keeps a window slot, but nothing can find it";
    return m_window.audit(references);
}

} // namespace engine
