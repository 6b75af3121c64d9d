// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/quantize.h"

#include "engine/core/printable.h"
#include "engine/io/gguf_types.h"
#include "engine/io/gguf_writer.h"
#include "engine/models/model_files.h"
#include "engine/models/model_registry.h"
#include "engine/runtime/calibrate.h"
#include "engine/runtime/gguf_form.h"
#include "engine/runtime/quantize_mix.h"
#include "engine/runtime/quantize_tensor.h"
#include "kernels/quantize.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

namespace engine {

namespace {

using kernels::DType;
namespace fs = std::filesystem;

std::string listed(const std::vector<std::string> &names)
{
    std::string text;
    for (const std::string &name : names)
        text += (text.empty() ? "" : ", ") + name;
    return text;
}

const QuantizeMix &mixNamed(const std::string &name, const char *option)
{
    const QuantizeMix *mix = findQuantizeMix(name);
    if (mix == nullptr)
        throw Error(ErrorCode::InvalidArgument,
                    std::string(option) + ": found the type " + inQuotes(name) + ", wanted one of "
                        + listed(quantizeMixNames()));
    return *mix;
}

/// One type for the matrices that a pattern names.
struct Kept {
    std::string pattern;
    DType type;
    bool used = false;
};

std::vector<Kept> keptTypes(const QuantizeOptions &options)
{
    std::vector<Kept> kept;
    for (const auto &[pattern, type] : options.keep) {
        const QuantizeMix &mix = mixNamed(type, "--keep");
        if (mix.name.find("_K_") != std::string_view::npos)
            throw Error(ErrorCode::InvalidArgument,
                        "--keep " + pattern + ": found the mix " + type + ", wanted a single type");
        kept.push_back({pattern, mix.type});
    }
    return kept;
}

MixModel mixModelOf(const Checkpoint &checkpoint, bool hasImportance)
{
    const Metadata &metadata = checkpoint.metadata();
    const std::string *architecture = metadata.text("general.architecture");
    const auto count = [&](const char *name) {
        const std::string key = architecture != nullptr ? *architecture + '.' + name : std::string(name);
        const MetadataValue *value = metadata.find(key);
        if (value == nullptr)
            return 0;
        if (metadata.typeName(key).starts_with("array")) { // one number for each layer
            const auto list = metadata.integers(key);
            return list && !list->empty() ? static_cast<int>(*std::max_element(list->begin(), list->end())) : 0;
        }
        return static_cast<int>(metadata.integer(key).value_or(0));
    };
    MixModel model;
    model.layers = count("block_count");
    model.heads = count("attention.head_count");
    model.kvHeads = count("attention.head_count_kv");
    model.experts = count("expert_count");
    model.hasOutput = checkpoint.find("output.weight") != nullptr;
    model.hasImportance = hasImportance;
    return model;
}

/// The keys of the output: those of the input without its place in a set of shards, and with the new label.
Metadata outputMetadata(const Metadata &input, const QuantizeMix &mix)
{
    Metadata result;
    const auto isReplaced = [](std::string_view key) {
        return key.starts_with("split.") || key == "general.file_type" || key == "general.quantization_version";
    };
    for (const auto &[key, value] : input.entries()) {
        if (!isReplaced(key))
            result.add(key, value, std::string(input.typeName(key)));
    }
    result.add("general.file_type", std::uint64_t{mix.fileType}, "uint32");
    if (kernels::info(mix.type).quantized)
        result.add("general.quantization_version", std::uint64_t{2}, "uint32");
    return result;
}

/// Writing over the model that is being read would leave neither.
void refuseSameFile(const QuantizeOptions &options)
{
    std::error_code ignored;
    if (fs::is_directory(options.output, ignored))
        throw Error(ErrorCode::InvalidArgument, inQuotes(options.output) + " is a folder, wanted a file to write");
    if (fs::equivalent(options.input, options.output, ignored))
        throw Error(ErrorCode::InvalidArgument,
                    inQuotes(options.output) + " is the model that is read, wanted another file to write");
}

/// A model that cannot be read is refused input, whatever the system's reason.
std::unique_ptr<Checkpoint> openInput(const std::string &path)
{
    try {
        std::error_code ignored;
        if (!fs::is_directory(path, ignored))
            return openCheckpoint(path);
        auto folder = openModelFiles(path);
        checkModel(*folder); // a file of it would be refused too, but only when it is opened
        return inGgufForm(std::move(folder));
    } catch (const Error &error) {
        throw Error(error.code() == ErrorCode::IoError ? ErrorCode::Refused : error.code(), error.what());
    }
}

class Quantizer {
public:
    Quantizer(const QuantizeOptions &options, const Checkpoint &checkpoint, const ImportanceMatrix *importance,
              std::stop_token stop)
        : m_options(options)
        , m_checkpoint(checkpoint)
        , m_importance(importance)
        , m_mix(mixNamed(options.type, "--type"))
        , m_model(mixModelOf(checkpoint, importance != nullptr))
        , m_kept(keptTypes(options))
        , m_stop(std::move(stop))
        , m_pool(options.engine.threads > 0 ? options.engine.threads
                                            : static_cast<int>(std::max(1U, std::thread::hardware_concurrency())))
    {
        for (const TensorInfo &tensor : checkpoint.tensors()) {
            m_wanted.push_back(wantedType(tensor));
            m_totalBytes += tensor.bytes;
        }
        checkPatterns();
        checkImportance();
    }

    QuantizeResult run()
    {
        std::vector<GgufTensorPlan> plans;
        for (const TensorInfo &tensor : m_checkpoint.tensors())
            plans.push_back({tensor.name, tensor.shape});
        GgufWriter writer(m_options.output, outputMetadata(m_checkpoint.metadata(), m_mix), std::move(plans));
        for (std::size_t i = 0; i < m_checkpoint.tensors().size(); ++i)
            writeTensor(m_checkpoint.tensors()[i], m_wanted[i], writer);
        if (const std::string change = m_checkpoint.checkUnchanged(); !change.empty())
            throw Error(ErrorCode::IoError, change);
        addWarnings();
        m_result.bytes = writer.finish();
        return std::move(m_result);
    }

private:
    /// Absent for tensors that are copied.
    std::optional<DType> wantedType(const TensorInfo &tensor)
    {
        if (!isQuantizedMatrix(tensor.name, tensor.shape) || !tensor.computable)
            return std::nullopt;
        for (Kept &kept : m_kept) {
            if (matchesTensor(kept.pattern, tensor.name)) {
                kept.used = true;
                return kept.type;
            }
        }
        return mixedType(m_mix, m_model, tensor.name);
    }

    void checkImportance() const
    {
        if (m_importance == nullptr || m_options.importanceFile.empty())
            return;
        const auto &tensors = m_checkpoint.tensors();
        if (std::none_of(tensors.begin(), tensors.end(),
                         [this](const TensorInfo &tensor) { return m_importance->tensors.contains(tensor.name); }))
            throw Error(ErrorCode::Refused,
                        inQuotes(m_options.importanceFile) + " holds the importance of "
                            + std::to_string(m_importance->tensors.size()) + " matrices, none of which "
                            + inQuotes(m_checkpoint.path()) + " has, wanted that of the same model");
    }

    void checkPatterns() const
    {
        for (const Kept &kept : m_kept) {
            if (!kept.used)
                throw Error(ErrorCode::InvalidArgument,
                            "--keep: no matrix of " + inQuotes(m_checkpoint.path()) + " matches "
                                + inQuotes(kept.pattern)
                                + ", wanted parts of a tensor's name such as attn_v, v_proj or blk.0");
        }
    }

    /// Norms and routers stand in float32, whatever the input stores them in.
    static DType copiedType(const TensorInfo &tensor)
    {
        return tensor.type == DType::F16 || tensor.type == DType::BF16 ? DType::F32 : tensor.type;
    }

    DType effectiveType(const TensorInfo &tensor, DType wanted)
    {
        std::string reason;
        DType type = fittingType(wanted, tensor.shape.back());
        if (type != wanted)
            reason = "rows of " + std::to_string(tensor.shape.back()) + " are no multiple of "
                + std::to_string(kernels::info(wanted).blockElements);
        const float largest = largestValue(m_checkpoint, tensor, m_pool, m_stop);
        if (largest > kernels::largestMagnitude(type)) {
            reason = "its largest weight " + std::to_string(largest) + " is beyond the range of "
                + std::string(kernels::info(type).name);
            type = type == DType::BF16 ? DType::F32 : DType::BF16;
        }
        if (type != wanted)
            m_result.fallbacks.push_back(
                {tensor.name, std::string(kernels::info(wanted).name), std::string(kernels::info(type).name), reason});
        return type;
    }

    const ChannelImportance *importanceOf(const TensorInfo &tensor)
    {
        if (m_importance == nullptr)
            return nullptr;
        const auto found = m_importance->tensors.find(tensor.name);
        if (found == m_importance->tensors.end()) {
            ++m_withoutImportance;
            return nullptr;
        }
        const auto columns = static_cast<std::size_t>(tensor.shape.back());
        const std::size_t matrices = tensor.shape.size() > 2 ? static_cast<std::size_t>(tensor.shape[0]) : 1;
        const std::size_t channels = found->second.sums.size();
        if (channels != columns && channels != columns * matrices)
            throw Error(ErrorCode::Refused,
                        "the importance of " + inQuotes(tensor.name) + " has " + std::to_string(channels)
                            + " channels, wanted " + std::to_string(columns * matrices) + ": it is of another model");
        return &found->second;
    }

    void copyTensor(const TensorInfo &tensor, GgufWriter &writer)
    {
        constexpr std::size_t step = std::size_t{16} << 20;
        const std::span<const std::byte> bytes = m_checkpoint.bytes(tensor);
        for (std::size_t at = 0; at < bytes.size(); at += step) {
            if (m_stop.stop_requested())
                throw Error(ErrorCode::Cancelled, "quantizing was cancelled");
            writer.append(bytes.subspan(at, std::min(step, bytes.size() - at)));
        }
    }

    void writeTensor(const TensorInfo &tensor, std::optional<DType> wanted, GgufWriter &writer)
    {
        if (m_options.progress)
            m_options.progress(m_totalBytes > 0 ? static_cast<double>(m_doneBytes) / static_cast<double>(m_totalBytes)
                                                : 1.0,
                               tensor.name);
        (void)m_checkpoint.bytes(tensor); // refuses what cannot be computed
        const DType type = wanted ? effectiveType(tensor, *wanted) : copiedType(tensor);
        writer.begin(type);
        if (type == tensor.type) {
            copyTensor(tensor, writer);
        } else {
            m_requantized += kernels::info(tensor.type).quantized ? 1 : 0;
            const ChannelImportance *importance = wanted ? importanceOf(tensor) : nullptr;
            writeConverted({m_checkpoint, tensor, type, importance}, m_quantizer, m_pool, writer, m_stop);
        }
        m_checkpoint.releasePages(tensor);
        m_doneBytes += tensor.bytes;
        ++m_result.types[std::string(kernels::info(type).name)];
        ++m_result.tensors;
    }

    /// Files may be of networks that only other programs compute.
    void addDoubt()
    {
        if (m_checkpoint.metadata().text("general.architecture") == nullptr)
            return;
        try {
            checkModel(m_checkpoint);
        } catch (const Error &error) {
            m_result.warnings.push_back(std::string("this program will not load the result: ") + error.what());
        }
    }

    void addWarnings()
    {
        m_result.warnings = m_checkpoint.warnings();
        addDoubt();
        if (m_requantized > 0)
            m_result.warnings.push_back(std::to_string(m_requantized)
                                        + " matrices were quantized before; their losses add up");
        if (m_withoutImportance > 0)
            m_result.warnings.push_back(std::to_string(m_withoutImportance)
                                        + " matrices have no importance; all their columns counted alike");
    }

    const QuantizeOptions &m_options;
    const Checkpoint &m_checkpoint;
    const ImportanceMatrix *m_importance;
    const QuantizeMix &m_mix;
    MixModel m_model;
    std::vector<Kept> m_kept;
    std::stop_token m_stop;
    kernels::ThreadPool m_pool;
    RowQuantizer m_quantizer = rowByRow();
    std::vector<std::optional<DType>> m_wanted;
    std::uint64_t m_totalBytes = 0;
    std::uint64_t m_doneBytes = 0;
    int m_requantized = 0;
    int m_withoutImportance = 0;
    QuantizeResult m_result;
};

} // namespace

std::vector<std::string> quantizeTypeNames()
{
    return quantizeMixNames();
}

QuantizeResult quantizeModel(const QuantizeOptions &options, std::stop_token stop)
{
    (void)mixNamed(options.type, "--type"); // before any long work
    (void)keptTypes(options);
    refuseSameFile(options);
    std::optional<ImportanceMatrix> importance;
    if (!options.importanceFile.empty())
        importance = readImportanceFile(options.importanceFile);
    const auto checkpoint = openInput(options.input);
    if (!options.calibrationText.empty()) {
        importance = measureImportance(options, stop);
        if (!options.importanceOut.empty())
            writeImportanceFile(options.importanceOut, *importance);
    }
    return Quantizer(options, *checkpoint, importance ? &*importance : nullptr, std::move(stop)).run();
}

} // namespace engine
