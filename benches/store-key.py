#!/usr/bin/env python3
"""Times to compute the store key of a project with many files: cold, warm, and after one change; compared with git, Ninja and sha256sum.

    benches/store-key.py target/release/gpubuild [FILES]

Creates the files in a temporary folder with typical sizes of sources (a log-normal distribution around 5 kB with a fixed seed)
and prints a table for docs/contributing/performance.md. Needs git and Ninja; with strace it also counts opened files and bytes read.
"""

import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = 7


def make(root: str, count: int) -> int:
    """Writes the project and returns the size of its sources in bytes."""
    numbers = random.Random(1)
    total = 0
    for index in range(count):
        folder = f"{root}/project/src/part{index // 100}"
        os.makedirs(folder, exist_ok=True)
        line = f"int function{index}(int x) {{ return x * {index} + 1; }}  // a line of typical length\n"
        size = min(300_000, int(numbers.lognormvariate(8.6, 1.1)))
        text = line * (size // len(line) + 1)
        total += len(text)
        with open(f"{folder}/file{index}.c", "w") as file:
            file.write(text)
    with open(f"{root}/project/CMakeLists.txt", "w") as file:
        file.write("cmake_minimum_required(VERSION 3.16)\nproject(many C)\nadd_library(many STATIC src/part0/file0.c)\n")
    with open(f"{root}/gpubuild.toml", "w") as file:
        file.write('schema = 1\n[project]\nname = "many"\nsource = "project"\ntargets = ["many"]\n')
    return total


def ninja_file(root: str, count: int) -> None:
    """Writes a Ninja file with one step per source."""
    os.makedirs(f"{root}/ninja")
    with open(f"{root}/ninja/build.ninja", "w") as file:
        file.write("rule copy\n  command = cp $in $out\n")
        for index in range(count):
            file.write(f"build file{index}.o: copy ../project/src/part{index // 100}/file{index}.c\n")


def measure(command: list[str], cwd: str, env: dict[str, str]) -> tuple[float, float]:
    """Wall and CPU time in milliseconds."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return wall * 1e3, cpu * 1e3


def counted(command: list[str], cwd: str, env: dict[str, str]) -> tuple[str, str, str, str]:
    """Returns sources opened, bytes read, file queries, and processes started."""
    if not shutil.which("strace"):
        return ("?",) * 4
    with tempfile.NamedTemporaryFile("r") as log:
        calls = "openat,read,pread64,execve,statx,newfstatat,lstat,stat"
        traced = ["strace", "-f", "-o", log.name, "-e", f"trace={calls}", *command]
        subprocess.run(traced, cwd=cwd, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = log.read()
    # With several threads strace may split a call into two lines.
    opened = len(re.findall(r"openat\([^\n]*src/part\d+/file\d+\.c", text))
    read = sum(int(size) for size in re.findall(r"(?:read|pread64)(?:\(| resumed>)[^\n]*= (\d+)$", text, re.M))
    queries = len(re.findall(r"(?:statx|newfstatat|lstat|stat)\(", text))
    started = len(re.findall(r"execve(?:\(| resumed>)[^\n]*= 0$", text, re.M)) - 1
    return f"{opened}", f"{read / 1e6:.1f} MB", f"{queries}", f"{started}"


def main() -> None:
    gpubuild = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    root = tempfile.mkdtemp(prefix="store-key-")
    env = {**os.environ, "GPUBUILD_CACHE": f"{root}/cache", "GPUBUILD_STORE": "on"}
    try:
        total = make(root, count)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.fsmonitor=false", "-C", f"{root}/project"]
        for options in (["init", "-q"], ["add", "."], ["commit", "-qm", "files"]):
            subprocess.run([*git, *options], check=True)
        ninja_file(root, count)
        subprocess.run(["ninja", "-C", f"{root}/ninja"], check=True, stdout=subprocess.DEVNULL)
        # Neither gpubuild's hash cache nor git's index trusts files that were modified just now.
        time.sleep(2.5)
        subprocess.run([*git, "status", "--porcelain"], check=True)
        key = [gpubuild, "cache", "explain", "--backends", "cpu"]
        hashes = ["sh", "-c", "find project/src -type f -print0 | xargs -0 sha256sum"]

        def forget() -> None:
            shutil.rmtree(f"{root}/cache", ignore_errors=True)

        def change() -> None:
            with open(f"{root}/project/src/part3/file333.c", "a") as file:
                file.write("// more\n")

        jobs = [
            ("`gpubuild cache explain`, cold", key, forget),
            ("`gpubuild cache explain`, warm", key, None),
            ("`gpubuild cache explain`, one file changed", key, change),
            ("`gpubuild plan` (the same detection, no key)", [gpubuild, "plan", "--backends", "cpu"], None),
            ("`git status`, warm", [*git, "status", "--porcelain"], None),
            ("`ninja`, no work to do, one step per file", ["ninja", "-C", f"{root}/ninja"], None),
            ("`sha256sum` of all files", hashes, None),
        ]
        times: dict[str, list[tuple[float, float]]] = {label: [] for label, *_ in jobs}
        for _ in range(TURNS):
            for label, command, prepare in jobs:
                if prepare:
                    prepare()
                # The changed file causes extra work for git and Ninja, so they run once before the measurement.
                if prepare is None and label.startswith(("`git", "`ninja")):
                    measure(command, root, env)
                times[label].append(measure(command, root, env))
        print(f"{count} files, {total / 1e6:.1f} MB, medians of {TURNS} turns\n")
        print("| command | wall | CPU | sources read | bytes read | file queries | programs started |")
        print("|---|---|---|---|---|---|---|")
        for label, command, prepare in jobs:
            if prepare:
                prepare()
            wall, cpu = (statistics.median(values) for values in zip(*times[label]))
            print(f"| {label} | {wall:.0f} ms | {cpu:.0f} ms | " + " | ".join(counted(command, root, env)) + " |")
    finally:
        shutil.rmtree(root)


main()
