#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Everything that only a machine with a GPU can tell, within eight minutes: self-test, kernel tests, models against the
# CPU, graphs against plain launches, a process that dies, speed. Writes report.json and report.txt; may be run again and
# again. Needs bash and coreutils alone beside the program; building needs CMake and nvcc too.
#
#   tests/device/check.sh [--build DIR] [--device cuda:0|simt|cpu] [--shared DIR] [--model FILE] [--out DIR] [--seconds N]
#
# --build   a folder with bin/lathe-cli; without it, build/device is configured with LATHE_CUDA and built first, in what
#           time there is: a build that is cut goes on when the script is run again
# --device  what is tested (default cuda:0); simt and cpu try the script itself without a GPU
# --shared  reference data with tiny/models (default ../shared)
# --model   a model for tokens and benchmarks (default the demo model, with simt a tiny one)
# Exit code: 0 all held, 1 something failed, 4 no such device here.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build='' device=cuda:0 shared=${LATHE_SHARED_DIR:-$root/../shared} out=$root/build/device-check seconds=480 model=''
while [ $# -gt 0 ]; do
    case $1 in
    --build | --device | --shared | --model | --out | --seconds)
        [ $# -gt 1 ] || { echo "error: $1 wants a value" >&2; exit 2; }
        declare "${1#--}=$2"
        shift 2
        ;;
    *)
        echo "error: found $1, wanted --build, --device, --shared, --model, --out or --seconds" >&2
        exit 2
        ;;
    esac
done
if [ -z "$model" ]; then
    model=${LATHE_DEMO_MODEL:-$HOME/.local/share/lathe/models/SmolLM2-135M-Instruct.Q4_1.gguf}
    [ "$device" != simt ] || model=$root/tests/data/tiny-llama/llama-f16.gguf # no minutes for a token
fi
[[ $seconds =~ ^[0-9]+$ ]] || { echo "error: --seconds: found $seconds, wanted a number" >&2; exit 2; }
began=$SECONDS
mkdir -p "$out/parts" && rm -f "$out"/parts/* "$out"/report.* || exit 1
text=$out/report.txt
steps=() failed=0

left() { echo $((seconds - (SECONDS - began))); }
say() { echo "$*" | tee -a "$text"; }
# A string for JSON, of what is ASCII.
quoted() { printf '"%s"' "$(printf '%s' "$1" | tr '\n\t' '  ' | LC_ALL=C tr -cd ' -~' | sed 's/\\/\\\\/g; s/"/\\"/g')"; }
# note NAME ok|failed|skipped SECONDS DETAIL
note() {
    steps+=("{\"name\":$(quoted "$1"),\"result\":\"$2\",\"seconds\":$3,\"detail\":$(quoted "$4")}")
    [ "$2" = failed ] && failed=$((failed + 1))
    say "$(printf '%-8s %-36s %4s s  %s' "$2" "$1" "$3" "$4")"
}
# step NAME LIMIT COMMAND...: its output goes to parts/NAME
step() {
    local name=$1 limit=$2 start=$SECONDS rc cut=0
    shift 2
    [ "$(left)" -lt "$limit" ] && limit=$(left) cut=1
    if [ "$limit" -lt 2 ]; then
        note "$name" skipped 0 "no time is left of $seconds s"
        return 1
    fi
    timeout -k 5 "$limit" "$@" >"$out/parts/$name" 2>"$out/parts/$name.err"
    rc=$?
    if [ $rc -eq 0 ]; then
        note "$name" ok $((SECONDS - start)) "$(tail -n 1 "$out/parts/$name" | cut -c1-160)"
    elif [ $rc -eq 124 ] && [ $cut -eq 1 ]; then
        note "$name" skipped $((SECONDS - start)) "no time was left of $seconds s"
    elif [ $rc -eq 124 ]; then
        note "$name" failed $((SECONDS - start)) "stopped after $limit s"
    else
        note "$name" failed $((SECONDS - start)) "$(tail -n 1 "$out/parts/$name.err" | cut -c1-300)"
    fi
    return $rc
}
lines() { # of files of JSON lines, as one array
    printf '['
    cat /dev/null "$@" 2>/dev/null | grep '^{' | paste -sd, -
    printf ']'
}
report() {
    local speed=("$out"/parts/speed*) bench=("$out"/parts/bench-*)
    {
        printf '{"device":%s,"seconds":%d,"failed":%d,\n' "$(quoted "$device")" $((SECONDS - began)) "$failed"
        printf '"devices":%s,\n"selftest":%s,\n"speed":%s,\n"bench":%s,\n"steps":[' "$(lines "$out/parts/devices")" \
            "$(lines "$out/parts/selftest")" "$(lines "${speed[@]}")" "$(lines "${bench[@]}")"
        (IFS=,; printf '%s' "${steps[*]}")
        printf ']}\n'
    } >"$out/report.json"
    # What was measured, a line each, without the braces.
    for part in "${speed[@]}" "${bench[@]}"; do
        case $part in *.err) continue ;; esac
        [ -s "$part" ] && grep '^{' "$part" | sed 's/[{}"]//g; s/,/, /g; s/:/ /g' | sed "s|^|$(basename "$part"): |" >>"$text"
    done
    say "$failed failed, $((SECONDS - began)) s; $out/report.json"
}

if [ -z "$build" ]; then
    build=$root/build/device
    step configure 60 cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DLATHE_CUDA=ON -DLATHE_SIMT=OFF \
        -DLATHE_UI=OFF -DLATHE_TESTS=OFF &&
        step build 300 cmake --build "$build" -j "$(nproc)" --target lathe-cli
fi
cli=$build/bin/lathe-cli
if [ ! -x "$cli" ]; then
    note program failed 0 "$cli is not there; wanted a build folder with bin/lathe-cli"
    report
    exit 1
fi
slow=0 # emulated devices take small sizes
[ "$device" = simt ] && slow=1

step devices 20 "$cli" devices --json
step selftest 100 "$cli" selftest --device "$device" --json
rc=$?
if [ $rc -eq 4 ]; then
    say "no device $device here: $(tail -n 1 "$out/parts/selftest.err" | sed 's/^error: //')"
    report
    exit 4
fi
if [ "$device" != simt ] && [ "$device" != cpu ]; then
    note libraries "$(ldd "$cli" | grep -q libcuda && echo failed || echo ok)" 0 "nothing links libcuda"
fi

# Kernel by kernel: programs of the emulator, where the build has them.
kernelTests=0
for test in "$build"/tests/tst_cuda_*; do
    [ -f "$test" ] && [ -x "$test" ] && kernelTests=1 && step "kernels-$(basename "$test")" 40 "$test"
done
[ $kernelTests -eq 1 ] || note kernel-tests skipped 0 "the build has none; selftest has run every operation"

ids() { grep -o '"ids":\[[0-9,]*\]' "$1"; }
generate() { # NAME LIMIT MODEL TOKENS OPTIONS...
    local name=$1 limit=$2 file=$3 tokens=$4
    shift 4
    step "$name" "$limit" "$cli" generate "$file" --ids 1,5,9,2,7,11,3,8 -n "$tokens" --temperature 0 --ignore-eos --json \
        --kv-cache-dtype f16 "$@"
}
# equal NAME A B WHAT: tokens of two parts
equal() {
    if [ "$(ids "$out/parts/$2")" = "$(ids "$out/parts/$3")" ]; then
        note "$1" ok 0 "the tokens are those of $4"
    else
        note "$1" failed 0 "the tokens differ from those of $4"
    fi
}
# same NAME MODEL TOKENS: greedy tokens of the device and of the CPU, and without graphs
same() {
    generate "$1-cpu" 20 "$2" "$3" --device cpu && generate "$1" 30 "$2" "$3" --device "$device" || return
    equal "$1-same" "$1-cpu" "$1" "the CPU"
    [ "$hasGraphs" = 1 ] && generate "$1-plain" 30 "$2" "$3" --device "$device" --cuda-graphs off &&
        equal "$1-graphs" "$1" "$1-plain" "launches without graphs"
}
hasGraphs=0
"$cli" generate --help 2>/dev/null | grep -q -e '--cuda-graphs' && hasGraphs=1
[ $hasGraphs = 1 ] || note graphs skipped 0 "this program has no --cuda-graphs"

# The model first: what it tells matters most.
if [ -f "$model" ]; then
    tokens=64
    [ $slow = 1 ] && tokens=8
    same model "$model" $tokens
    other=own # GPUs are opened in a worker unless told otherwise, all else in the program's own process
    case $device in cpu | simt) other=worker ;; esac
    generate model-other 60 "$model" $tokens --device "$device" --device-process $other &&
        equal model-process model model-other "the device in the other kind of process ($other)"
    if [ $slow = 1 ]; then
        step bench-model 90 "$cli" bench "$model" --device "$device" -p 8 -n 2 -r 1 --json
    else
        step bench-model 60 "$cli" bench "$model" --device "$device" -p 512 -n 128 -r 3 --json
        step bench-batch 60 "$cli" bench "$model" --device "$device" -p 0 -n 64 -b 16,64 -r 3 --json
        [ $hasGraphs = 1 ] && step bench-without-graphs 45 "$cli" bench "$model" --device "$device" -p 0 -n 64 -r 3 --json \
            --cuda-graphs off
    fi
else
    note model skipped 0 "$model is not there (--model FILE)"
fi
step speed 60 "$cli" selftest --device "$device" --speed --json
case $device in
cpu | simt) note "products of cuBLASLt" skipped 0 "they are of GPUs alone" ;;
*) step speed-cublaslt 60 "$cli" selftest --device "$device" --speed --no-deterministic --json ;;
esac

if [ -d "$shared/tiny/models" ]; then
    for folder in "$shared"/tiny/models/*/; do
        file=$(find "$folder" -name "*.gguf" | sort | head -n 1)
        same "tiny-$(basename "$folder")" "${file:-$folder}" 12
    done
else
    note tiny-models skipped 0 "$shared/tiny/models is not there"
fi
report
[ "$failed" -eq 0 ]
