#!/usr/bin/env python3
"""Compares what nvcc says about the CUDA kernels with benches/gpu/resources.txt: registers, stack, spilled bytes, static shared memory.

    benches/gpu/resources.py build.log            # the output of a build with `NVCC_APPEND_FLAGS="--resource-usage --threads=1"`
    benches/gpu/resources.py                      # compiles the kernels itself: some minutes of CPU time
    benches/gpu/resources.py --update [build.log] # writes the table

Fewer warps, a larger stack, more spilled bytes or more shared memory than in the table are an error: either the kernel is wrong, or the table
is to be written again, with the reason in the commit. The other direction is an error too, so that the table stays true. Up to eight registers
more or less are not, if as many warps fit, nor up to 16 bytes where there are some: that much depends on the folder of the sources. The compiler
has to be the one that the table names.

The table also has the warps that fit into a multiprocessor at once, by registers, shared memory and block size, and how many it could hold
(CUDA Programming Guide, technical specifications per compute capability).
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "resources.txt"
GK = HERE.parent.parent / "vendor/gk"
# Per multiprocessor: warps, and bytes of shared memory. Of a block's shared memory, the driver keeps 1 KiB on 8.0 and newer.
LIMITS = {75: (32, 65536), 80: (64, 167936), 86: (48, 102400), 89: (48, 102400), 90: (64, 233472), 100: (64, 233472), 120: (48, 102400)}
REGISTERS = 65536
# What depends on the folder of the sources: the names of the compiler's symbols do, and the order of registers on them.
REGISTER_NOISE = 8
BYTE_NOISE = 16
BLOCKS = {75: 16, 80: 32, 86: 16, 89: 24, 90: 32, 100: 32, 120: 24}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", help="output of a build")
    parser.add_argument("--nvcc", default="nvcc", help="the compiler, which the table names and which is started if there is no log")
    parser.add_argument("--update", action="store_true", help="write the table")
    arguments = parser.parse_args()
    compiler = release(arguments.nvcc)
    report = pathlib.Path(arguments.log).read_text() if arguments.log else compile_kernels(arguments.nvcc)
    rows = parse(report)
    if not rows:
        sys.exit("resources.py: the output has no lines of ptxas: build as `--help` says, in an empty folder")
    table = render(rows, compiler, block_sizes())
    if arguments.update:
        TABLE.write_text(table)
        print(f"{TABLE.name}: {len(rows)} kernels for {len(architectures(rows))} architectures")
        return
    compare(TABLE.read_text(), table)


def release(nvcc):
    output = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", output)[1]


def compile_kernels(nvcc):
    """Machine code for every architecture of LIMITS, as the default list of src/cuda/CMakeLists.txt."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        # One architecture at a time: nvcc mixes the lines of architectures that it compiles at once.
        return "".join(pool.map(lambda number: compile_for(nvcc, number, folder), LIMITS))


def compile_for(nvcc, number, folder):
    command = [nvcc, "-cubin", "-O3", "-std=c++17", f"-I{GK}/include", f"-I{GK}/src/gpu", "--resource-usage"]
    from_ptx, code = ("90a", "90a") if number == 90 else (level(number), number)
    command += [f"-gencode=arch=compute_{from_ptx},code=sm_{code}", "-o", f"{folder}/{number}", f"{GK}/src/gpu/kernels.cu"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"resources.py: nvcc failed:\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def level(number):
    """The PTX from which machine code is made: the newest that the kernels compare with."""
    found = set()
    for file in (GK / "src/gpu/kernels").glob("*.cuh"):
        found.update(int(text) for text in re.findall(r"__CUDA_ARCH__ >= (\d+)0", file.read_text()))
    return max((one for one in found if one <= number), default=number)


def parse(report):
    """{kernel: {architecture: (registers, stack, spilled, shared)}}. Spilled bytes are those stored and loaded."""
    rows = {}
    compiling = r"Compiling entry function '(\w+)' for 'sm_(\d+)[af]?'"
    properties = r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    used = r"Used (\d+) registers(?:.*?(\d+) bytes smem)?"
    kernel = sizes = None
    # With `--threads=2`, the lines of two architectures are mixed.
    for line in report.splitlines():
        if match := re.search(compiling, line):
            kernel, sizes = (match[1], int(match[2])), (0, 0)
        elif match := re.search(properties, line):
            sizes = (int(match[1]), int(match[2]) + int(match[3]))
        elif (match := re.search(used, line)) and kernel:
            rows.setdefault(kernel[0], {})[kernel[1]] = (int(match[1]), *sizes, int(match[2] or 0))
            kernel = None
    return rows


def architectures(rows):
    return sorted({number for row in rows.values() for number in row})


def block_sizes():
    """{kernel: threads of a block}, from the launch bounds."""
    command = ["c++", "-E", "-P", "-x", "c++", "-D__CUDACC__", "-D__CUDA_ARCH__=900", f"-I{GK}/include", f"-I{GK}/src/gpu"]
    text = subprocess.run([*command, f"{GK}/src/gpu/kernels.cu"], capture_output=True, text=True, check=True).stdout
    constants = {name: int(value, 0) for name, value in re.findall(r"(GK_GPU_\w+) = (\w+)[,\s}]", text)}
    bounds = re.findall(r"__launch_bounds__\(([^(),]*)(?:,[^()]*)?\) (\w+)\(", text)
    return {name: eval(expression, {"__builtins__": {}}, constants) for expression, name in bounds}


def resident_warps(number, registers, shared, threads):
    """Registers are given out per warp, in units of 256, to each of the four parts of a multiprocessor."""
    warps, memory = LIMITS[number]
    of_block = -(-threads // 32)
    of_registers = REGISTERS // 4 // (-(-registers * 32 // 256) * 256) * 4
    blocks = min(warps // of_block, of_registers // of_block, BLOCKS[number])
    if shared:
        blocks = min(blocks, memory // (shared + (1024 if number >= 80 else 0)))
    return blocks * of_block


def render(rows, compiler, threads):
    numbers = architectures(rows)
    lines = [
        f"# What nvcc {compiler} needs for the CUDA kernels. Written and compared by resources.py.",
        "# A cell: registers of a thread / warps that fit into a multiprocessor, then s and the bytes of the stack, x and the spilled bytes.",
        "# Warps that a multiprocessor can hold: " + ", ".join(f"sm_{number} {LIMITS[number][0]}" for number in numbers),
        " ".join(["kernel", "threads", "shared", *(f"sm_{number}" for number in numbers)]),
    ]
    for kernel in sorted(rows):
        cells = []
        for number in numbers:
            if number not in rows[kernel]:
                cells.append("-")
                continue
            registers, stack, spilled, shared = rows[kernel][number]
            cell = f"{registers}/{resident_warps(number, registers, shared, threads[kernel])}"
            cells.append(cell + (f"s{stack}" if stack else "") + (f"x{spilled}" if spilled else ""))
        shared = sorted({row[3] for row in rows[kernel].values()})
        lines.append(" ".join([kernel, str(threads[kernel]), "|".join(map(str, shared)), *cells]))
    return "\n".join(lines) + "\n"


def compare(before, now):
    if before == now:
        print(f"{TABLE.name}: as written")
        return
    first = [text.splitlines()[0] for text in (before, now)]
    if first[0] != first[1]:
        sys.exit(f"resources.py: another compiler than that of the table:\n  {first[0]}\n  {first[1]}")
    if before.splitlines()[3] != now.splitlines()[3]:
        sys.exit(f"resources.py: other architectures than those of the table:\n  {before.splitlines()[3]}\n  {now.splitlines()[3]}")
    old, new = (dict(line.split(" ", 1) for line in text.splitlines()[4:]) for text in (before, now))
    different = [kernel for kernel in sorted(old.keys() | new.keys()) if not is_same(old.get(kernel), new.get(kernel))]
    for kernel in different:
        print(f"{kernel}\n  table: {old.get(kernel, 'no such kernel')}\n  now:   {new.get(kernel, 'no such kernel')}")
    if different:
        sys.exit(f"resources.py: not as in {TABLE.name}; if that is intended: resources.py --update, and the reason in the commit")
    print(f"{TABLE.name}: as written, but for a few registers or bytes")


def is_same(before, now):
    """Whether two rows are equal but for noise: the same warps, and stack and spilled bytes in the same cells."""
    if before is None or now is None:
        return False
    noise = {"": REGISTER_NOISE, "s": BYTE_NOISE, "x": BYTE_NOISE}
    pattern = r"(?<=[ sx])\d+(?=[/sx ]|$)"
    head, row = before.split(" ", 2)[:2], before.split(" ", 2)[2]
    if head != now.split(" ", 2)[:2]:
        return False
    other = now.split(" ", 2)[2]
    if re.sub(pattern, "", f" {row}") != re.sub(pattern, "", f" {other}"):
        return False
    numbers = [re.findall(r"([ sx])(\d+)(?=[/sx ]|$)", f" {text}") for text in (row, other)]
    return all(abs(int(one) - int(two)) <= noise[kind.strip()] for (kind, one), (_, two) in zip(*numbers))


if __name__ == "__main__":
    main()
