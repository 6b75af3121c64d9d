// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/template_files.h"

#include "engine/core/file_bytes.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>

namespace engine {
namespace {

namespace fs = std::filesystem;

// The largest published tokenizer_config.json are a few MiB; the rest is room.
constexpr std::size_t kMaxFileBytes = 64U << 20U;

/// The special tokens that templates may speak of.
constexpr std::initializer_list<const char *> kSpecialTokens = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                                "pad_token", "cls_token", "mask_token"};

std::string readTemplateText(const fs::path &path)
{
    return readFileBytes(path.string(), kMaxFileBytes);
}

void addChatTemplate(TemplateFiles &out, const Json &value, const fs::path &path)
{
    if (value.is_string())
        return out.add(kDefaultTemplate, value.get<std::string>());
    const auto refuse = [&path](const std::string &found) {
        throw Error(ErrorCode::Refused,
                    path.string() + ": chat_template must be a text or a list of {name, template}, found " + found);
    };
    if (!value.is_array())
        refuse(value.type_name());
    for (const Json &entry : value) {
        const bool valid = entry.is_object() && entry.contains("name") && entry["name"].is_string()
            && entry.contains("template") && entry["template"].is_string();
        if (!valid)
            refuse("an entry without the texts name and template");
        out.add(entry["name"].get<std::string>(), entry["template"].get<std::string>());
    }
}

/// A token is written as its text or as an object with `content`.
void addSpecialTokens(TemplateFiles &out, const Json &config)
{
    for (const char *name : kSpecialTokens) {
        const auto found = config.find(name);
        if (found == config.end())
            continue;
        if (found->is_string())
            out.specialTokens[name] = *found;
        else if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
            out.specialTokens[name] = (*found)["content"];
    }
}

void addConfig(TemplateFiles &out, const fs::path &path)
{
    const Json config = parseJson(readTemplateText(path), path.string(), kMaxTemplateJsonDepth);
    if (!config.is_object())
        throw Error(ErrorCode::Refused, path.string() + ": must hold a JSON object, found " + config.type_name());
    addSpecialTokens(out, config);
    if (const auto found = config.find("chat_template"); found != config.end() && !found->is_null())
        addChatTemplate(out, *found, path);
}

} // namespace

void TemplateFiles::add(const std::string &name, std::string source)
{
    const auto same =
        std::find_if(templates.begin(), templates.end(), [&name](const auto &entry) { return entry.first == name; });
    if (same != templates.end())
        same->second = std::move(source);
    else
        templates.emplace(name == kDefaultTemplate ? templates.begin() : templates.end(), name, std::move(source));
}

const std::string *TemplateFiles::defaultTemplate() const
{
    const bool clear = !templates.empty() && (templates.front().first == kDefaultTemplate || templates.size() == 1);
    return clear ? &templates.front().second : nullptr;
}

TemplateFiles readFolderTemplates(const std::string &path)
{
    TemplateFiles out;
    const fs::path folder = path;
    std::error_code none;
    for (const char *name : {"special_tokens_map.json", "tokenizer_config.json", "chat_template.json"}) {
        if (fs::is_regular_file(folder / name, none))
            addConfig(out, folder / name);
    }
    if (fs::is_regular_file(folder / "chat_template.jinja", none))
        out.add(kDefaultTemplate, readTemplateText(folder / "chat_template.jinja"));
    std::vector<fs::path> more;
    for (const auto &entry : fs::directory_iterator(folder / "additional_chat_templates", none)) {
        if (entry.path().extension() == ".jinja" && entry.is_regular_file(none))
            more.push_back(entry.path());
    }
    std::sort(more.begin(), more.end());
    for (const fs::path &each : more)
        out.add(each.stem().string(), readTemplateText(each));
    return out;
}

TemplateFiles readTemplateFile(const std::string &path)
{
    TemplateFiles out;
    if (fs::path(path).extension() == ".jinja")
        out.add(kDefaultTemplate, readTemplateText(path));
    else
        addConfig(out, path);
    return out;
}

} // namespace engine
