"""Tokens per second of `infer` and of llama.cpp's `llama-bench` on the same random weights, interleaved."""

import json
import time

from .process import KEPT, LineProtocol, call

TYPES = ("f16", "q8_0", "q4_0", "q4_k")
# Options of `infer random-model`. The first two have the shapes of TinyLlama 1.1B and of Llama 3 8B.
SHAPES = {
    "1.1b": {"layers": 22, "width": 2048, "heads": 32, "heads-kv": 4, "head-width": 64, "ff": 5632, "vocab": 32000},
    "8b": {"layers": 32, "width": 4096, "heads": 32, "heads-kv": 8, "head-width": 128, "ff": 14336, "vocab": 128256},
    "tiny": {"layers": 2, "width": 256, "heads": 4, "heads-kv": 2, "head-width": 64, "ff": 512, "vocab": 512},
}


class Workload:
    """One round of both programs: process a prompt, then generate `tokens` tokens at each context depth in `depths`."""

    def __init__(self, prompt=512, tokens=64, depths=(0, 8192)):
        self.prompt, self.tokens, self.depths = prompt, tokens, depths

    @property
    def context(self):
        """Context length that the model needs."""
        return max(self.prompt, max(self.depths)) + 2 * self.tokens


def write_model(infer, file, shape, kind, workload, limit):
    """Writes a model with random weights unless the file exists."""
    unfinished = file.with_suffix(".part")
    sizes = [option for name, size in SHAPES[shape].items() for option in (f"--{name}", size)]
    command = [infer, "random-model", unfinished, "--type", kind, "--ctx", workload.context, *sizes]
    if file.exists():
        return None
    step = call(f"write {file.name}", command, limit)
    if step.ok:
        unfinished.rename(file)
    else:
        unfinished.unlink(missing_ok=True)
    return step


class InferBench:
    """`infer bench --turns`: loads the model once and measures one run per request."""

    def __init__(self, infer, file, backend, workload, fusion="both", threads=0, env=None):
        self.protocol = LineProtocol(
            [infer, "bench", "--turns", "--backend", backend, "--threads", threads, "--model", file, "--prompt-tokens", workload.prompt,
             "--tokens", workload.tokens, "--depth", ",".join(map(str, workload.depths)), "--fusion", fusion], env)

    def ready(self, limit):
        """Waits until the model is loaded. Returns what the program reports about the device."""
        return json.loads(self.protocol.line(limit))

    def run(self, limit):
        self.protocol.send()
        report = json.loads(self.protocol.line(limit))
        runs = {"memory_gigabytes_per_second": report.get("memory_gigabytes_per_second")}
        for measured in report["measured"]:
            runs["fused" if measured["fused"] else "unfused"] = {
                "prompt": measured["prompt"]["best_tokens_per_second"],
                "decode": {
                    str(decode["depth"]): max(decode[way]["best_tokens_per_second"] for way in ("stepwise", "unattended"))
                    for decode in measured["decode"]
                },
                "replay": measured["replay"],
            }
            runs["bytes_per_token"] = {str(decode["depth"]): decode["bytes_per_token"] for decode in measured["decode"]}
        return runs

    def close(self):
        self.protocol.close()


def llama_bench_round(llama_bench, file, backend, workload, limit, threads=0, env=None):
    """One run of `llama-bench`. Returns the step and the speeds measured until it ended."""
    command = [llama_bench, "-m", file, "-p", workload.prompt, "-n", workload.tokens, "-d", ",".join(map(str, workload.depths)),
               "-r", 1, "-o", "jsonl", "-ngl", 0 if backend == "cpu" else 99]
    if threads:
        command += ["-t", threads]
    step = call("llama-bench", command, limit, env)
    speeds = {"prompt": None, "decode": {}}
    for line in step.out.splitlines():
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        if row["n_prompt"] and not row["n_gen"] and row["n_depth"] == 0:
            speeds["prompt"] = row["avg_ts"]
        elif row["n_gen"] and not row["n_prompt"]:
            speeds["decode"][str(row["n_depth"])] = row["avg_ts"]
        speeds["build"] = f"{row['build_number']} ({row['build_commit']})"
        speeds["gpu"] = row["gpu_info"]
    # Without a working driver it falls back to the CPU and reports that only on standard error.
    if step.ok and backend != "cpu" and not speeds.get("gpu"):
        step.state, step.detail = "failed", f"llama-bench found no GPU: {step.err.strip()[-KEPT:]}"
        speeds = {"prompt": None, "decode": {}}
    return step, speeds


def measure_interleaved(infer, llama_bench, file, backend, workload, rounds, deadline, report, fusion="both", threads=0, env=None, their_env=None):
    """Interleaves rounds of `infer` and `llama-bench` until `deadline` (of time.monotonic).

    Adds the speeds to `report` as they are measured: {"infer": [run, ...], "llama-bench": [run, ...], "problems": [text, ...]}.
    """
    report.update({"infer": [], "llama-bench": [], "problems": []})
    left = lambda: deadline - time.monotonic()
    ours = None
    try:
        try:
            ours = InferBench(infer, file, backend, workload, fusion, threads, env)
            report["device"] = ours.ready(left())["device"]["name"]
        except (RuntimeError, OSError, ValueError) as error:
            report["problems"].append(f"infer: {error}")
            ours = ours and ours.close()
        for _ in range(rounds):
            if left() <= 0:
                report["problems"].append("the stage ran out of time")
                break
            if ours:
                try:
                    report["infer"].append(ours.run(left()))
                except (RuntimeError, ValueError, KeyError) as error:
                    report["problems"].append(f"infer: {error}")
                    ours = ours.close()
            if llama_bench:
                step, speeds = llama_bench_round(llama_bench, file, backend, workload, left(), threads, their_env or env)
                if speeds["prompt"] or speeds["decode"]:
                    report["llama-bench"].append(speeds)
                if not step.ok:
                    report["problems"].append(f"llama-bench: {step.detail}")
                    llama_bench = None
    finally:
        if ours:
            ours.close()


def best(runs, *path):
    """The largest value at a path in the runs; None if no run has one."""
    values = []
    for run in runs:
        for key in path:
            run = run.get(key) if isinstance(run, dict) else None
        if run is not None:
            values.append(run)
    return max(values, default=None)
