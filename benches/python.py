#!/usr/bin/env python3
"""Python packages from PyPI, built by their own build backend and by gpubuild, in turns.

    cargo build --release
    python3 benches/python.py --work DIR [--project NAME] [--gpubuild FILE] [--cmake-args ARGS] [--settings backends=cpu,vulkan]

Downloads the source distribution, unpacks it twice, and gives one copy the gpubuild.toml of docs/guide/python.md. Both are built with
`pip wheel --no-build-isolation`: from clean, with nothing changed, and after a change of a Python file. The table on standard output is
Markdown: seconds of processor time of all processes (user + system). gpubuild's build store and ccache are off.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SYSTEM = '[build-system]\nrequires = ["gpubuild"]\nbuild-backend = "gpubuild.build"\n'
# Version, Python packages that the builds need, and the Python file that changes.
PROJECTS = {
    "llama-cpp-python": ("0.3.36", [], "llama_cpp/llama.py"),
    "pybind11-rdp": ("0.1.6", ["pybind11"], "src/pybind11_rdp/__init__.py"),
}


def guide(name):
    """The gpubuild.toml of the guide that has this name."""
    text = (ROOT / "docs/guide/python.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    return next(block for block in blocks if f'name = "{name}"' in block and "schema = 1" in block)


def unpack(archive, folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return next(folder.iterdir())


def prepare(name, folder):
    """What the maintainer of the project changes."""
    file = folder / "pyproject.toml"
    text = re.sub(r"\[build-system\].*?(?=^\[)", SYSTEM + "\n", file.read_text(), flags=re.DOTALL | re.MULTILINE)
    file.write_text(text)
    (folder / "gpubuild.toml").write_text(guide(name))


def build(python, folder, out, env, settings, log):
    """Seconds of processor time of a build."""
    command = [python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-cache-dir", "-w", out, "."]
    command += [f"--config-settings={setting}" for setting in settings]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(log, "ab") as file:
        subprocess.run(command, cwd=folder, env={**os.environ, **env}, stdout=file, stderr=file, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--project", default="llama-cpp-python", choices=PROJECTS)
    parser.add_argument("--gpubuild", default=ROOT / "target/release/gpubuild", type=pathlib.Path)
    parser.add_argument("--cmake-args", default="", help="for the project's own backend")
    parser.add_argument("--settings", action="append", default=[], help="for gpubuild's backend")
    options = parser.parse_args()
    work, (version, packages, changed) = options.work.resolve(), PROJECTS[options.project]
    work.mkdir(parents=True, exist_ok=True)
    python = work / "env/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", work / "env"], check=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "scikit-build-core", "setuptools", "wheel", *packages], check=True)
    download = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation", "--no-binary=:all:", "-d", work / "sdist"]
    archives = pathlib.Path(work / "sdist")
    if not list(archives.glob(options.project.replace("-", "_") + "-*")):
        subprocess.run([*download, f"{options.project}=={version}"], check=True)
    archive = next(archives.glob(options.project.replace("-", "_") + "-*"))
    bin_folder = work / "bin"
    bin_folder.mkdir(exist_ok=True)
    shutil.copy2(options.gpubuild, bin_folder / "gpubuild")
    path = os.pathsep.join([str(bin_folder), os.environ["PATH"]])
    ours = {"PATH": path, "PYTHONPATH": str(ROOT / "python"), "GPUBUILD_STORE": "off", "GPUBUILD_LAUNCHER": "none"}
    own = {"CMAKE_ARGS": options.cmake_args, "CCACHE_DISABLE": "1"}
    folders = {"own": unpack(archive, work / "own"), "gpubuild": unpack(archive, work / "gpubuild")}
    prepare(options.project, folders["gpubuild"])
    print("| build | own | gpubuild |\n|---|---|---|")
    for label in ("from clean", "nothing changed", "a Python file changed"):
        if label.startswith("a Python"):
            if changed is None:
                continue
            for folder in folders.values():
                with open(folder / changed, "a") as file:
                    file.write("\n# changed\n")
        times = []
        for tool, folder in folders.items():
            settings, env = (options.settings, ours) if tool == "gpubuild" else ([], own)
            times.append(build(python, folder, work / "wheels" / tool, env, settings, work / f"{tool}.log"))
        print(f"| {label} | {times[0]:.1f} | {times[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
