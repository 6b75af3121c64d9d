#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Reads the portable kernels (level scalar) as code for AArch64, warnings being errors. Compiling is all that is checked:
# nothing of it has ever run there.
#   tests/kernels/aarch64_gate.sh    LATHE_TEST_TIER=full: all files of kernels/ and kernels/cpu; else a few
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
compiler=aarch64-linux-gnu-g++
if ! command -v $compiler > /dev/null; then
    echo "SKIP   : aarch64_gate needs $compiler (Debian: g++-aarch64-linux-gnu)"
    exit 0
fi
cd "$root"
files="kernels/thread_pool.cpp kernels/cpu/isa.cpp kernels/cpu/level_choice.cpp kernels/cpu/level_scalar.cpp"
if [ "${LATHE_TEST_TIER:-quick}" = full ]; then # files with a level in their name are x86-64's
    files=$(ls kernels/*.cpp kernels/cpu/*.cpp kernels/reference/*.cpp | grep -v -E '_(avx2|avx512[a-z0-9]*|amx)\.cpp$')
fi
failed=0
for file in $files; do
    $compiler -std=c++20 -fsyntax-only -Wall -Wextra -Werror -ffp-contract=off -I. "$file" || failed=$((failed + 1))
done
echo "$compiler: $(echo "$files" | wc -w) files, $failed failed"
[ $failed -eq 0 ]
