// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pretokenizer_table.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include "engine/text/pretokenizer.h"

#include <algorithm>

namespace engine {
namespace {

// The splits are those of each model's own tokenizer.json; which `pre` means which is GGUF's convention
// (ggml-org/llama.cpp, src/llama-vocab.cpp).

constexpr const char *digit = R"re(\p{N})re";
constexpr const char *digitsBy3 = R"re(\p{N}{1,3})re";
constexpr const char *gpt2 = R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re";
constexpr const char *llama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *qwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *qwen35 = R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)re"
                               R"re( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *seedCoder =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|)re"
    R"re(\s+(?!\S)|\s+)re";
constexpr const char *bailingMoe =
    R"re('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|)re"
    R"re(\s+(?!\S)|\s+)re";
constexpr const char *gpt4o =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|)re"
    R"re('m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|)re"
    R"re('t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *tekken =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)re"
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *cjk = R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char *deepseek3 =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)re"
    R"re( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *deepseekLetters =
    R"re(\s?[A-Za-z\x{00B5}\x{00C0}-\x{00D6}\x{00D8}-\x{00F6}\x{00F8}-\x{01BA}\x{01BC}-\x{01BF})re"
    R"re(\x{01C4}-\x{0293}\x{0295}-\x{02AF}\x{0370}-\x{0373}\x{0376}\x{0377}\x{037B}-\x{037D}\x{037F})re"
    R"re(\x{0386}\x{0388}-\x{038A}\x{038C}\x{038E}-\x{03A1}\x{03A3}-\x{03F5}\x{03F7}-\x{0481})re"
    R"re(\x{048A}-\x{052F}\x{0531}-\x{0556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD})re"
    R"re(\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A})re"
    R"re(\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57})re"
    R"re(\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-)re"
    R"re(\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-)re"
    R"re(\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})re"
    R"re(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})re"
    R"re(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3})re"
    R"re(\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E})re"
    R"re(\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A})re"
    R"re(\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-)re"
    R"re(\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)re";
constexpr const char *deepseekPunctuation =
    R"re(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)re";
constexpr const char *cjkAndHangul = R"re([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)re";
constexpr const char *asciiDigitsBy3 = R"re([0-9][0-9][0-9])re";
constexpr const char *jais2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|)re"
    R"re(\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})re";
constexpr const char *spark =
    R"re([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)re"
    R"re( ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)re";
constexpr const char *youtuScripts =
    R"re([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014})re"
    R"re(\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+|)re"
    R"re([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)re";
constexpr const char *youtu =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|)re"
    R"re('m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|)re"
    R"re('t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *bloom = R"re( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{0964}\x{06D4}\x{060C})]+)re";
constexpr const char *digitsFromRight = R"re(\d{1,3}(?=(?:\d{3})*\b))re";
constexpr const char *threesFromRight = R"re((?=(\d{3})+(?!\d)))re";
constexpr const char *noContractions =
    R"re([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr const char *lines = R"re([^\n]+|[\n]+)re";
constexpr const char *exaoneMoe =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)re"
    R"re( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)re";
constexpr const char *minicpm5 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|)re"
    R"re(\s*[\r\n]+|\s+(?!\S)|\s+)re";

} // namespace

const std::vector<PreTokenizerRow> &preTokenizerTable()
{
    static const std::vector<PreTokenizerRow> rows = {
        {{"default"}, {"[\\p{P}\\$\\+<=>\\^~\\|]+", gpt2, "\\p{N}+", asciiDigitsBy3}},
        {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum",
          "modern-bert", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"},
         {gpt2}},
        {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"}, {digit, gpt2}},
        {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
         {llama3},
         true,
         true},
        {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {llama3}},
        {{"glm4", "glm5"}, {llama3}, true},
        {{"qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"},
         {qwen2}},
        {{"qwen35"}, {qwen35}},
        {{"seed-coder"}, {seedCoder}},
        {{"bailingmoe", "bailingmoe2", "llada-moe"}, {bailingMoe}},
        {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {gpt4o}},
        {{"tekken"}, {tekken}, true, true},
        {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {digitsBy3, cjk, deepseek3}},
        {{"deepseek-coder"}, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", cjkAndHangul, digit}},
        {{"deepseek-llm"}, {"[\\r\\n]", deepseekLetters, deepseekPunctuation, "\\s+$", cjkAndHangul, "\\p{N}+"}},
        {{"falcon"}, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2, asciiDigitsBy3}},
        {{"jais-2"}, {jais2}},
        {{"spark2_5"}, {digitsBy3, cjk, spark, digit}},
        {{"youtu"}, {youtuScripts, youtu}, true},
        {{"bloom", "gpt3-finnish", "poro-chat"}, {bloom}},
        {{"viking"}, {bloom, digit}},
        {{"tiny_aya", "cohere2moe"}, {digitsFromRight, gpt4o}},
        {{"superbpe"}, {"\\p{N}+", threesFromRight}},
        {{"ufakzeka"}, {noContractions}},
        {{"laguna"}, {lines, qwen2}},
        {{"exaone-moe"}, {exaoneMoe}},
        {{"minicpm5"}, {digitsBy3, minicpm5}, true},
    };
    return rows;
}

std::string_view gpt2Pattern()
{
    return gpt2;
}

Regex gpt2Split()
{
    return Regex(gpt2);
}

PreTokenizerRule preTokenizerRule(std::string_view pre)
{
    for (const PreTokenizerRow &row : preTokenizerTable()) {
        if (std::find(row.names.begin(), row.names.end(), pre) == row.names.end())
            continue;
        PreTokenizerRule rule;
        for (const char *pattern : row.patterns)
            rule.steps.addSplit(Regex(pattern));
        rule.ignoreMerges = row.ignoreMerges;
        rule.addsBos = row.addsBos;
        return rule;
    }
    throw Error(ErrorCode::Refused,
                "tokenizer.ggml.pre: unknown pre-tokenizer " + utf8::quoted(pre)
                    + "; its split would be a guess and cost quality");
}

} // namespace engine
