#!/usr/bin/env python3
"""llama.cpp built in three ways from the same sources in one run, and each build repeated without changes.

    cargo build --release
    python3 benches/projects.py --llama-cpp-sys-2 DIR [--backends cpu,vulkan] [--turns 1] [--work DIR]

DIR is an unpacked copy of the crate llama-cpp-sys-2; all three build its `llama.cpp` folder. CMake and cargo get gpubuild's shim for
Vulkan headers before 1.3.272 (toolkits/profiles/shims/) through CXXFLAGS; without it they fail on Debian 12. The tables on standard
output are Markdown; times are seconds of wall clock and CPU time of all processes (user + system), and compiles are object files that
a compiler wrote. The second table measures the build store: another checkout, another choice of backends, and another project with
the same ggml, after llama.cpp was built.
"""

import argparse
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

OPTIONS = {
    # Options that the crate turns off, so that all three compile the same.
    "GGML_OPENMP": "OFF",
    "GGML_NATIVE": "OFF",
    "LLAMA_BUILD_COMMON": "OFF",
}


def timed(command, cwd, env=None, log=None):
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with open(log, "ab") as out:
        subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, stdout=out, stderr=out, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def compiles(folder):
    """Number of object files that Ninja built in all build folders below."""
    written = set()
    for log in pathlib.Path(folder).rglob(".ninja_log"):
        for line in log.read_text().splitlines():
            output = line.split("\t")[3] if line.count("\t") >= 3 else ""
            # CMake's compiler checks are not part of the project.
            if output.endswith((".o", ".obj")) and "CMakeScratch" not in str(log):
                written.add((log.parent, output))
    return len(written)


class Gpubuild:
    """gpubuild in its own folder; without a store it compiles everything."""

    label = "`gpubuild build`"

    def __init__(self, work, source, backends, gpubuild, name="gpubuild", profile="llama", store="off", options=OPTIONS):
        self.folder, self.backends, self.gpubuild, self.store = work / name, backends, gpubuild, store
        self.folder.mkdir(exist_ok=True)
        options = ", ".join(f'{name} = "{value}"' for name, value in options.items())
        (self.folder / "gpubuild.toml").write_text(
            f'schema = 1\n[project]\nname = "{profile}"\nsource = "{source}"\nprofile = "{profile}"\noptions = {{ {options} }}\n')

    def run(self, log):
        return timed([self.gpubuild, "build", "--backends", self.backends], self.folder, {"GPUBUILD_STORE": str(self.store)}, log)

    def built(self):
        return self.folder / ".gpubuild"

    def clean(self):
        shutil.rmtree(self.built(), ignore_errors=True)


class Cmake:
    """The CMake commands of a user: configure and build, per set of backends."""

    def __init__(self, work, source, sets, name, label, env):
        self.folder, self.source, self.sets, self.label, self.env = work / name, source, sets, label, env
        self.folder.mkdir(exist_ok=True)

    def run(self, log):
        wall = cpu = 0.0
        for backends in self.sets:
            build = self.folder / "-".join(backends)
            if not (build / "build.ninja").exists():
                options = [f"-D{name}={value}" for name, value in OPTIONS.items()]
                options += [f"-DGGML_{backend.upper()}=ON" for backend in backends if backend != "cpu"]
                options += ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
                            "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_TOOLS=OFF", "-DLLAMA_BUILD_SERVER=OFF", "-DLLAMA_BUILD_APP=OFF",
                            "-DGGML_CCACHE=OFF", "-DCMAKE_POSITION_INDEPENDENT_CODE=ON"]
                more = timed(["cmake", "-S", self.source, "-B", build, "-G", "Ninja", *options], self.folder, self.env, log)
                wall, cpu = wall + more[0], cpu + more[1]
            more = timed(["cmake", "--build", build, "--target", "llama"], self.folder, self.env, log)
            wall, cpu = wall + more[0], cpu + more[1]
        return wall, cpu

    def built(self):
        return self.folder

    def clean(self):
        shutil.rmtree(self.folder)
        self.folder.mkdir(exist_ok=True)


class Crate:
    label = "`cargo build` of llama-cpp-sys-2"

    def __init__(self, work, crate, backends, env):
        self.folder, self.env = work / "cargo", env
        (self.folder / "src").mkdir(parents=True, exist_ok=True)
        (self.folder / "src/lib.rs").write_text("pub use llama_cpp_sys_2;\n")
        features = [backend for backend in backends.split(",") if backend != "cpu"]
        (self.folder / "Cargo.toml").write_text(
            '[package]\nname = "user"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\nllama-cpp-sys-2 = '
            f'{{ path = "{crate}", default-features = false, features = {features!r} }}\n'.replace("'", '"'))
        subprocess.run(["cargo", "fetch"], cwd=self.folder, check=True, stderr=subprocess.DEVNULL)

    def run(self, log):
        return timed(["cargo", "build", "--release"], self.folder, {"CMAKE_GENERATOR": "Ninja", **self.env}, log)

    def built(self):
        return self.folder / "target"

    def clean(self):
        shutil.rmtree(self.built(), ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--llama-cpp-sys-2", required=True, type=pathlib.Path, dest="crate")
    parser.add_argument("--gpubuild", default="target/release/gpubuild", type=pathlib.Path)
    parser.add_argument("--backends", default="cpu,vulkan")
    parser.add_argument("--turns", default=1, type=int)
    parser.add_argument("--again", action="store_true", help="measure only unchanged builds, in the folder of an earlier run")
    parser.add_argument("--no-store", action="store_true", help="skip the second table, which takes as long as the first")
    parser.add_argument("--work", default="/tmp/gpubuild-bench", type=pathlib.Path)
    arguments = parser.parse_args()

    work = arguments.work.absolute()
    crate = work / "llama-cpp-sys-2"
    if not arguments.again:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        shutil.copytree(arguments.crate, crate)
        # Cargo verifies the checksums of vendored crates.
        (crate / ".cargo-checksum.json").unlink(missing_ok=True)
    shims = work / "shims/vulkan"
    shims.mkdir(parents=True, exist_ok=True)
    shutil.copy(pathlib.Path(__file__).parent.parent / "toolkits/profiles/shims/vulkan-layer-settings.hpp", shims / "vulkan.hpp")
    # The crate does not turn off ggml's search for ccache; the comparison needs every compile.
    flags = {"CXXFLAGS": f"-I{shims.parent}", "CCACHE_DISABLE": "1"}
    names = arguments.backends.split(",")
    apart = [["cpu"]] + [[name] for name in names if name != "cpu"]
    methods = [
        Gpubuild(work, crate / "llama.cpp", arguments.backends, arguments.gpubuild.absolute()),
        Cmake(work, crate / "llama.cpp", apart, "cmake-apart", "`cmake`, one build per backend", flags),
        Cmake(work, crate / "llama.cpp", [names], "cmake-together", "`cmake`, one build for all", flags),
        Crate(work, crate, arguments.backends, flags),
    ]
    if len(names) == 1:
        del methods[2]
    if arguments.again:
        nothing_changed(work, methods)
        return
    plain = from_clean(work, methods, arguments.turns)
    print()
    nothing_changed(work, methods)
    if not arguments.no_store:
        print()
        stored(work, crate, arguments, plain)


def medians(runs):
    """Medians of wall clock and CPU time."""
    return [statistics.median(part) for part in zip(*runs)]


def from_clean(work, methods, turns):
    """Measures clean builds; returns wall clock, CPU time and compiles of gpubuild."""
    runs, count = [[] for _ in methods], []
    for turn in range(turns):
        count = []
        for index, method in enumerate(methods):
            method.clean()
            runs[index].append(method.run(work / f"clean-{index}-{turn}.log"))
            count.append(compiles(method.built()))
            print(f"turn {turn + 1}: {method.label}: {runs[index][-1]}", file=sys.stderr)
    own = medians(runs[0])
    print("| from clean | wall | CPU | compiles | wall against gpubuild | CPU against gpubuild |")
    print("|---|---|---|---|---|---|")
    for method, series, compiled in zip(methods, runs, count):
        wall, cpu = medians(series)
        print(f"| {method.label} | {wall:.1f} s | {cpu:.1f} s | {compiled} | {wall / own[0]:.2f} | {cpu / own[1]:.2f} |")
    return (*own, count[0])


def nothing_changed(work, methods):
    runs = [[] for _ in methods]
    for turn in range(7):
        for index, method in enumerate(methods):
            # The first run may still record the state of the inputs.
            if turn == 0:
                method.run(work / f"again-{index}.log")
            runs[index].append(method.run(work / f"again-{index}.log"))
    own = medians(runs[0])
    print("| nothing changed | wall | CPU | wall against gpubuild | CPU against gpubuild |")
    print("|---|---|---|---|---|")
    for method, series in zip(methods, runs):
        wall, cpu = medians(series)
        print(f"| {method.label} | {wall * 1e3:.0f} ms | {cpu * 1e3:.0f} ms | {wall / own[0]:.2f} | {cpu / own[1]:.2f} |")


def stored(work, crate, arguments, plain_llama):
    """Measures builds without a store, and with one that has the results of llama.cpp."""
    gpubuild, store = arguments.gpubuild.absolute(), work / "store"
    second = work / "second-checkout"
    shutil.copytree(crate / "llama.cpp", second)
    ggml = work / "ggml"
    shutil.copytree(crate / "llama.cpp/ggml", ggml)
    # The copy of ggml in llama.cpp lacks a file that standalone ggml configures.
    (ggml / "ggml.pc.in").write_text("Name: ggml\n")
    of_ggml = {name: value for name, value in OPTIONS.items() if name.startswith("GGML_")}
    rows = [
        ("llama.cpp, the first time", crate / "llama.cpp", arguments.backends, "llama", OPTIONS),
        ("another checkout", second, arguments.backends, "llama", OPTIONS),
        ("that checkout for `cpu` only", second, "cpu", "llama", OPTIONS),
        ("standalone ggml for `cpu`", ggml, "cpu", "ggml", of_ggml),
    ]
    print("| build | without a store, CPU | compiles | with it, CPU | compiles | share of CPU saved | wall |")
    print("|---|---|---|---|---|---|---|")
    for index, (label, source, backends, profile, options) in enumerate(rows):
        log, cells = work / f"store-{index}.log", []
        known = profile == "llama" and backends == arguments.backends
        for setting in [store] if known else ["off", store]:
            project = Gpubuild(work, source, backends, gpubuild, f"store-{index}-{len(cells)}", profile, setting, options)
            wall, cpu = project.run(log)
            cells.append((wall, cpu, compiles(project.built())))
        (_, plain, many), (wall, cpu, few) = [plain_llama, *cells] if known else cells
        print(f"| {label} | {plain:.1f} s | {many} | {cpu:.1f} s | {few} | {100 * (1 - cpu / plain):.0f} % | {wall:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
