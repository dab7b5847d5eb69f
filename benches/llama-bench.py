#!/usr/bin/env python3
"""Tokens per second of `infer` and of llama.cpp's `llama-bench` on the same random weights, interleaved in one run.

    gpubuild build --backends cpu && cargo build --release -p infer
    python3 benches/llama-bench.py --llama-cpp DIR [--types q8_0,q4_0,q4_k,f16] [--threads 2] [--rounds 3] [--work DIR]

DIR is an unpacked llama.cpp; its `llama-bench` is built in the work folder with the build type Release and llama.cpp's defaults for
the backend. Both programs run on the same backend (`--backend`); the models have the shape of TinyLlama 1.1B unless `--shape` names
another one. Both process a prompt of 512 tokens and then generate 64 tokens at each context depth in `--depth`; the table has the
fastest of all rounds. The share of memory bandwidth counts the bytes that a token needs (weights and cache). On the CPU the reference
bandwidth is that of the same number of threads that only read memory, measured between the rounds; on a GPU it is that of a copy on
the device (`gk-test --bench`). The table on standard output is Markdown.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "benches" / "gpu"))

from kit import speed
from kit.page import number, percent, ratio, table

# CMake options of llama.cpp per backend.
SWITCHES = {"cpu": [], "cuda": ["-DGGML_CUDA=ON"], "rocm": ["-DGGML_HIP=ON"], "vulkan": ["-DGGML_VULKAN=ON"], "metal": [], "sycl": ["-DGGML_SYCL=ON"]}


def build(source, work, backend):
    """Builds llama-bench as the documentation of llama.cpp describes, without downloads."""
    folder = work / f"llama.cpp-{backend}"
    log = work / "llama.cpp.log"
    configure = ["cmake", "-S", source, "-B", folder, "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF", *SWITCHES[backend]]
    with open(log, "wb") as out:
        for command in (configure, ["cmake", "--build", folder, "--target", "llama-bench", "-j", str(os.cpu_count())]):
            if subprocess.run(command, stdout=out, stderr=out).returncode:
                sys.exit(f"building llama-bench failed: see {log}")
    return folder / "bin" / "llama-bench"


def device_copy(gk_test, backend):
    """Gigabytes per second of a copy on a GPU, or None."""
    if not gk_test:
        return None
    output = subprocess.run([gk_test, "--bench", "--backend", backend], check=True, capture_output=True).stdout
    return json.loads(output)["reference_bytes_per_s"] / 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=pathlib.Path, help="sources to build llama-bench from")
    parser.add_argument("--llama-bench", type=pathlib.Path, help="existing llama-bench program")
    parser.add_argument("--infer", type=pathlib.Path, default=ROOT / "target/release/infer")
    parser.add_argument("--gk-test", type=pathlib.Path, help="measures the bandwidth of a GPU; without it the table has no shares")
    parser.add_argument("--backend", default="cpu", choices=SWITCHES)
    parser.add_argument("--types", default="q8_0,q4_0,q4_k,f16")
    parser.add_argument("--shape", default="1.1b", choices=speed.SHAPES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--depth", default="512", help="context depths in tokens, separated by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=3600, help="seconds for each model")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "target/llama-bench")
    arguments = parser.parse_args()
    if not (arguments.llama_cpp or arguments.llama_bench):
        parser.error("--llama-cpp or --llama-bench is required")
    arguments.work.mkdir(parents=True, exist_ok=True)
    llama_bench = arguments.llama_bench or build(arguments.llama_cpp, arguments.work, arguments.backend)
    workload = speed.Workload(arguments.prompt, arguments.tokens, tuple(map(int, arguments.depth.split(","))))

    models = {}
    for kind in arguments.types.split(","):
        file = arguments.work / f"{arguments.shape}-{kind}-{workload.context}.gguf"
        written = speed.write_model(arguments.infer, file, arguments.shape, kind, workload, arguments.limit)
        if written and not written.ok:
            sys.exit(f"{file.name}: {written.detail}")
        models[kind] = report = {}
        speed.measure_interleaved(arguments.infer, llama_bench, file, arguments.backend, workload, arguments.rounds, time.monotonic() + arguments.limit,
                         report, fusion="on", threads=arguments.threads)
        print(f"{kind}: {json.dumps(report)}", file=sys.stderr)
        if report["problems"]:
            sys.exit(f"{kind}: {report['problems'][0]}")

    loops = [speed.best(report["infer"], "memory_gigabytes_per_second") for report in models.values()]
    bandwidth = max(filter(None, loops), default=None) or device_copy(arguments.gk_test, arguments.backend)
    print(f"Random weights, shape {arguments.shape}, {arguments.backend}, {arguments.threads} threads, best of {arguments.rounds}; "
          f"memory: {number(bandwidth) or 'not measured'} GB/s.\n")
    rows = []
    for kind, report in models.items():
        ours, their = report["infer"], report["llama-bench"]
        one, other = speed.best(ours, "fused", "prompt"), speed.best(their, "prompt")
        rows.append([kind, f"prompt of {workload.prompt}", number(one), "", number(other), "", ratio(one, other)])
        for depth in map(str, workload.depths):
            one, other = speed.best(ours, "fused", "decode", depth), speed.best(their, "decode", depth)
            read = speed.best(ours, "bytes_per_token", depth)
            share = lambda rate: percent(rate * read / 1e9 / bandwidth) if rate and bandwidth else ""
            rows.append([kind, f"decode at {depth}", number(one, 2), share(one), number(other, 2), share(other), ratio(one, other)])
    print(table(["type", "what", "infer", "of the bandwidth", "llama-bench", "of the bandwidth", "ratio"], rows), end="")


main()
