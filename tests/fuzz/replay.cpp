// SPDX-License-Identifier: GPL-3.0-or-later
// Runs a fuzz target on the kept inputs of a folder, and on each cut short at some places, without a fuzzer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

int main(int argc, char **argv)
{
    std::size_t files = 0;
    for (int i = 1; i < argc; ++i) {
        for (const auto &entry : std::filesystem::directory_iterator(argv[i])) {
            std::ifstream file(entry.path(), std::ios::binary);
            const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
            const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
            for (std::size_t part = 0; part <= 8; ++part)
                LLVMFuzzerTestOneInput(input.data(), input.size() * part / 8);
            ++files;
        }
    }
    std::printf("%zu kept inputs\n", files);
    return files > 0 ? 0 : 1;
}
