#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Compiles the device code of the kernels for AMD GPUs, warnings being errors: with hipcc, or a clang that knows amdgcn,
# and HIP's headers (Debian: libamdhip64-dev). Compiling is all that is checked: nothing of it has ever run.
#   tests/cuda/hip_gate.sh          LATHE_TEST_TIER=full: all kernels, warps of 64 (gfx906, gfx90a) and of 32 (gfx1030);
#                                   else a few kernels for one architecture
#   tests/cuda/hip_gate.sh --table  the same, and what each kernel takes
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
architectures=gfx1030
kernels="quantize kv_store products"
if [ "${LATHE_TEST_TIER:-quick}" = full ]; then
    architectures="gfx906 gfx90a gfx1030"
    kernels=$(cd "$root/kernels/cuda" && ls ./*.cu | sed 's|.*/||; s|\.cu$||')
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include <hip/hip_runtime.h>' >"$work/probe.hip"
compile=()
for compiler in hipcc clang++-19 clang++-18 clang++-17 clang++-16 clang++-15 clang++; do
    command -v $compiler >/dev/null || continue
    [ $compiler = hipcc ] || $compiler --print-targets 2>/dev/null | grep -q amdgcn || continue
    # Debian keeps the device's mathematics where no compiler looks; without it calls stay open, which only a link minds.
    for libraries in "" --rocm-device-lib-path=/usr/lib/x86_64-linux-gnu/amdgcn/bitcode -nogpulib; do
        compile=($compiler -std=c++20 -O1 -x hip --cuda-device-only -Wno-unused-command-line-argument $libraries)
        [ $compiler = hipcc ] || compile+=(--rocm-path=/usr)
        "${compile[@]}" --offload-arch=gfx1030 -S -o /dev/null "$work/probe.hip" 2>"$work/probe.log" && break 2
    done
    compile=()
done
if [ ${#compile[@]} -eq 0 ]; then
    echo "SKIP   : hip_gate needs hipcc, or clang with the target amdgcn, and the headers of HIP (libamdhip64-dev)"
    exit 0
fi

failed=0 done=0
for kernel in $kernels; do
    for architecture in $architectures; do
        "${compile[@]}" -Wall -Wextra -Werror --offload-arch="$architecture" -I"$root" -S -o "$work/kernel.s" \
            "$root/kernels/cuda/$kernel.cu" 2>"$work/log" || {
            echo "$kernel.cu for $architecture:"
            head -n 40 "$work/log"
            failed=$((failed + 1))
            continue
        }
        done=$((done + 1))
        [ "${1:-}" != --table ] || awk -v file="$kernel.cu" -v architecture="$architecture" '
            /^    \.group_segment_fixed_size:/ || /^  - \.args:/ { }
            $1 == ".group_segment_fixed_size:" { shared = $2 }
            $1 == ".private_segment_fixed_size:" { stack = $2 }
            $1 == ".name:" && $2 ~ /^_Z/ { name = $2 }
            $1 == ".vgpr_count:" { printf "%s %s registers %s shared %s stack %s %s\n", architecture, file, $2, shared, stack, name }
        ' "$work/kernel.s"
    done
done
echo "${compile[0]}: $done compilations for $architectures without a warning, $failed failed"
[ $failed -eq 0 ]
