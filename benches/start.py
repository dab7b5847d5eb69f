#!/usr/bin/env python3
"""Start-up times of `infer` in a root with only the program and its C library: no drivers, no `/proc`.

    benches/start.py target/release/infer [--runs 50]

Prints best and median in milliseconds of wall time from exec: the first byte of text of the embedded model, the discovery of
all backends (`infer devices`), and `infer --version`, which does neither. As root the script calls chroot; otherwise it uses
`unshare`, whose start-up time is then included.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROWS = [
    ("version", ["--version"]),
    ("discovery", ["devices", "--json"]),
    ("first token", ["run", "--tokens", "1"]),
    ("8 tokens", ["run", "--tokens", "8"]),
]


def fill(root, program):
    shutil.copy(program, os.path.join(root, "infer"))
    listed = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    for line in listed.splitlines():
        path = next((part for part in line.split() if part.startswith("/")), None)
        if path:
            inside = root + path
            os.makedirs(os.path.dirname(inside), exist_ok=True)
            shutil.copy(path, inside)


def start(root, arguments):
    """Runs the program; returns the milliseconds to its first byte and to its exit, and its output."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {}}
    began = time.perf_counter()
    if os.geteuid() == 0:
        child = subprocess.Popen(["/infer", *arguments], preexec_fn=lambda: (os.chroot(root), os.chdir("/")), **pipes)
    else:
        unshare = [shutil.which("unshare"), "--user", "--map-root-user", f"--root={root}", "/infer"]
        child = subprocess.Popen(unshare + arguments, **pipes)
    first = child.stdout.read(1)
    to_first = time.perf_counter() - began
    out = first + child.stdout.read()
    errors = child.stderr.read()
    code = child.wait()
    to_end = time.perf_counter() - began
    if code != 0 or not first:
        sys.exit(f"`infer {' '.join(arguments)}` ended with {code}: {errors.decode(errors='replace')}")
    return to_first * 1e3, to_end * 1e3, out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--runs", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as root:
        fill(root, arguments.program)
        times = {name: [] for name, _ in ROWS}
        for _ in range(arguments.runs):
            # Interleaved, so that background load affects all rows.
            for name, options in ROWS:
                times[name].append(start(root, options)[:2])
    print(f"{'':12} {'first byte':>20} {'end':>20}")
    for name, pairs in times.items():
        cells = []
        for values in zip(*pairs):
            cells.append(f"{min(values):8.1f} ({statistics.median(values):.1f}) ms")
        print(f"{name:12} {cells[0]:>20} {cells[1]:>20}")


if __name__ == "__main__":
    main()
