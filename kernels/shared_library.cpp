// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/shared_library.h"

#include <dlfcn.h>

namespace kernels {

SharedLibrary::~SharedLibrary()
{
    if (m_handle != nullptr)
        (void)dlclose(m_handle);
}

bool SharedLibrary::open(std::string_view title, std::span<const std::string> names, Symbols symbols)
{
    const std::string what(title);
    std::string tried;
    for (const std::string &name : names) {
        m_handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        m_name = name;
        if (m_handle != nullptr)
            break;
        const char *why = dlerror(); // begins with the name
        tried += (tried.empty() ? "" : "; ") + (why != nullptr ? std::string(why) : name);
    }
    if (m_handle == nullptr) {
        m_problem = what + " was not found: " + tried;
        return false;
    }
    std::string missing;
    for (const Symbol &symbol : symbols) {
        void *function = dlsym(m_handle, symbol.m_name);
        symbol.m_fill(symbol.m_pointer, function);
        if (function == nullptr && symbol.m_needed)
            missing += (missing.empty() ? "" : ", ") + std::string(symbol.m_name);
    }
    if (!missing.empty())
        m_problem = what + " cannot be used: " + m_name + " has no " + missing;
    return missing.empty();
}

} // namespace kernels
