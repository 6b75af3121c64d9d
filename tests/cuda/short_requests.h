// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/request.h"
#include "tests/support/shared_data.h"

#include <string>
#include <vector>

/// A tiny model in a small pool, and requests that meet in it, for tests of devices that fail.
namespace short_requests {

[[nodiscard]] inline std::string model()
{
    return shared_data::data(QStringLiteral("tiny-llama/llama-f16.gguf")).toStdString();
}

/// Of the device simt, with so many sequences at a time.
[[nodiscard]] inline engine::EngineConfig config(int maxNumSeqs)
{
    engine::EngineConfig config;
    config.device = "simt";
    config.maxModelLen = 64;
    config.kv.blockTokens = 8;
    config.kv.numBlocks = 24;
    config.limits = {maxNumSeqs, 16};
    return config;
}

/// Requests whose prompts, of so many tokens, begin alike; each is answered by `maxTokens`.
[[nodiscard]] inline std::vector<engine::Request> requests(const std::vector<int> &lengths, int maxTokens)
{
    std::vector<engine::Request> all;
    for (const int length : lengths) {
        engine::Request &request = all.emplace_back();
        request.ids.emplace();
        for (int i = 0; i < length; ++i)
            request.ids->push_back(3 + i % 11);
        request.sampling.maxTokens = maxTokens;
        request.sampling.ignoreEos = true;
    }
    return all;
}

} // namespace short_requests
