// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_builtins.h"

#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

namespace engine::jinja {
namespace {

// The sandbox's own limit (jinja2.sandbox.MAX_RANGE).
constexpr std::int64_t kMaxRange = 100'000;
// Longer texts of raise_exception are cut.
constexpr std::size_t kMaxErrorBytes = 4096;

std::int64_t rangeLength(std::int64_t start, std::int64_t stop, std::int64_t step)
{
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    const auto span = step > 0 ? static_cast<std::uint64_t>(stop) - static_cast<std::uint64_t>(start)
                               : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(stop);
    const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
    const std::uint64_t length = (span - 1) / stride + 1;
    if (length > static_cast<std::uint64_t>(kMaxRange))
        fail("range() too big: it exceeds the limit of " + std::to_string(kMaxRange) + " elements");
    return static_cast<std::int64_t>(length);
}

Value makeRange(Interpreter &owner, Arguments &arguments)
{
    if (!arguments.named.empty())
        fail("range() takes no keyword arguments");
    if (arguments.positional.empty() || arguments.positional.size() > 3)
        fail("range() takes 1 to 3 arguments, " + std::to_string(arguments.positional.size()) + " given");
    const Bound bound("range", arguments, {"start", "stop", "step"}, 1);
    const bool onlyStop = !bound.has(1);
    const std::int64_t start = onlyStop ? 0 : bound.integer(0, 0);
    const std::int64_t stop = bound.integer(onlyStop ? 0 : 1, 0);
    const std::int64_t step = bound.integer(2, 1);
    if (step == 0)
        fail("range(): the step must not be zero");
    return Value(owner.heap().make<RangeObject>(0, start, stop, step, rangeLength(start, stop, step)).get());
}

void insertPairs(Interpreter &owner, DictObject &out, const Value &source)
{
    if (source.is(Kind::Dict)) {
        for (const auto &[key, value] : source.as<DictObject>().entries())
            out.insert(key, value);
        return;
    }
    requireDefined(source);
    const Items pairs(owner.heap(), source);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        const Items pair(owner.heap(), pairs.at(i));
        if (pair.size() != 2)
            fail("dict(): element " + std::to_string(i) + " has length " + std::to_string(pair.size())
                 + "; 2 is required");
        out.insert(pair.at(0), pair.at(1));
    }
}

Value makeDict(Interpreter &owner, Arguments &arguments)
{
    const Ref<DictObject> out = owner.heap().make<DictObject>(0);
    if (arguments.positional.size() > 1)
        fail("dict() expected at most 1 argument, got " + std::to_string(arguments.positional.size()));
    if (!arguments.positional.empty())
        insertPairs(owner, *out, arguments.positional[0]);
    for (const auto &[name, value] : arguments.named)
        out->insert(owner.heap().string(name), value);
    return Value(out.get());
}

Value makeNamespace(Interpreter &owner, Arguments &arguments)
{
    const Value members = makeDict(owner, arguments);
    const Ref<NamespaceObject> out = owner.heap().make<NamespaceObject>(0);
    for (const auto &[key, value] : members.as<DictObject>().entries()) {
        const std::string name = textOf(owner.heap(), key);
        checkMemberName(name);
        out->set(name, value);
    }
    return Value(out.get());
}

Value makeCycler(Interpreter &owner, Arguments &arguments)
{
    if (arguments.positional.empty())
        fail("cycler() needs at least one item");
    const std::size_t bytes = arguments.positional.size() * sizeof(Value);
    return Value(owner.heap().make<CyclerObject>(bytes, std::move(arguments.positional)).get());
}

Value makeJoiner(Interpreter &owner, Arguments &arguments)
{
    const Bound bound("joiner", arguments, {"sep"});
    const Value separator = bound.has(0) ? bound[0] : owner.heap().string(", ");
    return Value(owner.heap().make<JoinerObject>(0, separator).get());
}

Value raiseException(Interpreter &owner, Arguments &arguments)
{
    const Bound bound("raise_exception", arguments, {"message"}, 1);
    std::string message = textOf(owner.heap(), bound[0]);
    if (message.size() > kMaxErrorBytes) {
        std::size_t end = kMaxErrorBytes;
        static_cast<void>(previousChar(message, end));
        message = message.substr(0, end) + "… (cut)";
    }
    throw Fault(message, true);
}

Value strftimeNow(Interpreter &owner, Arguments &arguments)
{
    const Bound bound("strftime_now", arguments, {"format"}, 1);
    return owner.heap().string(formatTime(owner.heap(), bound.text(0), owner.date()));
}

Value lipsum(Interpreter &, Arguments &)
{
    fail("lipsum() is refused: its text is random");
}

} // namespace

std::span<const Builtin> builtins()
{
    static constexpr Builtin all[] = {
        {"range", makeRange},   {"dict", makeDict}, {"namespace", makeNamespace},        {"cycler", makeCycler},
        {"joiner", makeJoiner}, {"lipsum", lipsum}, {"raise_exception", raiseException}, {"strftime_now", strftimeNow},
    };
    return all;
}

void checkMemberName(std::string_view name)
{
    if (name.starts_with('_'))
        fail("chat templates cannot store underscore-prefixed attributes on a namespace, but got " + reprText(name));
}

Value callJoiner(Interpreter &owner, JoinerObject &joiner, const Arguments &arguments)
{
    requireNoArguments("a joiner", arguments);
    return std::exchange(joiner.used, true) ? joiner.separator : owner.heap().string("");
}

} // namespace engine::jinja
