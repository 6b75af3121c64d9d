// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_model.h"

#include "engine/api/error.h"
#include "engine/runtime/sampler.h"

#include <algorithm>

namespace {

std::uint64_t mix(std::uint64_t x) // splitmix64's finaliser
{
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBULL;
    return x ^ (x >> 31U);
}

} // namespace

FakeModel::FakeModel(int vocab, std::uint64_t seed)
    : m_vocab(vocab)
    , m_seed(seed)
{
}

void FakeModel::resizeKv(const engine::KvSizes &sizes)
{
    m_sizes = sizes;
    m_slots.assign(static_cast<std::size_t>(sizes.blocks * sizes.blockTokens), {});
    m_windowSlots.assign(static_cast<std::size_t>(sizes.windowBlocks * sizes.blockTokens), {});
}

void FakeModel::repageKv(const engine::KvSizes &sizes, std::span<const engine::SlotMove> moves)
{
    std::vector<Slot> slots(static_cast<std::size_t>(sizes.blocks * sizes.blockTokens));
    std::vector<Slot> windowSlots(static_cast<std::size_t>(sizes.windowBlocks * sizes.blockTokens));
    for (const engine::SlotMove &move : moves) {
        CHECK(move.from % m_sizes.blockTokens + move.tokens <= m_sizes.blockTokens);
        CHECK(move.to % sizes.blockTokens + move.tokens <= sizes.blockTokens);
        const std::vector<Slot> &from = move.window ? m_windowSlots : m_slots;
        std::vector<Slot> &to = move.window ? windowSlots : slots;
        for (int i = 0; i < move.tokens; ++i)
            to.at(static_cast<std::size_t>(move.to + i)) = from.at(static_cast<std::size_t>(move.from + i));
    }
    m_slots = std::move(slots);
    m_windowSlots = std::move(windowSlots);
    m_sizes = sizes;
}

void FakeModel::reserve(int maxTokens, int maxLogitRows)
{
    m_maxTokens = std::max(m_maxTokens, maxTokens);
    m_maxLogitRows = std::max(m_maxLogitRows, maxLogitRows);
}

std::uint64_t FakeModel::after(std::uint64_t state, int token)
{
    return mix(state * 31 + static_cast<std::uint64_t>(token) + 1);
}

std::vector<float> FakeModel::logits(std::span<const int> tokens) const
{
    std::uint64_t state = m_seed;
    for (const int token : tokens)
        state = after(state, token);
    return logitsOf(state);
}

std::vector<float> FakeModel::logitsOf(std::uint64_t state) const
{
    std::vector<float> row(static_cast<std::size_t>(m_vocab));
    for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = static_cast<float>(mix(state + i * 0x9E3779B97F4A7C15ULL) >> 40U) * 0x1p-21F - 4.0F; // [-4, 4)
    return row;
}

kernels::TensorView FakeModel::run(const engine::Batch &batch)
{
    if (beforeRun)
        beforeRun(batch);
    const engine::ForwardBatch &forward = batch.forward;
    CHECK(static_cast<int>(forward.tokenIds.size()) <= m_maxTokens);
    CHECK(static_cast<int>(forward.logitRows.size()) <= m_maxLogitRows);
    CHECK(forward.queryStarts.size() == batch.rows.size() + 1 && forward.contextLengths.size() == batch.rows.size());
    const auto variantOf = [&forward](std::size_t s) {
        return forward.ropeVariants.empty() ? 0 : forward.ropeVariants.at(s);
    };
    for (std::size_t s = 0; s < batch.rows.size(); ++s)
        for (auto i = static_cast<std::size_t>(forward.queryStarts[s]);
             i < static_cast<std::size_t>(forward.queryStarts[s + 1]); ++i) {
            const Slot slot{forward.tokenIds[i], forward.positions[i], variantOf(s)};
            m_slots.at(static_cast<std::size_t>(forward.slotIds[i])) = slot;
            if (m_sizes.window > 0)
                m_windowSlots.at(static_cast<std::size_t>(forward.windowSlotIds.at(i))) = slot;
        }
    CHECK(m_sizes.window > 0 || forward.windowTables.empty());
    for (std::size_t s = 0; m_sizes.window > 0 && s < batch.rows.size(); ++s)
        for (auto i = static_cast<std::size_t>(forward.queryStarts[s]);
             i < static_cast<std::size_t>(forward.queryStarts[s + 1]); ++i)
            if (!windowIsWhole(forward, s, forward.positions[i]))
                m_slots.at(static_cast<std::size_t>(forward.slotIds[i])).token = -1;
    m_logits.assign(forward.logitRows.size() * static_cast<std::size_t>(m_vocab), 0.0F);
    for (std::size_t s = 0; s < batch.rows.size(); ++s) {
        const engine::BatchRow &row = batch.rows[s];
        CHECK(forward.queryStarts[s + 1] - forward.queryStarts[s] == row.tokens);
        if (!row.samples)
            continue;
        CHECK(forward.logitRows.at(static_cast<std::size_t>(row.logitRow)) == row.firstToken + row.tokens - 1);
        std::vector<int> tokens;
        for (int position = 0; position < forward.contextLengths[s]; ++position) {
            const int block = forward.blockTables.at(s * static_cast<std::size_t>(forward.maxBlocks)
                                                     + static_cast<std::size_t>(position / m_sizes.blockTokens));
            const Slot &slot =
                m_slots.at(static_cast<std::size_t>(block * m_sizes.blockTokens + position % m_sizes.blockTokens));
            const bool right = slot.position == position && slot.variant == variantOf(s);
            tokens.push_back(right ? slot.token : -1 - slot.position);
        }
        const std::vector<float> values = logits(tokens);
        const auto target = m_logits.begin() + static_cast<std::ptrdiff_t>(row.logitRow) * m_vocab;
        std::ranges::copy(values, target);
        if (spoil)
            spoil(row, {target, static_cast<std::size_t>(m_vocab)});
    }
    return kernels::makeView(m_logits.data(), kernels::DType::F32, forward.logitRows.size(), m_vocab);
}

bool FakeModel::windowIsWhole(const engine::ForwardBatch &forward, std::size_t sequence, int position) const
{
    const int size = m_sizes.blockTokens;
    for (int seen = std::max(0, position - m_sizes.window + 1); seen <= position; ++seen) {
        const std::size_t row = sequence * static_cast<std::size_t>(forward.maxBlocks);
        const int block = forward.windowTables.at(row + static_cast<std::size_t>(seen / size));
        const int ofContext = forward.blockTables.at(row + static_cast<std::size_t>(seen / size));
        if (block < 0 || block >= m_sizes.windowBlocks)
            return false;
        const Slot &slot = m_windowSlots[static_cast<std::size_t>(block * size + seen % size)];
        const Slot &right = m_slots[static_cast<std::size_t>(ofContext * size + seen % size)];
        if (slot.token != right.token || slot.position != seen || slot.variant != right.variant)
            return false;
    }
    return true;
}

void FakeModel::copyBlock(const engine::BlockCopy &copy)
{
    std::vector<Slot> &slots = copy.window ? m_windowSlots : m_slots;
    const int size = m_sizes.blockTokens;
    std::copy_n(slots.begin() + copy.from * size, size, slots.begin() + copy.to * size);
}

std::vector<int> FakeModel::alone(const std::vector<int> &prompt, const engine::SamplingParams &sampling,
                                  std::uint64_t seed, int maxTokens, int contextLimit, int endToken) const
{
    engine::Sampler sampler;
    std::vector<int> tokens = prompt;
    std::uint64_t state = m_seed;
    for (const int token : tokens)
        state = after(state, token);
    while (maxTokens <= 0 || tokens.size() < prompt.size() + static_cast<std::size_t>(maxTokens)) {
        if (static_cast<int>(tokens.size()) >= contextLimit)
            break;
        tokens.push_back(sampler.sample(logitsOf(state), sampling, tokens, seed).token);
        state = after(state, tokens.back());
        if (tokens.back() == endToken)
            break;
    }
    return {tokens.begin() + static_cast<std::ptrdiff_t>(prompt.size()), tokens.end()};
}
