"""Minimal systems of Debian 12, and copies of them that a script may change. Needs root, debootstrap and a mirror of Debian."""

import os
import pathlib
import shutil
import subprocess

MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
SUDO = '#!/bin/sh\n[ "$1" = -E ] && shift\nexec "$@"\n'
APT = """APT::Get::Assume-Yes "true";
APT::Install-Recommends "false";
APT::Keep-Downloaded-Packages "true";
Binary::apt::APT::Keep-Downloaded-Packages "true";
"""


def minimal(folder):
    """Creates the minimal system in FOLDER/base, or uses the one that is there."""
    root = folder / "base"
    if not (root / "etc/debian_version").exists():
        subprocess.run(["debootstrap", "--variant=minbase", "--include=ca-certificates,wget,gnupg", "bookworm", root, MIRROR], check=True, stdout=subprocess.DEVNULL)
    (root / "etc/apt/sources.list").write_text(f"deb {MIRROR} bookworm main contrib non-free non-free-firmware\n")
    (root / "etc/apt/apt.conf.d/99copies").write_text(APT)
    (root / "etc/dpkg/dpkg.cfg.d").mkdir(exist_ok=True)
    (root / "etc/dpkg/dpkg.cfg.d/copies").write_text("force-unsafe-io\npath-exclude=/usr/share/doc/*\npath-exclude=/usr/share/man/*\n")
    for name, text in (("usr/local/bin/sudo", SUDO), ("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n")):
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    shutil.copy(os.path.realpath("/etc/resolv.conf"), root / "etc/resolv.conf")
    # This machine may reach the network through a proxy with a certificate of its own.
    shutil.copy(pathlib.Path("/") / CERTIFICATES, root / CERTIFICATES)
    subprocess.run(["chroot", root, "apt-get", "update", "-qq"], check=True, env={"PATH": PATH})
    return root


class Copy:
    """A copy of the minimal system in a folder: an overlay in memory, which is removed at the end."""

    def __init__(self, folder, env=None, bind=()):
        self.folder, self.root, self.upper = folder, folder / "root", folder / "upper"
        self.env = {"HOME": "/root", "PATH": PATH, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **(env or {})}
        (folder / "debs").mkdir(exist_ok=True)
        self.bind = [(folder / "debs", "/var/cache/apt/archives"), *bind]

    def __enter__(self):
        for path in (self.root, self.upper):
            path.mkdir(exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.upper], check=True)
        for name in ("new", "work"):
            (self.upper / name).mkdir()
        options = f"lowerdir={self.folder}/base,upperdir={self.upper}/new,workdir={self.upper}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, self.root], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.root], check=False)
        subprocess.run(["umount", self.upper], check=False)

    def run(self, script, proc=True):
        """Runs a script of bash in the copy, with a /proc of its own unless that has other contents."""
        mounts = "".join(f"mkdir -p {self.root}{at}; mount --bind {source} {self.root}{at}; " for source, at in self.bind)
        mounts += f"mount -t proc proc {self.root}/proc; " if proc else ""
        command = ["unshare", "--mount", "--pid", "--fork", "bash", "-c", f'set -e; {mounts}exec chroot {self.root} bash -c "$0"', script]
        return subprocess.run(command, env=self.env, text=True, errors="replace", capture_output=True)
