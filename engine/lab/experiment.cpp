// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/experiment.h"

#include "engine/api/error.h"

#include <array>

namespace engine {
namespace {

constexpr std::array specs{
    ExperimentSpec{"paging", "contiguous reservation of the longest context against pages, at equal KV bytes",
                   "16 to 64 sequences and 4.8 times the throughput (2 to 4 times at equal latency: Kwon et al. 2023, "
                   "arXiv:2309.06180)",
                   true},
    ExperimentSpec{"dynamic-batching", "static batches against continuous batching, at equal P95 of the latency",
                   "3 times the throughput (Yu et al. 2022, Orca)", true},
    ExperimentSpec{"prefix-cache", "every prompt computed in full against shared prefixes computed once",
                   "up to 3.7 times lower latency, under 1 % cost without reuse (Zheng et al. 2023, arXiv:2312.07104)",
                   true},
    ExperimentSpec{"chunked-prefill", "long prompts in one step against chunks beside running chats",
                   "long prompts do not stall running chats (Agrawal et al. 2024, Sarathi-Serve)", true},
    ExperimentSpec{"flash-attention", "the materialised score matrix against tiles with an online softmax",
                   "3.2 times the speed and 22 % less memory (Dao 2023, arXiv:2307.08691, for the method)", true},
    ExperimentSpec{"gqa", "as many key heads as query heads against one for eight, and one for all",
                   "decode close to a single key head's (Ainslie et al. 2023, arXiv:2305.13245)", true},
    ExperimentSpec{"overload", "an unbounded queue against a bounded one that refuses at once, 100 to 1,500 clients",
                   "the P95 of the accepted stays at most 0.8 s", true},
    ExperimentSpec{"step-cost", "steps as the roofline of this machine predicts them against measured ones",
                   "predictions within 20 % of the measured steps", false},
};

} // namespace

std::span<const ExperimentSpec> experimentSpecs()
{
    return specs;
}

const ExperimentSpec &experimentSpec(std::string_view name)
{
    std::string known;
    for (const ExperimentSpec &spec : specs) {
        if (spec.name == name)
            return spec;
        known += (known.empty() ? "" : ", ") + std::string(spec.name);
    }
    throw Error(ErrorCode::InvalidArgument, "experiment: found \"" + std::string(name) + "\", wanted one of " + known);
}

void checkStop(const ExperimentHooks &hooks)
{
    if (hooks.stop.stop_requested())
        throw Error(ErrorCode::Cancelled, "experiment: stopped");
}

} // namespace engine
