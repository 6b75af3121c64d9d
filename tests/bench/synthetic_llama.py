#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes a Llama of 1.1 billion parameters with random weights as a GGUF file, for benchmarks:

    tests/bench/synthetic_llama.py synthetic-1b TYPE FILE.gguf [SEED]

TYPE is Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K, F16 or BF16. The same arguments give the same bytes. Shape (hidden 2048,
22 layers, inner 5632, 32 heads on 4 key heads, 32000 tokens) as of TinyLlama 1.1B; what the model says is noise. Needs
nothing but Python 3.9.
"""
import random
import struct
import sys

SHAPES = {  # hidden, layers, inner, heads, key heads, head size, tokens
    "synthetic-1b": (2048, 22, 5632, 32, 4, 64, 32000),
    "synthetic-tiny": (256, 2, 512, 4, 2, 64, 512),
}
# Number in the format, elements and bytes of a block, general.file_type.
TYPES = {
    "F32": (0, 1, 4, 0),
    "F16": (1, 1, 2, 1),
    "Q4_0": (2, 32, 18, 2),
    "Q4_1": (3, 32, 20, 3),
    "Q5_0": (6, 32, 22, 8),
    "Q8_0": (8, 32, 34, 7),
    "Q4_K": (12, 256, 144, 15),
    "Q6_K": (14, 256, 210, 18),
    "BF16": (30, 1, 2, 32),
}
# Where the halves of a block lie, and a factor; the numbers then have about the spread 1.
SCALES = {
    "Q4_0": [(0, 0.2)],
    "Q4_1": [(0, 0.2), (2, -1.5)],
    "Q5_0": [(0, 0.1)],
    "Q8_0": [(0, 0.0135)],
    "Q4_K": [(0, 0.006), (2, 0.045)],
    "Q6_K": [(208, 0.0007)],
}
ALIGNMENT = 32
CHUNK = 1 << 22
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def number(key, value):
    return entry(key, UINT32, struct.pack("<I", value))


def real(key, value):
    return entry(key, FLOAT32, struct.pack("<f", value))


def array(key, kind, items):
    return entry(key, ARRAY, struct.pack("<IQ", kind, len(items)) + b"".join(items))


def metadata(name, type_name, shape):
    hidden, layers, inner, heads, key_heads, head, vocab = shape
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256  # unknown, control, byte
    tokens += [f"t{i}" for i in range(len(tokens), vocab)]
    kinds += [1] * (vocab - len(kinds))
    entries = [
        entry("general.architecture", STRING, text("llama")),
        entry("general.name", STRING, text(f"{name} {type_name}")),
        number("general.file_type", TYPES[type_name][3]),
        number("llama.block_count", layers),
        number("llama.context_length", 8192),
        number("llama.embedding_length", hidden),
        number("llama.feed_forward_length", inner),
        number("llama.attention.head_count", heads),
        number("llama.attention.head_count_kv", key_heads),
        number("llama.rope.dimension_count", head),
        number("llama.vocab_size", vocab),
        real("llama.attention.layer_norm_rms_epsilon", 1e-5),
        real("llama.rope.freq_base", 10000.0),
        entry("tokenizer.ggml.model", STRING, text("llama")),
        array("tokenizer.ggml.tokens", STRING, [text(token) for token in tokens]),
        array("tokenizer.ggml.scores", FLOAT32, [struct.pack("<f", -float(i)) for i in range(vocab)]),
        array("tokenizer.ggml.token_type", INT32, [struct.pack("<i", kind) for kind in kinds]),
        number("tokenizer.ggml.bos_token_id", 1),
        number("tokenizer.ggml.eos_token_id", 2),
        number("tokenizer.ggml.unknown_token_id", 0),
    ]
    return entries


def tensors(type_name, shape):
    """Name, type, columns, rows; as llama.cpp's own files have it, the head of 4- and 5-bit files is Q6_K."""
    hidden, layers, inner, heads, key_heads, head, vocab = shape
    head_type = "Q6_K" if type_name in ("Q4_0", "Q4_1", "Q5_0", "Q4_K") else type_name
    yield "token_embd.weight", type_name, hidden, vocab
    for layer in range(layers):
        block = f"blk.{layer}."
        yield block + "attn_norm.weight", "F32", hidden, 0
        yield block + "attn_q.weight", type_name, hidden, heads * head
        yield block + "attn_k.weight", type_name, hidden, key_heads * head
        yield block + "attn_v.weight", type_name, hidden, key_heads * head
        yield block + "attn_output.weight", type_name, heads * head, hidden
        yield block + "ffn_norm.weight", "F32", hidden, 0
        yield block + "ffn_gate.weight", type_name, hidden, inner
        yield block + "ffn_up.weight", type_name, hidden, inner
        yield block + "ffn_down.weight", type_name, inner, hidden
    yield "output_norm.weight", "F32", hidden, 0
    yield "output.weight", head_type, hidden, vocab


def random_blocks(type_name, count, spread, draw):
    """`count` blocks whose numbers are about `spread`."""
    size = TYPES[type_name][2]
    if type_name == "F32":
        return struct.pack("<f", 1.0) * count
    data = bytearray(draw.randbytes(count * size))
    if type_name in ("F16", "BF16"):
        # Sign and fraction stay random; the exponent becomes that of the spread.
        upper = struct.pack("<e" if type_name == "F16" else ">f", spread)[1 if type_name == "F16" else 0]
        keep = 0x83 if type_name == "F16" else 0x80
        data[1::2] = bytes(data[1::2]).translate(bytes((byte & keep) | (upper & ~keep) for byte in range(256)))
        return data
    for at, factor in SCALES[type_name]:
        low, high = struct.pack("<e", factor * spread)
        data[at::size] = bytes([low]) * count
        data[at + 1 :: size] = bytes([high]) * count
    return data


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in SHAPES or sys.argv[2] not in TYPES or sys.argv[2] == "F32":
        sys.exit(
            f"synthetic_llama.py: found {sys.argv[1:]}, wanted {' or '.join(SHAPES)}, "
            f"one of {', '.join(TYPES)} but not F32, FILE.gguf, and perhaps a seed"
        )
    name, type_name, path = sys.argv[1:4]
    draw = random.Random(int(sys.argv[4]) if len(sys.argv) == 5 else 1)
    entries = metadata(name, type_name, SHAPES[name])
    listed = list(tensors(type_name, SHAPES[name]))
    infos = []
    offset = 0
    for tensor, kind, columns, rows in listed:
        code, elements, size, _ = TYPES[kind]
        dimensions = [columns] + ([rows] if rows else [])
        infos.append(
            text(tensor) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, code, offset)
        )
        length = columns * max(rows, 1) // elements * size
        offset += (length + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    with open(path, "wb") as file:
        file.write(struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(entries)))
        file.write(b"".join(entries) + b"".join(infos))
        file.write(bytes(-file.tell() % ALIGNMENT))
        for tensor, kind, columns, rows in listed:
            blocks = columns * max(rows, 1) // TYPES[kind][1]
            for first in range(0, blocks, CHUNK // TYPES[kind][2]):
                count = min(CHUNK // TYPES[kind][2], blocks - first)
                file.write(random_blocks(kind, count, columns**-0.5, draw))
            file.write(bytes(-file.tell() % ALIGNMENT))


main()
