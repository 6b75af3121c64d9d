// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/answer_facts.h"

#include "ui/format.h"
#include "ui/translate.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

#include <algorithm>
#include <functional>
#include <utility>

namespace ui {
namespace {

constexpr double slowFirstMs = 1000;
constexpr double slowWaitMs = 500;   // in the queue, preempted, paused, or one pause between tokens
constexpr double slowTokenMs = 100;  // people read about ten tokens a second
constexpr double leastReasonMs = 50; // what costs less is no reason
constexpr qsizetype mostNotices = 8;
const QString slowMark = QStringLiteral("slow "), fineMark = QStringLiteral("fine "); // before the object

QString ms(double value)
{
    return format::milliseconds(value);
}

QString tokens(int count)
{
    return format::counted(count, tr("token"), tr("tokens"));
}

QString requests(int count)
{
    return format::counted(count, tr("request"), tr("requests"));
}

/// Every number of the facts with its name in the store. Reading and writing walk the same list.
template<typename Facts, typename Visit> void eachNumber(Facts &f, const Visit &visit)
{
    visit("promptTokens", f.usage.promptTokens);
    visit("completionTokens", f.usage.completionTokens);
    visit("cachedTokens", f.usage.cachedTokens);
    visit("missPosition", f.usage.missPosition);
    visit("preemptions", f.usage.preemptions);
    visit("queueMs", f.timings.queueMs);
    visit("ttftMs", f.timings.ttftMs);
    visit("tpotMs", f.timings.tpotMs);
    visit("e2eMs", f.timings.e2eMs);
    visit("prefillMs", f.timings.prefillMs);
    visit("decodeMs", f.timings.decodeMs);
    visit("runningBefore", f.story.runningBefore);
    visit("waitingBefore", f.story.waitingBefore);
    visit("placesMs", f.story.placesMs);
    visit("blocksMs", f.story.blocksMs);
    visit("turnMs", f.story.turnMs);
    visit("blocksWanted", f.story.blocksWanted);
    visit("blocksFree", f.story.blocksFree);
    visit("prefillSteps", f.story.prefillSteps);
    visit("steps", f.story.steps);
    visit("mostRows", f.story.mostRows);
    visit("meanRows", f.story.meanRows);
    visit("othersPrefill", f.story.othersPrefill);
    visit("othersPrefillMs", f.story.othersPrefillMs);
    visit("longestGapMs", f.story.longestGapMs);
    visit("longestGapPrefill", f.story.longestGapPrefill);
    visit("preemptedMs", f.story.preemptedMs);
    visit("recomputedTokens", f.story.recomputedTokens);
    visit("pausedMs", f.story.pausedMs);
    visit("hotSteps", f.story.hotSteps);
    visit("hotBudget", f.story.hotBudget);
    visit("gapP50", f.gapP50);
    visit("gapP95", f.gapP95);
    visit("places", f.places);
}

struct Reason {
    double ms = 0;
    QString text;
};

/// Who was there when it came.
QString behind(const AnswerFacts &f)
{
    const auto &s = f.story;
    if (s.waitingBefore == 0)
        return tr("%1 ran when it came").arg(requests(s.runningBefore));
    return tr("%1 ran when it came and %2 waited before it")
        .arg(requests(s.runningBefore), format::count(s.waitingBefore));
}

void addQueueReasons(const AnswerFacts &f, QList<Reason> &reasons)
{
    const auto &s = f.story;
    const QString all = f.places > 0 ? tr(", and at most %1 may").arg(format::count(f.places)) : QString();
    reasons << Reason{s.placesMs, tr("It waited %1 for a place: %2%3.").arg(ms(s.placesMs), behind(f), all)}
            << Reason{s.blocksMs,
                      tr("It waited %1 for room in the KV cache: its prompt needed %2, and %3 were free "
                         "beyond the reserve; %4.")
                          .arg(ms(s.blocksMs), format::counted(s.blocksWanted, tr("more block"), tr("more blocks")),
                               format::count(s.blocksFree), behind(f))}
            << Reason{s.turnMs,
                      tr("It waited %1 for its turn, as the steps were full of other work: %2.")
                          .arg(ms(s.turnMs), behind(f))};
    const double rest = f.timings.queueMs - s.placesMs - s.blocksMs - s.turnMs;
    reasons << Reason{rest,
                      tr("%1 passed before it was taken in: the step under way had to end first, or a model was "
                         "loading.")
                          .arg(ms(rest))};
}

/// What the prefix cache had of the prompt, and where it stopped.
QString cacheSentence(const engine::Usage &u)
{
    const QString had = u.cachedTokens == 0
        ? tr("Nothing of the prompt was in the prefix cache")
        : tr("The prefix cache had %1 of %2").arg(format::count(u.cachedTokens), tokens(u.promptTokens));
    if (u.missPosition < 0)
        return had + u'.';
    return tr("%1; the first token that differs from what was cached is number %2.")
        .arg(had, format::count(u.missPosition + 1));
}

void addPrefillReason(const AnswerFacts &f, QList<Reason> &reasons)
{
    const engine::Usage &u = f.usage;
    const int computed = std::max(0, u.promptTokens - u.cachedTokens);
    QString text =
        tr("Reading the prompt took %1: %2 had to be computed").arg(ms(f.timings.prefillMs), tokens(computed));
    if (f.story.prefillSteps > 1)
        text += tr(", in %1 steps").arg(format::count(f.story.prefillSteps));
    reasons << Reason{f.timings.prefillMs, text + QStringLiteral(". ") + cacheSentence(u)};
}

void addLossReasons(const AnswerFacts &f, QList<Reason> &reasons)
{
    const auto &s = f.story;
    QString lost = f.usage.preemptions == 1
        ? tr("Its blocks were taken from it once, as the KV cache was full: %1 passed until it went on")
              .arg(ms(s.preemptedMs))
        : tr("Its blocks were taken from it %1 times, as the KV cache was full: %2 passed until it went on")
              .arg(format::count(f.usage.preemptions), ms(s.preemptedMs));
    if (s.recomputedTokens > 0)
        lost += tr(", and %1 were computed again").arg(tokens(s.recomputedTokens));
    reasons << Reason{f.usage.preemptions > 0 ? s.preemptedMs : 0, lost + u'.'}
            << Reason{s.pausedMs,
                      tr("It stood still for %1, as the number of sequences had been lowered.").arg(ms(s.pausedMs))};
}

void addDecodeReasons(const AnswerFacts &f, QList<Reason> &reasons)
{
    const auto &s = f.story;
    if (s.meanRows >= 1.5) {
        const double others = f.timings.decodeMs * (1 - 1 / s.meanRows); // at most: what is shared is not known
        reasons << Reason{others,
                          tr("It shared its steps: %1 requests a step on average, at most %2.")
                              .arg(format::number(s.meanRows, 2), format::count(s.mostRows))};
    }
    reasons << Reason{
        s.othersPrefillMs,
        tr("%1 of its steps also read prompts of others, %2.").arg(ms(s.othersPrefillMs), tokens(s.othersPrefill))};
    if (s.longestGapMs >= slowWaitMs)
        reasons << Reason{s.longestGapMs,
                          s.longestGapPrefill > 0
                              ? tr("The longest pause between two of its tokens was %1, in a step that also read %2 of "
                                   "other prompts.")
                                    .arg(ms(s.longestGapMs), tokens(s.longestGapPrefill))
                              : tr("The longest pause between two of its tokens was %1.").arg(ms(s.longestGapMs))};
}

QString headline(const AnswerFacts &f)
{
    QString text = f.timings.ttftMs > 0 ? tr("The first token came after %1").arg(ms(f.timings.ttftMs))
                                        : tr("It ended after %1 without a token").arg(ms(f.timings.e2eMs));
    if (f.timings.tpotMs > 0)
        text += tr(", then one every %1").arg(ms(f.timings.tpotMs));
    if (f.gapP95 > 0)
        text += tr(" (P50 %1, P95 %2, longest %3)").arg(ms(f.gapP50), ms(f.gapP95), ms(f.story.longestGapMs));
    return text + u'.';
}

bool wasSlow(const AnswerFacts &f)
{
    const auto &s = f.story;
    return f.timings.ttftMs >= slowFirstMs || f.timings.queueMs >= slowWaitMs || s.preemptedMs >= slowWaitMs
        || s.pausedMs >= slowWaitMs || s.longestGapMs >= slowWaitMs || f.timings.tpotMs >= slowTokenMs;
}

} // namespace

QString AnswerFacts::toText() const
{
    QJsonObject object;
    eachNumber(*this, [&](const char *name, auto value) { object.insert(QLatin1String(name), value); });
    if (!notices.isEmpty())
        object.insert(QStringLiteral("notices"), QJsonArray::fromStringList(notices.mid(0, mostNotices)));
    return (wasSlow(*this) ? slowMark : fineMark)
        + QString::fromUtf8(QJsonDocument(object).toJson(QJsonDocument::Compact));
}

bool AnswerFacts::isSlow(const QString &text)
{
    return text.startsWith(slowMark);
}

std::optional<AnswerFacts> AnswerFacts::fromText(const QString &text)
{
    const QJsonObject object = QJsonDocument::fromJson(text.mid(slowMark.size()).toUtf8()).object();
    if (!object.contains(QStringLiteral("ttftMs")))
        return std::nullopt;
    AnswerFacts facts;
    eachNumber(facts, [&](const char *name, auto &value) {
        using Number = std::remove_reference_t<decltype(value)>;
        if (const QJsonValue stored = object.value(QLatin1String(name)); stored.isDouble())
            value = Number(std::clamp(stored.toDouble(), -1e9, 1e9));
    });
    for (const QJsonValue &notice : object.value(QStringLiteral("notices")).toArray())
        facts.notices << notice.toString();
    return facts;
}

SlowVerdict whySlow(const AnswerFacts &f)
{
    SlowVerdict verdict;
    verdict.slow = wasSlow(f);
    verdict.sentences << (verdict.slow ? QString() : tr("This answer was not slow. ")) + headline(f);
    QList<Reason> reasons;
    addQueueReasons(f, reasons);
    addPrefillReason(f, reasons);
    addLossReasons(f, reasons);
    addDecodeReasons(f, reasons);
    std::stable_sort(reasons.begin(), reasons.end(), [](const Reason &a, const Reason &b) { return a.ms > b.ms; });
    for (const Reason &reason : std::as_const(reasons)) {
        if (verdict.slow && reason.ms >= leastReasonMs)
            verdict.sentences << reason.text;
    }
    if (f.story.hotSteps > 0)
        verdict.sentences << tr("In %1 of its %2 steps heat had lowered the token budget, down to %3.")
                                 .arg(format::count(f.story.hotSteps), format::count(f.story.steps),
                                      tokens(f.story.hotBudget));
    for (const QString &notice : f.notices)
        verdict.sentences << tr("Meanwhile: %1").arg(format::sentence(notice));
    if (verdict.sentences.size() > 1)
        return verdict;
    if (verdict.slow)
        verdict.sentences << tr("Nothing held it up: this is the pace of this model on this machine.");
    else
        verdict.sentences << cacheSentence(f.usage);
    return verdict;
}

} // namespace ui
