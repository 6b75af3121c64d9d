// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_tensors.h"

#include "engine/core/printable.h"
#include "engine/io/safetensors_types.h"

#include <cstring>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

constexpr std::int64_t mxBlockElements = 32;
constexpr std::int64_t mxNibbleBytes = 16;
constexpr std::int64_t mxBlockBytes = mxNibbleBytes + 1;

/// Makes the tensors of one entry.
class Maker {
public:
    Maker(const SafetensorsSet &set, const Entry &entry, const HfMatch &match, std::vector<HfTensor> &out)
        : m_set(set)
        , m_entry(entry)
        , m_match(match)
        , m_out(out)
    {
    }

    void run();

private:
    [[noreturn]] void refuse(const std::string &problem) const
    {
        throw Error(ErrorCode::Refused,
                    inQuotes(m_set.filePath(m_entry)) + ": tensor " + inQuotes(m_entry.tensor.name) + " " + problem);
    }
    [[nodiscard]] const std::vector<std::int64_t> &shape() const { return m_entry.tensor.shape; }
    void needDimensions(std::size_t count, const char *meaning) const;
    void needEven(std::int64_t size) const;
    [[nodiscard]] std::size_t elementBytes() const;
    /// "blk.0.ffn_gate" and 3 give "blk.0.ffn_gate.3.weight".
    [[nodiscard]] std::string expertName(std::int64_t expert, bool up) const;

    void vector();
    void experts(std::int64_t parts);
    void transposed(bool gateUp);
    void bias();
    void mxfp4(bool gateUp);
    void addSlice(std::string name, std::vector<std::int64_t> shape, std::uint64_t offset);
    void addMade(std::string name, std::vector<std::int64_t> shape, kernels::DType type,
                 std::function<std::vector<std::byte>()> make);

    const SafetensorsSet &m_set;
    const Entry &m_entry;
    const HfMatch &m_match;
    std::vector<HfTensor> &m_out;
};

void Maker::needDimensions(std::size_t count, const char *meaning) const
{
    bool sound = shape().size() == count;
    for (const std::int64_t size : shape())
        sound = sound && size > 0;
    if (!sound)
        refuse("has " + std::to_string(shape().size()) + " dimensions or an empty one, wanted " + meaning);
}

void Maker::needEven(std::int64_t size) const
{
    if (size % 2 != 0)
        refuse("has " + std::to_string(size) + " rows of gate and up, wanted an even number");
}

std::size_t Maker::elementBytes() const
{
    const SafetensorsType *type = findSafetensorsType(m_entry.tensor.type);
    CHECK(type != nullptr);
    if (!type->dtype || (type->bits != 16 && type->bits != 32))
        refuse("has the dtype " + m_entry.tensor.type + ", wanted F32, F16 or BF16");
    return static_cast<std::size_t>(type->bits) / 8;
}

std::string Maker::expertName(std::int64_t expert, bool up) const
{
    std::string name = m_match.gguf.substr(0, m_match.gguf.rfind('.')); // without its ending
    if (const std::size_t gate = name.rfind("ffn_gate"); up && gate != std::string::npos)
        name.replace(gate, 8, "ffn_up");
    return name + "." + std::to_string(expert) + ".weight";
}

void Maker::addSlice(std::string name, std::vector<std::int64_t> shape, std::uint64_t offset)
{
    HfTensor tensor = plainHfTensor(m_set, m_entry, std::move(name));
    std::uint64_t bytes = elementBytes();
    for (const std::int64_t size : shape)
        bytes *= static_cast<std::uint64_t>(size);
    tensor.info.shape = std::move(shape);
    tensor.info.bytes = bytes;
    tensor.info.fileOffset += offset;
    tensor.offset = offset;
    if (tensor.make) // the source is not aligned: only this part is copied
        tensor.make = [set = &m_set, entry = &m_entry, offset, bytes] {
            const auto part = set->bytes(*entry).subspan(offset, bytes);
            return std::vector<std::byte>(part.begin(), part.end());
        };
    m_out.push_back(std::move(tensor));
}

void Maker::addMade(std::string name, std::vector<std::int64_t> shape, kernels::DType type,
                    std::function<std::vector<std::byte>()> make)
{
    HfTensor tensor = plainHfTensor(m_set, m_entry, std::move(name));
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i)
        rows *= shape[i];
    tensor.info.bytes = static_cast<std::uint64_t>(rows) * kernels::rowBytes(type, shape.back());
    tensor.info.shape = std::move(shape);
    tensor.info.type = type;
    tensor.info.typeName = kernels::info(type).name;
    tensor.info.computable = true;
    tensor.make = std::move(make);
    m_out.push_back(std::move(tensor));
}

void Maker::vector()
{
    HfTensor tensor = plainHfTensor(m_set, m_entry, m_match.gguf);
    if (shape().size() == 2 && shape()[0] == 1)
        tensor.info.shape = {shape()[1]};
    m_out.push_back(std::move(tensor));
}

/// Slabs of [rows, columns] one after another; two to an expert when gate and up stand together.
void Maker::experts(std::int64_t parts)
{
    needDimensions(3, "[experts, rows, columns]");
    if (parts == 2)
        needEven(shape()[1]);
    const std::int64_t rows = shape()[1] / parts;
    const std::uint64_t slab = elementBytes() * static_cast<std::uint64_t>(rows * shape()[2]);
    for (std::int64_t i = 0; i < shape()[0] * parts; ++i)
        addSlice(expertName(i / parts, i % parts == 1), {rows, shape()[2]}, static_cast<std::uint64_t>(i) * slab);
}

/// Columns first, step, ... of a matrix [inputs, columns] as the rows of another.
std::vector<std::byte> transposedColumns(const std::byte *source, std::int64_t inputs, std::int64_t columns,
                                         std::int64_t first, std::int64_t step, std::size_t elementBytes)
{
    const std::int64_t rows = (columns - first + step - 1) / step;
    std::vector<std::byte> result(static_cast<std::size_t>(rows * inputs) * elementBytes);
    std::byte *target = result.data();
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t input = 0; input < inputs; ++input, target += elementBytes)
            std::memcpy(target, source + static_cast<std::size_t>(input * columns + first + row * step) * elementBytes,
                        elementBytes);
    }
    return result;
}

void Maker::transposed(bool gateUp)
{
    needDimensions(3, "[experts, inputs, outputs]");
    const std::int64_t parts = gateUp ? 2 : 1;
    if (gateUp)
        needEven(shape()[2]);
    const std::int64_t inputs = shape()[1];
    const std::int64_t columns = shape()[2];
    const std::size_t size = elementBytes();
    const kernels::DType type = findSafetensorsType(m_entry.tensor.type)->dtype.value();
    for (std::int64_t i = 0; i < shape()[0] * parts; ++i) {
        const std::size_t offset = static_cast<std::size_t>(i / parts * inputs * columns) * size;
        const auto make = [set = &m_set, entry = &m_entry, inputs, columns, parts, size, offset, first = i % parts] {
            return transposedColumns(set->bytes(*entry).data() + offset, inputs, columns, first, parts, size);
        };
        addMade(expertName(i / parts, i % parts == 1), {columns / parts, inputs}, type, make);
    }
}

void Maker::bias()
{
    needDimensions(2, "[experts, 2 * inner]");
    needEven(shape()[1]);
    const std::int64_t inner = shape()[1] / 2;
    const std::int64_t all = shape()[0] * inner;
    const std::size_t size = elementBytes();
    const kernels::DType type = findSafetensorsType(m_entry.tensor.type)->dtype.value();
    for (const std::int64_t first : {0, 1}) {
        std::string name = m_match.gguf;
        if (const std::size_t gate = name.rfind("ffn_gate"); first == 1 && gate != std::string::npos)
            name.replace(gate, 8, "ffn_up");
        const auto make = [set = &m_set, entry = &m_entry, all, size, first] {
            std::vector<std::byte> result(static_cast<std::size_t>(all) * size);
            const std::byte *source = set->bytes(*entry).data();
            for (std::int64_t i = 0; i < all; ++i)
                std::memcpy(result.data() + static_cast<std::size_t>(i) * size,
                            source + static_cast<std::size_t>(2 * i + first) * size, size);
            return result;
        };
        addMade(std::move(name), {shape()[0], inner}, type, make);
    }
}

/// Rows first, first + step, ... as rows of blocks of ours. A block of theirs has the elements 2j and 2j + 1 in byte j,
/// one of ours j and j + 16, behind its scale.
std::vector<std::byte> mxRows(const std::byte *nibbles, const std::byte *scales, std::int64_t rows, std::int64_t blocks,
                              std::int64_t first, std::int64_t step)
{
    std::vector<std::byte> result(static_cast<std::size_t>(rows * blocks * mxBlockBytes));
    std::byte *target = result.data();
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t block = 0; block < blocks; ++block, target += mxBlockBytes) {
            const std::int64_t place = (first + row * step) * blocks + block;
            const std::byte *source = nibbles + place * mxNibbleBytes;
            target[0] = scales[place];
            for (std::int64_t j = 0; j < mxNibbleBytes; ++j) {
                const auto nibble = [source](std::int64_t i) { return (source[i / 2] >> (i % 2 * 4)) & std::byte{15}; };
                target[1 + j] = nibble(j) | (nibble(j + mxNibbleBytes) << 4);
            }
        }
    }
    return result;
}

void Maker::mxfp4(bool gateUp)
{
    needDimensions(4, "[experts, rows, blocks, 16]");
    const std::string &name = m_entry.tensor.name;
    constexpr std::string_view ending = "_blocks";
    CHECK(name.ends_with(ending));
    const std::string scalesName = name.substr(0, name.size() - ending.size()) + "_scales";
    const Entry *scales = m_set.find(scalesName);
    if (scales == nullptr)
        refuse("has no scales: tensor " + inQuotes(scalesName) + " is missing");
    const std::vector<std::int64_t> wanted(shape().begin(), shape().end() - 1);
    if (shape()[3] != mxNibbleBytes || m_entry.tensor.type != "U8" || scales->tensor.type != "U8"
        || scales->tensor.shape != wanted)
        refuse("and its scales " + inQuotes(scalesName)
               + " do not fit, wanted U8 of [experts, rows, blocks, 16] and [experts, rows, blocks]");
    const std::int64_t parts = gateUp ? 2 : 1;
    if (gateUp)
        needEven(shape()[1]);
    const std::int64_t blocks = shape()[2];
    const std::int64_t rows = shape()[1] / parts;
    for (std::int64_t i = 0; i < shape()[0] * parts; ++i) {
        const std::int64_t start = i / parts * shape()[1] * blocks;
        const auto make = [set = &m_set, entry = &m_entry, scales, rows, blocks, start, first = i % parts, parts] {
            return mxRows(set->bytes(*entry).data() + start * mxNibbleBytes, set->bytes(*scales).data() + start, rows,
                          blocks, first, parts);
        };
        addMade(expertName(i / parts, i % parts == 1), {rows, blocks * mxBlockElements}, kernels::DType::MXFP4, make);
    }
}

void Maker::run()
{
    switch (m_match.form) {
    case HfForm::Plain:
        m_out.push_back(plainHfTensor(m_set, m_entry, m_match.gguf));
        break;
    case HfForm::Vector:
        vector();
        break;
    case HfForm::ExpertsGateUp:
        experts(2);
        break;
    case HfForm::Experts:
        experts(1);
        break;
    case HfForm::TransposedGateUp:
        transposed(true);
        break;
    case HfForm::TransposedExperts:
        transposed(false);
        break;
    case HfForm::GateUpBias:
        bias();
        break;
    case HfForm::Mxfp4GateUp:
        mxfp4(true);
        break;
    case HfForm::Mxfp4Experts:
        mxfp4(false);
        break;
    case HfForm::Mxfp4Scales:
        break;
    }
}

} // namespace

HfTensor plainHfTensor(const SafetensorsSet &set, const Entry &entry, std::string name)
{
    const SafetensorsType *type = findSafetensorsType(entry.tensor.type);
    CHECK(type != nullptr);
    HfTensor tensor;
    tensor.source = &entry;
    tensor.info.name = std::move(name);
    tensor.info.type = type->dtype.value_or(kernels::DType::F32);
    tensor.info.computable = type->dtype.has_value();
    tensor.info.typeName = entry.tensor.type;
    tensor.info.shape = entry.tensor.shape;
    tensor.info.fileOffset = entry.tensor.offset;
    tensor.info.bytes = entry.tensor.bytes;
    tensor.info.file = entry.file;
    // The format does not align data; what is read in place must be.
    if (tensor.info.computable && entry.tensor.offset % (static_cast<std::uint64_t>(type->bits) / 8) != 0) {
        tensor.make = [set = &set, entry = &entry] {
            const std::span<const std::byte> bytes = set->bytes(*entry);
            return std::vector<std::byte>(bytes.begin(), bytes.end());
        };
    }
    return tensor;
}

HfTensor quantizedHfTensor(QuantizedMatrix matrix, std::string name)
{
    HfTensor tensor;
    tensor.source = matrix.source;
    tensor.info.name = std::move(name);
    tensor.info.type = matrix.type;
    tensor.info.typeName = kernels::info(matrix.type).name;
    tensor.info.shape = {matrix.rows, matrix.columns};
    tensor.info.fileOffset = matrix.source->tensor.offset;
    tensor.info.bytes = static_cast<std::uint64_t>(matrix.rows) * kernels::rowBytes(matrix.type, matrix.columns);
    tensor.info.file = matrix.source->file;
    tensor.columnOrder = std::move(matrix.columnOrder);
    tensor.activationScale = matrix.activationScale;
    tensor.make = std::move(matrix.make);
    return tensor;
}

void addHfTensors(const SafetensorsSet &set, const Entry &entry, const HfMatch &match, std::vector<HfTensor> &out)
{
    Maker(set, entry, match, out).run();
}

} // namespace engine
