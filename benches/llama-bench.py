#!/usr/bin/env python3
"""Tokens per second of `infer` and of llama.cpp's `llama-bench` on the same random weights, taking turns in one run.

    gpubuild build --backends cpu && cargo build --release -p infer
    python3 benches/llama-bench.py --llama-cpp DIR [--types q8_0,q4_0,q4_k,f16] [--threads 2] [--rounds 3] [--work DIR]

DIR is an unpacked llama.cpp; its `llama-bench` is built in the work folder with CMake's Release and llama.cpp's own defaults, that is
for this processor. The model has the shape of TinyLlama 1.1B (`--shape` takes others). Both programs read a prompt of 512 tokens and
then write 64; the fastest of all rounds counts. The share of the memory's bandwidth is that of the bytes that a token needs (weights
and cache), and the bandwidth is what as many threads that only read reach between the rounds. The table on standard output is Markdown.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHAPES = {
    # layers, width, heads, heads of keys and values, width of a head, width of the feed-forward part, vocabulary
    "1.1b": (22, 2048, 32, 4, 64, 5632, 32000),
    "tiny": (4, 512, 8, 2, 64, 1536, 4096),
}
NAMES = ("layers", "width", "heads", "heads-kv", "head-width", "ff", "vocab")


def build(source, work):
    """llama-bench as llama.cpp's own documents build it, with nothing to download."""
    folder = work / "llama.cpp"
    log = work / "llama.cpp.log"
    configure = ["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF"]
    with open(log, "wb") as out:
        for command in (configure, ["cmake", "--build", folder, "--target", "llama-bench", "-j", str(os.cpu_count())]):
            if subprocess.run(command, stdout=out, stderr=out).returncode:
                sys.exit(f"llama-bench was not built: see {log}")
    return folder / "bin" / "llama-bench"


def model(infer, work, shape, kind):
    file = work / f"{shape}-{kind}.gguf"
    if not file.exists():
        unfinished = file.with_suffix(".part")
        sizes = [word for name, size in zip(NAMES, SHAPES[shape]) for word in (f"--{name}", str(size))]
        subprocess.run([infer, "random-model", unfinished, "--type", kind, *sizes], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(file)
    return file


def ours(infer, file, arguments):
    command = [infer, "bench", "--json", "--backend", "cpu", "--model", file, "--threads", arguments.threads]
    command += ["--prompt-tokens", arguments.prompt, "--tokens", arguments.tokens, "--runs", 1]
    report = json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True).stdout)
    decode = max(report[name]["best_tokens_per_second"] for name in ("decode", "decode_unattended"))
    return report["prompt"]["best_tokens_per_second"], decode, report["bytes_per_token"], report["memory_gigabytes_per_second"]


def theirs(llama_bench, file, arguments):
    """The prompt from nothing; then, with as many tokens behind it as ours has, the writing."""
    command = [llama_bench, "-m", file, "-t", arguments.threads, "-ngl", 0, "-r", 1, "-o", "json"]
    speeds = []
    for what in (["-p", arguments.prompt, "-n", 0], ["-p", 0, "-n", arguments.tokens, "-d", arguments.prompt]):
        answer = subprocess.run(list(map(str, command + what)), check=True, capture_output=True).stdout
        speeds.append(json.loads(answer)[0]["avg_ts"])
    return tuple(speeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="sources to build llama-bench from")
    parser.add_argument("--llama-bench", type=pathlib.Path, help="one that is built already")
    parser.add_argument("--infer", type=pathlib.Path, default=ROOT / "target/release/infer")
    parser.add_argument("--types", default="q8_0,q4_0,q4_k,f16")
    parser.add_argument("--shape", default="1.1b", choices=SHAPES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/llama-bench")
    arguments = parser.parse_args()
    if not (arguments.llama_cpp or arguments.llama_bench):
        parser.error("--llama-cpp or --llama-bench is needed")
    arguments.work.mkdir(parents=True, exist_ok=True)
    llama_bench = arguments.llama_bench or build(arguments.llama_cpp, arguments.work)

    kinds = arguments.types.split(",")
    files = {kind: model(arguments.infer, arguments.work, arguments.shape, kind) for kind in kinds}
    our = {kind: [] for kind in kinds}
    their = {kind: [] for kind in kinds}
    for round in range(arguments.rounds):
        for kind in kinds:
            our[kind].append(ours(arguments.infer, files[kind], arguments))
            their[kind].append(theirs(llama_bench, files[kind], arguments))
            print(f"round {round + 1}, {kind}: {our[kind][-1]} {their[kind][-1]}", file=sys.stderr)

    bandwidth = max(run[3] for runs in our.values() for run in runs)
    print(f"Random weights, shape {arguments.shape}, {arguments.threads} threads, best of {arguments.rounds}; memory is read with {bandwidth:.1f} GB/s.\n")
    print(f"| type | prompt of {arguments.prompt}: infer | llama-bench | ratio | decode: infer | of the bandwidth | llama-bench | of the bandwidth | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        prompt, decode = (max(run[n] for run in our[kind]) for n in (0, 1))
        their_prompt, their_decode = (max(run[n] for run in their[kind]) for n in (0, 1))
        share = our[kind][0][2] / 1e9 / bandwidth * 100
        print(f"| {kind} | {prompt:.1f} | {their_prompt:.1f} | {prompt / their_prompt:.2f} | {decode:.2f} | {decode * share:.0f} % "
              f"| {their_decode:.2f} | {their_decode * share:.0f} % | {decode / their_decode:.2f} |")


main()
