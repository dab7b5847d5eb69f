"""Copies of the wheels of isolated builds.

pip, build and uv install `requires` of [build-system] into a folder with another name for each build. Its paths would be in the commands of
compilers (the headers of nanobind and pybind11), and everything would be compiled again. So the build uses a copy, whose path is made of its
content, in gpubuild's cache.
"""

import hashlib
import os
import re
import shutil
import sys
import tempfile
import time

# How pip, build and uv name the folders.
FOLDER = re.compile(r"[\\/](pip-build-env-|build-env-|builds-v\d+[\\/]\.tmp)[^\\/]*([\\/]|$)")
# What differs between installers, in metadata.
INSTALLATION = ("INSTALLER", "RECORD", "REQUESTED")
# Larger wheels (PyTorch) are used where they are.
MAX_BYTES = 256 << 20
# Copies that no build has used for this time are removed.
MAX_AGE = 30 * 24 * 60 * 60


def is_isolated(folder):
    return bool(FOLDER.search(folder))


def copy_of(folder):
    """The folder of a copy; the folder itself if it is not that of an isolated build, or cannot be copied."""
    if not is_isolated(folder):
        return folder
    files = _files(folder)
    if not files or sum(os.path.getsize(os.path.join(folder, file)) for file in files) > MAX_BYTES:
        return folder
    place = os.path.join(_cache(), "build-requires")
    copy = os.path.join(place, _digest(folder, files))
    try:
        if not os.path.isdir(copy):
            os.makedirs(place, exist_ok=True)
            _write(folder, files, copy)
        os.utime(copy)
    except OSError:
        return folder
    _remove_old(place)
    return copy


def _files(folder):
    """The files of all wheels but gpubuild's, relative to the folder."""
    found = []
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        if parent == folder:
            folders[:] = [name for name in folders if name != "gpubuild" and not name.startswith("gpubuild-")]
        elif parent.endswith(".dist-info"):
            names = [name for name in names if name not in INSTALLATION]
        found += [os.path.relpath(os.path.join(parent, name), folder) for name in names]
    return sorted(file for file in found if os.path.isfile(os.path.join(folder, file)))


def _digest(folder, files):
    digest = hashlib.sha256()
    for file in files:
        with open(os.path.join(folder, file), "rb") as opened:
            data = opened.read()
        digest.update(b"%s\0%d\0" % (os.fsencode(file), len(data)))
        digest.update(data)
    return digest.hexdigest()[:32]


def _write(folder, files, copy):
    """Writes all or nothing: another build may do the same at the same time."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(copy), prefix=".new-") as new:
        for file in files:
            target = os.path.join(new, "copy", file)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copyfile(os.path.join(folder, file), target)
            shutil.copymode(os.path.join(folder, file), target)
        try:
            os.rename(os.path.join(new, "copy"), copy)
        except OSError:
            if not os.path.isdir(copy):
                raise


def _remove_old(place):
    oldest = time.time() - MAX_AGE
    for name in os.listdir(place):
        path = os.path.join(place, name)
        try:
            if os.path.getmtime(path) < oldest:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # Another build has removed it.


def _cache():
    """As the command has it: docs/guide/caches.md."""
    variables = os.environ
    if variables.get("GPUBUILD_CACHE"):
        return variables["GPUBUILD_CACHE"]
    if sys.platform == "win32":
        base = variables.get("LOCALAPPDATA") or os.path.expanduser(r"~\AppData\Local")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = variables.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "gpubuild")
