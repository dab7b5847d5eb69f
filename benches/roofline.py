#!/usr/bin/env python3
"""Predicts tokens per second of the CUDA backend on other GPUs, and compares the model with what was measured.

    benches/roofline.py                       # the H100, from the newest result in benches/gpu/results
    benches/roofline.py --device "RTX 4090"   # another GPU of the table below
    benches/roofline.py --measured            # how far the measured card is from its limits

Decoding: a token takes the time to read its bytes (weights, keys and values) at the rate of a copy, and for each launch a constant: its
start, and the time until enough loads are on their way. The constants come from the result, for infer and llama-bench each: measured time
minus the time of the bytes. Prompts: multiply-adds at a share of the matrix units' rate, which also comes from the result.

Assumptions: a copy on the other GPU reaches the same share of the published bandwidth, products the same share of the published rate, and
the constants stay. They were measured on a large GPU: one with fewer multiprocessors starts kernels as fast, but has less to hide behind.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "gpu"))

from kit import page  # noqa: E402
from kit.speed import SHAPES, best  # noqa: E402

# Published by NVIDIA: GB/s of memory, dense TFLOP/s of f16 with f32 sums.
DEVICES = {
    "H200": (4800, 989),
    "H100 SXM": (3350, 989),
    "H100 PCIe": (2000, 756),
    "A100 80GB": (2039, 312),
    "L4": (300, 121),
    "L40S": (864, 362),
    "RTX 4090": (1008, 165),
    "RTX 3090": (936, 71),
}
BITS = {"f16": 16, "q8_0": 8.5, "q6_k": 6.5625, "q4_0": 4.5, "q4_k": 4.5}


def layer_elements(shape):
    """Elements of the weights of one layer."""
    heads, narrow = shape["heads"] * shape["head-width"], shape["heads-kv"] * shape["head-width"]
    return shape["width"] * (2 * heads + 2 * narrow + 3 * shape["ff"])


def bytes_of_token(shape, kind, depth):
    """What decoding reads: all weights but the embedding, and the cache in f16 including the new position."""
    weights = (shape["layers"] * layer_elements(shape) + shape["vocab"] * shape["width"]) * BITS[kind] / 8
    cache = 2 * 2 * shape["layers"] * shape["heads-kv"] * shape["head-width"] * (depth + 1)
    return weights + cache


def flops_of_prompt(shape, tokens):
    """Products of all tokens, attention over those before, and the output of the last token."""
    products = 2 * shape["layers"] * layer_elements(shape) * tokens
    attention = 4 * shape["layers"] * shape["heads"] * shape["head-width"] * tokens * (tokens + 1) / 2
    return products + attention + 2 * shape["vocab"] * shape["width"]


def speeds(model, program, kind, depth=None):
    """The best of the rounds: tokens per second."""
    way = ("fused",) if program == "infer" else ()
    return best(model[program], *way, *((kind,) if depth is None else (kind, str(depth))))


def newest():
    found = [json.loads(path.read_text()) for path in (HERE / "gpu/results").glob("*.json")]
    if not found:
        sys.exit("error: benches/gpu/results has no result of the GPU kit")
    return max(found, key=lambda result: result["date"])


def published(name):
    """The entry of DEVICES that the name of a GPU contains."""
    for device in sorted(DEVICES, key=len, reverse=True):
        if device in name.replace("H100 80GB HBM3", "H100 SXM"):
            return device
    sys.exit(f"error: the published rates of `{name}` are not in benches/roofline.py")


def rows_of(result, target):
    """For each model and kind of work: the prediction of infer and of llama-bench on `target`, and facts about infer. Speeds that were not
    measured are None."""
    speed = page.stage(result, "speed")
    source, rate = DEVICES[published(page.gpu(result))], page.copy_rate(result)
    if not speed.get("models") or not rate:
        sys.exit("error: the result has no speeds or no rate of a copy")
    slower, weaker = DEVICES[target][0] / source[0], DEVICES[target][1] / source[1]
    for model in speed["models"]:
        shape, kind = SHAPES[model["shape"]], model["type"]
        measured = [speeds(model, program, "prompt") for program in ("infer", "llama-bench")]
        flops = flops_of_prompt(shape, speed["workload"]["prompt"]) / speed["workload"]["prompt"]
        facts = {"TFLOP/s": measured[0] * flops / 1e12} if measured[0] else {}
        yield model, kind, "prompt", *(value and value * weaker for value in measured), facts
        for depth in speed["workload"]["depths"]:
            reading = bytes_of_token(shape, kind, depth) / (rate * 1e9)
            measured = [speeds(model, program, "decode", depth) for program in ("infer", "llama-bench")]
            predicted = [value and 1 / (1 / value - reading + reading / slower) for value in measured]
            facts = {}
            if measured[0]:
                launches = model["infer"][0]["fused"]["replay"]["launches"]
                facts = {"launches": launches, "us per launch": (1 / measured[0] - reading) * 1e6 / launches, "of the bound": reading * measured[0]}
            yield model, kind, f"decode at {depth}", *predicted, facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", nargs="?", type=pathlib.Path, help="a result of the GPU kit [default: the newest]")
    parser.add_argument("--device", default="H100 SXM", choices=DEVICES, help="the GPU to predict [default: H100 SXM]")
    parser.add_argument("--measured", action="store_true", help="the measured card instead: launches, constants, share of the bound")
    arguments = parser.parse_args()
    result = json.loads(arguments.result.read_text()) if arguments.result else newest()
    own = published(page.gpu(result))
    rows = []
    for model, kind, what, ours, theirs, facts in rows_of(result, own if arguments.measured else arguments.device):
        row = [model["shape"], kind, what, page.number(ours), page.number(theirs), page.ratio(ours, theirs)]
        if arguments.measured:
            row += [page.number(facts.get("TFLOP/s"), 0), str(facts.get("launches", "")), page.number(facts.get("us per launch")), page.percent(facts.get("of the bound"))]
        rows.append(row)
    head = ["shape", "type", "what", "infer", "llama-bench", "ratio"]
    if arguments.measured:
        head += ["TFLOP/s", "launches", "us per launch", "of the bound"]
    print(page.table(head, rows), end="")


if __name__ == "__main__":
    main()
