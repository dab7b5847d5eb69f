#!/usr/bin/env python3
"""Speed of `infer` on a simulated hybrid processor, where half of the threads are slowed down, compared with the ideal (Linux).

    gpubuild build --backends cpu && cargo build --release -p infer
    python3 benches/hybrid.py [--infer PROGRAM]... [--threads 2] [--rounds 5] [--random 300MB] [--prompt 128] [--tokens 32]

`hybrid.c` slows threads down: a timer interrupts them every 200 microseconds and keeps their core busy for half of that. The factor is
measured with a single thread, fast and slowed. The ideal is the speed of threads that are all fast, times the mean of the threads'
speeds. Runs are interleaved, the fastest of each kind counts. The processor needs as many cores as `--threads`. If other programs run, start it
with real-time priority (`chrt -f 10 python3 benches/hybrid.py`), which stops them meanwhile.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def build(folder):
    library = pathlib.Path(folder) / "hybrid.so"
    source = pathlib.Path(__file__).with_name("hybrid.c")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl", "-lpthread", "-lrt"], check=True)
    return library


def measure(infer, arguments, threads, slowed):
    """Tokens per second of a prompt and of decoding."""
    command = [infer, "bench", "--random", arguments.random, "--backend", "cpu", "--threads", str(threads), "--runs", "1", "--json",
               "--prompt-tokens", str(arguments.prompt), "--tokens", str(arguments.tokens)]
    output = subprocess.run(command, check=True, capture_output=True, env={**os.environ, **slowed}).stdout
    report = json.loads(output)
    return {"prompt": report["prompt"]["best_tokens_per_second"], "decode": report["decode"]["best_tokens_per_second"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infer", action="append", help="program; several are compared [default: target/release/infer]")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--random", default="300MB", help="size of the model")
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--tokens", type=int, default=32)
    arguments = parser.parse_args()
    programs = arguments.infer or [str(ROOT / "target/release/infer")]
    with tempfile.TemporaryDirectory() as folder:
        library = str(build(folder))
        kinds = {
            "one": (1, {}),
            "one slowed": (1, {"LD_PRELOAD": library, "HYBRID_MAIN": "1"}),
            "all": (arguments.threads, {}),
            "half slowed": (arguments.threads, {"LD_PRELOAD": library, "HYBRID_THREADS": str(arguments.threads)}),
        }
        best = {}
        for _ in range(arguments.rounds):
            for kind, (threads, slowed) in kinds.items():
                for program in programs:
                    for what, speed in measure(program, arguments, threads, slowed).items():
                        best[program, what, kind] = max(speed, best.get((program, what, kind), 0))
    print("| program | what | one thread | one slowed | all fast | half slowed | ideal | ideal / half slowed |")
    print("|---|---|---|---|---|---|---|---|")
    for program in programs:
        for what in ("prompt", "decode"):
            speeds = [best[program, what, kind] for kind in kinds]
            ideal = speeds[2] * (1 + speeds[1] / speeds[0]) / 2
            print(f"| {program} | {what} | " + " | ".join(f"{speed:.1f}" for speed in [*speeds, ideal]) + f" | {ideal / speeds[3]:.2f} |")


if __name__ == "__main__":
    main()
