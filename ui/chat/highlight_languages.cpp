// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/highlight_languages.h"

#include "ui/chat/highlight.h"

#include <QHash>

namespace ui::highlight {
namespace {

QSet<QString> words(const char *text)
{
    const QStringList list = QString::fromLatin1(text).split(u' ', Qt::SkipEmptyParts);
    return {list.begin(), list.end()};
}

Language cLike(const char *keywords, const char *types, const char *quotes = "\"'")
{
    Language language;
    language.keywords = words(keywords);
    language.types = words(types);
    language.lineComment = QStringLiteral("//");
    language.blockOpen = QStringLiteral("/*");
    language.blockClose = QStringLiteral("*/");
    language.quotes = QString::fromLatin1(quotes);
    return language;
}

Language hashComments(const char *keywords, const char *types)
{
    Language language;
    language.keywords = words(keywords);
    language.types = words(types);
    language.lineComment = QStringLiteral("#");
    language.quotes = QStringLiteral("\"'");
    return language;
}

Language makeCpp()
{
    return cLike(
        "alignas auto break case catch class concept const consteval constexpr constinit continue co_await "
        "co_return co_yield decltype default delete do else enum explicit extern false final for friend goto if "
        "inline mutable namespace new noexcept nullptr operator override private protected public requires "
        "return sizeof static static_assert struct switch template this throw true try typedef typename union "
        "using virtual volatile while include define ifdef ifndef endif pragma package import extends "
        "implements interface super __global__ __device__ __host__ __shared__ __restrict__",
        "bool char char8_t char16_t char32_t double float half int int8_t int16_t int32_t int64_t long short "
        "signed size_t string uint8_t uint16_t uint32_t uint64_t unsigned vector void wchar_t String Integer "
        "boolean byte");
}

Language makeJavaScript()
{
    return cLike(
        "as async await break case catch class const continue default delete do else enum export extends false "
        "finally for from function if implements import in instanceof interface let new null of return static "
        "super switch this throw true try type typeof undefined var void while yield",
        "any Array bigint boolean Map never number object Promise Record Set string unknown", "\"'`");
}

Language makeRust()
{
    return cLike(
        "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match "
        "mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
        "bool char f32 f64 i8 i16 i32 i64 i128 isize str String u8 u16 u32 u64 u128 usize Vec Option Result Box", "\"");
}

Language makeGo()
{
    return cLike("break case chan const continue default defer else fallthrough false for func go goto if import "
                 "interface iota map nil package range return select struct switch true type var",
                 "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string uint "
                 "uint8 uint16 uint32 uint64 uintptr",
                 "\"'`");
}

Language makePython()
{
    Language python =
        hashComments("and as assert async await break case class continue def del elif else except False "
                     "finally for from global if import in is lambda match None nonlocal not or pass raise "
                     "return self True try while with yield",
                     "bool bytes dict float frozenset int list object set str tuple type");
    python.triple = QStringLiteral("\"\"\"");
    return python;
}

Language makeShell()
{
    return hashComments("case do done elif else esac export fi for function if in local read return select set shift "
                        "source then time trap until unset while",
                        "awk cat cd chmod cp curl echo find git grep ls make mkdir mv printf rm sed sudo test");
}

Language makeSql()
{
    Language sql;
    sql.keywords = words("add all alter and as asc begin between by case check commit constraint create cross default "
                         "delete desc distinct drop else end exists explain foreign from full group having if in index "
                         "inner insert into is join key left like limit not null offset on or order outer primary "
                         "references returning right rollback select set table then union unique update using values "
                         "view when where with");
    sql.types = words("bigint blob boolean char date decimal float int integer json numeric real serial text time "
                      "timestamp uuid varchar");
    sql.lineComment = QStringLiteral("--");
    sql.blockOpen = QStringLiteral("/*");
    sql.blockClose = QStringLiteral("*/");
    sql.quotes = QStringLiteral("'\"");
    sql.foldCase = true;
    return sql;
}

Language makeJson()
{
    Language json;
    json.keywords = words("true false null");
    json.quotes = QStringLiteral("\"");
    return json;
}

Language makeYaml()
{
    Language yaml = hashComments("true false null yes no on off", "");
    yaml.keys = true;
    return yaml;
}

Language makeHtml()
{
    Language html;
    html.blockOpen = QStringLiteral("<!--");
    html.blockClose = QStringLiteral("-->");
    html.quotes = QStringLiteral("\"");
    html.markup = true;
    return html;
}

Language makeDiff()
{
    Language diff;
    diff.diff = true;
    return diff;
}

} // namespace

const Language *find(QStringView name)
{
    static const Language cpp = makeCpp(), javaScript = makeJavaScript(), rust = makeRust(), go = makeGo(),
                          python = makePython(), shell = makeShell(), sql = makeSql(), json = makeJson(),
                          yaml = makeYaml(), html = makeHtml(), diff = makeDiff();
    static const QHash<QString, const Language *> names{{"c", &cpp},
                                                        {"h", &cpp},
                                                        {"cpp", &cpp},
                                                        {"c++", &cpp},
                                                        {"cc", &cpp},
                                                        {"hpp", &cpp},
                                                        {"cuda", &cpp},
                                                        {"cu", &cpp},
                                                        {"java", &cpp},
                                                        {"csharp", &cpp},
                                                        {"cs", &cpp},
                                                        {"js", &javaScript},
                                                        {"jsx", &javaScript},
                                                        {"ts", &javaScript},
                                                        {"tsx", &javaScript},
                                                        {"javascript", &javaScript},
                                                        {"typescript", &javaScript},
                                                        {"rust", &rust},
                                                        {"rs", &rust},
                                                        {"go", &go},
                                                        {"golang", &go},
                                                        {"python", &python},
                                                        {"py", &python},
                                                        {"python3", &python},
                                                        {"sh", &shell},
                                                        {"bash", &shell},
                                                        {"shell", &shell},
                                                        {"zsh", &shell},
                                                        {"console", &shell},
                                                        {"sql", &sql},
                                                        {"json", &json},
                                                        {"jsonc", &json},
                                                        {"yaml", &yaml},
                                                        {"yml", &yaml},
                                                        {"toml", &yaml},
                                                        {"html", &html},
                                                        {"xml", &html},
                                                        {"svg", &html},
                                                        {"diff", &diff},
                                                        {"patch", &diff}};
    return names.value(name.toString().toLower());
}

} // namespace ui::highlight
