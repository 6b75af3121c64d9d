#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Speed of OpenVINO GenAI on the CPU, as lines of JSON for peers.sh:

    peer_openvino.py MODEL.gguf PROMPT OUTPUT THREADS

One warm-up, then a prompt of PROMPT tokens for one answer token, then OUTPUT answer tokens behind one.
"""
import json
import sys

import numpy
import openvino
import openvino_genai


def generate(pipeline, first, prompt, output):
    """Its prompt begins with the token `first`, as what began like an earlier one would come out of a cache."""
    ids = numpy.arange(first, first + prompt, dtype=numpy.int64).reshape(1, prompt)
    config = openvino_genai.GenerationConfig()
    config.max_new_tokens = output
    config.ignore_eos = True
    config.do_sample = False
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(numpy.ones_like(ids)))
    return pipeline.generate(inputs, config).perf_metrics


def main(model, prompt, output, threads):
    pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)
    generate(pipeline, 5000, prompt, 2)
    prefill = generate(pipeline, 100, prompt, 1).get_ttft().mean
    decode = generate(pipeline, 50, 1, output).get_tpot().mean
    print(json.dumps({"test": f"pp{prompt}", "tokens_per_second": prompt * 1e3 / prefill}))
    print(json.dumps({"test": f"tg{output}", "tokens_per_second": 1e3 / decode}))


main(sys.argv[1], *(int(number) for number in sys.argv[2:5]))
