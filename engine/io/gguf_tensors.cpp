// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/io/gguf_parts.h"
#include "engine/io/gguf_types.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace engine {

namespace {

constexpr std::uint32_t mostGgufDimensions = 4;
constexpr std::size_t mostGgufNameBytes = 1024;

/// A tensor with what is needed to check and report where its data lies.
struct Placed {
    std::size_t index = 0;
    std::uint64_t offset = 0; ///< from the data's start, as the file says
    std::size_t position = 0; ///< of the description, for errors
};

/// Reads one file's tensor descriptions, then checks them together.
class TensorReader {
public:
    TensorReader(ByteReader &reader, GgufHeader &header)
        : m_reader(reader)
        , m_header(header)
    {
    }

    void readOne()
    {
        const std::size_t start = m_reader.position();
        TensorInfo tensor;
        const std::string_view name = readName();
        tensor.name = name;
        const Place place{"tensor", name};
        tensor.shape = readShape(place);
        const GgufTensorType &type = readType(place);
        tensor.typeName = type.name;
        tensor.computable = type.dtype.has_value();
        tensor.type = type.dtype.value_or(kernels::DType::F32);
        tensor.bytes = byteSize(tensor, type, start);
        const auto offset = m_reader.read<std::uint64_t>(place);
        if (offset % m_header.alignment != 0) {
            m_reader.failAt(start,
                            place.text() + ": the data offset " + std::to_string(offset)
                                + " is not a multiple of the alignment " + std::to_string(m_header.alignment));
        }
        m_placed.push_back({m_header.tensors.size(), offset, start});
        m_header.tensors.push_back(std::move(tensor));
    }

    /// Checks all data against the file's size and against each other.
    void place()
    {
        const std::uint64_t fileBytes = m_reader.position() + m_reader.left();
        m_header.dataOffset = alignUp(m_reader.position(), m_header.alignment);
        for (const Placed &placed : m_placed)
            placeOne(placed, fileBytes);
        std::sort(m_placed.begin(), m_placed.end(), [](const Placed &a, const Placed &b) {
            return a.offset != b.offset ? a.offset < b.offset : a.index < b.index;
        });
        checkOverlaps();
        noteUnusedBytes(fileBytes);
    }

private:
    std::string_view readName()
    {
        const std::size_t start = m_reader.position();
        const std::string_view name = m_reader.readString({"tensor name", {}});
        if (name.empty())
            m_reader.failAt(start, "a tensor name is empty, wanted a name");
        if (name.size() > mostGgufNameBytes)
            m_reader.failAt(start,
                            "the tensor name " + inQuotes(name, 60) + " is too long: " + std::to_string(name.size())
                                + " bytes, wanted at most 1024");
        if (!isUtf8(name) || name.find('\0') != std::string_view::npos)
            m_reader.failAt(start, "the tensor name " + inQuotes(name) + " is not UTF-8 text");
        if (!m_names.insert(name).second)
            m_reader.failAt(start, "the tensor name " + inQuotes(name) + " is a duplicate, wanted every name once");
        return name;
    }

    /// The file has the fastest dimension first; the result is slowest first.
    std::vector<std::int64_t> readShape(const Place &place)
    {
        const std::size_t start = m_reader.position();
        const auto count = m_reader.read<std::uint32_t>(place);
        if (count > mostGgufDimensions)
            m_reader.failAt(start,
                            place.text() + " has too many dimensions: " + std::to_string(count) + ", wanted at most 4");
        std::vector<std::int64_t> shape(count);
        for (std::uint32_t i = 0; i < count; ++i) {
            const auto size = m_reader.read<std::uint64_t>(place);
            if (size == 0 || size > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
                m_reader.fail(place.text() + ": dimension " + std::to_string(i) + " is " + std::to_string(size)
                              + ", wanted 1 to 9223372036854775807");
            }
            shape[count - 1 - i] = static_cast<std::int64_t>(size);
        }
        return shape;
    }

    const GgufTensorType &readType(const Place &place)
    {
        const std::size_t start = m_reader.position();
        const auto id = m_reader.read<std::uint32_t>(place);
        const GgufTensorType *type = findGgufTensorType(id);
        if (type == nullptr) {
            m_reader.failAt(start,
                            place.text() + " has the tensor type " + std::to_string(id) + " (" + foreignTensorType(id)
                                + "), wanted a type of upstream ggml");
        }
        if (type->blockBytes == 0) {
            m_reader.failAt(start,
                            place.text() + " has the tensor type " + std::to_string(id) + " (" + std::string(type->name)
                                + ", or another type of a fork), which is not supported");
        }
        return *type;
    }

    std::uint64_t byteSize(const TensorInfo &tensor, const GgufTensorType &type, std::size_t start) const
    {
        const auto refuse = [&](const std::string &problem) {
            m_reader.failAt(start, "tensor " + inQuotes(tensor.name) + ": " + problem);
        };
        const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
        if (row % type.blockElements != 0) {
            refuse("a row of " + std::to_string(row) + " elements is not a multiple of the " + std::string(type.name)
                   + " block of " + std::to_string(type.blockElements));
        }
        std::int64_t elements = 1;
        for (const std::int64_t size : tensor.shape) {
            if (__builtin_mul_overflow(elements, size, &elements))
                refuse("the element count of its shape is too large, wanted at most 9223372036854775807");
        }
        std::int64_t bytes = 0;
        if (__builtin_mul_overflow(elements / type.blockElements, type.blockBytes, &bytes))
            refuse("the byte size of its " + std::to_string(elements)
                   + " elements is too large, wanted at most 9223372036854775807");
        return static_cast<std::uint64_t>(bytes);
    }

    void placeOne(const Placed &placed, std::uint64_t fileBytes)
    {
        TensorInfo &tensor = m_header.tensors[placed.index];
        const std::uint64_t available = fileBytes > m_header.dataOffset ? fileBytes - m_header.dataOffset : 0;
        if (placed.offset > available || tensor.bytes > available - placed.offset) {
            m_reader.failAt(placed.position,
                            "the data of tensor " + inQuotes(tensor.name) + " lies outside the file: offset "
                                + std::to_string(placed.offset) + " and " + std::to_string(tensor.bytes)
                                + " bytes, but only " + std::to_string(available) + " bytes of data are there");
        }
        tensor.fileOffset = m_header.dataOffset + placed.offset;
    }

    void checkOverlaps() const
    {
        for (std::size_t i = 1; i < m_placed.size(); ++i) {
            const TensorInfo &before = m_header.tensors[m_placed[i - 1].index];
            const TensorInfo &after = m_header.tensors[m_placed[i].index];
            if (before.fileOffset + before.bytes > after.fileOffset) {
                m_reader.failAt(m_placed[i].position,
                                "the data of tensors " + inQuotes(before.name) + " and " + inQuotes(after.name)
                                    + " overlap: offsets " + std::to_string(m_placed[i - 1].offset) + " ("
                                    + std::to_string(before.bytes) + " bytes) and "
                                    + std::to_string(m_placed[i].offset));
            }
        }
    }

    /// Gaps and trailing bytes are never read; they are mentioned, as hidden data is suspicious.
    void noteUnusedBytes(std::uint64_t fileBytes)
    {
        std::uint64_t end = m_header.dataOffset;
        std::uint64_t gaps = 0;
        for (const Placed &placed : m_placed) {
            const TensorInfo &tensor = m_header.tensors[placed.index];
            gaps += tensor.fileOffset > end ? tensor.fileOffset - end : 0;
            end = alignUp(tensor.fileOffset + tensor.bytes, m_header.alignment);
        }
        if (gaps > 0)
            m_header.warnings.push_back(std::to_string(gaps) + " bytes between the tensors belong to none of them");
        if (fileBytes > end)
            m_header.warnings.push_back(std::to_string(fileBytes - end) + " bytes after the last tensor are ignored");
    }

    ByteReader &m_reader;
    GgufHeader &m_header;
    std::vector<Placed> m_placed;
    std::unordered_set<std::string_view> m_names; ///< views into the file
};

} // namespace

void readGgufTensors(ByteReader &reader, std::uint64_t count, HeaderBudget &budget, GgufHeader &header)
{
    budget.charge(count, sizeof(TensorInfo) + sizeof(Placed) + sizeof(std::int64_t) * 2 * mostGgufDimensions, reader,
                  {"tensor table", {}});
    TensorReader tensors(reader, header);
    for (std::uint64_t i = 0; i < count; ++i)
        tensors.readOne();
    tensors.place();
}

} // namespace engine
