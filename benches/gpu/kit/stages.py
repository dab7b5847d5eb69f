"""The stages of a run. Each fills its `result` step by step, so that measurements before a timeout are kept."""

import csv
import json
import os
import pathlib
import re
import shutil
import time

from . import speed
from .process import KEPT, call

# Metrics of `ncu` and their names in the result.
COUNTERS = {
    "gpu__time_duration.sum": "nanoseconds",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram_percent",
    "dram__bytes.sum": "dram_bytes",
    "l1tex__data_pipe_lsu_wavefronts.sum": "l1_wavefronts",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed": "l1_wavefronts_percent",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy_percent",
    "launch__registers_per_thread": "registers",
}
# Kernels used in decoding (and for the last row of a prompt); all others are prompt kernels.
DECODE = r"_1$|^split|^topk"
SMI_FIELDS = ("name", "driver_version", "memory.total", "pcie.link.gen.current", "pcie.link.width.current", "ecc.mode.current",
              "mig.mode.current", "persistence_mode", "pstate", "clocks.sm", "clocks.mem", "clocks.max.sm", "clocks.max.mem",
              "power.draw", "power.limit", "temperature.gpu")


class Failed(Exception):
    """A stage failed; the message is the reason."""


class Stage:
    """A running stage: its deadline, steps and result."""

    def __init__(self, run, name, deadline):
        self.run, self.name, self.deadline = run, name, deadline
        self.started = time.monotonic()
        self.steps, self.problems, self.result = [], [], {}

    def left(self):
        return self.deadline - time.monotonic()

    def step(self, name, command, most=None, env=None, accept=(0,)):
        """Runs a command within the time of the stage. A failed step is a problem of the stage."""
        limit = self.left() if most is None else min(most, self.left())
        return self.add(call(name, command, limit, env or self.run.env, accept))

    def add(self, step):
        self.steps.append(step)
        self.run.log(self.name, step)
        if not step.ok:
            self.problems.append(f"{step.name}: {step.detail}")
        return step

    def document(self, step):
        """The JSON document that a step printed, or None."""
        try:
            return json.loads(step.out)
        except ValueError:
            if step.ok:
                self.problems.append(f"{step.name}: output is not JSON: {(step.err.strip() or step.out.strip())[-KEPT:]}")
            return None


def machine(stage):
    """Detects the machine and measures its memory and matrix units."""
    run = stage.run
    stage.result["detect"] = stage.document(stage.step("detect", [run.gpubuild, "detect", "--probe", "--json"], 60))
    # Exit code 1 means that the doctor found errors; they are in the document.
    stage.result["doctor"] = stage.document(stage.step("doctor", [run.gpubuild, "doctor", "--json"], 60, accept=(0, 1)))
    stage.step("host record", [run.gpubuild, "host", "record", "--probe", "--force", run.out / "host.toml"], 60)
    smi = stage.step("nvidia-smi", ["nvidia-smi", f"--query-gpu={','.join(SMI_FIELDS)}", "--format=csv,noheader,nounits"], 20)
    if smi.ok:
        rows = list(csv.reader(smi.out.splitlines(), skipinitialspace=True))
        stage.result["nvidia_smi"] = [dict(zip(SMI_FIELDS, row)) for row in rows]
    bench = stage.step("gk-test --bench", [run.gk_test, "--bench", "--backend", run.backend, "--bytes", run.size.bench_bytes], 60)
    stage.result["kernels"] = stage.document(bench) if bench.ok else None
    rates = stage.step("PyTorch", ["python3", pathlib.Path(__file__).with_name("torch_rates.py"), *run.size.torch], 60)
    stage.result["torch"] = stage.document(rates) if rates.ok else None


def correctness(stage):
    """Compares every op with the float64 reference, checks the embedded model, and compares its text with that of the CPU."""
    run = stage.run
    check = stage.step("infer check", [run.infer, "check", "--backend", run.backend, "--json"], 60, accept=(0, 1))
    report = stage.document(check)
    if report:
        wrong = [row for row in report["rows"] if not row["ok"]]
        stage.result["check"] = {"comparisons": len(report["rows"]), "wrong": wrong, "replay": report["replay"]}
        if wrong:
            stage.problems.append(f"infer check: {len(wrong)} of {len(report['rows'])} comparisons failed")
    texts = {}
    for backend in ("cpu", run.backend):
        output = stage.step(f"text of {backend}", [run.infer, "run", "--quiet", "--backend", backend, "--tokens", run.size.text], 60)
        texts[backend] = output.out if output.ok else None
    if None not in texts.values():
        stage.result["text"] = {"tokens": run.size.text, "equal": texts["cpu"] == texts[run.backend]}
        if not stage.result["text"]["equal"]:
            stage.problems.append(f"the text of {run.backend} differs from that of cpu")
    seconds = max(int(stage.left()) - 5, 0)
    ops = stage.step("gk-test", [run.gk_test, "--backend", run.backend, "--json", "--seconds", seconds, *run.size.cases], accept=(0, 1))
    report = stage.document(ops)
    if report:
        stage.result["ops"] = {key: report[key] for key in ("device", "arch", "driver", "passed", "failed", "skipped", "not_run")}
        stage.result["ops"]["failures"] = [case for case in report["cases"] if case.get("ok") is False][:50]
        errors = {}
        for case in report["cases"]:
            if case.get("ok") and "nmse" in case:
                key = f"{case['op']} {case['type']}"
                errors[key] = max(errors.get(key, 0.0), case["nmse"])
        stage.result["ops"]["largest_nmse"] = errors
        if report["failed"]:
            stage.problems.append(f"gk-test: {report['failed']} cases failed")
        if report["not_run"]:
            stage.problems.append(f"gk-test: {report['not_run']} cases did not run within the time")


def sanitizer(stage):
    """Runs compute-sanitizer on the kernels of matmul and attention; the suite limits its own time."""
    run = stage.run
    combinations = [(tool, part) for tool in ("memcheck", "racecheck") for part in ("matmul", "attention", "fused")]
    for done, (tool, part) in enumerate(combinations):
        share = stage.left() / (len(combinations) - done)
        # The rest of the share is for the last running case and for the sanitizer's overhead.
        seconds = min(max(int(share * 0.7) - 3, 1), run.size.sanitized)
        name, log = f"{tool} {part}", run.out / f"{tool}-{part}.log"
        command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", 9, "--print-limit", 20, "--log-file", log, run.gk_test,
                   "--backend", run.backend, "--only", part, "--json", "--seconds", seconds]
        step = stage.step(name, command, share, accept=(0, 1, 9))
        found = {"state": step.state, "seconds": round(step.seconds, 1)}
        stage.result[name] = found
        text = log.read_text(errors="replace") if log.exists() else ""
        log.unlink(missing_ok=True)
        summary = re.search(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", text)
        if summary:
            found["errors"] = int(summary[1] or summary[2])
        elif step.ok:
            stage.problems.append(f"{name}: compute-sanitizer printed no summary")
        if found.get("errors"):
            found["text"] = text[:4000]
            stage.problems.append(f"{name}: {found['errors']} errors")
        # The JSON report of gk-test; the sanitizer may print lines before and after it.
        start = step.out.find("{")
        try:
            report, _ = json.JSONDecoder().raw_decode(step.out[start:])
            found.update({key: report[key] for key in ("passed", "failed", "skipped", "not_run")})
        except (ValueError, KeyError):
            stage.problems.append(f"{name}: gk-test printed no report")


def counters(text):
    """The launches in the CSV output of `ncu`: a list of (kernel, {metric: value})."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    launches = {}
    for row in csv.DictReader(lines):
        kernel, values = launches.setdefault(row["ID"], (row["Kernel Name"].split("(")[0], {}))
        try:
            values[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except ValueError:
            values[row["Metric Name"]] = None  # n/a: the GPU lacks this counter
    return list(launches.values())


# Does not change clocks, profiles kernels in graphs individually, and ignores child processes.
NCU = ["ncu", "--csv", "--print-units", "base", "--clock-control", "none", "--graph-profiling", "node", "--target-processes", "application-only"]


def most_time(launches, count):
    """The kernels with the largest total time: [(name, share of the time of all kernels)]."""
    totals = {}
    for kernel, values in launches:
        totals[kernel] = totals.get(kernel, 0) + (values.get("gpu__time_duration.sum") or 0)
    total = sum(totals.values())
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return [(name, spent / total if total else None) for name, spent in ordered[:count]]


def profile(stage):
    """Profiles with ncu: the slowest kernels of decoding and prompts, and what limits each of them."""
    run = stage.run
    infer = [run.infer, "bench", "--backend", run.backend, "--random", run.size.profiled, "--kind", "q4_0", "--runs", 1]
    work = {
        "decode": [*infer, "--prompt-tokens", 1, "--tokens", 2, "--depth", run.size.profiled_depth],
        "prompt": [*infer, "--prompt-tokens", 64, "--tokens", 1, "--depth", 0],
    }
    # Decoding: only its kernels, after the tokens that fill the cache. Prompts: the first launches.
    which = {"decode": ["--kernel-name", f"regex:{DECODE}", "--launch-skip", 20, "--launch-count", 400], "prompt": ["--launch-count", 300]}
    kernels = stage.result["kernels"] = []
    for part, most in (("decode", 4), ("prompt", 2)):
        duration = ["--metrics", "gpu__time_duration.sum", *which[part]]
        times = stage.step(f"ncu: time of kernels, {part}", [*NCU, *duration, *work[part]], stage.left() * 0.3)
        launches = [launch for launch in counters(times.out) if part == "decode" or not re.search(DECODE, launch[0])]
        if not launches and times.ok:
            stage.problems.append(f"ncu: no kernel of {part} was profiled")
        kernels += [{"name": name, "part": part, "time_share": share} for name, share in most_time(launches, most)]
    if not kernels:
        raise Failed("ncu: no kernel was profiled")
    metrics = list(COUNTERS)
    for done, kernel in enumerate(kernels):
        name = kernel["name"]
        # The third launch: caches are cold in the first ones.
        one = ["--kernel-name", f"regex:^{name}$", "--launch-skip", 2, "--launch-count", 1]
        command = lambda: [*NCU, "--metrics", ",".join(metrics), *one, *work[kernel["part"]]]
        step = call(f"ncu: {name}", command(), stage.left() / (len(kernels) - done), run.env)
        unknown = [metric for metric in metrics if not counters(step.out) and metric in step.out + step.err]
        if unknown:
            # ncu rejects all counters if the GPU lacks one of them.
            metrics = [metric for metric in metrics if metric not in unknown]
            stage.problems.append(f"ncu: this GPU has no {', '.join(unknown)}")
            step = call(f"ncu: {name}", command(), stage.left() / (len(kernels) - done), run.env)
        stage.add(step)
        for _, values in counters(step.out):
            kernel.update({COUNTERS[metric]: value for metric, value in values.items() if metric in COUNTERS})


def measure_speed(stage):
    """Interleaves infer and llama-bench for one random model at a time."""
    run, size = stage.run, stage.run.size
    stage.result["workload"] = {"prompt": size.workload.prompt, "tokens": size.workload.tokens, "depths": list(size.workload.depths)}
    stage.result["models"] = []
    if not run.llama_bench:
        stage.problems.append("llama-bench: not in the kit")
    longest = {}
    for shape, kind in size.models:
        if stage.left() < longest.get(shape, 0):
            stage.problems.append(f"{shape} {kind}: not measured: {stage.left():.0f} s left, and a model of this shape took {longest[shape]:.0f} s")
            continue
        started = time.monotonic()
        file = run.models / f"{shape}-{kind}.gguf"
        written = speed.write_model(run.infer, file, shape, kind, size.workload, stage.left())
        if written and not stage.add(written).ok:
            continue
        model = {"shape": shape, "type": kind, "file_bytes": file.stat().st_size}
        stage.result["models"].append(model)
        print(f"  {shape} {kind}", flush=True)
        try:
            speed.measure_interleaved(run.infer, run.llama_bench, file, run.backend, size.workload, size.rounds, stage.deadline, model, env=run.env, their_env=run.library_env)
        finally:
            file.unlink()
            run.save()
        stage.problems += [f"{shape} {kind}: {problem}" for problem in model["problems"]]
        if not model["infer"] and not model["llama-bench"]:
            continue
        longest[shape] = max(longest.get(shape, 0), time.monotonic() - started)


def validate(stage):
    """Runs `gpubuild doctor --validate`: small programs compiled, linked and run with the tools of this machine."""
    run = stage.run
    backends = [run.backend] + (["vulkan"] if has_vulkan_driver(run.env) or run.rehearsal else [])
    for backend in backends:
        command = [run.gpubuild, "doctor", "--validate", "--backends", backend, "--json"]
        report = stage.document(stage.step(f"validate {backend}", command, accept=(0, 1)))
        if report:
            stage.result[backend] = report["validation"]
            # Without the headers nothing could be compiled, which says nothing about the GPU.
            wrong = [json.dumps(program) for program in report["validation"] if not program["ok"] and not missing_sdk(program)]
            stage.problems += [f"validate {backend}: {program}" for program in wrong]


def missing_sdk(program):
    """Whether a program of `validate` was not compiled because this machine has no headers or shader compiler."""
    return "-missing]" in program.get("message", "")


def has_vulkan_driver(env):
    """Whether a Vulkan driver for NVIDIA GPUs is installed or configured."""
    folders = ("/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/nvidia/share/vulkan/icd.d")
    named = env.get("VK_DRIVER_FILES") or env.get("VK_ICD_FILENAMES")
    return bool(named) or any(pathlib.Path(folder, "nvidia_icd.json").exists() for folder in folders)


# In order, with seconds of the default limit; time left by a stage goes to the next ones.
STAGES = {
    "machine": (machine, 45),
    "correctness": (correctness, 60),
    "sanitizer": (sanitizer, 55),
    "profile": (profile, 60),
    "speed": (measure_speed, 210),
    "validate": (validate, 40),
}


def perform(run, name, deadline):
    """Runs a stage and returns its entry in the result file. No failure of a stage ends the run."""
    work, _ = STAGES[name]
    stage = Stage(run, name, deadline)
    run.stages.append(record := {"name": name, "state": "not ended", "result": stage.result})
    crashed = None
    try:
        work(stage)
    except Failed as error:
        crashed = str(error)
    except Exception as error:  # A bug in one stage must not stop the others.
        crashed = f"{type(error).__name__}: {error}"
        run.log_crash(name)
    if crashed:
        stage.problems.append(crashed)
    over = stage.left() <= 0
    record["state"] = "stopped" if over else "failed" if crashed else "problems" if stage.problems else "ok"
    record["seconds"] = round(time.monotonic() - stage.started, 1)
    record["share"] = round(deadline - stage.started, 1)
    record["problems"] = stage.problems
    record["steps"] = [step.record() for step in stage.steps]
    return record


def tool(name, env):
    """The path of a program on PATH, or None."""
    return shutil.which(name, path=env.get("PATH", os.defpath))
