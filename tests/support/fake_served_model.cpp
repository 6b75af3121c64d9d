// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_served_model.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <algorithm>

using namespace engine;

FakeTokenizer::FakeTokenizer()
    : m_pieces{"<s>", "</s>"}
{
    for (char c = 'a'; c <= 'z'; ++c)
        m_pieces.emplace_back(1, c);
    for (char c = '0'; c <= '9'; ++c)
        m_pieces.emplace_back(1, c);
    for (const char *piece : {"\xE2", "\x82", "\xAC", " ", ".", "the", "and", "END"})
        m_pieces.emplace_back(piece);
    for (char c = 'A'; static_cast<int>(m_pieces.size()) < size; ++c)
        m_pieces.emplace_back(1, c);
}

std::vector<int> FakeTokenizer::encode(std::string_view text, const EncodeOptions &options) const
{
    std::vector<int> ids;
    if (options.addSpecial)
        ids.push_back(bosId);
    while (!text.empty()) {
        int best = -1;
        for (int id = options.parseSpecial ? 0 : 2; id < size; ++id)
            if (text.starts_with(m_pieces[static_cast<std::size_t>(id)])
                && (best < 0
                    || m_pieces[static_cast<std::size_t>(id)].size() > m_pieces[static_cast<std::size_t>(best)].size()))
                best = id;
        ids.push_back(best < 0 ? 2 : best);
        text.remove_prefix(best < 0 ? 1 : m_pieces[static_cast<std::size_t>(best)].size());
    }
    return ids;
}

std::string FakeTokenizer::bytes(int id, bool skipSpecial) const
{
    return skipSpecial && isControl(id) ? std::string() : m_pieces.at(static_cast<std::size_t>(id));
}

std::string FakeTokenizer::decode(const std::vector<int> &ids, bool skipSpecial) const
{
    std::string text;
    for (const int id : ids)
        text += bytes(id, skipSpecial);
    return utf8::repaired(text);
}

std::optional<int> FakeTokenizer::find(std::string_view piece) const
{
    const auto it = std::ranges::find(m_pieces, piece);
    return it == m_pieces.end() ? std::nullopt : std::optional(static_cast<int>(it - m_pieces.begin()));
}

FakeServedModel::FakeServedModel(const std::string &path, const EngineConfig &config, FakeControls &controls)
    : m_controls(controls)
    , m_model(FakeTokenizer::size)
{
    m_info.path = path;
    m_info.vocabSize = FakeTokenizer::size;
    m_info.effective = config;
    if (m_info.effective.maxModelLen == 0)
        m_info.effective.maxModelLen = 256;
    applyLimits(config.limits);
    KvPoolConfig kv;
    m_info.kvWindow = controls.window;
    m_info.kvWindowBytesPerToken = controls.window > 0 ? windowBytesPerToken : 0;
    (void)planKvPool(config.kv, 0, kv);
    m_model.resizeKv({kv.numBlocks, kv.blockTokens, controls.window, kv.windowBlocks});
    m_info.effective.kv = kv;
    m_model.beforeRun = controls.beforeRun;
    m_model.spoil = controls.spoil;
    ++controls.alive;
}

FakeServedModel::~FakeServedModel()
{
    --m_controls.alive;
}

std::string FakeServedModel::planKvPool(const KvPoolConfig &kv, std::int64_t leastTokens, KvPoolConfig &effective) const
{
    if (m_controls.poolFails)
        throw Error(ErrorCode::OutOfMemory, "not enough memory for the pool");
    effective = kv;
    if (effective.numBlocks == 0)
        effective.numBlocks = effective.budgetBytes > 0
            ? static_cast<int>(effective.budgetBytes / static_cast<std::size_t>(effective.blockTokens * bytesPerToken))
            : 64;
    const auto least = static_cast<int>((leastTokens + kv.blockTokens - 1) / kv.blockTokens);
    const bool raised = effective.numBlocks < least;
    effective.numBlocks = std::max(effective.numBlocks, std::max(least, 1));
    const BatchLimits &limits = m_info.effective.limits;
    effective.windowBlocks = windowBlocksFor({effective.numBlocks, effective.blockTokens, m_info.kvWindow},
                                             limits.maxNumSeqs, limits.maxNumBatchedTokens);
    effective.budgetBytes = static_cast<std::size_t>(
        effective.blockTokens * (effective.numBlocks * bytesPerToken + effective.windowBlocks * windowBytesPerToken));
    return raised ? "the pool keeps " + std::to_string(least) + " blocks" : std::string();
}

void FakeServedModel::installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves)
{
    m_model.repageKv({effective.numBlocks, effective.blockTokens, m_info.kvWindow, effective.windowBlocks}, moves);
    m_info.effective.kv = effective;
}

std::string FakeServedModel::applyLimits(const BatchLimits &limits)
{
    m_model.reserve(limits.maxNumBatchedTokens, limits.maxNumSeqs);
    m_info.effective.limits = limits;
    return {};
}

std::string FakeServedModel::applyRules(const AdmissionRules &rules)
{
    static_cast<AdmissionRules &>(m_info.effective) = rules;
    return {};
}

std::string FakeServedModel::applyThreads(int threads)
{
    m_model.setThreads(threads);
    m_info.effective.threads = threads;
    return {};
}

std::string FakeServedModel::checkFileUnchanged() const
{
    return m_controls.fileChanged ? "the file was cut" : "";
}

ModelLoader FakeServedModel::loader(FakeControls &controls)
{
    return [&controls](const std::string &path, const EngineConfig &config, const auto &progress,
                       std::stop_token stop) -> std::unique_ptr<ServedModel> {
        for (int tensor = 0; tensor < 5; ++tensor) {
            if (controls.duringLoad)
                controls.duringLoad(tensor);
            if (stop.stop_requested())
                throw Error(ErrorCode::Cancelled, path + ": loading was cancelled");
            progress(tensor / 5.0, "packing");
        }
        if (path.starts_with("bad"))
            throw Error(ErrorCode::Refused, path + ": found \"BAD!\", wanted \"GGUF\"");
        return std::make_unique<FakeServedModel>(path, config, controls);
    };
}
