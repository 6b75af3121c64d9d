// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/checkpoint.h"

#include "engine/core/printable.h"
#include "engine/io/gguf_reader.h"
#include "engine/io/mapped_file.h"
#include "engine/io/refusal.h"
#include "engine/io/shard_name.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_map>

namespace engine {

namespace {

namespace fs = std::filesystem;

/// One file of a checkpoint.
struct Shard {
    std::unique_ptr<MappedFile> file;
    GgufHeader header;
};

/// Opens and reads one file. A fault of the file under us (cut, changed) is said rather than what it made of the bytes.
Shard openShard(const std::string &path)
{
    Shard shard{std::make_unique<MappedFile>(path), {}};
    const auto throwIfChanged = [&shard] {
        if (const std::string change = shard.file->checkUnchanged(); !change.empty())
            throw Error(ErrorCode::IoError, change);
    };
    try {
        shard.header = readGguf(shard.file->bytes(), path);
    } catch (const Error &) {
        throwIfChanged();
        throw;
    }
    throwIfChanged();
    return shard;
}

class GgufCheckpoint final : public Checkpoint {
public:
    explicit GgufCheckpoint(std::vector<Shard> shards)
    {
        for (std::size_t i = 0; i < shards.size(); ++i)
            addShard(std::move(shards[i]), static_cast<int>(i));
        for (std::size_t i = 0; i < m_tensors.size(); ++i)
            addName(i);
    }

    [[nodiscard]] const std::string &path() const override { return m_files.front()->path(); }
    [[nodiscard]] const Metadata &metadata() const override { return m_metadata; }
    [[nodiscard]] const std::vector<TensorInfo> &tensors() const override { return m_tensors; }
    [[nodiscard]] std::uint64_t fileBytes() const override { return m_fileBytes; }
    [[nodiscard]] std::vector<std::string> warnings() const override { return m_warnings; }

    [[nodiscard]] const TensorInfo *find(std::string_view name) const override
    {
        const auto found = m_byName.find(name);
        return found == m_byName.end() ? nullptr : &m_tensors[found->second];
    }

    [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo &tensor) const override
    {
        const MappedFile &file = fileOf(tensor);
        if (!tensor.computable)
            refuseFile(file.path(),
                       "holds the tensor " + inQuotes(tensor.name) + " of the type " + tensor.typeName
                           + ", which cannot be computed");
        const std::span<const std::byte> all = file.bytes();
        CHECK(tensor.fileOffset <= all.size() && tensor.bytes <= all.size() - tensor.fileOffset);
        return all.subspan(tensor.fileOffset, tensor.bytes);
    }

    [[nodiscard]] std::string checkUnchanged() const override
    {
        for (const auto &file : m_files) {
            if (std::string change = file->checkUnchanged(); !change.empty())
                return change;
        }
        return {};
    }

    void releasePages(const TensorInfo &tensor) const override
    {
        fileOf(tensor).releasePages(tensor.fileOffset, tensor.bytes);
    }

    void releasePart(const TensorInfo &tensor, std::size_t offset, std::size_t count) const override
    {
        fileOf(tensor).releasePages(tensor.fileOffset + offset, count);
    }

private:
    void addShard(Shard shard, int number)
    {
        m_fileBytes += shard.file->bytes().size();
        for (TensorInfo &tensor : shard.header.tensors) {
            tensor.file = number;
            m_tensors.push_back(std::move(tensor));
        }
        if (number == 0)
            m_metadata = std::move(shard.header.metadata); // later shards carry their place in the set only
        m_warnings.insert(m_warnings.end(), shard.header.warnings.begin(), shard.header.warnings.end());
        m_files.push_back(std::move(shard.file));
    }

    void addName(std::size_t index)
    {
        const auto [other, isNew] = m_byName.emplace(m_tensors[index].name, index);
        if (!isNew) {
            refuseFile(fileOf(m_tensors[index]).path(),
                       "holds the tensor " + inQuotes(m_tensors[index].name)
                           + " a second time: it is a duplicate of the one in "
                           + inQuotes(fileOf(m_tensors[other->second]).path()));
        }
    }

    [[nodiscard]] const MappedFile &fileOf(const TensorInfo &tensor) const
    {
        return *m_files.at(static_cast<std::size_t>(tensor.file));
    }

    std::vector<std::unique_ptr<MappedFile>> m_files;
    Metadata m_metadata;
    std::vector<TensorInfo> m_tensors;
    std::unordered_map<std::string_view, std::size_t> m_byName; ///< views into m_tensors
    std::vector<std::string> m_warnings;
    std::uint64_t m_fileBytes = 0;
};

/// Refuses what is clearly another format, with a sentence of its own.
void refuseOtherFormats(const std::string &path)
{
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
        refuseFile(path, "is a folder, wanted a .gguf file");
    const std::string extension = fs::path(path).extension().string();
    if (extension.starts_with(".part") && extension.find("of") != std::string::npos)
        refuseFile(path,
                   "is one piece of a file that was cut by bytes; join the pieces first, wanted a whole .gguf file");
}

/// Shards count from 0 in the file and from 1 in names.
void checkShardKeys(const Shard &shard, int number, int count)
{
    const Metadata &metadata = shard.header.metadata;
    const auto found = metadata.integer("split.no");
    if (!found || *found != number - 1) {
        refuseFile(shard.file->path(),
                   "has " + (found ? "split.no " + std::to_string(*found) : std::string("no key \"split.no\""))
                       + ", wanted " + std::to_string(number - 1) + ": it is a wrong or duplicate shard");
    }
    const auto foundCount = metadata.integer("split.count");
    if (!foundCount || *foundCount != count) {
        refuseFile(
            shard.file->path(),
            "has " + (foundCount ? "split.count " + std::to_string(*foundCount) : std::string("no key \"split.count\""))
                + ", wanted " + std::to_string(count) + ": it belongs to another set of shards");
    }
}

void refuseMissingShards(const ShardName &name)
{
    std::string missing;
    int missingCount = 0;
    for (int number = 2; number <= name.count; ++number) {
        std::error_code ignored;
        if (fs::exists(name.path(number), ignored))
            continue;
        if (++missingCount <= 3)
            missing += (missing.empty() ? "" : ", ") + inQuotes(fs::path(name.path(number)).filename().string());
    }
    if (missingCount > 0) {
        refuseFile(name.path(1),
                   "is the first of " + std::to_string(name.count) + " shards, but " + std::to_string(missingCount)
                       + " of them are missing: " + missing + (missingCount > 3 ? " and more" : ""));
    }
}

/// A file of the same set with a number that the set cannot have.
void refuseExtraShards(const ShardName &name)
{
    std::error_code failure;
    const fs::path folder = fs::path(name.path(1)).parent_path();
    const std::string prefix = fs::path(name.prefix).filename().string();
    for (fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failure), end; !failure && entry != end;
         entry.increment(failure)) {
        const auto other = parseShardName(entry->path().filename().string());
        if (other && other->prefix == prefix && other->count == name.count
            && (other->number < 1 || other->number > name.count))
            refuseFile(entry->path().string(),
                       "is an extra shard: its set has the numbers 1 to " + std::to_string(name.count));
    }
}

void checkTensorSum(const std::vector<Shard> &shards)
{
    const auto declared = shards.front().header.metadata.integer("split.tensors.count");
    std::int64_t found = 0;
    for (const Shard &shard : shards)
        found += static_cast<std::int64_t>(shard.header.tensors.size());
    if (declared && *declared != found) {
        refuseFile(shards.front().file->path(),
                   "declares split.tensors.count " + std::to_string(*declared) + ", but its "
                       + std::to_string(shards.size()) + " shards hold " + std::to_string(found) + " tensors");
    }
}

/// The set that a file belongs to, or empty when it is a whole model.
std::optional<ShardName> shardSet(const Shard &first)
{
    const std::string &path = first.file->path();
    std::optional<ShardName> name = parseShardName(path);
    const auto count = first.header.metadata.integer("split.count");
    if (!count.has_value() && (!name || name->count <= 1))
        return std::nullopt;
    if (count && *count <= 1 && (!name || name->count <= 1)) // joined sets keep the keys
        return std::nullopt;
    if (!name) {
        refuseFile(path,
                   "belongs to a set of " + std::to_string(*count)
                       + " shards, but is not named so; wanted a name such as model-00001-of-00003.gguf");
    }
    return name;
}

std::unique_ptr<Checkpoint> openShards(Shard first, const ShardName &name)
{
    checkShardKeys(first, 1, name.count);
    refuseMissingShards(name);
    refuseExtraShards(name);
    std::vector<Shard> shards;
    shards.push_back(std::move(first));
    for (int number = 2; number <= name.count; ++number) {
        shards.push_back(openShard(name.path(number)));
        checkShardKeys(shards.back(), number, name.count);
    }
    checkTensorSum(shards);
    return std::make_unique<GgufCheckpoint>(std::move(shards));
}

} // namespace

std::unique_ptr<Checkpoint> openCheckpoint(const std::string &path)
{
    refuseOtherFormats(path);
    if (const auto name = parseShardName(path); name && name->number != 1) {
        refuseFile(path,
                   "is shard " + std::to_string(name->number) + " of " + std::to_string(name->count)
                       + "; open the first one, " + inQuotes(fs::path(name->path(1)).filename().string()));
    }
    Shard first = openShard(path);
    if (const auto set = shardSet(first))
        return openShards(std::move(first), *set);
    std::vector<Shard> single;
    single.push_back(std::move(first));
    return std::make_unique<GgufCheckpoint>(std::move(single));
}

} // namespace engine
