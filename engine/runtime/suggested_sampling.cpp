// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/suggested_sampling.h"

#include "engine/api/parameters.h"

#include <cmath>

namespace engine {

SuggestedSampling suggestedSampling(const Metadata &metadata, std::vector<std::string> &warnings)
{
    const auto read = [&](const char *key, const char *parameter) -> std::optional<double> {
        try {
            const auto value = metadata.number(std::string("general.sampling.") + key);
            if (!value)
                return std::nullopt;
            const std::string fault = checkParameter(*findParameter(parameter), *value);
            if (fault.empty())
                return value;
            warnings.push_back("the model suggests a value that is not used: " + fault);
        } catch (const Error &error) {
            warnings.emplace_back(error.what());
        }
        return std::nullopt;
    };
    SuggestedSampling found;
    found.temperature = read("temp", "temperature");
    if (const auto topK = read("top_k", "top-k"))
        found.topK = static_cast<int>(std::lround(*topK));
    found.topP = read("top_p", "top-p");
    found.minP = read("min_p", "min-p");
    found.repetitionPenalty = read("penalty_repeat", "repetition-penalty");
    return found;
}

} // namespace engine
