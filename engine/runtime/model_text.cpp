// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/model_text.h"

#include "engine/core/file_bytes.h"
#include "engine/runtime/template_files.h"
#include "engine/runtime/vocabulary.h"

#include <filesystem>
#include <utility>

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t largestMap = 16U << 20U;

std::string textOf(const fs::path &file, std::size_t maxBytes)
{
    return file.empty() ? std::string() : readFileBytes(file.string(), maxBytes);
}

bool isFolder(const Checkpoint &checkpoint)
{
    std::error_code ignored;
    return fs::is_directory(checkpoint.path(), ignored);
}

} // namespace

std::unique_ptr<Tokenizer> openFolderTokenizer(const std::string &path, std::vector<int> ends)
{
    const fs::path folder = path;
    const fs::path file = presentFile(folder, "tokenizer.json");
    if (file.empty())
        throw Error(ErrorCode::Refused, path + ": the folder has no tokenizer.json or tokenizer.json.xz");
    const std::string config = textOf(presentFile(folder, "tokenizer_config.json"), largestTokenizerFile);
    const std::string special = textOf(presentFile(folder, "special_tokens_map.json"), largestMap);
    const std::string added = textOf(presentFile(folder, "added_tokens.json"), largestMap);
    const std::string tokenizer = textOf(file, largestTokenizerFile);
    try {
        return makeTokenizer(TokenizerTexts{tokenizer, config, special, added, std::move(ends)});
    } catch (const Error &error) {
        throw Error(error.code(), file.string() + ": " + error.what());
    }
}

std::unique_ptr<Tokenizer> openTokenizer(const Checkpoint &checkpoint)
{
    if (isFolder(checkpoint))
        return openFolderTokenizer(checkpoint.path(), readEnds(checkpoint.metadata()));
    return makeTokenizer(readVocabulary(checkpoint));
}

std::optional<std::string> chatTemplateOf(const Checkpoint &checkpoint)
{
    if (isFolder(checkpoint)) {
        const TemplateFiles files = readFolderTemplates(checkpoint.path());
        const std::string *source = files.defaultTemplate();
        return source != nullptr ? std::optional(*source) : std::nullopt;
    }
    const std::string *source = checkpoint.metadata().text("tokenizer.chat_template");
    return source != nullptr ? std::optional(*source) : std::nullopt;
}

} // namespace engine
