"""A registry of crates on this machine, as an overlay of crates.io: the packed crates of this workspace, and everything else from there."""

import hashlib
import http.server
import io
import json
import pathlib
import subprocess
import tarfile
import threading
import tomllib
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
UPSTREAM = "https://index.crates.io"
# With another port, cargo would compile all dependencies again.
PORT = 8717
NOT_PUBLISHED = ["infer", "gpubuild-samples", "llama-sys", "own-kernels"]


def index_path(name):
    short = {1: "1", 2: "2", 3: f"3/{name[0]}"}
    return f"{short.get(len(name), f'{name[:2]}/{name[2:4]}')}/{name}"


def dependencies(manifest):
    """The dependencies of a packed manifest, as the index lists them."""
    tables = [(None, manifest), *manifest.get("target", {}).items()]
    for target, table in tables:
        for kind, key in (("normal", "dependencies"), ("build", "build-dependencies"), ("dev", "dev-dependencies")):
            for name, entry in table.get(key, {}).items():
                yield {
                    "name": name,
                    "req": entry["version"],
                    "features": entry.get("features", []),
                    "optional": entry.get("optional", False),
                    "default_features": entry.get("default-features", True),
                    "target": target,
                    "kind": kind,
                    "registry": None,
                    "package": entry.get("package"),
                }


def entry(crate):
    """The path and the line of a packed crate in the index."""
    content = crate.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        manifest = tomllib.load(archive.extractfile(f"{crate.stem}/Cargo.toml"))
    package = manifest["package"]
    features = manifest.get("features", {})
    # `dep:` is read from `features2` only.
    new = {name: values for name, values in features.items() if any(value.startswith("dep:") or "?/" in value for value in values)}
    line = {
        "name": package["name"],
        "vers": package["version"],
        "deps": list(dependencies(manifest)),
        "cksum": hashlib.sha256(content).hexdigest(),
        "features": {name: values for name, values in features.items() if name not in new},
        "features2": new,
        "yanked": False,
        "links": package.get("links"),
        "rust_version": package.get("rust-version"),
        "v": 2,
    }
    return index_path(package["name"]), json.dumps(line) + "\n"


class Registry(http.server.BaseHTTPRequestHandler):
    """Answers for packed crates, and redirects to crates.io for all others."""

    protocol_version = "HTTP/1.1"
    index, crates, downloads, served = {}, {}, "", []

    def do_GET(self):
        path = self.path.lstrip("/")
        if path == "index/config.json":
            return self.answer(json.dumps({"dl": f"http://127.0.0.1:{PORT}/crates"}).encode())
        if path.startswith("index/"):
            known = self.index.get(path.removeprefix("index/"))
            return self.answer(known.encode()) if known else self.redirect(f"{UPSTREAM}/{path.removeprefix('index/')}")
        name, version = path.split("/")[1:3]
        known = self.crates.get(f"{name}-{version}")
        if known:
            self.served.append(known.stem)
            return self.answer(known.read_bytes())
        return self.redirect(f"{self.downloads}/{name}/{version}/download")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def redirect(self, url):
        self.send_response(302)
        self.send_header("Location", url)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def pack():
    subprocess.run(["rm", "-rf", ROOT / "target/package"], check=True)
    leave = [word for name in NOT_PUBLISHED for word in ("--exclude", name)]
    subprocess.run(["cargo", "package", "--workspace", *leave, "--allow-dirty", "--no-verify", "--quiet"], cwd=ROOT, check=True)
    return sorted((ROOT / "target/package").glob("*.crate"))


# What makes cargo use the registry instead of crates.io.
CONFIG = f'[source.crates-io]\nreplace-with = "here"\n[source.here]\nregistry = "sparse+http://127.0.0.1:{PORT}/index/"\n'


def start():
    """Packs the crates and serves them until the program ends. Returns the crates."""
    crates = pack()
    Registry.index = dict(map(entry, crates))
    Registry.crates = {crate.stem: crate for crate in crates}
    with urllib.request.urlopen(f"{UPSTREAM}/config.json") as answer:
        Registry.downloads = json.load(answer)["dl"]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return crates
