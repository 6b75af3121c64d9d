// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/importance_file.h"

#include "engine/core/file_bytes.h"
#include "engine/core/printable.h"
#include "engine/io/byte_reader.h"
#include "engine/io/checkpoint.h"
#include "engine/io/gguf_writer.h"
#include "engine/io/refusal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace engine {

namespace {

constexpr std::size_t mostBytes = std::size_t{1} << 31;
constexpr std::string_view sumSuffix = ".in_sum2";
constexpr std::string_view countSuffix = ".counts";

void checkValues(const std::string &path, const std::string &name, const std::vector<float> &values)
{
    const auto bad =
        std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value) || value < 0; });
    if (bad != values.end()) {
        refuseFile(path,
                   "holds the value " + std::to_string(*bad) + " at place " + std::to_string(bad - values.begin())
                       + " of " + inQuotes(name) + ", wanted a finite number that is not negative");
    }
}

std::vector<float> floatsOf(const Checkpoint &file, const TensorInfo &tensor)
{
    if (tensor.type != kernels::DType::F32 || !tensor.computable)
        refuseFile(file.path(), "holds " + inQuotes(tensor.name) + " as " + tensor.typeName + ", wanted F32");
    std::vector<float> values(tensor.bytes / sizeof(float));
    if (!values.empty())
        std::memcpy(values.data(), file.bytes(tensor).data(), tensor.bytes);
    checkValues(file.path(), tensor.name, values);
    return values;
}

ImportanceMatrix readGgufForm(const std::string &path)
{
    const auto file = openCheckpoint(path);
    ImportanceMatrix matrix;
    for (const TensorInfo &tensor : file->tensors()) {
        const std::string_view full = tensor.name;
        if (!full.ends_with(sumSuffix))
            continue;
        const std::string name(full.substr(0, full.size() - sumSuffix.size()));
        const TensorInfo *counts = file->find(name + std::string(countSuffix));
        if (counts == nullptr)
            refuseFile(path, "lacks the tensor " + inQuotes(name + std::string(countSuffix)));
        ChannelImportance &entry = matrix.tensors[name];
        entry.sums = floatsOf(*file, tensor);
        entry.counts = floatsOf(*file, *counts);
        if (entry.counts.empty() || entry.sums.size() % entry.counts.size() != 0) {
            refuseFile(path,
                       "has " + std::to_string(entry.sums.size()) + " sums and " + std::to_string(entry.counts.size())
                           + " counts for " + inQuotes(name) + ", wanted as many sums for every count");
        }
    }
    if (matrix.tensors.empty())
        refuseFile(path, "holds no importance: no tensor is named \"....in_sum2\"");
    if (const auto *datasets = file->metadata().texts("imatrix.datasets"))
        matrix.datasets = *datasets;
    matrix.chunks = file->metadata().integer("imatrix.chunk_count").value_or(0);
    matrix.chunkTokens = file->metadata().integer("imatrix.chunk_size").value_or(0);
    if (const std::string change = file->checkUnchanged(); !change.empty())
        throw Error(ErrorCode::IoError, change);
    return matrix;
}

std::string readDatText(ByteReader &reader, const Place &place)
{
    const auto length = reader.read<std::int32_t>(place);
    if (length <= 0)
        reader.fail(place.text() + " has the length " + std::to_string(length) + ", wanted at least 1");
    reader.checkCount(static_cast<std::uint64_t>(length), 1, place);
    const std::byte *text = reader.take(static_cast<std::size_t>(length), place);
    return {reinterpret_cast<const char *>(text), static_cast<std::size_t>(length)};
}

void readDatEntry(ByteReader &reader, const std::string &path, ImportanceMatrix &matrix)
{
    const std::string name = readDatText(reader, {"name of an entry", {}});
    const Place place{"importance of", name};
    const auto calls = reader.read<std::int32_t>(place);
    const auto count = reader.read<std::int32_t>(place);
    if (calls < 0 || count <= 0)
        reader.fail(place.text() + " has " + std::to_string(calls) + " calls and " + std::to_string(count)
                    + " values, wanted at least 0 and 1");
    reader.checkCount(static_cast<std::uint64_t>(count), sizeof(float), place);
    ChannelImportance entry;
    entry.sums.resize(static_cast<std::size_t>(count));
    std::memcpy(entry.sums.data(), reader.take(entry.sums.size() * sizeof(float), place),
                entry.sums.size() * sizeof(float));
    checkValues(path, name, entry.sums);
    entry.counts.assign(1, static_cast<float>(std::max(calls, 1)));
    if (!matrix.tensors.emplace(name, std::move(entry)).second)
        reader.fail(place.text() + " stands there twice");
}

/// Entries, then optionally the chunk count and the name of the text.
ImportanceMatrix readDatForm(const std::string &path, const std::string &bytes)
{
    ByteReader reader(std::as_bytes(std::span(bytes)), path);
    const auto entries = reader.read<std::int32_t>({"entry count", {}});
    constexpr std::uint64_t smallestEntry = 4 + 1 + 4 + 4 + 4;
    if (entries <= 0)
        reader.fail("the entry count is " + std::to_string(entries)
                    + ", wanted a file of llama-imatrix with at least one entry");
    reader.checkCount(static_cast<std::uint64_t>(entries), smallestEntry, {"entry count", {}});
    ImportanceMatrix matrix;
    for (std::int32_t i = 0; i < entries; ++i)
        readDatEntry(reader, path, matrix);
    if (reader.left() > 0) {
        matrix.chunks = reader.read<std::int32_t>({"chunk count", {}});
        if (reader.left() > 0)
            matrix.datasets.push_back(readDatText(reader, {"name of the text", {}}));
    }
    return matrix;
}

} // namespace

ImportanceMatrix readImportanceFile(const std::string &path)
{
    const std::string bytes = readFileBytes(path, mostBytes);
    return bytes.starts_with("GGUF") ? readGgufForm(path) : readDatForm(path, bytes);
}

void writeImportanceFile(const std::string &path, const ImportanceMatrix &matrix)
{
    Metadata metadata;
    metadata.add("general.type", std::string("imatrix"));
    metadata.add("imatrix.datasets", matrix.datasets);
    metadata.add("imatrix.chunk_count", static_cast<std::uint64_t>(matrix.chunks), "uint32");
    metadata.add("imatrix.chunk_size", static_cast<std::uint64_t>(matrix.chunkTokens), "uint32");
    std::vector<GgufTensorPlan> plans;
    for (const auto &[name, entry] : matrix.tensors) {
        const auto experts = static_cast<std::int64_t>(entry.counts.size());
        plans.push_back(
            {name + std::string(sumSuffix), {experts, static_cast<std::int64_t>(entry.sums.size()) / experts}});
        plans.push_back({name + std::string(countSuffix), {experts, 1}});
    }
    GgufWriter writer(path, metadata, std::move(plans));
    for (const auto &[name, entry] : matrix.tensors) {
        writer.begin(kernels::DType::F32);
        writer.append(std::as_bytes(std::span(entry.sums)));
        writer.begin(kernels::DType::F32);
        writer.append(std::as_bytes(std::span(entry.counts)));
    }
    (void)writer.finish();
}

} // namespace engine
