#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Compiles every kernel with nvcc for sm_80 and sm_90, warnings being errors, and reads what ptxas says: no spills, no
# stack frame, no more registers and shared memory than resources.tsv declares, no kernel that it does not know.
#   tests/cuda/ptxas_gate.sh [REPORT...]   reports of `nvcc -Xptxas -v`; without one, kernels are compiled
#   tests/cuda/ptxas_gate.sh --if-full     the same, but nothing is compiled unless LATHE_TEST_TIER=full
#   tests/cuda/ptxas_gate.sh --table       the table of kernels/README.md, computed from resources.tsv
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
declared=$root/tests/cuda/resources.tsv

# Share: the time that the roofline allows over the largest of what memory, arithmetic and the issue of instructions take.
table() {
    awk -F '\t' '
    function least(a, b) { return a < b ? a : b }
    function most(a, b) { return a > b ? a : b }
    function blocks(shared,    registers) {
        registers = int(($3 * 32 + 255) / 256) * 256 * $2 / 32
        return int(least(least(65536 / registers, 2048 / $2), least(shared / ($4 + $5 + 1024), 32)))
    }
    function share(n, bandwidth, latency, peak, mma, clock,    memory, roof, way, executed) {
        memory = $9 / bandwidth
        roof = most(memory, $7 / peak)
        way = least(0.92, n * $2 * $10 / (latency * bandwidth))
        executed = $8 / (peak * mma)
        return 100 * roof / most(most(memory / way, executed), $11 / (4 * clock))
    }
    BEGIN {
        print "| kernel | registers | shared bytes | work | FLOP/byte | blocks and occupancy, A100 | share | H200 | share |"
        print "|---|---|---|---|---|---|---|---|---|"
    }
    /^#/ { next }
    NF == 12 {
        tensor = $12 ~ /tensor/
        int8 = $12 == "int8 tensor" ? 2 : 1 # times the peak of halves
        dots = $12 == "int8" ? 4 : 1 # of four bytes, 64 a cycle on both: times the peak of the cores, on H200 half of it
        a = blocks(164 * 1024)
        h = blocks(228 * 1024)
        printf "| `%s` | %d | %d | %s | %.1f | %d, %d %% | %d %% | %d, %d %% | %d %% |\n", $1, $3, $4 + $5, $6, $7 / $9,
            a, a * $2 / 20.48, share(a, 2.0e12 / 108, 6e-7, (tensor ? int8 * 312e12 : dots * 19.5e12) / 108, 1, 1.41e9),
            h, h * $2 / 20.48, share(h, 4.8e12 / 132, 7e-7, (tensor ? int8 * 989e12 : (dots > 1 ? dots / 2 : 1) * 67e12) / 132, tensor ? 0.62 : 1, 1.83e9)
    }
    NF == 6 { printf "| `%s` | %d | %d | %s | - | - | - | - | - |\n", $1, $3, $4 + $5, $6 }' "$declared"
}

if [ "${1:-}" = --table ]; then
    table
    exit 0
fi

# The table of the README is the one computed from what is declared.
table | while IFS= read -r line; do
    grep -qF -- "$line" "$root/kernels/README.md" || {
        echo "kernels/README.md lacks this line of ptxas_gate.sh --table: $line"
        exit 1
    }
done

tier=full
[ "${1:-}" != --if-full ] || {
    tier=${LATHE_TEST_TIER:-quick}
    shift
}
reports=("$@")
if [ $# -eq 0 ]; then
    nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
    [ -x "$nvcc" ] || {
        echo "SKIP   : ptxas_gate needs nvcc (set CUDA_HOME)"
        exit 0
    }
    [ "$tier" = full ] || {
        echo "SKIP   : ptxas_gate compiles all kernels: of the full tier (LATHE_TEST_TIER=full)"
        exit 0
    }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    command -v ccache >/dev/null && nvcc="ccache $nvcc"
    export nvcc root work
    printf '%s\n' "$root"/kernels/cuda/*.cu | xargs -P "$(nproc)" -I{} bash -c '
        name=$(basename "{}" .cu)
        cd "$root"
        $nvcc -std=c++20 -O3 -Werror all-warnings -I. -Xptxas -v -gencode arch=compute_80,code=sm_80 \
            -gencode arch=compute_90,code=sm_90 -c "{}" -o "$work/$name.o" 2>"$work/$name.ptxas" ||
            { cat "$work/$name.ptxas"; exit 255; }'
    reports=("$work"/*.ptxas)
fi

cat "${reports[@]}" | c++filt | sed -E 's/\(int\)//g; s/\(anonymous namespace\):://g; s/kernels::cuda::(product::)?//g' |
    awk -v declared="$declared" '
    BEGIN {
        FS = "\t"
        while ((getline <declared) > 0)
            if ($0 !~ /^#/ && NF >= 6) {
                registers[$1] = $3
                shared[$1] = $4
            }
        FS = " "
    }
    # attentionKernel<128, __half, false>(...) is attentionKernel<128>; formats of weights do not count either.
    function keyOf(name) {
        sub(/^void /, "", name)
        if (name ~ /^attentionKernel/)
            sub(/,[^>]*>.*/, name ~ /true>/ ? ", latent>" : ">", name)
        else if (name ~ /^rowProductsKernel/)
            name = "rowProductsKernel<" substr(name, match(name, /, [0-9]+>\(/) + 2, 1) ">"
        else if (name ~ /^((rms|layer)Norm|integerRows)Kernel/)
            sub(/\(.*/, "", name)
        else
            sub(/[<(].*/, "", name)
        return name
    }
    function wrong(text) {
        print architecture ", " kernel ": " text
        faults++
    }
    /Compiling entry function/ {
        match($0, /\047.*\047 for/)
        kernel = substr($0, RSTART + 1, RLENGTH - 6)
        architecture = $NF
        gsub(/\047/, "", architecture)
        key = keyOf(kernel)
        instances++
        if (!(key in registers))
            wrong("resources.tsv does not know " key)
        seen[key] = 1
    }
    /bytes stack frame/ {
        if ($1 + 0 != 0)
            wrong("a stack frame of " $1 " bytes, wanted none")
        if ($5 + $9 != 0)
            wrong("spills of " $5 + $9 " bytes, wanted none")
    }
    /Used [0-9]+ registers/ {
        used = memory = 0
        for (i = 2; i <= NF; i++) {
            if ($i ~ /^registers/)
                used = $(i - 1)
            if ($i ~ /^smem/)
                memory = $(i - 2)
        }
        if (used + 0 > registers[key] + 0)
            wrong(used " registers, declared are " registers[key])
        if (memory + 0 > shared[key] + 0)
            wrong(memory " bytes of shared memory, declared are " shared[key])
        if (used + 0 > largest[key])
            largest[key] = used
    }
    END {
        for (key in registers)
            if (!(key in seen))
                wrong("resources.tsv declares " key ", which no report has")
        if (ENVIRON["PTXAS_GATE_SHOW"] != "")
            for (key in largest)
                print key "\t" largest[key]
        print instances + 0 " kernels read, " faults + 0 " faults"
        exit faults > 0 || instances == 0
    }'
