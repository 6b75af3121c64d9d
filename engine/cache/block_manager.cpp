// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_manager.h"

#include "engine/api/error.h"

#include <xxhash.h>

#include <algorithm>
#include <unordered_set>

namespace engine {

BlockManager::BlockManager(int blocks, int blockTokens, bool prefixCaching)
    : m_blockTokens(blockTokens)
    , m_prefixCaching(prefixCaching)
    , m_blocks(static_cast<std::size_t>(std::max(blocks, 0)))
{
    CHECK(blocks >= 1 && blockTokens >= 1);
    for (int block = 0; block < blocks; ++block)
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
    return {digest.low64, digest.high64};
}

int BlockManager::find(const Hash &hash, std::uint64_t parent, std::span<const int> tokens) const
{
    const auto [first, last] = m_index.equal_range(hash);
    for (auto it = first; it != last; ++it) {
        const Block &block = m_blocks[static_cast<std::size_t>(it->second)];
        if (block.parent == parent && std::ranges::equal(block.tokens, tokens))
            return it->second;
    }
    return -1;
}

PrefixMatch BlockManager::match(std::span<const int> tokens, int variant) const
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
        const Block &block = m_blocks[static_cast<std::size_t>(found)];
        parent = block.content;
        match.blocks.push_back(found);
        match.unreferenced += block.refCount == 0 ? 1 : 0;
    }
    match.tokens = static_cast<int>(match.blocks.size() * size);
    return match;
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
    to = from;
}

bool BlockManager::own(BlockTable &table, int position, std::vector<BlockCopy> &copies)
{
    int &entry = table.blocks.at(static_cast<std::size_t>(position / m_blockTokens));
    if (m_blocks[static_cast<std::size_t>(entry)].refCount == 1)
        return true;
    if (m_free == 0)
        return false;
    const int shared = entry;
    entry = takeFree();
    copies.push_back({shared, entry});
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
        const int equal = find(table.hash, table.chain, part);
        if (equal >= 0) { // a neighbour computed the same at the same time: go on along its chain
            table.chain = m_blocks[static_cast<std::size_t>(equal)].content;
            continue;
        }
        const int number = table.blocks[index];
        Block &block = m_blocks[static_cast<std::size_t>(number)];
        CHECK(!block.published);
        block.published = true;
        block.hash = table.hash;
        block.parent = table.chain;
        block.content = m_nextContent++;
        block.tokens.assign(part.begin(), part.end());
        table.chain = block.content;
        m_index.emplace(block.hash, number);
    }
}

void BlockManager::release(BlockTable &table, bool forget)
{
    for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) {
        if (forget)
            unpublish(*it);
        unreference(*it);
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
        const std::vector<int> &tokens = m_blocks[static_cast<std::size_t>(block)].tokens;
        prefix.tokens.insert(prefix.tokens.end(), tokens.begin(), tokens.end());
    }
    return prefix;
}

int BlockManager::missPosition(std::span<const int> tokens, const PrefixMatch &match) const
{
    if (m_index.empty())
        return -1;
    const std::uint64_t parent =
        match.blocks.empty() ? rootOf(match.variant) : m_blocks[static_cast<std::size_t>(match.blocks.back())].content;
    const std::span<const int> rest = tokens.subspan(static_cast<std::size_t>(match.tokens));
    std::ptrdiff_t most = -1;
    for (const Block &block : m_blocks) {
        if (!block.published || block.parent != parent)
            continue;
        const auto differs = std::ranges::mismatch(block.tokens, rest);
        if (differs.in1 == block.tokens.end() || differs.in2 == rest.end())
            return -1; // the prompt ends here, or only its last token is computed again
        most = std::max(most, differs.in2 - rest.begin());
    }
    const bool couldGoOn = !match.blocks.empty() && static_cast<int>(rest.size()) > m_blockTokens;
    return most < 0 && !couldGoOn ? -1 : match.tokens + static_cast<int>(std::max<std::ptrdiff_t>(most, 0));
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
    return {block.refCount, block.published, block.tokens};
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
    const auto [first, last] = m_index.equal_range(block.hash);
    const auto entry = std::find_if(first, last, [number](const auto &item) { return item.second == number; });
    CHECK(entry != last);
    m_index.erase(entry);
    if (block.refCount == 0)
        --m_cached;
    block.published = false;
    block.tokens.clear();
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
    if (listed != unused || listed != m_free || cached != m_cached || published != m_index.size())
        return "the free list holds " + std::to_string(listed) + " blocks (" + std::to_string(cached)
            + " cached), counted are " + std::to_string(m_free) + " (" + std::to_string(m_cached) + " cached), "
            + std::to_string(unused) + " have no owner; " + std::to_string(published) + " are published, "
            + std::to_string(m_index.size()) + " indexed";
    return {};
}

} // namespace engine
