// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_quantization.h"

#include "engine/core/printable.h"
#include "engine/text/pretokenizer_regex.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>

namespace engine {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t mostColumns = std::int64_t{1} << 30;

/// Files of the older tools stand beside config.json. They call some keys by other names.
std::optional<HfConfig> separateConfig(const std::string &folder)
{
    for (const char *name : {"quantize_config.json", "quant_config.json"}) {
        const fs::path path = fs::path(folder) / name;
        std::error_code ignored;
        if (fs::is_regular_file(path, ignored))
            return HfConfig::read(path.string());
    }
    return std::nullopt;
}

bool isPart(std::string_view name, std::string_view part)
{
    return name == part || (name.starts_with(part) && name[part.size()] == '.')
        || (name.ends_with(part) && name[name.size() - part.size() - 1] == '.');
}

} // namespace

/// One entry of a list of modules.
struct HfQuantization::Pattern {
    enum class Kind {
        Regex,    ///< from the name's start on
        Name,     ///< the name, or whole parts at its start or end
        Anywhere, ///< a piece of the name
        All,
    };

    [[nodiscard]] bool fits(std::string_view module) const
    {
        switch (kind) {
        case Kind::All:
            return true;
        case Kind::Name:
            return isPart(module, text);
        case Kind::Anywhere:
            return module.find(text) != std::string_view::npos;
        case Kind::Regex:
            break;
        }
        RegexScratch scratch;
        scratch.prepare(module);
        return isUtf8(module) && regex->find(module, 0, scratch).has_value();
    }

    static Pattern matching(const std::string &expression)
    {
        Pattern pattern;
        pattern.kind = Kind::Regex;
        pattern.regex = std::make_shared<const Regex>("\\A(?:" + expression + ")");
        return pattern;
    }

    Kind kind = Kind::Name;
    std::string text;
    std::shared_ptr<const Regex> regex;
};

struct HfQuantization::Rule {
    std::vector<Pattern> patterns;
    QuantizedScheme scheme;
};

std::optional<HfQuantization> HfQuantization::read(const HfConfig &config, const std::string &folder)
{
    auto own = config.object("quantization_config");
    if (!own)
        own = config.object("compression_config"); // of early compressed-tensors
    if (!own)
        own = separateConfig(folder);
    if (!own || own->text("quant_method") == "mxfp4")
        return std::nullopt;
    return HfQuantization(*own);
}

HfQuantization::HfQuantization(HfConfig config)
    : m_config(std::move(config))
    , m_rules(std::make_shared<std::vector<Rule>>())
    , m_skips(std::make_shared<std::vector<Pattern>>())
{
    readMethod();
}

void HfQuantization::readMethod()
{
    std::string method = m_config.text("quant_method").value_or("");
    if (method.empty() && (m_config.has("w_bit") || m_config.has("zero_point")))
        method = "awq";
    else if (method.empty() && m_config.has("bits"))
        method = "gptq";
    else if (method.empty() && (m_config.has("load_in_4bit") || m_config.has("load_in_8bit")))
        method = "bitsandbytes";
    if (method == "gptq")
        return readGptq();
    if (method == "awq")
        return readAwq();
    if (method == "fp8")
        return readFp8();
    if (method == "compressed-tensors")
        return readCompressed();
    if (method == "bitsandbytes")
        return readBitsAndBytes();
    m_config.refuse("quant_method", method.empty() ? "missing" : inQuotes(method),
                    "gptq, awq, fp8, compressed-tensors, bitsandbytes or mxfp4; other quantised weights are not"
                    " supported");
}

std::int64_t HfQuantization::groupSizeOf(const HfConfig &config, std::string_view key)
{
    const std::int64_t size = config.integer(key).value_or(-1);
    if (size == -1)
        return 0;
    if (size < 32 || size > mostColumns || size % 32 != 0)
        config.refuse(key, std::to_string(size), "-1 or a multiple of 32");
    return size;
}

int HfQuantization::bitsOf(const HfConfig &config, std::string_view key)
{
    const std::int64_t bits = config.count(key, 64);
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
        config.refuse(key, std::to_string(bits), "2, 3, 4 or 8");
    return static_cast<int>(bits);
}

void HfQuantization::addSkips(std::string_view key, bool anywhere)
{
    for (const std::string &each : m_config.texts(key).value_or(std::vector<std::string>{})) {
        Pattern pattern;
        if (each.starts_with("re:"))
            pattern = Pattern::matching(each.substr(3));
        else if (anywhere)
            pattern.kind = Pattern::Kind::Anywhere;
        pattern.text = each;
        if (!each.empty())
            m_skips->push_back(std::move(pattern));
    }
}

void HfQuantization::readGptqFormat()
{
    const char *key = m_config.has("checkpoint_format") ? "checkpoint_format" : "format";
    const std::string format = m_config.text(key).value_or("gptq");
    if (format != "gptq" && format != "gptq_v2")
        m_config.refuse(key, inQuotes(format), "gptq or gptq_v2; other layouts are not supported");
    if (m_config.text("pack_dtype").value_or("int32") != "int32")
        m_config.refuseValue("pack_dtype", "int32");
    if (format == "gptq_v2")
        return;
    m_scheme.zeros = QuantizedScheme::Zeros::LessOne;
    const auto meta = m_config.object("meta");
    if (meta && meta->has("quantizer") && meta->json().at("quantizer").dump().find("gptqmodel") != std::string::npos)
        m_scheme.zeros = QuantizedScheme::Zeros::LessOneByWords;
}

void HfQuantization::readGptq()
{
    m_scheme.layout = QuantizedScheme::Layout::Gptq;
    m_scheme.bits = bitsOf(m_config, "bits");
    m_scheme.groupSize = groupSizeOf(m_config, "group_size");
    m_scheme.symmetric = m_config.boolean("sym").value_or(true);
    m_scheme.needsOrder = m_config.boolean("desc_act").value_or(false);
    readGptqFormat();
    addSkips("modules_to_not_convert", true);
    if (const auto dynamic = m_config.object("dynamic"))
        readDynamic(*dynamic);
}

/// Expressions of modules: "-:" leaves them out, "+:" or nothing gives them values of their own.
void HfQuantization::readDynamic(const HfConfig &dynamic)
{
    for (const std::string &key : dynamic.keys()) {
        const bool leavesOut = key.starts_with("-:");
        Pattern pattern = Pattern::matching(leavesOut || key.starts_with("+:") ? key.substr(2) : key);
        if (leavesOut) {
            m_skips->push_back(std::move(pattern));
            continue;
        }
        Rule rule{{std::move(pattern)}, m_scheme};
        const auto values = dynamic.object(key);
        if (!values)
            dynamic.refuse(key, "null", "an object of values that differ");
        if (values->has("bits"))
            rule.scheme.bits = bitsOf(*values, "bits");
        if (values->has("group_size"))
            rule.scheme.groupSize = groupSizeOf(*values, "group_size");
        rule.scheme.symmetric = values->boolean("sym").value_or(m_scheme.symmetric);
        m_rules->push_back(std::move(rule));
    }
}

void HfQuantization::readAwq()
{
    const char *bits = m_config.has("bits") ? "bits" : "w_bit";
    if (bitsOf(m_config, bits) != 4)
        m_config.refuseValue(bits, "4");
    m_scheme.bits = 4;
    m_scheme.needsZeros = m_config.boolean("zero_point").value_or(true);
    m_scheme.groupSize = groupSizeOf(m_config, m_config.has("group_size") ? "group_size" : "q_group_size");
    std::string version = m_config.text("version").value_or("gemm");
    std::transform(version.begin(), version.end(), version.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (version != "gemm" && version != "gemv")
        m_config.refuse("version", inQuotes(version), "gemm or gemv; other layouts of AWQ are not supported");
    m_scheme.layout = version == "gemm" ? QuantizedScheme::Layout::AwqGemm : QuantizedScheme::Layout::AwqGemv;
    addSkips("modules_to_not_convert", true);
}

/// Two sizes of a block, or "128x128".
void HfQuantization::readBlock(const HfConfig &config, std::string_view key, QuantizedScheme &scheme)
{
    if (!config.has(key))
        return;
    std::vector<std::int64_t> sizes;
    if (config.json().at(std::string(key)).is_string()) {
        const std::string text = config.text(key).value();
        const std::size_t cross = text.find('x');
        const auto isNumber = [](const std::string &part) {
            return !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
        };
        if (cross != std::string::npos && isNumber(text.substr(0, cross)) && isNumber(text.substr(cross + 1)))
            sizes = {std::stoll(text.substr(0, cross)), std::stoll(text.substr(cross + 1))};
    } else {
        sizes = config.integers(key).value();
    }
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[1] < 32 || sizes[1] % 32 != 0 || sizes[0] > mostColumns
        || sizes[1] > mostColumns)
        config.refuseValue(key, "rows and columns of a block, the columns a multiple of 32");
    scheme.blockRows = sizes[0];
    scheme.blockColumns = sizes[1];
}

void HfQuantization::readFp8()
{
    m_scheme.layout = QuantizedScheme::Layout::Float8;
    m_scheme.bits = 8;
    const std::string format = m_config.text("fmt").value_or(m_config.text("format").value_or("e4m3"));
    if (format != "e4m3" && format != "float8_e4m3fn" && format != "e5m2" && format != "float8_e5m2")
        m_config.refuse(m_config.has("fmt") ? "fmt" : "format", inQuotes(format), "e4m3 or e5m2");
    const std::string method = m_config.text("weight_scale_method").value_or("");
    if (!method.empty() && method != "tensor" && method != "row" && method != "block")
        m_config.refuse("weight_scale_method", inQuotes(method), "tensor, row or block");
    readBlock(m_config, "weight_block_size", m_scheme);
    const std::string sense = m_config.text("weight_scale_semantics").value_or("");
    if (!sense.empty() && sense != "inverse" && sense != "multiplier" && sense != "multiply")
        m_config.refuse("weight_scale_semantics", inQuotes(sense), "inverse or multiplier");
    m_scheme.inverseScales = sense == "inverse";
    addSkips("ignored_layers", false);
    addSkips("modules_to_not_convert", false);
}

void HfQuantization::readCompressed()
{
    m_needsRule = true;
    refuseTransforms();
    const std::string format = m_config.text("format").value_or("dense");
    const auto groups = m_config.object("config_groups");
    if (!groups)
        m_config.refuse("config_groups", "missing", "an object with the groups of modules");
    for (const std::string &key : groups->keys()) {
        const auto group = groups->object(key);
        if (!group)
            groups->refuse(key, "null", "an object");
        readCompressedGroup(*group, group->text("format").value_or(format));
    }
    addSkips("ignore", false);
}

/// Rotated or pruned weights mean something else than their numbers.
void HfQuantization::refuseTransforms() const
{
    const auto transforms = m_config.object("transform_config");
    if (transforms && !transforms->keys().empty())
        m_config.refuseValue("transform_config", "null: transformed weights are not supported");
    const auto sparsity = m_config.object("sparsity_config");
    const std::string format = sparsity ? sparsity->text("format").value_or("dense") : "dense";
    if (format != "dense")
        sparsity->refuseValue("format", "dense: sparse weights are not supported");
}

void HfQuantization::readCompressedGroup(const HfConfig &group, const std::string &format)
{
    constexpr std::array known = {"dense", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized"};
    if (std::find(known.begin(), known.end(), format) == known.end())
        m_config.refuse("format", inQuotes(format),
                        "dense, pack-quantized, int-quantized, float-quantized or naive-quantized");
    const auto weights = group.object("weights");
    if (!weights)
        return;
    Rule rule;
    QuantizedScheme &scheme = rule.scheme;
    scheme.layout = QuantizedScheme::Layout::Compressed;
    scheme.bits = bitsOf(*weights, "num_bits");
    scheme.symmetric = weights->boolean("symmetric").value_or(true);
    scheme.needsZeros = !scheme.symmetric;
    scheme.needsOrder = weights->has("actorder") && weights->json().at("actorder") == "group";
    const std::string type = weights->text("type").value_or("int");
    if (type != "int" && !(type == "float" && scheme.bits == 8))
        weights->refuse("type", inQuotes(type) + " of " + std::to_string(scheme.bits) + " bits",
                        "int, or float of 8 bits");
    const std::string strategy = weights->text("strategy").value_or(weights->has("group_size") ? "group" : "tensor");
    if (strategy == "group")
        scheme.groupSize = groupSizeOf(*weights, "group_size");
    else if (strategy == "block")
        readBlock(*weights, "block_structure", scheme);
    else if (strategy != "tensor" && strategy != "channel")
        weights->refuse("strategy", inQuotes(strategy), "tensor, channel, group or block");
    if (strategy == "block" && scheme.blockRows == 0)
        weights->refuse("block_structure", "missing", "the sizes of a block");
    if (const auto activations = group.object("input_activations"))
        readActivations(*activations, scheme);
    for (const std::string &target : group.texts("targets").value_or(std::vector<std::string>{})) {
        Pattern pattern;
        if (target.starts_with("re:"))
            pattern = Pattern::matching(target.substr(3));
        else if (target == "Linear")
            pattern.kind = Pattern::Kind::All;
        pattern.text = target;
        rule.patterns.push_back(std::move(pattern));
    }
    m_rules->push_back(std::move(rule));
}

/// Whether activations are to be int8; kinds that no kernel rounds to stay as they are, which loses nothing.
void HfQuantization::readActivations(const HfConfig &config, QuantizedScheme &scheme)
{
    const std::string strategy = config.text("strategy").value_or("tensor");
    const bool fixed = config.has("dynamic") && config.json().at("dynamic").is_boolean()
        && !config.boolean("dynamic").value(); // else true, or "local": a scale for each row or part of it
    scheme.int8Activations = config.integer("num_bits").value_or(8) == 8 && config.text("type").value_or("int") == "int"
        && config.boolean("symmetric").value_or(true) && (strategy == "token" || strategy == "tensor");
    scheme.fixedActivations = scheme.int8Activations && fixed && strategy == "tensor";
}

void HfQuantization::readBitsAndBytes()
{
    const bool eight = m_config.boolean("load_in_8bit").value_or(false);
    if (eight == m_config.boolean("load_in_4bit").value_or(false))
        m_config.refuse("load_in_4bit", eight ? "true, as load_in_8bit is" : "false, as load_in_8bit is",
                        "one of the two");
    m_scheme.layout = eight ? QuantizedScheme::Layout::Int8Rows : QuantizedScheme::Layout::Levels4;
    const std::string type = m_config.text("bnb_4bit_quant_type").value_or("fp4");
    if (!eight && type != "nf4" && type != "fp4")
        m_config.refuse("bnb_4bit_quant_type", inQuotes(type), "nf4 or fp4");
    addSkips("llm_int8_skip_modules", true);
}

QuantizedScheme HfQuantization::schemeOf(std::string_view module) const
{
    for (const Rule &rule : *m_rules) {
        if (std::any_of(rule.patterns.begin(), rule.patterns.end(),
                        [module](const Pattern &pattern) { return pattern.fits(module); }))
            return rule.scheme;
    }
    if (m_needsRule)
        m_config.refuse("config_groups", "without a target for " + inQuotes(module), "one for every quantised module");
    return m_scheme;
}

bool HfQuantization::skips(std::string_view module) const
{
    return std::any_of(m_skips->begin(), m_skips->end(),
                       [module](const Pattern &pattern) { return pattern.fits(module); });
}

} // namespace engine
