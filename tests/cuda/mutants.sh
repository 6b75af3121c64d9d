#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Plants faults in the CUDA kernels, one after the other, and runs the test of the kernel in the emulator: each must be
# caught. Exit 1 when one is missed.
#   tests/cuda/mutants.sh [-k WORD] [-p I/N] BUILD [TSAN_BUILD]
# BUILD: a build folder with the emulator (preset dev). TSAN_BUILD (preset dev-tsan): where faults go that values alone
# did not show; without it those are missed. -k: only mutants whose name contains WORD. -p: only the I-th (from 0) of N
# parts of them.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
word=
part=0/1
while getopts k:p: option; do
    case $option in
        k) word=$OPTARG ;;
        p) part=$OPTARG ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || {
    sed -n '3,9s/^# \?//p' "$0"
    exit 2
}
builds=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LATHE_SIMT_SEEDS=4 QT_QPA_PLATFORM=offscreen \
    TSAN_OPTIONS="halt_on_error=1 suppressions=$root/tests/support/tsan.supp"
export CCACHE_DISABLE=1 # it does not see a file that is new in front of another
complaints='^FAIL!|ThreadSanitizer: |AddressSanitizer: |runtime error: '
number=0
caught=0
missed=()
broken=()

# The command of a build that makes a file, from its own rules.
rule_of() { # build, target, pattern of the command
    ninja -C "$1" -t commands "$2" | grep -E -- "$3" | tail -n 1
}

# Compiles a unit with the changed file in front of the tree, links the program with it and runs it.
# 0: the program failed (or hung), 1: it passed, 2: it was not built
try() { # build, unit, program
    local build=$1 unit=$2 program=$3 compile link object
    object=$work/$(basename "$build")-$unit.o
    compile=$(rule_of "$build" kernels/cuda/libcuda_simt.a "/$unit\.cu\$" |
        sed -E "s# -M[DTF]( [^ -][^ ]*)?##g; s# -o [^ ]+# -o $object#; s# -c .*# -c $work/kernels/cuda/$unit.cu#")
    compile="${compile/ -I/ -I$work -I} -Wno-error -O1 -g0"
    link=$(rule_of "$build" "$program" " -o tests/$program " |
        sed -E "s# -o [^ ]+# -o $work/$program $object#; s#^: && ##; s# && :\$##")
    (cd "$build" && eval "$compile" && eval "$link") >"$work/build.log" 2>&1 || return 2
    # Ends with the first complaint: what is written after it goes nowhere.
    timeout -k 5 300 "$work/$program" 2>&1 | grep -am 1 -E "$complaints" >"$work/run.log"
    local status=("${PIPESTATUS[@]}")
    [ "${status[1]}" -ne 0 ] && [ "${status[0]}" -eq 0 ] && return 1
    return 0
}

reason() {
    [ -s "$work/run.log" ] && cut -c1-170 "$work/run.log" || echo "the program ended early"
}

mutant() { # name, file in kernels/cuda, unit that is compiled, program, expressions for sed
    local name=$1 file=$2 unit=$3 program=tst_cuda_$4 build status lines
    [[ $name == *$word* ]] || return 0
    [ $((number++ % ${part#*/})) -eq "${part%/*}" ] || return 0
    shift 4
    rm -rf "${work:?}/kernels"
    mkdir -p "$work/kernels/cuda"
    cp "$root/kernels/cuda/$unit.cu" "$work/kernels/cuda/"
    sed -E "$@" "$root/kernels/cuda/$file" >"$work/kernels/cuda/$file"
    lines=$(diff "$root/kernels/cuda/$file" "$work/kernels/cuda/$file" | grep -c '^[<>]')
    if [ "$lines" -lt 1 ] || [ "$lines" -gt 4 ]; then
        echo "BROKEN  $name: the change touches $lines lines of $file, wanted 1 to 4"
        broken+=("$name")
        return
    fi
    for build in "${builds[@]}"; do
        try "$build" "$unit" "$program"
        status=$?
        if [ $status -eq 2 ]; then
            echo "BROKEN  $name: does not compile in $build: $(grep -m 1 error "$work/build.log")"
            broken+=("$name")
            return
        fi
        if [ $status -eq 0 ]; then
            caught=$((caught + 1))
            echo "caught  $name ($(basename "$build")): $(reason)"
            return
        fi
    done
    echo "MISSED  $name"
    missed+=("$name")
}

unchanged() { # unit, program: nothing is caught where nothing is wrong
    local build
    rm -rf "${work:?}/kernels"
    mkdir -p "$work/kernels/cuda"
    cp "$root/kernels/cuda/$1.cu" "$work/kernels/cuda/"
    for build in "${builds[@]}"; do
        try "$build" "$1" "tst_cuda_$2"
        [ $? -eq 1 ] || {
            echo "tst_cuda_$2 does not pass without a fault in $build:"
            tail -n 5 "$work/build.log" "$work/run.log"
            exit 1
        }
    done
}

for pair in attention:attention products_plain:products matmul:products norm:rows; do
    [ -n "$word" ] || [ "${part%/*}" -ne 0 ] || unchanged "${pair%:*}" "${pair#*:}"
done

attention() { # name, expressions
    local name=$1
    shift
    mutant "attention: $name" attention.cu attention attention "$@"
}
tiles() {
    local name=$1
    shift
    mutant "attention: $name" attention.cuh attention attention "$@"
}
attention 'no barrier before tiles are overwritten' -e '/__syncthreads.*the tiles of the last turn/d'
attention 'no barrier after tiles are loaded' -e '/values may be under way/{n;d}'
attention 'keys are not awaited' -e '/values may be under way/d'
attention 'values are not awaited' -e '/waitCopies<0>/d'
attention 'a query does not see its own key' -e 's/key <= position;/key < position;/'
attention 'a query sees the next key' -e 's/key <= position;/key <= position + 1;/'
attention 'the window is a key too wide' -e 's/key > position - a.window\)/key >= position - a.window)/'
attention 'the first key of the window is skipped' -e 's/max\(0, position - a.window \+ 1\)/max(0, position - a.window + 2)/'
attention 'positions without the chunk offset' -e 's/context - tokens, context,/0, context,/'
attention 'rows take the wrong token of a group' -e 's/work.position \+ row \/ a.groupHeads;/work.position + row;/'
attention 'the wrong head of a group' -e 's/work.kvHead \* a.groupHeads \+ row % a.groupHeads;/work.kvHead + row % a.groupHeads;/'
attention 'the wrong sink in blocks that store rows' -e '/finishFactor\(total/{n;s/work.kvHead \* a.groupHeads \+ //}'
attention 'the wrong sink after splits' -e '/finishFactor\(largest, sum/s/work.kvHead \* a.groupHeads \+ //'
attention 'sums are not brought under a new maximum' -e 's/fmaf\(own.sum\[half\], factors\[half\], sum\)/own.sum[half] + sum/'
attention 'values rescaled by the factor of the other row' -e 's/\*= factors\[i % 4 \/ 2\]/*= factors[1 - i % 4 \/ 2]/'
attention 'no barrier before maxima are read' -e '/parts\[0\]\[warp\]/{n;n;d}'
attention 'no barrier before sums are read' -e '/parts\[1\]\[warp\]\[row\] = sum/{n;n;d}'
attention 'the last split is left out of the merge' -e 's/split <= position \/ attentionSplitKeys/split < position \/ attentionSplitKeys/'
attention 'rows of partials overlap' -e 's/\(a.values.headDim \+ 2\);/(a.values.headDim + 1);/'
attention 'scores take the row of the other half' -e 's/work.firstRow \+ i % 4 \/ 2 \* 8 \+ lane/work.firstRow + i % 2 * 8 + lane/'
attention 'columns of scores swapped' -e 's/i \/ 4 \* 8 \+ lane % 4 \* 2 \+ i % 2;/i \/ 4 * 8 + lane % 4 * 2 + 1 - i % 2;/'
attention 'values transposed in the wrong order' -e 's/vTile \+ \(k \+ lane \/ 8 % 2 \* 8/vTile + (k + lane \/ 16 * 8/'
attention 'the second term of weights is lost' -e 's/= numberOf<T>\(weight - valueOf\(number\)\)/= numberOf<T>(0.0F)/'
attention 'the second term of queries is lost' -e 's/= numberOf<T>\(value - valueOf\(number\)\)/= numberOf<T>(0.0F)/'
attention 'the soft cap is left out' -e 's/a.softCap > 0.0F\)/a.softCap > 1e9F)/'
attention 'the sequence of the next table' -e 's/<std::int64_t>\(work.sequence\) \* a.maxBlocks/<std::int64_t>(work.sequence) * (a.maxBlocks + 1)/'
attention 'a tree shows the neighbour of a token' -e 's/own >> step & 1U/own >> (step ^ 1) \& 1U/'
attention 'a token of a tree stands where its index says' -e 's/bitsOf\(own\) - 1;/token;/'
attention 'latent values are not awaited' -e 's/waitCopies<latent \? 0 : 1>/waitCopies<1>/' -e '/waitCopies<0>/d'
attention 'totals in shared memory overlap' -e 's/memory\[i \* threads \+/memory[i * (threads - 1) +/'
tiles 'the sink is not in units of log2' -e 's/sinks\[head\] \* log2OfE/sinks[head]/'
tiles 'sums without keys take part in a merge' -e '/^    if \((added|before) == -INFINITY\)/,+1d'
tiles 'the block of the next token' -e 's/table\[key \/ plane.blockTokens\]/table[(key + 1) \/ plane.blockTokens]/'
tiles 'the row of another head' -e 's/<std::int64_t>\(head\) \* plane.blockTokens \+ key/<std::int64_t>(head) + key/'
tiles 'a key beyond the context is read' -e 's/key >= context\)/key > context)/'
tiles 'stored blocks of Q8_0 without their scale' -e 's/i \/ 32 \* 34/i \/ 32 * 32/'
tiles 'the last chunk of a row is read beyond its end' -e 's/first \+ i < plane.headDim \?/first + i <= plane.headDim ?/'

product() {
    local name=$1
    shift
    mutant "products: $name" product_kernel.cuh products_plain products "$@"
}
product 'no barrier between tiles' -e '/__syncthreads.*both tiles are there/d'
product 'copies are not awaited' -e '/waitCopies<0>/d'
product 'the tile in use is fetched over' -e 's/tileDepth, xTiles\[\(step \+ 1\) % 2\]/tileDepth, xTiles[step % 2]/'
product 'the tile in use is expanded over' -e 's/tileDepth, wTiles\[\(step \+ 1\) % 2\]/tileDepth, wTiles[step % 2]/'
product 'the last tile is left out' -e 's/step < steps; \+\+step/step + 1 < steps; ++step/'
product 'half of a tile is multiplied' -e 's/k < tileDepth; k \+= 16/k < tileDepth - 16; k += 16/'
product 'a feature beyond the last is stored' -e 's/feature >= weight.rows\)/feature > weight.rows)/'
product 'a row beyond the last is stored' -e 's/if \(i >= block.count\)/if (i > block.count)/'
product 'all rows take the scale of the first' -e 's/x.scales\[row \/ rowsPerToken\]/x.scales[0]/'
product 'the factor of the weight is not taken back' -e 's/ \/ weight.factor;/;/'
product 'halves of the sums swapped' -e 's/\[half \* 2 \+ j % 2\]/[(1 - half) * 2 + j % 2]/'
product 'the second term is the first again' -e 's/\(\(term \* tiles \+ tile\) \* 16/((tile) * 16/'
product 'features of a warp swapped' -e 's/warp \* 16 \+ lane \/ 16 \* 8 \+ lane % 8/warp * 16 + (1 - lane \/ 16) * 8 + lane % 8/'
product 'inputs are added to what is not asked' -e 's/target.add \? /true ? /'
mutant 'Q4_0: nibbles swapped' format_bytes.cuh products_plain products -e 's/first \/ 16 \* 4/(1 - first \/ 16) * 4/'
mutant 'Q4_0: the scale of the second half' plain_formats.cuh products_plain products -e '/nibbleOf.* - 8\)/s/- 8/- 7/'
mutant 'Q4_1: the minimum taken off' plain_formats.cuh products_plain products -e 's/nibbleOf\(bytes, i, first\)\) \+ minimum/nibbleOf(bytes, i, first)) - minimum/'
mutant 'Q5: fifth bits of the next eight' plain_formats.cuh products_plain products -e 's/bits >> i & 1U/bits >> (i ^ 1) \& 1U/'
mutant 'Q4_K: upper bits of factors from the wrong byte' k_formats.cuh products_k products -e 's/packed\[index - 4\] >> 6/packed[index] >> 6/'
mutant 'Q4_K: scale of the next sub-block' k_formats.cuh products_k products -e 's/factorsOf\(head \+ 4, block\)/factorsOf(head + 4, block ^ 1)/'
mutant 'Q5_K: the wrong fifth bit' k_formats.cuh products_k products -e 's/byteOf\(bits, i\) >> block & 1U/byteOf(bits, i) >> (block ^ 1) \& 1U/'
mutant 'float products: no barrier before tiles are overwritten' matmul.cu matmul products -e '/first < own.columns/{n;d}'
mutant 'float products: no barrier before tiles are read' matmul.cu matmul products -e '/r < own.rows/{n;n;d}'
mutant 'embed: a row beyond the last' matmul.cu matmul products -e 's/row >= weight.rows\)/row > weight.rows)/'
mutant 'cast: no barrier before maxima are read' quantize.cu quantize products -e '/__syncthreads/d'
mutant 'cast: one column too few' quantize.cu quantize products -e 's/i < x.columns; i \+= threads/i < x.columns - 1; i += threads/'
mutant 'cast: order left out' quantize.cu quantize products -e 's/order != nullptr \?/order == nullptr \?/'

mutant 'norm: no barrier before sums are written again' reduce.cuh norm rows -e '/__syncthreads.*readers of an earlier sum/d'
mutant 'norm: no barrier before sums are read' reduce.cuh norm rows -e '/sums\[threadIdx.x \/ 32\] = value/{n;d}'
mutant 'norm: a warp is left out' reduce.cuh norm rows -e 's/warp < threads \/ 32; \+\+warp/warp < threads \/ 32 - 1; ++warp/'
mutant 'norm: squares in float' norm.cu norm rows -e 's/<double>\(source\[i\]\) \* static_cast<double>\(source\[i\]\)/<double>(source[i] * source[i])/'
mutant 'rope: the pair one element off' rope.cu rope rows -e 's/: i \+ half\];/: i + half - 1];/'
mutant 'rope: angles are not reduced in double' rope.cu rope rows -e '/turns -= rint/d'
mutant 'rope: positions by head' rope.cu rope rows -e 's/row \/ heads.perGroup\]/row % 4]/'
mutant 'kv store: fp8 ties away from even' kv_store.cu kv_store rows -e 's/0x7ffffU \+ /0x80000U + 0U * /'
mutant 'kv store: the wrong slot of a block' kv_store.cu kv_store rows -e 's/slot % plane.blockTokens;/slot % plane.blockTokens ^ 1;/'
mutant 'kv store: a last block reads beyond the row' kv_store.cu kv_store rows -e 's/lane < count \? x/lane <= count \? x/'
mutant 'copy: the bytes behind the last whole word' kv_store.cu kv_store rows -e 's/threadIdx.x < bytes % size\)/threadIdx.x + 1 < bytes % size)/'
mutant 'gate: up is the gate' pointwise.cu pointwise rows -e 's/source\[width \+ column\]/source[column]/'
mutant 'gelu: the cubic term' pointwise.cu pointwise rows -e 's/0.044715F \* value \* value/0.044715F * value/'

echo "$caught caught, ${#missed[@]} missed, ${#broken[@]} broken"
[ ${#missed[@]} -eq 0 ] || printf 'missed: %s\n' "${missed[@]}"
[ ${#missed[@]} -eq 0 ] && [ ${#broken[@]} -eq 0 ]
