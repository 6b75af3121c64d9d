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

void FakeModel::resizeKv(int blocks, int blockTokens)
{
    m_blockTokens = blockTokens;
    m_slots.assign(static_cast<std::size_t>(blocks * blockTokens), {});
}

void FakeModel::repageKv(int blocks, int blockTokens, std::span<const engine::SlotMove> moves)
{
    std::vector<Slot> slots(static_cast<std::size_t>(blocks * blockTokens));
    for (const engine::SlotMove &move : moves) {
        CHECK(move.from % m_blockTokens + move.tokens <= m_blockTokens);
        CHECK(move.to % blockTokens + move.tokens <= blockTokens);
        for (int i = 0; i < move.tokens; ++i)
            slots.at(static_cast<std::size_t>(move.to + i)) = m_slots.at(static_cast<std::size_t>(move.from + i));
    }
    m_slots = std::move(slots);
    m_blockTokens = blockTokens;
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
             i < static_cast<std::size_t>(forward.queryStarts[s + 1]); ++i)
            m_slots.at(static_cast<std::size_t>(forward.slotIds[i])) = {forward.tokenIds[i], forward.positions[i],
                                                                        variantOf(s)};
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
                                                     + static_cast<std::size_t>(position / m_blockTokens));
            const Slot &slot = m_slots.at(static_cast<std::size_t>(block * m_blockTokens + position % m_blockTokens));
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

void FakeModel::copyBlock(int from, int to)
{
    std::copy_n(m_slots.begin() + from * m_blockTokens, m_blockTokens, m_slots.begin() + to * m_blockTokens);
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
