#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Measures lathe-cli beside llama.cpp in one run and prints a table for README:
#   tests/bench/peers.sh LATHE_CLI PEERS_FOLDER MODEL...
# MODEL is a .gguf file, or synthetic-1b:TYPE, a Llama of random weights that synthetic_llama.py writes to SYNTHETIC_DIR
# (default: a temporary folder, removed in the end). PEERS_FOLDER holds llama-bench, llama-batched-bench and, for chats,
# llama-server. Both sides take turns, so that what else the machine does meets both alike; a figure is the median of
# ROUNDS (5) rounds. OpenVINO GenAI takes part in prefill and decode where PYTHON (python3) has its package. What can be
# set, and skipped by an empty value where it says so:
#   THREADS  all cores
#   PROMPT   512, tokens of the prefill
#   OUTPUT   128, tokens of the decode
#   BATCHES  16,32, sequences that decode together, each behind 128 tokens; empty skips
#   DEPTH    4096, tokens in front of one more decode of 32; empty skips
#   START    1, time from the start of the program to the first token, file warm; empty skips
#   CHATS    16, chats at a time through both servers; empty skips
set -euo pipefail

fail() {
    echo "peers.sh: $1" >&2
    exit 2
}

[ $# -ge 3 ] || fail "found $# arguments, wanted LATHE_CLI PEERS_FOLDER MODEL..."
here=$(cd "$(dirname "$0")" && pwd)
lathe=$1
peers=$2
shift 2
command -v python3 > /dev/null || fail "python3 was not found; it is wanted for times and medians"
for program in "$lathe" "$peers/llama-bench" "$peers/llama-batched-bench"; do
    [ -x "$program" ] || fail "$program is no program"
done

python=${PYTHON:-python3}
rounds=${ROUNDS:-5}
threads=${THREADS:-$(nproc)}
prompt=${PROMPT:-512}
output=${OUTPUT:-128}
batches=${BATCHES-16,32}
depth=${DEPTH-4096}
start=${START-1}
chats=${CHATS-16}
batch_depth=128
batch_output=32
work=$(mktemp -d)
results=$work/results
server=
trap '[ -z "$server" ] || kill "$server" 2> /dev/null; rm -rf "$work"' EXIT
if [ -n "$chats" ] && ! [ -x "$peers/llama-server" ]; then
    echo "peers.sh: left out: chats, as $peers has no llama-server" >&2
    chats=
fi

has_package() {
    "$python" -c "import $1" 2> /dev/null
}

has_openvino=$(has_package openvino_genai && echo yes || true)

models=()
for model in "$@"; do
    if [[ $model == synthetic-*:* ]]; then
        file=${SYNTHETIC_DIR:-$work}/${model/:/.}.gguf
        [ -r "$file" ] || "$here/synthetic_llama.py" "${model%%:*}" "${model#*:}" "$file" || fail "$model was not written"
        model=$file
    fi
    [ -r "$model" ] || fail "$model cannot be read"
    models+=("$model")
done

# Runs a program; its lines of JSON, its wall time and its largest resident memory become results of a side.
#   record SIDE MODEL NAME PROGRAM ARGUMENTS...
record() {
    python3 "$here/peers.py" run "$results" "$@" || fail "$4 gave no results for $2"
}

# 16 chats at a time with one of the servers, which listens on the port behind --port.
chat_load() {
    local side=$1 model=$2 seed=$3 port=$4
    shift 4
    "$@" > "$work/server.log" 2>&1 &
    server=$!
    python3 "$here/peers.py" wait "http://127.0.0.1:$port/health" || fail "$1 does not answer"
    record "$side" "$model" chats "$lathe" load --url "http://127.0.0.1:$port" --requests $((chats * 3)) \
        --concurrency "$chats" --input-len 32:512 --output-len 64:128 --seed "$seed" --json -q
    python3 "$here/peers.py" memory "$results" "$side" "$model" chats "$server"
    kill "$server"
    wait "$server" 2> /dev/null || true
    server=
}

# One token; theirs computes it and draws none.
start_both() {
    record ours "$model" start "$lathe" generate "$model" -p a -n 1 --temperature 0 --threads "$threads" -q
    record theirs "$model" start "$peers/llama-bench" -m "$model" -p 1 -n 0 -r 1 --no-warmup -t "$threads" -o jsonl
}

for model in "${models[@]}"; do
    openvino=$has_openvino
    for ((round = 1; round <= rounds; ++round)); do
        echo "$(basename "$model"): round $round of $rounds" >&2
        record ours "$model" bench "$lathe" bench "$model" -p "$prompt" -n "$output" -r 1 --threads "$threads" --json -q
        record theirs "$model" bench "$peers/llama-bench" -m "$model" -p "$prompt" -n "$output" -r 1 -t "$threads" \
            -o jsonl
        # It reads some types and models only.
        if [ -n "$openvino" ] && ! python3 "$here/peers.py" run "$results" openvino "$model" bench "$python" \
            "$here/peer_openvino.py" "$model" "$prompt" "$output" "$threads"; then
            echo "peers.sh: left out: openvino_genai with $(basename "$model")" >&2
            openvino=
        fi
        # bench has a large buffer of its own, for the bandwidth
        record ours "$model" memory "$lathe" generate "$model" --ids "$(yes 5 | head -n "$prompt" | paste -sd,)" \
            -n 32 --temperature 0 --ignore-eos --threads "$threads" -q
        record theirs "$model" memory "$peers/llama-bench" -m "$model" -p "$prompt" -n 32 -r 1 -t "$threads" -o jsonl
        if [ -n "$batches" ]; then
            record ours "$model" batches "$lathe" bench "$model" -p 0 -n "$batch_output" -d "$batch_depth" \
                -b "$batches" -r 1 --threads "$threads" --json -q
            record theirs "$model" batches "$peers/llama-batched-bench" -m "$model" -npp "$batch_depth" \
                -ntg "$batch_output" -npl "$batches" -t "$threads" -c 16384 --output-format jsonl
        fi
        if [ -n "$depth" ]; then
            record ours "$model" depth "$lathe" bench "$model" -p 0 -n 32 -d "$depth" -r 1 --threads "$threads" \
                --json -q
            record theirs "$model" depth "$peers/llama-bench" -m "$model" -p 0 -n 32 -d "$depth" -r 1 -t "$threads" \
                -o jsonl
        fi
        if [ -n "$start" ]; then
            results=$work/unused start_both # whoever comes first would wait for memory that longer runs gave back
            start_both
        fi
        if [ -n "$chats" ]; then
            chat_load ours "$model" "$round" 18642 "$lathe" serve "$model" --port 18642 --no-api-key \
                --threads "$threads" --max-num-seqs "$chats" --max-model-len 1024 --no-enable-prefix-caching -q
            chat_load theirs "$model" "$round" 18643 "$peers/llama-server" -m "$model" --port 18643 -t "$threads" \
                -np "$chats" -c $((chats * 1024)) --no-cache-prompt
        fi
    done
done

python3 "$here/peers.py" table "$results"
for peer in openvino_genai vllm ctranslate2; do
    if ! has_package "$peer"; then
        echo "not measured: $peer, which $python does not have here" >&2
    elif [ "$peer" != openvino_genai ]; then
        echo "not measured: $peer, which is installed here, but has no run in this script" >&2
    fi
done
