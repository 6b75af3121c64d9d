// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/block_manager.h"

#include "engine/api/error.h"

#include <QTest>

#include <numeric>
#include <random>

using namespace engine;

namespace {

std::vector<int> tokensFrom(int first, int count)
{
    std::vector<int> tokens(static_cast<std::size_t>(count));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

/// The same where layers hold a window: all tokens in one step, at the end of which the window has moved on.
BlockTable computedInWindow(BlockManager &manager, const std::vector<int> &tokens)
{
    const auto size = static_cast<int>(tokens.size());
    BlockTable table;
    manager.adopt(table, manager.match(tokens));
    if (!manager.grow(table, size) || !manager.holdWindow(table, size))
        throw std::runtime_error("no room");
    manager.publish(table, tokens, size);
    manager.passWindow(table, size);
    return table;
}

int heldSlots(const BlockManager &manager)
{
    return manager.window().size() - manager.window().free();
}

/// Runs a whole request: adopts what is cached, grows, publishes.
BlockTable computed(BlockManager &manager, const std::vector<int> &tokens)
{
    BlockTable table;
    manager.adopt(table, manager.match(tokens));
    if (!manager.grow(table, static_cast<int>(tokens.size())))
        throw std::runtime_error("no room");
    manager.publish(table, tokens, static_cast<int>(tokens.size()));
    return table;
}

} // namespace

class TestBlockManager : public QObject {
    Q_OBJECT

private slots:
    void growsAllOrNothing()
    {
        BlockManager manager(3, 8, true);
        BlockTable a;
        QVERIFY(manager.grow(a, 9));
        QCOMPARE(a.blocks.size(), 2U);
        BlockTable b;
        QVERIFY(!manager.grow(b, 16));
        QCOMPARE(b.blocks.size(), 0U);
        QCOMPARE(manager.freeBlocks(), 1);
        QVERIFY(manager.grow(a, 16)); // within its last block
        QCOMPARE(a.blocks.size(), 2U);
        manager.release(a);
        QCOMPARE(manager.freeBlocks(), 3);
        QCOMPARE(manager.audit({}), std::string());
    }

    void sharesFullBlocksButNeverTheLastToken()
    {
        BlockManager manager(16, 8, true);
        const std::vector<int> prompt = tokensFrom(100, 24);
        BlockTable first = computed(manager, prompt);
        QCOMPARE(manager.match(prompt).tokens, 16); // the third block holds the last token
        std::vector<int> longer = prompt;
        longer.push_back(7);
        const PrefixMatch match = manager.match(longer);
        QCOMPARE(match.tokens, 24);
        QCOMPARE(match.unreferenced, 0);
        BlockTable second;
        manager.adopt(second, match);
        QCOMPARE(second.blocks, first.blocks);
        QCOMPARE(manager.usedBlocks(), 3);
        QCOMPARE(manager.exclusiveBlocks(first), 0);
        manager.release(first);
        QCOMPARE(manager.usedBlocks(), 3);
        QCOMPARE(manager.exclusiveBlocks(second), 3);
        manager.release(second);
        QCOMPARE(manager.usedBlocks(), 0);
        QCOMPARE(manager.cachedBlocks(), 3);
        QCOMPARE(manager.match(longer).unreferenced, 3);
    }

    void equalBlocksBehindDifferentPrefixesDiffer()
    {
        BlockManager manager(16, 8, true);
        std::vector<int> a = tokensFrom(0, 8);
        std::vector<int> b = tokensFrom(50, 8);
        const std::vector<int> tail = tokensFrom(200, 9);
        a.insert(a.end(), tail.begin(), tail.end());
        b.insert(b.end(), tail.begin(), tail.end());
        BlockTable first = computed(manager, a);
        QCOMPARE(manager.match(b).tokens, 0);
        QCOMPARE(manager.match(a).tokens, 16);
        manager.release(first);
    }

    /// With one hash for everything, only the tokens and the parent can tell blocks apart.
    void anEqualHashIsNotIdentity()
    {
        BlockManager manager(16, 8, true);
        manager.weakenHashes(0);
        std::vector<int> a = tokensFrom(0, 8);
        std::vector<int> b = tokensFrom(50, 8);
        const std::vector<int> tail = tokensFrom(200, 9);
        a.insert(a.end(), tail.begin(), tail.end());
        b.insert(b.end(), tail.begin(), tail.end());
        QCOMPARE(manager.match(a).tokens, 0);
        BlockTable first = computed(manager, a);
        QCOMPARE(manager.match(b).tokens, 0);
        BlockTable second = computed(manager, b);
        const PrefixMatch ofA = manager.match(a);
        const PrefixMatch ofB = manager.match(b);
        QCOMPARE(ofA.tokens, 16);
        QCOMPARE(ofB.tokens, 16);
        QCOMPARE(ofA.blocks, std::vector<int>(first.blocks.begin(), first.blocks.begin() + 2));
        QCOMPARE(ofB.blocks, std::vector<int>(second.blocks.begin(), second.blocks.begin() + 2));
        manager.release(first);
        manager.release(second);
        QCOMPARE(manager.audit({}), std::string());
    }

    void neighboursThatComputedTheSameFindOneChain()
    {
        BlockManager manager(16, 8, true);
        const std::vector<int> prompt = tokensFrom(0, 25);
        BlockTable first;
        BlockTable second;
        QVERIFY(manager.grow(first, 25) && manager.grow(second, 25));
        manager.publish(first, prompt, 8);
        manager.publish(second, prompt, 16); // its first block is a double, its second goes behind first's
        manager.publish(first, prompt, 25);
        const PrefixMatch match = manager.match(prompt);
        QCOMPARE(match.tokens, 24);
        QCOMPARE(match.blocks, (std::vector<int>{first.blocks[0], second.blocks[1], first.blocks[2]}));
        const std::vector<const BlockTable *> tables{&first, &second};
        QCOMPARE(manager.audit(tables), std::string());
        manager.release(first);
        manager.release(second);
        QCOMPARE(manager.cachedBlocks(), 3);
    }

    void reusesTheLeastRecentlyUsedTailFirst()
    {
        BlockManager manager(4, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 16));
        BlockTable b = computed(manager, tokensFrom(500, 16));
        const int tailOfA = a.blocks[1];
        manager.release(a);
        manager.release(b);
        BlockTable c;
        QVERIFY(manager.grow(c, 8));
        QCOMPARE(c.blocks[0], tailOfA);
        QCOMPARE(manager.match(tokensFrom(0, 17)).tokens, 8); // its head is still there
        QCOMPARE(manager.match(tokensFrom(500, 17)).tokens, 16);
        manager.release(c);
        QCOMPARE(manager.audit({}), std::string());
    }

    void reusesEmptyBlocksBeforeCachedOnes()
    {
        BlockManager manager(4, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 12)); // one full, one partial
        manager.release(a);
        BlockTable b;
        QVERIFY(manager.grow(b, 24));
        QCOMPARE(manager.cachedBlocks(), 1);
        QCOMPARE(manager.match(tokensFrom(0, 12)).tokens, 8);
        manager.release(b);
    }

    void aReusedBlockIsNotFoundUnderItsOldContent()
    {
        BlockManager manager(2, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 16));
        manager.release(a);
        BlockTable b = computed(manager, tokensFrom(900, 16));
        QCOMPARE(manager.match(tokensFrom(0, 17)).tokens, 0);
        QCOMPARE(manager.match(tokensFrom(900, 17)).tokens, 16);
        manager.release(b);
    }

    void forgottenBlocksAreNotFound()
    {
        BlockManager manager(8, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 16));
        manager.release(a, true);
        QCOMPARE(manager.cachedBlocks(), 0);
        QCOMPARE(manager.match(tokensFrom(0, 17)).tokens, 0);
        QCOMPARE(manager.audit({}), std::string());
    }

    void offMeansOff()
    {
        BlockManager manager(8, 8, false);
        BlockTable a = computed(manager, tokensFrom(0, 16));
        QCOMPARE(manager.match(tokensFrom(0, 17)).tokens, 0);
        manager.release(a);
        QCOMPARE(manager.cachedBlocks(), 0);
    }

    void auditNoticesALeak()
    {
        BlockManager manager(8, 8, true);
        const BlockTable a = computed(manager, tokensFrom(0, 16));
        QVERIFY(!manager.audit({}).empty()); // two blocks that no table holds
        const std::vector<const BlockTable *> tables{&a};
        QCOMPARE(manager.audit(tables), std::string());
    }

    void doubleReleaseIsCaught()
    {
        BlockManager manager(8, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 16));
        BlockTable copy = a;
        manager.release(a);
        QVERIFY_THROWS_EXCEPTION(Error, manager.release(copy));
    }

    void aSharedBlockIsCopiedByWhoeverWritesFirst()
    {
        BlockManager manager(6, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 12)); // one full block, four tokens in the second
        BlockTable b;
        manager.share(b, a);
        QCOMPARE(b.blocks, a.blocks);
        QCOMPARE(manager.usedBlocks(), 2);
        std::vector<BlockCopy> copies;
        const int shared = a.blocks[1];
        QVERIFY(manager.own(a, 12, copies));
        QCOMPARE(copies.size(), 1U);
        QCOMPARE(copies[0].from, shared);
        QCOMPARE(copies[0].to, a.blocks[1]);
        QVERIFY(a.blocks[1] != shared && a.blocks[0] == b.blocks[0]);
        QVERIFY(manager.own(b, 12, copies)); // nobody else has it any more
        QCOMPARE(copies.size(), 1U);
        QCOMPARE(b.blocks[1], shared);
        BlockTable c;
        manager.share(c, b);
        BlockTable rest;
        QVERIFY(manager.grow(rest, 24));
        QVERIFY(!manager.own(c, 12, copies)); // no block is free for the copy
        QCOMPARE(copies.size(), 1U);
        const std::vector<const BlockTable *> tables{&a, &b, &c, &rest};
        QCOMPARE(manager.audit(tables), std::string());
        for (BlockTable *table : {&a, &b, &c, &rest})
            manager.release(*table);
        QCOMPARE(manager.audit({}), std::string());
        QCOMPARE(manager.freeBlocks(), 6);
    }

    void cachedPrefixesAreNamedOnceMostRecentFirst()
    {
        BlockManager manager(20, 8, true);
        BlockTable a = computed(manager, tokensFrom(0, 24));
        manager.release(a);
        std::vector<int> branch = tokensFrom(0, 32);
        branch[20] = 999; // shares two blocks with the first
        BlockTable b = computed(manager, branch);
        manager.release(b);
        BlockTable c = computed(manager, tokensFrom(500, 16));
        manager.release(c);
        BlockTable used = computed(manager, tokensFrom(700, 16));
        const std::vector<CachedPrefix> prefixes = manager.cachedPrefixes();
        QCOMPARE(prefixes.size(), 3U);
        QCOMPARE(prefixes[0].tokens, tokensFrom(500, 16));
        QCOMPARE(prefixes[1].tokens, branch);
        QCOMPARE(prefixes[1].blocks.size(), 4U);
        QCOMPARE(prefixes[2].tokens, tokensFrom(0, 24));
        manager.setPrefixCaching(false);
        QVERIFY(manager.cachedPrefixes().empty());
        QCOMPARE(manager.cachedBlocks(), 0);
        const std::vector<const BlockTable *> tables{&used};
        QCOMPARE(manager.audit(tables), std::string());
    }

    void theFirstDifferenceIsFound()
    {
        BlockManager manager(20, 8, true);
        const auto miss = [&manager](const std::vector<int> &prompt) {
            return manager.missPosition(prompt, manager.match(prompt));
        };
        QCOMPARE(miss(tokensFrom(0, 30)), -1); // nothing is cached
        BlockTable a = computed(manager, tokensFrom(0, 32));
        std::vector<int> edited = tokensFrom(0, 32);
        edited[13] = 999;
        QCOMPARE(miss(edited), 13);
        edited[0] = 999;
        QCOMPARE(miss(edited), 0);
        QCOMPARE(miss(tokensFrom(0, 32)), -1); // only the last token is computed again
        QCOMPARE(miss(tokensFrom(0, 20)), -1);
        QCOMPARE(miss(tokensFrom(0, 60)), 32); // all that is cached, and more
        manager.release(a);
    }

    void movesStayWithinBlocksOnBothSides()
    {
        std::vector<SlotMove> moves;
        const std::vector<int> from{3, 1, 2};
        const std::vector<int> to{7, 5};
        appendMoves(moves, from, 8, to, 16, 6, 20);
        QCOMPARE(moves.size(), 3U);
        const auto is = [](const SlotMove &move, int a, int b, int n) {
            return move.from == a && move.to == b && move.tokens == n;
        };
        QVERIFY(is(moves[0], 3 * 8 + 6, 7 * 16 + 6, 2));
        QVERIFY(is(moves[1], 1 * 8, 7 * 16 + 8, 8));
        QVERIFY(is(moves[2], 2 * 8, 5 * 16, 4));
    }

    void randomUseKeepsTheBooks()
    {
        for (unsigned seed = 0; seed < 50; ++seed) {
            std::mt19937 random(seed);
            const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
            BlockManager manager(20, 8, true);
            if (seed % 2 == 1)
                manager.weakenHashes(1); // blocks of different content meet all the time
            std::vector<BlockTable> live;
            for (int round = 0; round < 400; ++round) {
                if (!live.empty() && pick(2) == 0) {
                    const auto at = static_cast<std::size_t>(pick(static_cast<int>(live.size())));
                    manager.release(live[at], pick(10) == 0);
                    live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
                } else {
                    const std::vector<int> tokens = tokensFrom(pick(3) * 1000, 1 + pick(60));
                    BlockTable table;
                    manager.adopt(table, manager.match(tokens));
                    if (manager.grow(table, static_cast<int>(tokens.size()))) {
                        manager.publish(table, tokens, static_cast<int>(tokens.size()));
                        live.push_back(table);
                    } else {
                        manager.release(table);
                    }
                }
                std::vector<const BlockTable *> tables;
                for (const BlockTable &table : live)
                    tables.push_back(&table);
                QCOMPARE(manager.audit(tables), std::string());
            }
        }
    }

    void theRuleForWindowBlocks()
    {
        QCOMPARE(windowBlocksFor({100, 16, 0}, 4, 64), 0);
        QCOMPARE(windowBlocksFor({100, 16, 16}, 1, 1), 4); // window, edge, begun, and one token's
        QCOMPARE(windowBlocksFor({100, 16, 17}, 1, 1), 5);
        QCOMPARE(windowBlocksFor({100, 16, 512}, 2, 2048), 100);
        QCOMPARE(windowBlocksFor({1000, 16, 512}, 2, 2048), 2 * 34 + 128);
        QCOMPARE(windowBlocksFor({1 << 28, 8, 4096}, 1 << 20, 1 << 20), 1 << 28); // beyond an int in between
    }

    /// A table holds its window and the block that straddles the window's edge, no more.
    void slotsFollowTheWindow()
    {
        for (const int window : {1, 7, 8, 9, 16, 17, 24}) {
            BlockManager manager({20, 8, window, 20}, false);
            BlockTable table;
            for (int computed = 0; computed < 100; ++computed) {
                QVERIFY(manager.grow(table, computed + 1) && manager.holdWindow(table, computed + 1));
                const int first = std::max(0, computed - window + 1) / 8;
                QCOMPARE(heldSlots(manager), computed / 8 + 1 - first);
                QVERIFY(heldSlots(manager) <= (window + 7) / 8 + 1);
                manager.passWindow(table, computed + 1);
                const std::vector<const BlockTable *> tables{&table};
                QCOMPARE(manager.audit(tables), std::string());
            }
            QCOMPARE(manager.window().kept(), 0); // nothing can find what is not published
            manager.release(table);
            QCOMPARE(heldSlots(manager), 0);
            QCOMPARE(manager.audit({}), std::string());
        }
    }

    void aHitNeedsItsLastWindowOnly()
    {
        BlockManager manager({40, 8, 16, 8}, true);
        const std::vector<int> prompt = tokensFrom(0, 50);
        BlockTable first = computedInWindow(manager, prompt);
        manager.release(first);
        QCOMPARE(manager.window().kept(), 6); // the seventh block is not full
        PrefixMatch match = manager.match(prompt);
        QCOMPARE(match.tokens, 48);
        QCOMPARE(match.windowFirst, 4);                                     // the next token, 48, sees from 33 on
        BlockTable other = computedInWindow(manager, tokensFrom(1000, 30)); // four slots: two empty, then 0 and 1
        match = manager.match(prompt);
        QCOMPARE(match.tokens, 48);
        BlockTable again;
        manager.adopt(again, match);
        QCOMPARE(again.windowFirst, 4);
        QCOMPARE(again.windowEnd, 6);
        const std::vector<const BlockTable *> tables{&other, &again};
        QCOMPARE(manager.audit(tables), std::string());
        manager.release(other);
        manager.release(again);
        QCOMPARE(manager.audit({}), std::string());
    }

    void aHitEndsWhereItsWindowIsStillThere()
    {
        BlockManager manager({40, 8, 16, 6}, true);
        const std::vector<int> prompt = tokensFrom(0, 41);
        BlockTable first = computedInWindow(manager, prompt);
        manager.release(first);
        // The slots of blocks that left the window first, 0 to 2, are reused before that of 4, released before 3.
        BlockTable other = computedInWindow(manager, tokensFrom(1000, 40));
        const PrefixMatch match = manager.match(prompt);
        QCOMPARE(match.knownTokens, 40);
        QVERIFY(match.tokens < 40);
        std::vector<int> longer = prompt;
        longer.push_back(7);
        QCOMPARE(manager.missPosition(longer, match), -1); // nothing differs, though it is computed again
        longer[37] = 9999;
        const PrefixMatch shorter = manager.match(longer);
        QCOMPARE(shorter.knownTokens, 32);
        QCOMPARE(manager.missPosition(longer, shorter), 37);
        // Whoever computes it again is found from then on.
        manager.release(other);
        BlockTable again = computedInWindow(manager, prompt);
        QCOMPARE(manager.match(prompt).tokens, 40);
        const std::vector<const BlockTable *> tables{&again};
        QCOMPARE(manager.audit(tables), std::string());
        manager.release(again);
        QCOMPARE(manager.match(prompt).tokens, 40);
        QCOMPARE(manager.audit({}), std::string());
    }

    void theTailOfAForkIsCopiedInBothKinds()
    {
        BlockManager manager({10, 8, 6, 6}, true);
        const std::vector<int> prompt = tokensFrom(0, 20);
        BlockTable first = computedInWindow(manager, prompt);
        BlockTable second;
        manager.share(second, first);
        std::vector<BlockCopy> copies;
        QVERIFY(manager.own(second, 20, copies));
        QCOMPARE(copies.size(), 2U);
        QVERIFY(!copies[0].window && copies[1].window);
        QCOMPARE(copies[1].from, manager.window().slotOf(first.blocks[2]));
        QCOMPARE(copies[1].to, manager.window().slotOf(second.blocks[2]));
        const std::vector<const BlockTable *> tables{&first, &second};
        QCOMPARE(manager.audit(tables), std::string());
        manager.release(first);
        manager.release(second, true);
        QCOMPARE(heldSlots(manager), 0);
        QCOMPARE(manager.audit({}), std::string());
    }

    void theAuditFindsALostWindowSlot()
    {
        BlockManager manager({10, 8, 6, 6}, true);
        BlockTable table = computedInWindow(manager, tokensFrom(0, 20));
        BlockTable forgetful = table;
        forgetful.windowEnd = forgetful.windowFirst;
        const std::vector<const BlockTable *> tables{&forgetful};
        QVERIFY(manager.audit(tables).find("window slot") != std::string::npos);
        manager.release(table);
    }
};

QTEST_GUILESS_MAIN(TestBlockManager)
#include "tst_block_manager.moc"
