// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace cli {

/// A result on its way to a file. A regular file appears whole at commit() or not at all: until then the bytes stand
/// beside it, and what the file held before stays. Devices, pipes and what stands under /dev or /proc cannot be
/// replaced and are written as they are.
class OutputFile {
public:
    /// Opens for writing, so that a wrong place is told before the work. `option` names it in errors.
    /// \throws Error IoError
    OutputFile(std::string option, std::string path);
    ~OutputFile();
    OutputFile(const OutputFile &) = delete;
    OutputFile &operator=(const OutputFile &) = delete;

    void write(std::string_view bytes); ///< \throws Error IoError
    void write(std::span<const float> values);
    void commit(); ///< \throws Error IoError

private:
    void openBeside(unsigned mode);
    [[noreturn]] void fail(int reason) const;

    std::string m_option;
    std::string m_path;
    std::string m_target;  ///< m_path behind symbolic links
    std::string m_partial; ///< the name until the file is whole; empty where the target itself is written
    bool m_named = false;  ///< something stands under m_partial
    int m_file = -1;
};

} // namespace cli
