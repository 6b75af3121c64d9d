// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <list>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// Room of the layers that see a window only. A block of a context has some there, its slot, as long as a sequence can
/// still see its tokens; afterwards the content stays until the slot is wanted, least recently used first. Pure logic;
/// the bytes are KvCache's. Part of BlockManager, which says when.
///
/// Thread: the engine thread only.
class WindowPool {
public:
    WindowPool() = default; ///< no layer has a window
    /// Numbers of blocks are below `blocks`.
    WindowPool(int blocks, int size);
    WindowPool(WindowPool &&) = default;
    WindowPool &operator=(WindowPool &&) = default;
    WindowPool(const WindowPool &) = delete;
    WindowPool &operator=(const WindowPool &) = delete;
    ~WindowPool() = default;

    [[nodiscard]] int size() const { return static_cast<int>(m_slots.size()); }
    [[nodiscard]] int free() const { return static_cast<int>(m_empty.size() + m_kept.size()); } ///< without reference
    [[nodiscard]] int kept() const { return static_cast<int>(m_kept.size()); } ///< of those, with content
    /// -1 when the block has none.
    [[nodiscard]] int slotOf(int block) const { return m_slotOf.empty() ? -1 : m_slotOf[index(block)]; }
    /// Whether the block has a slot that nobody references.
    [[nodiscard]] bool isKept(int block) const;
    /// Whether a sequence that needs all but the first `leading` tokens of a block finds them.
    [[nodiscard]] bool holds(int block, int leading) const;
    /// Leading tokens that are missing in a slot; 0 = it is whole. \pre the block has one
    [[nodiscard]] int missing(int block) const { return m_slots[index(slotOf(block))].missing; }

    /// Gives a block a slot, referenced once. \pre it has none, free() > 0
    void take(int block);
    /// \pre the block has a slot
    void reference(int block);
    /// Without references the content stays when it is worth keeping. \pre the block's slot is referenced
    void unreference(int block, bool keep);
    /// The content of a block can no longer be found: its slot goes, once nobody references it.
    void forget(int block);
    /// Gives a block without slot an empty one for content that nobody references, to be reused before all others that
    /// are kept. False when none is empty.
    [[nodiscard]] bool keep(int block);
    void setMissing(int block, int tokens) { m_slots[index(slotOf(block))].missing = tokens; }

    /// Recounts against the references that each block should have; empty when all is consistent.
    [[nodiscard]] std::string audit(std::span<const int> references) const;

private:
    struct Slot {
        int block = -1;
        int references = 0;
        int missing = 0;
        std::list<int>::iterator place; // in one of the lists; moved, never made anew
    };

    [[nodiscard]] static std::size_t index(int number) { return static_cast<std::size_t>(number); }
    void give(int block, int slot);
    void clear(int slot, std::list<int> &from);

    std::vector<int> m_slotOf; // [blocks]
    std::vector<Slot> m_slots;
    std::list<int> m_empty; // the last used in front: its memory is committed already
    std::list<int> m_kept;  // the next to be reused in front
    std::list<int> m_used;
};

} // namespace engine
