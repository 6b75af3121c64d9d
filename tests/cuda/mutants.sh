#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Plants faults in the CUDA kernels, one after the other, and runs the test of the kernel in the emulator: each must be
# caught. Exit 1 when one is missed.
#   tests/cuda/mutants.sh [-k WORD] [-p I/N] BUILD [SANITIZER_BUILD...]
# BUILD: a build folder with the emulator (preset dev). SANITIZER_BUILD (presets dev-asan, dev-tsan): where faults go
# that values alone did not show, reads beyond memory and races; without them those are missed. -k: only mutants whose
# name contains WORD. -p: only the I-th (from 0) of N parts of them.
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
    sed -n '3,8s/^# \?//p' "$0"
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
    if [ "$unit" = "$program" ]; then # the test has the kernel
        compile=$(rule_of "$build" "$program" "/$unit\.cpp\$" |
            sed -E "s# -M[DTF]( [^ -][^ ]*)?##g; s# -o [^ ]+# -o $object#")
    else
        compile=$(rule_of "$build" kernels/cuda/libcuda_simt.a "/$unit\.cu\$" |
            sed -E "s# -M[DTF]( [^ -][^ ]*)?##g; s# -o [^ ]+# -o $object#; s# -c .*# -c $work/kernels/cuda/$unit.cu#")
    fi
    compile="${compile/ -I/ -I$work -I} -Wno-error -O1 -g0"
    link=$(rule_of "$build" "$program" " -o tests/$program " |
        sed -E "s# [^ ]*/$unit\.cpp\.o##; s# -o [^ ]+# -o $work/$program $object#; s#^: && ##; s# && :\$##")
    (cd "$build" && eval "$compile" && eval "$link") >"$work/build.log" 2>&1 || return 2
    # Ends with the first complaint: what is written after it goes nowhere.
    timeout -k 5 300 "$work/$program" 2>&1 | grep -am 1 -E "$complaints" >"$work/run.log"
    local status=("${PIPESTATUS[@]}")
    [ "${status[0]}" -ne 124 ] || echo "it did not end within 300 s" >"$work/run.log" # a fault that hangs, or a slow machine
    [ "${status[1]}" -ne 0 ] && [ "${status[0]}" -eq 0 ] && return 1
    return 0
}

reason() {
    [ -s "$work/run.log" ] && cut -c1-170 "$work/run.log" || echo "the program ended early"
}

mutant() { # name, file in kernels/cuda, unit that is compiled (or the test itself), program, expressions for sed
    local name=$1 file=$2 unit=$3 program=tst_cuda_$4 build status lines
    [[ $name == *$word* ]] || return 0
    [ $((number++ % ${part#*/})) -eq "${part%/*}" ] || return 0
    shift 4
    rm -rf "${work:?}/kernels"
    mkdir -p "$work/kernels/cuda"
    [ "$unit" = "$program" ] || cp "$root/kernels/cuda/$unit.cu" "$work/kernels/cuda/"
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
    [ "$1" = "tst_cuda_$2" ] || cp "$root/kernels/cuda/$1.cu" "$work/kernels/cuda/"
    for build in "${builds[@]}"; do
        try "$build" "$1" "tst_cuda_$2"
        [ $? -eq 1 ] || {
            echo "tst_cuda_$2 does not pass without a fault in $build:"
            tail -n 5 "$work/build.log" "$work/run.log"
            exit 1
        }
    done
}

for pair in attention:attention products_plain:products products_integers:products matmul:products quantize:tiles norm:rows \
    experts:experts sampling:sampling tst_cuda_all_reduce:all_reduce; do
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
attention 'rows that fill a step are left as they are' -e 's/work.context == 0 && !shared/work.context < 0 \&\& !shared/'
attention 'splits of rows that fill a step are merged' -e 's/work.context == 0\) \{/work.context < 0) {/'
attention 'totals in shared memory overlap' -e 's/memory\[i \* threads \+/memory[i * (threads - 1) +/'
tiles 'the sink is not in units of log2' -e 's/sinks\[head\] \* log2OfE/sinks[head]/'
tiles 'sums without keys take part in a merge' -e '/^    if \((added|before) == -INFINITY\)/,+1d'
tiles 'the block of the next token' -e 's/table\[key \/ plane.blockTokens\]/table[(key + 1) \/ plane.blockTokens]/'
tiles 'the row of another head' -e 's/<std::int64_t>\(head\) \* plane.blockTokens \+ key/<std::int64_t>(head) + key/'
tiles 'a key beyond the context is read' -e 's/key >= context\)/key > context)/'
tiles 'stored blocks of Q8_0 without their scale' -e 's/i \/ 32 \* 34/i \/ 32 * 32/'
tiles 'the last chunk of a row is read beyond its end' -e 's/first \+ i < plane.headDim \?/first + i <= plane.headDim ?/'

product() {
    local file=$1 name=$2
    shift 2
    mutant "products: $name" "$file" products_plain products "$@"
}
product tile_products.cuh 'no barrier before tiles are read' -e '/__syncthreads.*both tiles are there/d'
product tile_products.cuh 'no barrier before tiles are overwritten' -e '/__syncthreads.*nobody reads the tiles/d'
product tile_products.cuh 'copies are not awaited' -e '/waitCopies<0>/d'
product tile_products.cuh 'the tile in use is fetched over' -e 's/groupColumns, xTile\(group \+ 1\)/groupColumns, xTile(group)/'
product tile_products.cuh 'the last group of a tile is left out' -e 's/group < groups; \+\+group/group + 1 < groups; ++group/'
product tile_products.cuh 'a segment is added twice' -e '/totals\[i \/ 16\].*\+= sums/{n;d}'
product tile_products.cuh 'the last segment of a tile is left out' -e 's/ \|\| group \+ 1 == groups\)/)/'
product tile_products.cuh 'segments of a tile are as long as rows' -e 's/if \(group % segmentGroups == segmentGroups - 1 \|\| /if (/'
product tile_products.cuh 'a feature beyond the last is stored from a tile' -e 's/feature < weight.rows\)/feature <= weight.rows)/'
product tile_products.cuh 'a row beyond the last is stored from a tile' -e 's/if \(r < block.count/if (r <= block.count/'
product tile_products.cuh 'a warp expands the features of the next' -e 's/wTile\[\(warp \* 8 \+ part \* 2\) \* 32/wTile[((warp ^ 1) * 8 + part * 2) * 32/'
product tile_products.cuh 'the second term is the first again' -e 's/rows\[j \/ 4 \* rowTileCells/rows[0 * rowTileCells/'
product row_products.cuh 'few rows: the second term is the first again' -e 's/rows\[i\] \+ term \* columns/rows[i]/'
product row_products.cuh 'few rows: no barrier before segments are added' -e '/__syncthreads.*sums of all segments/d'
product row_products.cuh 'few rows: a feature beyond the last is stored' -e 's/firstFeature \+ feature < weight.rows\)/firstFeature + feature <= weight.rows)/'
product row_products.cuh 'few rows: the last segment is left out' -e 's/segment < segments; \+\+segment/segment + 1 < segments; ++segment/'
product row_products.cuh 'few rows: the ninth row is the first' -e 's/block.at\(min\(i \* 8 \+ lane/block.at(min(lane/'
product row_products.cuh 'few rows: segments in another order' -e 's/total \+= own\[segment \* /total += own[(segments - 1 - segment) * /'
product row_products.cuh 'few rows: units are loaded from the segment of the next warp' -e 's/\(warps - 1\) \* segmentGroups\), next/warps * segmentGroups), next/'
product row_products.cuh 'few rows: units ahead are of the group itself' -e 's/load\(group \+ ahead \+ /load(group + /'
product row_products.cuh 'few rows: sums of both features swapped' -e 's/sums\[i \/ 2\]\[i % 2 \* 2\], /sums[i \/ 2][2 - i % 2 * 2], /'
product product_steps.cuh 'steps swapped in one of the features' -e 's/pairs\[0\]\[2\], pairs\[1\]\[2\]/pairs[0][2], pairs[1][0]/'
mutant 'products: all rows take the scale of the first' products.h products_plain products -e 's/x.scales\[row \/ rowsPerToken\]/x.scales[0]/'
mutant 'products: the factor of the weight is not taken back' products.h products_plain products -e 's/ \/ factor;/;/'
mutant 'products: inputs are added to what is not asked' products.h products_plain products -e 's/target.add \? /true ? /'
mutant 'dense: every piece begins at the first row' product_kernel.cuh products_k dense -e 's/firstRow \+ static_cast<int>\(at \/ units\)/static_cast<int>(at \/ units)/'
mutant 'dense: sums of the row before' products.cu products dense -e 's/<std::int64_t>\(row\) \* target.out.columns/<std::int64_t>(max(row, 1) - 1) * target.out.columns/'
units() {
    local name=$1 unit=$2
    shift 2
    mutant "units: $name" product_units.cuh "$unit" products "$@"
}
units 'nibbles swapped' products_plain -e 's/i % 2 == 0 \? ptx::addHalves/i % 2 != 0 ? ptx::addHalves/'
units 'upper bytes are not shifted down' products_plain -e 's/i < 2 \? word : word >> 8/word/'
units 'Q4_0 without its middle' products_plain -e 's/0xe408e408U, 0xd480d480U/0xe408e408U, 0xd400d400U/'
units 'Q4_1 with the scale as minimum' products_plain -e 's/bothOf\(halfOf\(raw.factors >> 16\)/bothOf(halfOf(raw.factors)/'
units 'Q8_0 without signs' products_plain -e 's/ \^ 0x80808080U;/;/'
units 'Q8_0 with the other half' products_plain -e 's/raw.numbers\[part \/ 2\]/raw.numbers[1 - part \/ 2]/'
units 'MXFP4: signs lost' products_k -e 's/ \| \(pair << 12 & 0x80008000U\)//'
units 'INT4: zeros left out' products_group -e 's/\(0xe400U \| raw.zero\)/0xe400U/'
kUnits() {
    local name=$1
    shift
    mutant "units: $name" product_k_units.cuh products_k products "$@"
}
kUnits 'Q4_K: upper bits of factors from the wrong byte' -e 's/scales >> 2 & 0x30U/scales >> 4 \& 0x30U/'
kUnits 'Q4_K: the minimum is added' -e 's/ \* -factor\)/ * factor)/'
kUnits 'Q4_K: the minimum of the scale' -e 's/0, 0x3232U/0, 0x1010U/'
kUnits 'Q4_K: odd pairs are sixteen times too large' -e 's/own, 0x2c002c00U/own, 0x3c003c00U/'
kUnits 'Q5_K: fifth bits of the next eight' -e 's/raw.fifths, part, i/raw.fifths, part ^ 1, i/'
kUnits 'Q5_K: fifth bits of the first unit' -e 's/body \+ 128 \+ 4 \* index/body + 128/'
kUnits 'Q6_K: the scale of the other half' -e 's/scales.halves\[part \/ 2\]/scales.halves[1 - part \/ 2]/'
kUnits 'Q6_K: factors without their sign' -e 's/<std::int8_t>\(raw.factors\)/<std::uint8_t>(raw.factors)/'
kUnits 'Q6_K: upper bits of the other half' -e 's/part < 2 \? raw.uppers.x/part >= 2 ? raw.uppers.x/'
mutant 'units: a row beyond the last is read' product_steps.cuh products_plain products -e 's/min\(row, weight.rows - 1\)/row/'
mutant 'Q4_0: the middle of numbers' plain_formats.cuh matmul products -e '/arrangedNibble.* - 8\)/s/- 8/- 7/'
mutant 'Q4_1: the minimum taken off' plain_formats.cuh matmul products -e 's/arrangedNibble\(word, i\)\) \+ minimum/arrangedNibble(word, i)) - minimum/'
mutant 'Q5: fifth bits of the next eight' plain_formats.cuh products_plain products -e 's/bits >> i & 1U/bits >> (i ^ 1) \& 1U/'
mutant 'Q4_K: upper bits of factors from the wrong byte' k_formats.cuh matmul products -e 's/packed\[index - 4\] >> 6/packed[index] >> 6/'
mutant 'Q4_K: scale of the next sub-block' k_formats.cuh matmul products -e 's/factorsOf\(head \+ 4, block\)/factorsOf(head + 4, block ^ 1)/'
mutant 'Q5_K: fifth bits of the next number' k_formats.cuh matmul products -e 's/fifths >> \(i % 2 \* 16/fifths >> ((i ^ 1) % 2 * 16/'
mutant 'Q6_K: upper bits of the first eight' k_formats.cuh matmul products -e 's/ >> first % 16;/;/'
mutant 'float products: no barrier before tiles are overwritten' matmul.cu matmul products -e '/first < own.columns/{n;d}'
mutant 'float products: no barrier before tiles are read' matmul.cu matmul products -e '/r < own.rows/{n;n;d}'
mutant 'embed: a row beyond the last' matmul.cu matmul products -e 's/row >= weight.rows\)/row > weight.rows)/'
mutant 'cast: no barrier before maxima are read' quantize.cu quantize tiles -e '/__syncthreads/d'
mutant 'cast: one column too few' quantize.cu quantize tiles -e 's/i < columns; i \+= threads/i < columns - 1; i += threads/'
mutant 'cast: order left out' quantize.cu quantize tiles -e 's/order != nullptr \?/order == nullptr \?/'
mutant 'round: no number below 0' quantize.cu quantize tiles -e 's/value \* perUnit, -127.0F/value * perUnit, 0.0F/'
mutant 'round: an infinity is not told' quantize.cu quantize tiles -e 's/!isFinite\(largest\) \? nanf\(""\)/false ? nanf("")/'
mutant 'round: the scale of the file is not used' quantize.cu quantize tiles -e 's/fixedScale > 0.0F \? 1.0F/fixedScale < 0.0F ? 1.0F/'
mutant 'round: rows take the scale of the wrong expert' quantize.cu quantize tiles -e 's/experts.scales\[experts.ids\[row\]\]/experts.scales[experts.ids[0]]/'
mutant 'round: experts take the row of their own number' quantize.cu quantize tiles -e 's/row \/ experts.rowsPerToken/row % x.rows/'
mutant 'round: numbers of the next column' quantize.cu quantize tiles -e 's/: i \+ j\] : 0.0F/: (i + j) % (x.columns - 1) + 1] : 0.0F/'
integers() {
    local name=$1
    shift
    mutant "integers: $name" products_integers.cu products_integers products "$@"
}
integers 'no barrier before a stage is read' -e '/__syncthreads.*the group is there/d'
integers 'copies of the group are not awaited' -e 's/waitCopies<integerStages - 2>/waitCopies<integerStages - 1>/'
integers 'the stage in use is fetched over' -e 's/copies.fetch\(x, group \+ integerStages - 1, stageOf\(group \+ integerStages - 1\)/copies.fetch(x, group + integerStages - 1, stageOf(group)/'
integers 'the second half of a unit is the first again' -e 's/unit \* 2 \+ lane \/ 16\)/unit * 2)/'
integers 'rows of a fragment swapped' -e 's/lane \/ 16 \* 8 \+ lane % 8;/(1 - lane \/ 16) * 8 + lane % 8;/'
integers 'a tile with the scales of other features' -e 's/scales\[i \/ 16 \* 2 \+ i \/ 2 % 2\]/scales[i \/ 16 * 2 + i % 2]/'
integers 'scales of the next unit' -e 's/unit == 0 \? own.x : own.y/unit == 0 ? own.y : own.x/'
integers 'segments of a tile are as long as rows' -e 's/\(group % segmentGroups == segmentGroups - 1 \|\| group \+ 1 == groups\)/(group + 1 == groups)/'
integers 'a feature beyond the last is stored from a tile' -e 's/own8 < own.rows\)/own8 <= own.rows)/'
integers 'a row beyond the last is stored from a tile' -e 's/if \(r < block.count/if (r <= block.count/'
integers 'few rows: no barrier before segments are added' -e '/__syncthreads.*sums of all segments/d'
integers 'few rows: half of a unit is left out' -e 's/dot16\(units\[i\].high, high, dot16/dot16(units[i].high, make_uint4(0, 0, 0, 0), dot16/'
integers 'few rows: sums of two lanes alone' -e '/__shfl_xor_sync\(~0U, sum, 2\)/d'
integers 'few rows: a segment goes on in the next' -e '/sums.own\[i\]\[r\] = 0;/{n;s/0.0F/sums.scaled[i][r]/}'
integers 'few rows: units in another order' -e 's/first \+ unit\)\),/first + 3 - unit)),/' -e 's/scales\[unit\], sums/scales[3 - unit], sums/'
integers 'few rows: segments of the next warp' -e 's/\(warps - 1\) \* segmentGroups : 0\)/warps * segmentGroups : 0)/'
integers 'a row beyond the last is read' -e 's/numbersOf\(own, feature \+ 8 \* i\)/numbersOf({own.type, own.body, own.head, 1 << 30, own.columns}, feature + 8 * i)/'
integers 'all rows have the first scale' -e 's/\(weight.columns \/ unitColumns \/ weight.scaleUnits\)/0/'

experts() {
    local name=$1 program=$2
    shift 2
    mutant "experts: $name" experts.cu experts "$program" "$@"
}
experts 'equal choices by the higher id' route -e 's/0xffffffffU - static_cast<unsigned>\(index\)\)/static_cast<unsigned>(index))/' -e 's/0xffffffffU - static_cast<unsigned>\(best\)\)/static_cast<unsigned>(best))/'
experts 'a chosen expert can be chosen again' route -e '/memory.orders\[expert\] = 0;/d'
experts 'weights take the selection bias' route -e 's/memory.found\[r\] = memory.scores\[expert\];/memory.found[r] = __uint_as_float(memory.orders[expert]);/'
experts 'a group too many is kept' route -e 's/return before < shape.groupsUsed/return before <= shape.groupsUsed/'
experts 'the second best of a group is lost' route -e 's/            second = best;/            second = second;/'
experts 'no barrier before a choice is read' route -e '/memory.found\[r\] = memory.scores\[expert\];/{n;n;d}'
experts 'rows of the next expert' experts -e 's/ids\[first \+ lane\] == expert;/ids[first + lane] == expert + 1;/'
experts 'rows of a warp in one place' experts -e 's/found & \(\(1U << lane\) - 1U\)\)\]/found \& ((1U << lane) - 2U))]/'
experts 'rows beyond the last are counted' experts -e 's/start \+= __popc\(__ballot_sync\(~0U, first \+ lane < groups.rowCount \&\& /start += __popc(__ballot_sync(~0U, /'
experts 'tiles of an expert begin at its first row' experts -e 's/\{expert, start \+ begin, min/{expert, start, min/'
experts 'the table is not closed' experts -e 's/t = filled \+ lane; t < groups.tileCount; t \+= 32/t = filled + lane + 1; t < groups.tileCount; t += 32/'
experts 'the last end is missing' experts -e '/groups.starts\[groups.experts\] = end;/d' -e '/expert == groups.experts - 1\)/d'
experts 'products of a token by rank' experts -e 's/own\[other\] < own\[r\] \|\| \(own\[other\] == own\[r\] \&\& other < r\)/other < r/'
experts 'no barrier before the order is read' experts -e '/order\[place\] = r;/{n;n;d}'
grouping() {
    local name=$1
    shift
    mutant "grouping: $name" grouping.cuh products_plain experts "$@"
}
mutant 'grouping: the first part of a tile again' grouping.cuh matmul experts -e 's/own.first = tile.first \+ part;/own.first = tile.first;/'
grouping 'a head works on the rows of the first' -e 's/own.offset = own.expert;/own.offset = 0;/'
grouping 'biases of another part' -e 's/biases\[expert\] \+ grouping.firstBias/biases[expert]/'
grouping 'all experts have the first weight' -e 's/grouping.views\[expert\]/grouping.views[0]/'
sampling() {
    local name=$1
    shift
    mutant "sampling: $name" sampling.cu sampling sampling "$@"
}
sampling 'nine rounds of random numbers' -e 's/round < 10;/round < 9;/'
sampling 'upper half of the position is lost' -e 's/static_cast<std::uint32_t>\(position >> 32\), 0, 0/0, 0, 0/'
sampling 'penalties by presence alone' -e 's/work.counts\[i\] \* row.frequencyPenalty/row.frequencyPenalty/'
sampling 'a penalty favours negative logits' -e 's/value > 0.0 \? repetition.quotient\(value\) : value \* repetition.value/repetition.quotient(value)/'
sampling 'a bias for the next token' -e 's/work.values\[one.token\] = /work.values[(one.token + 1) % work.vocab] = /'
sampling 'masks of the first row' -e 's/<std::int64_t>\(row.allowedRow\) \*/<std::int64_t>(0) */'
sampling 'no barrier between tokens counted and their penalties' -e '/atomicAdd\(work.counts/{n;d}'
sampling 'no barrier between values and their biases' -e '/work.counts\[i\] = 0;/{n;n;d}'
sampling 'top-p stops before the entry that reaches it' -e 's/\*memory = mass.reachedBy\(sum\) \? count : 0;/*memory = mass.reachedBy(sum) ? max(count - 1, 1) : 0;/'
sampling 'min-p keeps what is less likely' -e 's/\(list.probabilities\[i\]\) >= minP/(list.probabilities[i]) >= 0.5 * minP/'
sampling 'the temperature is left out' -e 's/weigh\(list, by.peak, temperature, 0.0/weigh(list, by.peak, {1.0, 1.0}, 0.0/'
sampling 'an infinity is not seen' -e 's/<= 3.402823466e38F\)/<= INFINITY)/'
sampling 'log-probabilities without the peak' -e 's/logSum = by.peak \+ log/logSum = log/'
ranking() {
    local name=$1
    shift
    mutant "ranking: $name" ranking.cuh sampling sampling "$@"
}
ranking 'equal values by the higher id' -e 's/: id < otherId;/: id > otherId;/'
ranking 'no barrier before maxima are read' -e '/memory\[threadIdx.x \/ 32\] = value;/{n;d}'
ranking 'no barrier between steps of a sort' -e '/orderPair\(list, first \+ at, other\);/{n;n;d}'
ranking 'places without the warps before' -e 's/place.before \+= w < warp \? memory\[w\] : 0;/place.before += 0;/'
ranking 'a bucket too few' -e 's/by.of\(value\) <= cut.bucket;/by.of(value) < cut.bucket;/'
ranking 'the histogram is not cleared' -e '/i < buckets; i \+= threads\)/,+1d'
ranking 'ids stay where they were' -e '/list.ids\[a\] = list.ids\[b\];/d'
ranking 'an entry less than wanted' -e 's/while \(found < wanted \&\&/while (found + 1 < wanted \&\&/'
reduceAll() {
    local name=$1
    shift
    mutant "all-reduce: $name" all_reduce.cuh tst_cuda_all_reduce all_reduce "$@"
}
reduceAll 'no barrier before flags are set' -e '/__syncthreads.*come before its flags/d'
reduceAll 'no barrier before sums are read' -e '/a.calls\[block\] = call;/{n;d}'
reduceAll 'one buffer for all calls' -e 's/\(call % 2\) \* a.capacity/(0) * a.capacity/'
reduceAll 'the call before suffices' -e 's/thread\) - call\) < 0/thread) - call) < -1/'
reduceAll 'the last share is cut' -e 's/\(count \+ allReduceBlocks - 1\) \/ allReduceBlocks/count \/ allReduceBlocks/'
reduceAll 'the first device counts twice' -e 's/a.buffers\[device\]\[half \+ i\];/a.buffers[max(device, 1) - 1][half + i];/'
reduceAll 'blocks share a flag' -e 's/a.flags\[thread\] \+ block \* a.devices/a.flags[thread] + 0 * a.devices/'

mutant 'norm: no barrier before sums are written again' reduce.cuh norm rows -e '/__syncthreads.*readers of an earlier sum/d'
mutant 'norm: no barrier before sums are read' reduce.cuh norm rows -e '/sums\[threadIdx.x \/ 32\] = value/{n;d}'
mutant 'norm: a warp is left out' reduce.cuh norm rows -e 's/warp < threads \/ 32; \+\+warp/warp < threads \/ 32 - 1; ++warp/'
mutant 'norm: squares in float' norm.cu norm rows -e 's/<double>\(source\[i\]\) \* static_cast<double>\(source\[i\]\)/<double>(source[i] * source[i])/'
mutant 'rope: the pair one element off' rope.cu rope rows -e 's/: i \+ half\];/: i + half - 1];/'
mutant 'rope: angles are not reduced in double' rope.cu rope rows -e '/turns -= rint/d'
mutant 'rope: positions by head' rope.cu rope rows -e 's/row \/ heads.perGroup\]/row % 4]/'
mutant 'kv store: fp8 ties away from even' kv_store.cu kv_store rows -e 's/0x7ffffU \+ /0x80000U + 0U * /'
mutant 'kv store: the wrong slot of a block' kv_store.cu kv_store rows -e 's/slot % plane.blockTokens;/slot % plane.blockTokens ^ 1;/'
mutant 'kv store: rows that fill a step are stored' kv_store.cu kv_store rows -e 's/slot < 0\)/slot < -1)/'
mutant 'kv store: a last block reads beyond the row' kv_store.cu kv_store rows -e 's/lane < count \? x/lane <= count \? x/'
mutant 'copy: the bytes behind the last whole word' kv_store.cu kv_store rows -e 's/threadIdx.x < bytes % size\)/threadIdx.x + 1 < bytes % size)/'
mutant 'gate: up is the gate' pointwise.cu pointwise rows -e 's/source\[width \+ column\]/source[column]/'
mutant 'gelu: the cubic term' pointwise.cu pointwise rows -e 's/0.044715F \* value \* value/0.044715F * value/'

echo "$caught caught, ${#missed[@]} missed, ${#broken[@]} broken"
[ ${#missed[@]} -eq 0 ] || printf 'missed: %s\n' "${missed[@]}"
[ ${#missed[@]} -eq 0 ] && [ ${#broken[@]} -eq 0 ]
