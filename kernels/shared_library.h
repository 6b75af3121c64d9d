// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace kernels {

/// A library that is looked for while the program runs, which neither links nor needs it; closed with the object. Its
/// functions are called through pointers, which a table of symbols fills. Thread: one caller at a time.
class SharedLibrary {
public:
    /// A function by its name, and the pointer that takes it. Where a pointer stands in several rows of a table, the
    /// first name that the library has counts.
    class Symbol {
    public:
        template<typename Function>
        Symbol(const char *name, Function *&pointer, bool needed = true)
            : m_name(name)
            , m_pointer(&pointer)
            , m_fill([](void *target, void *function) {
                auto &own = *static_cast<Function **>(target);
                if (own == nullptr)
                    own = reinterpret_cast<Function *>(function);
            })
            , m_needed(needed)
        {
        }

    private:
        friend class SharedLibrary;
        const char *m_name;
        void *m_pointer;
        void (*m_fill)(void *target, void *function);
        bool m_needed;
    };
    using Symbols = std::initializer_list<Symbol>;

    SharedLibrary() = default;
    ~SharedLibrary();
    SharedLibrary(const SharedLibrary &) = delete;
    SharedLibrary &operator=(const SharedLibrary &) = delete;

    /// Opens the first of `names` that can be opened and fills the pointers. False where none can be or what is needed
    /// of its functions is missing; problem() says so, calling the library `title`.
    [[nodiscard]] bool open(std::string_view title, std::span<const std::string> names, Symbols symbols);
    /// Of the file that was opened.
    [[nodiscard]] const std::string &name() const { return m_name; }
    [[nodiscard]] const std::string &problem() const { return m_problem; }

private:
    void *m_handle = nullptr;
    std::string m_name;
    std::string m_problem;
};

} // namespace kernels
