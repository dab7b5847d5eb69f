#!/usr/bin/env python3
"""Measures `gpubuild doctor --log` and grep on generated logs: CPU time, wall time and peak memory.

    benches/log.py target/release/gpubuild [--size 300000000] [SHAPE or FILE ...]

A shape is generated; a file, such as the log of a build, is repeated. Each log is written to a temporary folder, read by each command once,
and removed. `endless` is standard input that does not end: the command is ended after ten seconds, and only its memory is measured.
"""

import argparse
import os
import subprocess
import tempfile
import time

NAMES = ["ggml", "cuda", "common", "llama", "server", "quant", "vulkan", "sampling", "tools", "attention", "softmax"]


def ninja() -> bytes:
    lines = []
    for step in range(20_000):
        a, b = NAMES[step % 11], NAMES[step * 7 % 10]
        flags = f"-D{a.upper()}_VERSION=1 -I/home/ada/src/{a}/include -I/usr/local/cuda/include -O3 -DNDEBUG -fPIC -Wall -Werror=undef"
        lines.append(f"[{step}/20000] Building CXX object {a}/CMakeFiles/{b}.dir/{b}-{a}.cpp.o\n")
        if step % 2:
            lines.append(f"[{step}/20000] /usr/bin/c++ {flags} -MD -o {a}/CMakeFiles/{b}.dir/{a}.cpp.o -c /home/ada/src/{a}/{b}.cpp\n")
        if step % 10 == 0:
            lines.append(f"/home/ada/src/{a}/{b}.cpp:{step}:7: warning: unused variable 'x' [-Wunused-variable]\n")
    return "".join(lines).encode()


def errors() -> bytes:
    text = "a{}.obj : error LNK2001: unresolved external symbol cublasCreate_v2\n"
    return "".join(text.format(step) for step in range(20_000)).encode()


SHAPES = {
    "ninja": ninja,
    "errors": errors,
    "one line": lambda: b"x" * 1_000_000,
    "carriage returns": lambda: b"\r" * 1_000_000,
    "short lines": lambda: b"x\n" * 500_000,
    "zero bytes": lambda: b"\0" * 1_000_000,
    "progress": lambda: b"".join(b"\rDownloading %d%%" % (step % 101) for step in range(60_000)),
    "utf-16": lambda: ninja().decode().encode("utf-16-le"),
}


def measure(command: list[str]) -> tuple[float, str]:
    """The CPU time in seconds, and all figures."""
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    child.stdout.read()
    _, _, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - started
    cpu = used.ru_utime + used.ru_stime
    return cpu, f"wall {wall:.2f} s, cpu {cpu:.2f} s, peak {used.ru_maxrss / 1024:.0f} MiB"


def endless(program: str) -> str:
    source = subprocess.Popen(["yes", "error: foo"], stdout=subprocess.PIPE)
    child = subprocess.Popen([program, "doctor", "--log", "-"], stdin=source.stdout, stdout=subprocess.DEVNULL)
    time.sleep(10)
    with open(f"/proc/{child.pid}/status") as status:
        peak = next(line for line in status if line.startswith("VmHWM"))
    source.kill()
    child.wait()
    return peak.strip()


def write(path: str, name: str, size: int) -> None:
    if name in SHAPES:
        block = SHAPES[name]()
    else:
        with open(name, "rb") as file:
            block = file.read()
    with open(path, "wb") as log:
        log.write(b"\xff\xfe" if name == "utf-16" else b"")
        for _ in range(-(-size // len(block))):
            log.write(block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("shapes", nargs="*")
    parser.add_argument("--size", type=int, default=300_000_000)
    arguments = parser.parse_args()
    for name in arguments.shapes or [*SHAPES, "endless"]:
        if name == "endless":
            print(f"{name}: {endless(arguments.program)}", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "build.log")
            write(path, name, arguments.size)
            own, figures = measure([arguments.program, "doctor", "--log", path])
            print(f"{name}: gpubuild: {figures}", flush=True)
            for pattern in ["error", "error|fatal"]:
                cpu, figures = measure(["grep", "-a", "-c", "-E", pattern, path])
                print(f"{name}: grep -E {pattern}: {figures}; gpubuild needs {own / cpu:.1f} times its CPU time", flush=True)


if __name__ == "__main__":
    main()
