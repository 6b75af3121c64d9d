#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Fails when a program cannot start without NVIDIA's driver or libraries: tests/cuda/links.sh PROGRAM...
set -eu
[ $# -gt 0 ] || { echo "error: found no program, wanted at least one" >&2; exit 2; }
for program in "$@"; do
    needed=$(readelf -d "$program" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    [ -n "$needed" ] || { echo "$program: readelf names no library, wanted at least libc"; exit 1; }
    if found=$(echo "$needed" | grep -E '^lib(cuda|cudart|nvidia|nccl|cublas|nvrtc)'); then
        echo "$program needs $found to start, wanted none of NVIDIA's libraries"
        exit 1
    fi
    echo "$program needs $(echo "$needed" | wc -l) libraries, none of NVIDIA's"
done
