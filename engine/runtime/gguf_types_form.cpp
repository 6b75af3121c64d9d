// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/gguf_types_form.h"

#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace engine {
namespace {

using kernels::DType;

class TypesForm final : public Checkpoint {
public:
    explicit TypesForm(std::unique_ptr<Checkpoint> folder)
        : m_folder(std::move(folder))
    {
        for (const TensorInfo &tensor : m_folder->tensors())
            m_infos.push_back(isKnown(tensor) ? tensor : asFloats(tensor));
        for (std::size_t i = 0; i < m_infos.size(); ++i)
            m_byName.emplace(m_infos[i].name, i);
    }

    [[nodiscard]] const std::string &path() const override { return m_folder->path(); }
    [[nodiscard]] const Metadata &metadata() const override { return m_folder->metadata(); }
    [[nodiscard]] const std::vector<TensorInfo> &tensors() const override { return m_infos; }
    [[nodiscard]] std::uint64_t fileBytes() const override { return m_folder->fileBytes(); }
    [[nodiscard]] std::vector<std::string> warnings() const override { return m_folder->warnings(); }
    [[nodiscard]] std::string checkUnchanged() const override { return m_folder->checkUnchanged(); }

    [[nodiscard]] const TensorInfo *find(std::string_view name) const override
    {
        const auto found = m_byName.find(name);
        return found == m_byName.end() ? nullptr : &m_infos[found->second];
    }

    [[nodiscard]] std::string nameInFiles(std::string_view name) const override { return m_folder->nameInFiles(name); }

    [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo &tensor) const override
    {
        const TensorInfo &source = sourceOf(tensor);
        if (isKnown(source))
            return m_folder->bytes(source);
        const std::lock_guard lock(m_madeMutex);
        const auto [made, isNew] = m_made.try_emplace(tensor.name);
        if (isNew)
            made->second = floatsOf(source);
        return std::as_bytes(std::span(made->second));
    }

    void releasePages(const TensorInfo &tensor) const override
    {
        m_folder->releasePages(sourceOf(tensor));
        const std::lock_guard lock(m_madeMutex);
        m_made.erase(tensor.name);
    }

private:
    /// GGUF's types stand before our own.
    [[nodiscard]] bool isKnown(const TensorInfo &tensor) const
    {
        return !tensor.computable || (tensor.type < DType::INT2 && m_folder->columnOrder(tensor).empty());
    }

    static TensorInfo asFloats(TensorInfo tensor)
    {
        tensor.type = DType::F32;
        tensor.typeName = kernels::info(DType::F32).name;
        tensor.bytes = sizeof(float);
        for (const std::int64_t size : tensor.shape)
            tensor.bytes *= static_cast<std::uint64_t>(size);
        return tensor;
    }

    [[nodiscard]] const TensorInfo &sourceOf(const TensorInfo &tensor) const
    {
        return m_folder->tensors()[m_byName.at(tensor.name)];
    }

    [[nodiscard]] std::vector<float> floatsOf(const TensorInfo &tensor) const
    {
        const auto columns = static_cast<std::size_t>(tensor.shape.back());
        const std::span<const std::int32_t> order = m_folder->columnOrder(tensor);
        const std::span<const std::byte> bytes = m_folder->bytes(tensor);
        const std::size_t rowBytes = kernels::rowBytes(tensor.type, tensor.shape.back());
        std::vector<float> values(bytes.size() / rowBytes * columns);
        std::vector<float> row(columns);
        for (std::size_t r = 0; r < values.size() / columns; ++r) {
            kernels::dequantize(tensor.type, bytes.data() + r * rowBytes, row.data(), tensor.shape.back());
            float *target = values.data() + r * columns;
            for (std::size_t k = 0; k < columns; ++k)
                target[order.empty() ? k : static_cast<std::size_t>(order[k])] = row[k];
        }
        return values;
    }

    std::unique_ptr<Checkpoint> m_folder;
    std::vector<TensorInfo> m_infos;                            ///< in the folder's order
    std::unordered_map<std::string_view, std::size_t> m_byName; ///< views into m_infos
    mutable std::mutex m_madeMutex;
    mutable std::unordered_map<std::string, std::vector<float>> m_made; ///< until releasePages
};

} // namespace

std::unique_ptr<Checkpoint> withGgufTypes(std::unique_ptr<Checkpoint> folder)
{
    return std::make_unique<TypesForm>(std::move(folder));
}

} // namespace engine
