#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# Measures lathe-cli beside llama.cpp in one run and prints a table for README:
#   tests/bench/peers.sh LATHE_CLI PEERS_FOLDER MODEL.gguf...
# PEERS_FOLDER holds llama-bench and llama-batched-bench. Both sides take turns, so that what else the machine does
# meets both alike; a figure is the median of ROUNDS (5) rounds. THREADS (all cores), PROMPT (512), OUTPUT (128) and
# BATCHES (16,32; sequences that decode together, each behind 128 tokens; empty skips) can be set.
set -euo pipefail

fail() {
    echo "peers.sh: $1" >&2
    exit 2
}

[ $# -ge 3 ] || fail "found $# arguments, wanted LATHE_CLI PEERS_FOLDER MODEL.gguf..."
lathe=$1
peers=$2
shift 2
command -v python3 > /dev/null || fail "python3 was not found; it is wanted for the medians"
for program in "$lathe" "$peers/llama-bench" "$peers/llama-batched-bench"; do
    [ -x "$program" ] || fail "$program is no program"
done
for model in "$@"; do
    [ -r "$model" ] || fail "$model cannot be read"
done

rounds=${ROUNDS:-5}
threads=${THREADS:-$(nproc)}
prompt=${PROMPT:-512}
output=${OUTPUT:-128}
batches=${BATCHES-16,32}
depth=128
batch_output=32
results=$(mktemp)
trap 'rm -f "$results"' EXIT

# Adds the lines of a program's JSON to the results, each behind its side and model.
record() {
    local side=$1 model=$2
    shift 2
    "$@" 2> /dev/null | grep '^{' | while IFS= read -r line; do
        printf '%s\t%s\t%s\n' "$side" "$(basename "$model" .gguf)" "$line" >> "$results"
    done || fail "$1 printed no results for $model"
}

for model in "$@"; do
    for ((round = 1; round <= rounds; ++round)); do
        echo "$(basename "$model"): round $round of $rounds" >&2
        record ours "$model" "$lathe" bench "$model" -p "$prompt" -n "$output" -r 1 --threads "$threads" --json -q
        record theirs "$model" "$peers/llama-bench" -m "$model" -p "$prompt" -n "$output" -r 1 -t "$threads" -o jsonl
        [ -n "$batches" ] || continue
        record ours "$model" "$lathe" bench "$model" -p 0 -n "$batch_output" -d "$depth" -b "$batches" -r 1 \
            --threads "$threads" --json -q
        record theirs "$model" "$peers/llama-batched-bench" -m "$model" -npp "$depth" -ntg "$batch_output" \
            -npl "$batches" -t "$threads" -c 16384 --output-format jsonl
    done
done

python3 - "$results" << 'PYTHON'
import collections
import json
import statistics
import sys

rates = collections.defaultdict(lambda: {"ours": [], "theirs": []})
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        side, model, text = line.rstrip("\n").split("\t", 2)
        row = json.loads(text)
        if side == "ours":
            name, rate = row["test"], row["tokens_per_second"]["median"]
        elif "pl" in row:
            name, rate = f"tg{row['tg']}@{row['pl']}", row["speed_tg"]
        elif row["n_prompt"]:
            name, rate = f"pp{row['n_prompt']}", row["avg_ts"]
        else:
            name, rate = f"tg{row['n_gen']}", row["avg_ts"]
        rates[model, name][side].append(rate)

print("| model | test | Lathe, tokens/s | llama.cpp, tokens/s | ratio |")
print("|---|---|---|---|---|")
for (model, name), sides in rates.items():
    if not sides["ours"] or not sides["theirs"]:
        continue
    ours, theirs = statistics.median(sides["ours"]), statistics.median(sides["theirs"])
    print(f"| {model} | {name} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
PYTHON
