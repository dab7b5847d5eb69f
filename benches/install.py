#!/usr/bin/env python3
"""`gpubuild install` compared with `pip install` and `uv pip install`: the same files from a local server.

Each one fetches, verifies by sha256 and unpacks with its own empty cache into an empty folder; gpubuild also starts the program.
The runs are interleaved; the table has the best of N. Then the script measures an update that changes only the program.

    python3 -m venv /tmp/bench && /tmp/bench/bin/pip install zstandard uv
    cargo build --release && /tmp/bench/bin/python benches/install.py [--runs 5] [--megabytes 200] [FILE.so ...]
"""

import argparse, base64, functools, hashlib, http.server, io, json, os, pathlib, shutil, socketserver, subprocess, sys
import tarfile, tempfile, threading, time, zipfile

import zstandard

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = b"#!/bin/sh\nexit 0\n"


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Counts the bytes of the bodies it sends."""

    daemon_threads = True

    def __init__(self, folder):
        self.sent = 0
        outer = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def copyfile(self, source, output):
                shutil.copyfileobj(source, output, 1 << 20)
                outer.sent += source.tell()

        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self):
        sent, self.sent = self.sent, 0
        return sent


def payload(megabytes, named):
    """Shared libraries of this machine, as typical content of a release."""
    files, total, seen = {}, 0, set()
    paths = [pathlib.Path(one) for one in named] or sorted(pathlib.Path("/usr/lib").rglob("*.so*"), key=lambda path: path.name)
    for path in paths:
        if total >= megabytes << 20:
            break
        if path.is_symlink() or not path.is_file() or path.name.lower() in seen:
            continue
        seen.add(path.name.lower())
        files[path.name] = path.read_bytes()
        total += len(files[path.name])
    return {f"lib/{name}": content for name, content in files.items()}


def layer(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755 if name.startswith("bin/") else 0o644
            tar.addfile(info, io.BytesIO(content))
    return zstandard.ZstdCompressor(level=15, threads=-1).compress(out.getvalue()), sum(map(len, files.values()))


def release(folder, layers, version):
    rows = []
    for files in layers:
        packed, unpacked = layer(files) if isinstance(files, dict) else files
        digest = hashlib.sha256(packed).hexdigest()
        (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (folder / "blobs/sha256" / digest).write_bytes(packed)
        rows.append({"sha256": digest, "size": len(packed), "unpacked": unpacked})
    start = {"program": "bin/tool", "check": ["check", "{backend}"]}
    manifest = {"schema": "gpubuild.manifest/1", "name": "tool", "version": version, "serial": 1, "expires": 4102444800,
                "platforms": {"linux-x86_64": {"default": "cpu", "variants": [
                    {"label": "cpu", "backends": ["cpu"], "start": start, "layers": rows}]}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def wheel(folder, files):
    name = "tool-1.0.0-py3-none-any.whl"
    info = {"tool-1.0.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: tool\nVersion: 1.0.0\n",
            "tool-1.0.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as out:
        for path, content in {**{f"tool/{path}": content for path, content in files.items()}, **info}.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(content)}\n"
            out.writestr(path, content)
        out.writestr("tool-1.0.0.dist-info/RECORD", record + "tool-1.0.0.dist-info/RECORD,,\n")
    return name, hashlib.sha256((folder / name).read_bytes()).hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--gpubuild", default=ROOT / "target/release/gpubuild")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        files = payload(arguments.megabytes, arguments.files)
        shared = layer(files)
        release(work / "release", [shared, {"bin/tool": TOOL}], "1.0.0")
        release(work / "next", [shared, {"bin/tool": TOOL + b"# next\n"}], "1.0.1")
        name, digest = wheel(work / "release", {**files, "bin/tool": TOOL})
        first, second = Server(work / "release"), Server(work / "next")
        url = f"http://127.0.0.1:{first.server_port}"
        requirements = work / "requirements.txt"
        requirements.write_text(f"tool @ {url}/{name} --hash=sha256:{digest}\n")
        python = pathlib.Path(sys.executable).parent
        env = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "GPUBUILD_CACHE": str(work / "cache"),
               "UV_CACHE_DIR": str(work / "uv-cache"), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INDEX": "1"}
        ours = [str(arguments.gpubuild), "-q", "install", "--unsigned", "--to", str(work / "to")]
        plain = ["-r", str(requirements), "--target", str(work / "to"), "--no-deps", "--require-hashes"]
        commands = {"gpubuild install": [*ours, "--manifest", url],
                    "pip install": [str(python / "pip"), "-q", "install", *plain, "--no-compile"]}
        if (python / "uv").exists():
            commands["uv pip install"] = [str(python / "uv"), "-q", "pip", "install", *plain, "--python", sys.executable]
        best, fetched = {}, {}
        for _ in range(arguments.runs):
            for what, command in commands.items():
                for folder in ["to", "cache", "uv-cache", "home"]:
                    shutil.rmtree(work / folder, ignore_errors=True)
                first.take()
                started = time.perf_counter()
                subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
                taken = time.perf_counter() - started
                best[what] = min(best.get(what, taken), taken)
                fetched[what] = first.take()
        total = sum(map(len, files.values()))
        print(f"{len(files)} files, {total / 2**20:.1f} MiB; best of {arguments.runs}")
        for what, seconds in best.items():
            ratio = seconds / best["gpubuild install"]
            print(f"{what:<18} {seconds:7.2f} s  {ratio:5.2f} x  {fetched[what] / 2**20:7.1f} MiB fetched")
        shutil.rmtree(work / "to", ignore_errors=True)
        shutil.rmtree(work / "cache", ignore_errors=True)
        subprocess.run(commands["gpubuild install"], env=env, check=True, stdout=subprocess.DEVNULL)
        started = time.perf_counter()
        subprocess.run([*ours, "--manifest", f"http://127.0.0.1:{second.server_port}"], env=env, check=True, stdout=subprocess.DEVNULL)
        print(f"update with one changed file: {time.perf_counter() - started:.2f} s, {second.take()} bytes fetched")


main()
