"""A build backend (PEP 517, PEP 660) for projects with a gpubuild.toml. It calls the command `gpubuild pack`.

    [build-system]
    requires = ["gpubuild"]
    build-backend = "gpubuild.build"

Settings, with `pip install . --config-settings KEY=VALUE` or `python -m build --config-setting KEY=VALUE`:

backends     backends to build, separated by commas
variant      variant of gpubuild.toml
cuda-archs   CUDA architectures
jobs         number of parallel compilers
offline      `true` to download nothing
provision    `true` to install missing toolkits
"""

import base64
import glob
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

from gpubuild import isolated

VALUES = ("backends", "cuda-archs", "jobs", "variant")
SWITCHES = ("offline", "provision")
# Where CMake looks for configurations below a prefix.
CMAKE_PLACES = (
    "", "*", "[cC][mM]ake", "*/[cC][mM]ake", "*/[cC][mM]ake/*", "*/lib*/[cC][mM]ake/*", "*/share/[cC][mM]ake/*",
    "lib*/*", "share/*", "*/lib*/*", "*/share/*",
    "lib*/*/[cC][mM]ake", "share/*/[cC][mM]ake", "*/lib*/*/[cC][mM]ake", "*/share/*/[cC][mM]ake",
)


def get_requires_for_build_wheel(config_settings=None):
    return []


get_requires_for_build_editable = get_requires_for_build_wheel
get_requires_for_build_sdist = get_requires_for_build_wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _wheel(wheel_directory, config_settings)["file"]


def build_sdist(sdist_directory, config_settings=None):
    return _pack("sdist", sdist_directory, [])["sdist"]["file"]


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """Copies the built libraries into the package's folder, and writes a wheel that refers to it."""
    os.makedirs(wheel_directory, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = _wheel(folder, config_settings)
        with zipfile.ZipFile(os.path.join(folder, wheel["file"])) as archive:
            return _editable(archive, wheel, wheel_directory)


def _editable(archive, wheel, wheel_directory):
    package = os.path.abspath(wheel["package"])
    parent, name = os.path.split(package)
    for path in wheel["libraries"] + wheel.get("copied", []):
        target = os.path.join(parent, *path.split("/"))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        # A running program keeps the old file.
        with open(target + ".new", "wb") as file:
            file.write(archive.read(path))
        os.replace(target + ".new", target)
    files = {"_%s_editable.pth" % name: (parent + "\n").encode()}
    record = None
    for path in archive.namelist():
        folder, _, inner = path.partition("/")
        if folder.endswith(".dist-info") and inner == "RECORD":
            record = path
        elif folder.endswith(".dist-info"):
            files[path] = archive.read(path)
    lines = []
    with zipfile.ZipFile(os.path.join(wheel_directory, wheel["file"]), "w", zipfile.ZIP_DEFLATED) as target:
        for path, data in files.items():
            target.writestr(path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.append("%s,sha256=%s,%d\n" % (path, digest, len(data)))
        target.writestr(record, "".join(lines) + record + ",,\n")
    return wheel["file"]


def _wheel(folder, config_settings):
    document = _pack("wheel", folder, ["--single"] + _arguments(config_settings or {}))
    return document["wheels"][0]


def _arguments(settings):
    arguments = []
    for key, value in sorted(settings.items()):
        if key in VALUES:
            value = str(",".join(value) if isinstance(value, list) else value)
            if not value.isprintable():
                raise SystemExit("gpubuild.build: the value %r of `%s` contains a control character" % (value, key))
            arguments.append("--%s=%s" % (key, value))
        elif key in SWITCHES:
            if str(value).lower() in ("", "1", "on", "true", "yes"):
                arguments.append("--" + key)
        else:
            known = ", ".join(sorted(VALUES + SWITCHES))
            raise SystemExit("gpubuild.build: unknown setting %r; settings are %s" % (key, known))
    return arguments


def _pack(form, folder, arguments):
    """Runs `gpubuild pack` and returns its document. Its messages go to standard error, which frontends show."""
    command = [_command(), "pack", "--format", form, "--out", os.path.abspath(folder), "--json"] + arguments
    result = subprocess.run(command, stdout=subprocess.PIPE, env=_environment())
    if result.returncode != 0:
        raise SystemExit("gpubuild.build: `%s` failed with exit code %d" % (" ".join(command), result.returncode))
    return json.loads(result.stdout.decode("utf-8"))


def _command():
    """The command in PATH, which begins with the environment of an isolated build, else the one of this Python."""
    suffix = ".exe" if sys.platform == "win32" else ""
    found = shutil.which("gpubuild") or os.path.join(sysconfig.get_path("scripts"), "gpubuild" + suffix)
    if not os.path.isfile(found):
        raise SystemExit("gpubuild.build: the command `gpubuild` was not found; install it with `pip install gpubuild`")
    return found


def _environment():
    """CMake finds the Python that builds the wheel, and the CMake packages of the wheels that it can import."""
    environment = dict(os.environ)
    for name in ("Python_ROOT_DIR", "Python3_ROOT_DIR"):
        environment.setdefault(name, sys.base_prefix if isolated.is_isolated(sys.prefix) else sys.prefix)
    copies = {folder: isolated.copy_of(folder) for folder in _wheel_folders()}
    environment["GPUBUILD_SITE_PACKAGES"] = os.pathsep.join(copies.values())
    # A changed variable is another build. Folders without packages for CMake are none of its business.
    prefixes = _cmake_prefixes() + [folder for folder in copies if _has_cmake_packages(folder)]
    prefixes = [_replaced(prefix, copies) for prefix in prefixes]
    modules = [copy for folder, copy in copies.items() if copy != folder]
    for name, first, last in (("CMAKE_PREFIX_PATH", [], prefixes), ("PYTHONPATH", modules, [])):
        paths = [path for path in first + [environment.get(name)] + last if path]
        if paths:
            environment[name] = os.pathsep.join(paths)
    return environment


def _replaced(path, copies):
    """The path in a copy."""
    for folder, copy in copies.items():
        if path == folder or path.startswith(folder + os.sep):
            return copy + path[len(folder):]
    return path


def _has_cmake_packages(folder):
    """Whether a wheel in the folder has a configuration for `find_package`, in one of the places where CMake searches."""
    names = (os.path.join(glob.escape(folder), place, "*[Cc]onfig.cmake") for place in CMAKE_PLACES)
    return any(next(glob.iglob(name), None) for name in names)


def _wheel_folders():
    """The folders of installed wheels: with pip, an isolated build has its own."""
    names = ("site-packages", "dist-packages")
    folders = [os.path.abspath(path) for path in sys.path if os.path.basename(path) in names]
    return [path for path in dict.fromkeys(folders) if os.path.isdir(path)]


def _cmake_prefixes():
    """The folders that wheels name for CMake, with the entry points of scikit-build-core: pybind11, for example."""
    from importlib import metadata

    points = metadata.entry_points()
    group = "cmake.prefix"
    found = points.select(group=group) if hasattr(points, "select") else points.get(group, [])
    prefixes = []
    for point in found:
        name = point.value.split(":")[0]
        spec = importlib.util.find_spec(name.split(".")[0])
        for folder in (spec.submodule_search_locations or []) if spec else []:
            prefixes.append(os.path.join(folder, *name.split(".")[1:]))
    return prefixes
