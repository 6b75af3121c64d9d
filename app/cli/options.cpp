// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/options.h"

#include "app/cli/numbers.h"
#include "engine/api/error.h"
#include "engine/api/parameters.h"
#include "engine/library/model_store.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

constexpr int mostLogprobs = 1000;

[[noreturn]] void wrongOption(const std::string &option, const std::string &found, const std::string &wanted)
{
    throw Error(ErrorCode::InvalidArgument, option + ": found " + found + ", wanted " + wanted);
}

/// Bytes with an optional K, M or G suffix (powers of 1024).
std::size_t parseBytes(const std::string &text, const std::string &option)
{
    const std::string wanted = "a number of bytes, with K, M or G for powers of 1024";
    std::uint64_t value = 0;
    const char *end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr == text.data())
        wrongOption(option, "\"" + text + "\"", wanted);
    const std::string_view suffix(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
    int shift = -1;
    if (suffix.empty())
        shift = 0;
    else if (suffix == "K" || suffix == "k")
        shift = 10;
    else if (suffix == "M" || suffix == "m")
        shift = 20;
    else if (suffix == "G" || suffix == "g")
        shift = 30;
    if (shift < 0 || value == 0 || value > (std::numeric_limits<std::uint64_t>::max() >> shift))
        wrongOption(option, "\"" + text + "\"", wanted);
    return static_cast<std::size_t>(value << shift);
}

template<typename Value>
Value choose(const std::string &option, const std::string &text,
             std::initializer_list<std::pair<const char *, Value>> choices)
{
    std::string names;
    for (const auto &[name, value] : choices) {
        if (text == name)
            return value;
        names += (names.empty() ? "" : ", ") + std::string(name);
    }
    wrongOption(option, "\"" + text + "\"", "one of " + names);
}

/// cuda:N, or several with commas, none twice.
bool isCudaList(std::string_view text)
{
    std::set<int> devices;
    for (;;) {
        const std::string one(text.substr(0, text.find(',')));
        int number = 0;
        if (!one.starts_with("cuda:") || !parseWhole(one.substr(5), number) || number < 0
            || !devices.insert(number).second)
            return false;
        if (one.size() == text.size())
            return true;
        text.remove_prefix(one.size() + 1);
    }
}

} // namespace

void checkDevice(const std::string &device)
{
    if (device != "auto" && device != "cpu" && device != "simt" && !isCudaList(device))
        wrongOption("--device", "\"" + device + "\"", "auto, cpu, cuda:N[,cuda:N...] or simt");
}

namespace {

engine::BatchLimits batchLimits(const ModelOptions &o)
{
    const engine::BatchLimits defaults;
    const int seqs = o.maxNumSeqs.value_or(std::min(defaults.maxNumSeqs, o.maxNumBatchedTokens));
    if (seqs > o.maxNumBatchedTokens)
        wrongOption("--max-num-batched-tokens", std::to_string(o.maxNumBatchedTokens),
                    "at least --max-num-seqs (" + std::to_string(seqs) + ")");
    return {seqs, o.maxNumBatchedTokens};
}

void checkKnob(const char *key, double value)
{
    const engine::ParameterSpec *spec = engine::findParameter(key);
    if (const std::string fault = spec ? engine::checkParameter(*spec, value) : std::string(); !fault.empty())
        throw Error(ErrorCode::InvalidArgument, fault);
}

/// One type for both, or that of keys and that of values.
void chooseKvTypes(const std::string &value, engine::KvPoolConfig &kv)
{
    const auto one = [](const std::string &text) {
        return choose<engine::KvType>("--kv-cache-dtype", text,
                                      {{"auto", engine::KvType::Auto},
                                       {"f32", engine::KvType::F32},
                                       {"f16", engine::KvType::F16},
                                       {"bf16", engine::KvType::BF16},
                                       {"q8_0", engine::KvType::Q8_0},
                                       {"fp8", engine::KvType::FP8}});
    };
    const std::size_t comma = value.find(',');
    kv.type = one(value.substr(0, comma));
    kv.valueType = comma == std::string::npos ? engine::KvType::Auto : one(value.substr(comma + 1));
}

} // namespace

void addModelOptions(CLI::App &command, ModelOptions &o)
{
    command
        .add_option("MODEL", o.model,
                    "a .gguf file (the first shard of a set), a Hugging Face folder, or the name of an installed model")
        ->required();
    const std::string group = "Loading";
    command
        .add_option("--device", o.device,
                    "auto, cpu, cuda:0[,cuda:1...], or simt (the CUDA kernels in an emulator, in test builds)")
        ->capture_default_str()
        ->group(group);
    command
        .add_option(
            "--threads", o.threads,
            "CPU worker threads at most (default: cores); fewer run while other programs hold cores and that is faster")
        ->check(numberFrom(0, 1024))
        ->group(group);
    command.add_option("--isa", o.isa, "auto, scalar, avx2, avx512, avx512-vnni or amx")
        ->capture_default_str()
        ->group(group);
    command.add_option("--backend", o.backend, "auto, or reference (the slow ground truth)")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--max-model-len", o.maxModelLen,
                    "prompt + output tokens of one request (default: the model's, at most 8192)")
        ->check(numberFrom(0, 1 << 30))
        ->group(group);
    command.add_option("--block-size", o.blockSize, "tokens in one KV block: 8, 16, 32, 64, 128")
        ->check(numberFrom(8, 128))
        ->capture_default_str()
        ->group(group);
    command.add_option("--num-gpu-blocks-override", o.numBlocks, "KV pool size in blocks (also on CPU)")
        ->check(numberFrom(0, 1 << 30))
        ->group(group);
    command.add_option("--kv-cache-memory-bytes", o.kvBytes, "KV pool size in bytes, with K, M or G")->group(group);
    command.add_option("--memory-reserve", o.memoryReserve, "share of memory kept free for peaks")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--kv-cache-dtype", o.kvType,
                    "auto, f32, f16, bf16, q8_0 or fp8; KEYS,VALUES where they differ; auto is f32 for float32 weights "
                    "and for mixtures in floats, else f16")
        ->capture_default_str()
        ->group(group);
    command.add_option("--max-num-seqs", o.maxNumSeqs, "sequences in one step (default: 64)")
        ->check(numberFrom(1, 65536))
        ->group(group);
    command.add_option("--max-num-batched-tokens", o.maxNumBatchedTokens, "tokens in one step")
        ->check(numberFrom(1, 1 << 20))
        ->capture_default_str()
        ->group(group);
    command.add_flag("--no-enable-prefix-caching", o.noPrefixCaching, "compute every prompt from its first token")
        ->group(group);
    command.add_option("--scheduling-policy", o.policy, "fcfs, priority or shortest")
        ->capture_default_str()
        ->group(group);
    command
        .add_flag(
            "--no-deterministic", o.noDeterministic,
            "allow kernels whose results depend on batch neighbours, where they are faster: bfloat16 for weights in "
            "floats, cuBLASLt on GPUs")
        ->group(group);
    command
        .add_option("--on-device-loss", o.onDeviceLoss,
                    "what becomes of requests when their device fails for good: fail, or cpu (they go on there)")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--device-process", o.deviceProcess,
                    "where the device is opened: own, worker (a process that a fault of the device may end), or auto "
                    "(worker for cuda)")
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--device-restarts", o.deviceRestarts,
                    "times in ten minutes that a lost device is opened anew in a fresh worker")
        ->check(numberFrom(0, 1000))
        ->capture_default_str()
        ->group(group);
    command
        .add_option("--cuda-graphs", o.cudaGraphs,
                    "whether a GPU is given decode steps as captured graphs: on or off; tokens are the same")
        ->capture_default_str()
        ->group(group);
    command.add_flag("--profile", o.profile, "time per operation and layer, on standard error")->group(group);
    command.add_option("--stats", o.statsFile, "write totals of the run to FILE as JSON")->group(group);
    command.add_option("--seed", o.seed, "sampling seed (default: random, 0 in bench)")
        ->check(numberFrom<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()))
        ->group(group);
}

engine::KvType kvTypeOf(const std::string &option, const std::string &text)
{
    return choose<engine::KvType>(option, text,
                                  {{"f32", engine::KvType::F32},
                                   {"f16", engine::KvType::F16},
                                   {"bf16", engine::KvType::BF16},
                                   {"q8_0", engine::KvType::Q8_0},
                                   {"fp8", engine::KvType::FP8}});
}

engine::EngineConfig engineConfig(const ModelOptions &o)
{
    checkDevice(o.device);
    if (o.blockSize != 8 && o.blockSize != 16 && o.blockSize != 32 && o.blockSize != 64 && o.blockSize != 128)
        wrongOption("--block-size", std::to_string(o.blockSize), "8, 16, 32, 64 or 128");
    if (!(o.memoryReserve >= 0.0 && o.memoryReserve < 1.0))
        wrongOption("--memory-reserve", std::to_string(o.memoryReserve), "0 up to, not including, 1");

    engine::EngineConfig config;
    config.device = o.device;
    config.threads = o.threads;
    config.isa = o.isa;
    config.backend = choose<engine::BackendKind>(
        "--backend", o.backend, {{"auto", engine::BackendKind::Auto}, {"reference", engine::BackendKind::Reference}});
    config.maxModelLen = o.maxModelLen;
    config.memoryReserve = o.memoryReserve;
    config.policy = choose<engine::SchedulingPolicy>("--scheduling-policy", o.policy,
                                                     {{"fcfs", engine::SchedulingPolicy::Fcfs},
                                                      {"priority", engine::SchedulingPolicy::Priority},
                                                      {"shortest", engine::SchedulingPolicy::Shortest}});
    config.deterministic = !o.noDeterministic;
    config.cudaGraphs = choose<bool>("--cuda-graphs", o.cudaGraphs, {{"on", true}, {"off", false}});
    config.profile = o.profile;
    config.onDeviceLoss = choose<engine::DeviceLoss>(
        "--on-device-loss", o.onDeviceLoss, {{"fail", engine::DeviceLoss::Fail}, {"cpu", engine::DeviceLoss::Cpu}});
    config.process = choose<engine::DeviceProcess>("--device-process", o.deviceProcess,
                                                   {{"auto", engine::DeviceProcess::Auto},
                                                    {"own", engine::DeviceProcess::Own},
                                                    {"worker", engine::DeviceProcess::Worker}});
    config.deviceRestarts = o.deviceRestarts;
    config.limits = batchLimits(o);
    config.kv.blockTokens = o.blockSize;
    config.kv.numBlocks = o.numBlocks;
    config.kv.budgetBytes = o.kvBytes ? parseBytes(*o.kvBytes, "--kv-cache-memory-bytes") : 0;
    config.kv.prefixCaching = !o.noPrefixCaching;
    chooseKvTypes(o.kvType, config.kv);
    return config;
}

void addSamplingOptions(CLI::App &command, SamplingOptions &o)
{
    const engine::SamplingParams defaults;
    o = {defaults.temperature,
         defaults.topK,
         defaults.topP,
         defaults.minP,
         defaults.repetitionPenalty,
         defaults.presencePenalty,
         defaults.frequencyPenalty,
         defaults.maxTokens,
         {},
         defaults.logprobs,
         defaults.ignoreEos};
    const std::string group = "Sampling";
    command.add_option("-n,--max-tokens", o.maxTokens, "output tokens at most (default: until the context is full)")
        ->check(numberFrom(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()))
        ->group(group);
    command.add_option("--temperature", o.temperature, "0 = always the most likely token")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--top-k", o.topK, "keep the K most likely tokens, 0 = off")
        ->check(numberFrom(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()))
        ->capture_default_str()
        ->group(group);
    command.add_option("--top-p", o.topP, "keep the smallest set of at least this probability, 1 = off")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--min-p", o.minP, "drop tokens below this share of the best one, 0 = off")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--repetition-penalty", o.repetitionPenalty, "divides the logits of tokens seen, 1 = off")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--presence-penalty", o.presencePenalty, "subtracted once from tokens seen")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--frequency-penalty", o.frequencyPenalty, "subtracted per occurrence of tokens seen")
        ->check(anyNumber())
        ->capture_default_str()
        ->group(group);
    command.add_option("--stop", o.stop, "end before this text (repeatable)")->group(group)->allow_extra_args(false);
    command.add_option("--logprobs", o.logprobs, "log-probabilities of the K best tokens at each position")
        ->check(numberFrom(0, mostLogprobs))
        ->group(group);
    command.add_flag("--ignore-eos", o.ignoreEos, "go on after an end token")->group(group);
}

void checkSampling(const engine::SamplingParams &p)
{
    checkKnob("temperature", p.temperature);
    checkKnob("top-k", p.topK);
    checkKnob("top-p", p.topP);
    checkKnob("min-p", p.minP);
    checkKnob("repetition-penalty", p.repetitionPenalty);
    checkKnob("presence-penalty", p.presencePenalty);
    checkKnob("frequency-penalty", p.frequencyPenalty);
    checkKnob("max-tokens", p.maxTokens);
    if (p.logprobs < -1 || p.logprobs > mostLogprobs)
        wrongOption("logprobs", std::to_string(p.logprobs), "0 to " + std::to_string(mostLogprobs));
    if (std::find(p.stop.begin(), p.stop.end(), "") != p.stop.end())
        wrongOption("stop", "\"\"", "at least one character");
}

engine::SamplingParams samplingParams(const SamplingOptions &o, std::optional<std::uint64_t> seed)
{
    engine::SamplingParams p;
    p.temperature = o.temperature;
    p.topK = o.topK;
    p.topP = o.topP;
    p.minP = o.minP;
    p.repetitionPenalty = o.repetitionPenalty;
    p.presencePenalty = o.presencePenalty;
    p.frequencyPenalty = o.frequencyPenalty;
    p.seed = seed;
    p.maxTokens = o.maxTokens;
    p.stop = o.stop;
    p.logprobs = o.logprobs;
    p.ignoreEos = o.ignoreEos;
    checkSampling(p);
    return p;
}

std::string modelPath(const std::string &nameOrPath)
{
    return engine::resolveModel(nameOrPath);
}

std::vector<int> parseIntList(const std::string &text, const char *option)
{
    std::vector<int> numbers;
    const char *at = text.data();
    const char *end = at + text.size();
    while (at < end) {
        int value = 0;
        const auto parsed = std::from_chars(at, end, value);
        if (parsed.ec != std::errc() || (parsed.ptr != end && *parsed.ptr != ','))
            wrongOption(option, "\"" + text + "\"", "whole numbers separated by commas");
        numbers.push_back(value);
        at = parsed.ptr == end ? end : parsed.ptr + 1;
    }
    return numbers;
}

} // namespace cli
