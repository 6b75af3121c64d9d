#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Everything that only a machine with a GPU can tell, within eight minutes: self-test, kernel tests, models against the
# CPU, benchmarks. Writes report.json and report.txt; may be run again and again. Needs bash and coreutils alone beside
# the program; building needs CMake and nvcc too.
#
#   tests/device/check.sh [--build DIR] [--device cuda:0|simt|cpu] [--shared DIR] [--model FILE] [--out DIR] [--seconds N]
#
# --build   a folder with bin/lathe-cli; without it, build/device is configured with LATHE_CUDA and built first
# --device  what is tested (default cuda:0); simt tries the script itself without a GPU
# --shared  reference data with tiny/models (default ../shared); --model  a model for benchmarks (default the demo model)
# Exit code: 0 all held, 1 something failed, 4 no such device here.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
build='' device=cuda:0 shared=${LATHE_SHARED_DIR:-$root/../shared} out=$root/build/device-check seconds=480
model=${LATHE_DEMO_MODEL:-$HOME/.local/share/lathe/models/SmolLM2-135M-Instruct.Q4_1.gguf}
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
    timeout "$limit" "$@" >"$out/parts/$name" 2>"$out/parts/$name.err"
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
lines() { # of a file of JSON lines, as one array
    printf '['
    [ -s "$1" ] && grep '^{' "$1" | paste -sd, -
    printf ']'
}
report() {
    {
        printf '{"device":%s,"seconds":%d,"failed":%d,\n' "$(quoted "$device")" $((SECONDS - began)) "$failed"
        printf '"devices":%s,\n"selftest":%s,\n"bench":%s,\n"steps":[' "$(lines "$out/parts/devices")" \
            "$(lines "$out/parts/selftest")" "$(cat "$out"/parts/bench-* 2>/dev/null >"$out/parts/all"; lines "$out/parts/all")"
        (IFS=,; printf '%s' "${steps[*]}")
        printf ']}\n'
    } >"$out/report.json"
    say "$failed failed, $((SECONDS - began)) s; $out/report.json"
}

if [ -z "$build" ]; then
    build=$root/build/device
    step configure 60 cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DLATHE_CUDA=ON -DLATHE_SIMT=OFF \
        -DLATHE_UI=OFF -DLATHE_TESTS=OFF &&
        step build 400 cmake --build "$build" -j "$(nproc)" --target lathe-cli
fi
cli=$build/bin/lathe-cli
if [ ! -x "$cli" ]; then
    note program failed 0 "$cli is not there; wanted a build folder with bin/lathe-cli"
    report
    exit 1
fi

step devices 20 "$cli" devices --json
step selftest 120 "$cli" selftest --device "$device" --json
rc=$?
if [ $rc -eq 4 ]; then
    say "no device $device here: $(tail -n 1 "$out/parts/selftest.err" | sed 's/^error: //')"
    report
    exit 4
fi

# Kernel by kernel: programs of the emulator, where the build has them.
for test in "$build"/tests/tst_cuda_*; do
    [ -x "$test" ] && step "kernels-$(basename "$test")" 60 "$test"
done

ids() { grep -o '"ids":\[[0-9,]*\]' "$1"; }
# same NAME MODEL TOKENS: greedy tokens of the device and of the CPU
same() {
    local name=$1
    step "$name-cpu" 60 "$cli" generate "$2" --ids 1,5,9,2,7,11,3,8 -n "$3" --temperature 0 --ignore-eos --json \
        --device cpu --kv-cache-dtype f16 &&
        step "$name" 90 "$cli" generate "$2" --ids 1,5,9,2,7,11,3,8 -n "$3" --temperature 0 --ignore-eos --json \
            --device "$device" --kv-cache-dtype f16 || return
    if [ "$(ids "$out/parts/$name-cpu")" = "$(ids "$out/parts/$name")" ]; then
        note "$name-same" ok 0 "the tokens are those of the CPU"
    else
        note "$name-same" failed 0 "the tokens differ from those of the CPU"
    fi
}
if [ -d "$shared/tiny/models" ]; then
    for folder in "$shared"/tiny/models/*/; do
        file=$(find "$folder" -name "*.gguf" | sort | head -n 1)
        same "tiny-$(basename "$folder")" "${file:-$folder}" 12
    done
else
    note tiny-models skipped 0 "$shared/tiny/models is not there"
fi

if [ -f "$model" ]; then
    same model "$model" 24
    prompt=512 tokens=128
    [ "$device" = simt ] && prompt=8 tokens=2
    step bench-device 120 "$cli" bench "$model" --device "$device" -p $prompt -n $tokens -r 3 --json
    [ "$device" = simt ] || step bench-batch 90 "$cli" bench "$model" --device "$device" -p 0 -n 64 -b 16 -r 3 --json
else
    note model skipped 0 "$model is not there (--model FILE)"
fi
for missing in "CUDA graphs" "copies between GPUs" "products of cuBLASLt"; do
    note "$missing" skipped 0 "not in this program"
done
if [ "$device" != simt ] && [ "$device" != cpu ]; then
    note libraries "$(ldd "$cli" | grep -q libcuda && echo failed || echo ok)" 0 "nothing links libcuda"
fi
report
[ "$failed" -eq 0 ]
