// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/text.h"
#include "engine/core/file_bytes.h"
#include "engine/io/gguf_reader.h"
#include "engine/runtime/model_text.h"
#include "engine/runtime/request_stream.h"
#include "engine/runtime/vocabulary.h"
#include "engine/text/tokenizer.h"

#include <filesystem>

namespace engine {
namespace {

namespace fs = std::filesystem;

/// Runs `make`; an error of it names `file`, once.
template<typename Make> auto naming(const fs::path &file, const Make &make)
{
    try {
        return make();
    } catch (const Error &error) {
        const std::string text = error.what();
        if (text.starts_with(file.string()))
            throw;
        throw Error(error.code(), file.string() + ": " + text);
    }
}

std::unique_ptr<TextModel> openJson(const fs::path &tokenizer, const fs::path &config)
{
    const std::string configText =
        config.empty() ? std::string() : readFileBytes(config.string(), largestTokenizerFile);
    const std::string text = readFileBytes(tokenizer.string(), largestTokenizerFile);
    return naming(tokenizer, [&]() -> std::unique_ptr<TextModel> { return makeTokenizer(text, configText); });
}

std::unique_ptr<TextModel> openFolder(const fs::path &folder)
{
    return openFolderTokenizer(folder.string());
}

std::unique_ptr<TextModel> openGguf(const fs::path &file)
{
    const std::unique_ptr<Checkpoint> checkpoint = openCheckpoint(file.string());
    return naming(file, [&]() -> std::unique_ptr<TextModel> { return makeTokenizer(readVocabulary(*checkpoint)); });
}

} // namespace

std::unique_ptr<TextModel> openTextModel(const std::string &path)
{
    const fs::path file = path;
    std::error_code ignored;
    if (!fs::exists(file, ignored))
        throw Error(ErrorCode::Refused, path + ": no such file or folder");
    if (fs::is_directory(file, ignored))
        return openFolder(file);
    if (fs::is_regular_file(file, ignored) && isGgufFile(file))
        return openGguf(file);
    const std::string name = file.filename().string();
    const fs::path folder = file.parent_path();
    if (name.starts_with("tokenizer_config.json"))
        return openFolder(folder.empty() ? fs::path(".") : folder);
    // A file by another name stands alone; one by the usual name belongs with the configuration beside it.
    return openJson(file,
                    name.starts_with("tokenizer.json") ? presentFile(folder, "tokenizer_config.json") : fs::path());
}

Answer readAnswer(const TextModel &model, const std::vector<int> &ids, const std::vector<int> &prompt, bool offersTools)
{
    const auto &tokenizer = dynamic_cast<const Tokenizer &>(model);
    (void)model.decode(ids, false); // refuses ids outside the vocabulary
    (void)model.decode(prompt, false);
    RequestStream stream(tokenizer, {}, 0);
    if (auto parser = makeOutputParser(tokenizer, offersTools)) {
        parser->begin(prompt);
        stream.setParser(std::move(parser));
    }
    Answer answer;
    const auto add = [&answer](const OutputDelta &delta) {
        answer.content += delta.content;
        answer.reasoning += delta.reasoning;
        appendToolCalls(answer.toolCalls, delta.toolCalls);
    };
    for (const int id : ids) {
        if (stream.isEnd(id))
            break;
        add(stream.append(id, false));
    }
    add(stream.flush());
    return answer;
}

} // namespace engine
