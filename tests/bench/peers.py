#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of peers.sh that times programs and makes its table:

    peers.py run RESULTS SIDE MODEL NAME PROGRAM ARGUMENTS...   lines of JSON, wall time, largest resident memory
    peers.py memory RESULTS SIDE MODEL NAME PROCESS             the largest resident memory so far of a process
    peers.py wait URL                                           until it answers
    peers.py table RESULTS                                      medians of all sides, for README
"""
import collections
import json
import os
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

START_SECONDS = 120
PEERS = {"theirs": "llama.cpp", "openvino": "OpenVINO GenAI"}


def add(path, side, model, name, row):
    line = [side, os.path.basename(model).removesuffix(".gguf"), name, json.dumps(row)]
    with open(path, "a", encoding="utf-8") as file:
        file.write("\t".join(line) + "\n")


def run(path, side, model, name, *command):
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    lines = child.stdout.read().decode(errors="replace").splitlines()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    timed = name in ("start", "memory")
    if child.returncode != 0 or (not rows and not timed):
        return f"{command[0]} ended with {child.returncode} and {len(rows)} results"
    for row in [] if timed else rows:
        add(path, side, model, name, row)
    add(path, side, model, name, {"wall_ms": seconds * 1e3, "resident_mb": usage.ru_maxrss / 1024})
    return None


def memory(path, side, model, name, process):
    with open(f"/proc/{process}/status", encoding="utf-8") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    add(path, side, model, name, {"server_mb": int(peak.split()[1]) / 1024})


def wait(url):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return None
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    return f"{url} does not answer within {START_SECONDS} s"


def figures(side, name, row):
    """(test, value, whether less is better, share of the roof)"""
    if "wall_ms" in row:
        if name == "start":
            yield "load to first token, ms", row["wall_ms"], True, None
        if name == "memory":
            yield "peak resident memory, MB", row["resident_mb"], True, None
    elif "server_mb" in row:
        yield "chats: peak resident memory, MB", row["server_mb"], True, None
    elif name == "chats":
        yield "chats: output tokens/s", row["output_throughput"], False, None
        yield "chats: TTFT P95, ms", row["ttft_ms"]["p95"], True, None
        yield "chats: ITL P95, ms", row["itl_ms"]["p95"], True, None
    elif side == "openvino":
        yield row["test"] + ", tokens/s", row["tokens_per_second"], False, None
    elif side == "ours":
        share = row["peak_fraction"] if row["test"].startswith("pp") else row["roofline_fraction"]
        deep = f" behind {row['depth']}" if name == "depth" else ""
        yield row["test"] + deep + ", tokens/s", row["tokens_per_second"]["median"], False, share
    elif "pl" in row:
        yield f"tg{row['tg']}@{row['pl']}, tokens/s", row["speed_tg"], False, None
    elif row["n_prompt"]:
        yield f"pp{row['n_prompt']}, tokens/s", row["avg_ts"], False, None
    else:
        deep = f" behind {row['n_depth']}" if name == "depth" else ""
        yield f"tg{row['n_gen']}{deep}, tokens/s", row["avg_ts"], False, None


def read(path):
    found = collections.defaultdict(lambda: {"values": collections.defaultdict(list), "less": False, "share": []})
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            side, model, name, text = line.rstrip("\n").split("\t", 3)
            for test, value, less, share in figures(side, name, json.loads(text)):
                cell = found[model, test]
                cell["values"][side].append(value)
                cell["less"] = less
                if share is not None:
                    cell["share"].append(share)
    return found


def table_beside(found, side):
    print(f"| model | test | Lathe | {PEERS[side]} | times better | share of the roof |")
    print("|---|---|---|---|---|---|")
    for (model, test), cell in found.items():
        if not cell["values"]["ours"] or not cell["values"][side]:
            continue
        ours, theirs = statistics.median(cell["values"]["ours"]), statistics.median(cell["values"][side])
        ratio = theirs / ours if cell["less"] else ours / theirs
        share = f"{100 * statistics.median(cell['share']):.0f} %" if cell["share"] else "-"
        print(f"| {model} | {test} | {ours:.1f} | {theirs:.1f} | {ratio:.2f} | {share} |")
    print()


def table(path):
    found = read(path)
    for side in PEERS:
        if any(cell["values"][side] for cell in found.values()):
            table_beside(found, side)
    print("Share of the roof: of the measured read bandwidth for decode, of the instructions' measured peak for prefill.")
    return None


sys.exit({"run": run, "memory": memory, "wait": wait, "table": table}[sys.argv[1]](*sys.argv[2:]))
