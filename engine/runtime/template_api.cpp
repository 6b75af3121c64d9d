// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/text.h"
#include "engine/core/json_exact.h"
#include "engine/io/checkpoint.h"
#include "engine/io/gguf_reader.h"
#include "engine/runtime/template_files.h"
#include "engine/text/chat_template.h"

#include <algorithm>
#include <filesystem>

namespace engine {
namespace {

namespace fs = std::filesystem;

constexpr const char *kGgufTemplateKey = "tokenizer.chat_template";

/// One template, or why it cannot be used: a broken one must not hide the others.
struct Entry {
    std::string name;
    std::unique_ptr<ChatTemplate> parsed;
    std::string fault;
};

class LoadedTemplates final : public TemplateModel {
public:
    explicit LoadedTemplates(std::string origin)
        : m_origin(std::move(origin))
    {
    }

    /// A later template replaces an earlier one of the same name.
    void add(const std::string &name, const std::string &source)
    {
        Entry entry{name, nullptr, {}};
        try {
            entry.parsed = std::make_unique<ChatTemplate>(source);
        } catch (const Error &error) {
            entry.fault = error.what();
        }
        const auto same =
            std::find_if(m_entries.begin(), m_entries.end(), [&](const Entry &other) { return other.name == name; });
        if (same != m_entries.end())
            *same = std::move(entry);
        else
            m_entries.insert(name == kDefaultTemplate ? m_entries.begin() : m_entries.end(), std::move(entry));
    }
    void setSpecialToken(const std::string &name, const Json &text) { m_specialTokens[name] = text; }
    [[nodiscard]] bool empty() const { return m_entries.empty(); }

    [[nodiscard]] std::vector<std::string> names() const override
    {
        std::vector<std::string> out;
        for (const Entry &entry : m_entries)
            out.push_back(entry.name);
        return out;
    }

    [[nodiscard]] std::string render(const RenderRequest &request, const std::string &name) const override
    {
        const Entry &entry = find(name);
        if (!entry.parsed)
            throw Error(ErrorCode::Refused, m_origin + ": " + entry.fault);
        TemplateInput input;
        input.messages = parseJsonExact(request.messagesJson, "messages", kMaxTemplateJsonDepth);
        input.tools = parseOptional(request.toolsJson, "tools");
        input.documents = parseOptional(request.documentsJson, "documents");
        input.kwargs = parseOptional(request.kwargsJson, "kwargs");
        input.addGenerationPrompt = request.addGenerationPrompt;
        input.date = request.date;
        input.specialTokens = m_specialTokens;
        return entry.parsed->renderChat(input);
    }

private:
    static Json parseOptional(const std::optional<std::string> &text, const char *what)
    {
        return text ? parseJsonExact(*text, what, kMaxTemplateJsonDepth) : Json();
    }

    [[nodiscard]] const Entry &find(const std::string &name) const
    {
        std::string known;
        for (const Entry &entry : m_entries) {
            if (entry.name == name)
                return entry;
            known += (known.empty() ? "" : ", ") + entry.name;
        }
        if (name == kDefaultTemplate && m_entries.size() == 1)
            return m_entries.front();
        throw Error(ErrorCode::Refused, m_origin + ": no chat template named '" + name + "', there is: " + known);
    }

    std::string m_origin;
    std::vector<Entry> m_entries;
    Json m_specialTokens = Json::object();
};

void addFiles(LoadedTemplates &out, const TemplateFiles &files)
{
    for (const auto &[name, source] : files.templates)
        out.add(name, source);
    for (const auto &[name, text] : files.specialTokens.items())
        out.setSpecialToken(name, text);
}

void addGgufTokens(LoadedTemplates &out, const Metadata &metadata)
{
    static constexpr std::pair<const char *, const char *> keys[] = {
        {"bos", "bos_token"},       {"eos", "eos_token"}, {"unknown", "unk_token"}, {"padding", "pad_token"},
        {"seperator", "sep_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}};
    const std::vector<std::string> *tokens = metadata.texts("tokenizer.ggml.tokens");
    for (const auto &[key, name] : keys) {
        const auto id = metadata.integer(std::string("tokenizer.ggml.") + key + "_token_id");
        if (tokens == nullptr || !id)
            continue;
        if (*id < 0 || static_cast<std::uint64_t>(*id) >= tokens->size())
            throw Error(ErrorCode::Refused,
                        std::string("tokenizer.ggml.") + key + "_token_id is " + std::to_string(*id)
                            + ", outside the vocabulary of " + std::to_string(tokens->size()) + " tokens");
        // A byte-level vocabulary may hold any bytes; a context is text.
        out.setSpecialToken(name, (*tokens)[static_cast<std::size_t>(*id)]);
    }
}

void addGguf(LoadedTemplates &out, const std::string &path)
{
    const std::unique_ptr<Checkpoint> checkpoint = openCheckpoint(path);
    const Metadata &metadata = checkpoint->metadata();
    const std::string prefix = std::string(kGgufTemplateKey) + ".";
    for (const auto &[key, value] : metadata.entries()) {
        if (!std::holds_alternative<std::string>(value))
            continue;
        if (key == kGgufTemplateKey)
            out.add(kDefaultTemplate, std::get<std::string>(value));
        else if (key.starts_with(prefix))
            out.add(key.substr(prefix.size()), std::get<std::string>(value));
    }
    addGgufTokens(out, metadata);
}

void addFile(LoadedTemplates &out, const fs::path &path)
{
    const std::string name = path.filename().string();
    if (isGgufFile(path))
        addGguf(out, path.string());
    else if (name == "tokenizer.json" || name == "tokenizer.json.xz")
        addFiles(out, readFolderTemplates(path.parent_path().string()));
    else
        addFiles(out, readTemplateFile(path.string()));
}

} // namespace

std::unique_ptr<TemplateModel> openTemplates(const std::string &path)
{
    std::error_code failure;
    const fs::file_status status = fs::status(path, failure);
    if (!fs::exists(status))
        throw Error(ErrorCode::Refused, path + ": no such file or folder");
    auto out = std::make_unique<LoadedTemplates>(path);
    if (fs::is_directory(status))
        addFiles(*out, readFolderTemplates(path));
    else
        addFile(*out, path);
    if (out->empty())
        throw Error(ErrorCode::Refused,
                    path
                        + ": has no chat template (looked for the key chat_template of its"
                          " configuration, chat_template.jinja and tokenizer.chat_template)");
    return out;
}

std::string renderTemplate(const std::string &source, const std::string &contextJson, const std::string &date)
{
    return ChatTemplate(source).render(parseJsonExact(contextJson, "context", kMaxTemplateJsonDepth), date);
}

} // namespace engine
