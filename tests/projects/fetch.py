"""Fetches a source distribution from the configured package index of pip, checks its hash and unpacks it.

`pip download` would run the build of the distribution to get its metadata.
"""

import hashlib
import html.parser
import os
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request

project, file_name, sha256, folder = sys.argv[1:]


def index():
    for name in ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        if os.environ.get(name):
            return os.environ[name]
    result = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return result.stdout.strip() or "https://pypi.org/simple"


class Links(html.parser.HTMLParser):
    found = None

    def handle_starttag(self, tag, attrs):
        target = dict(attrs).get("href") or ""
        if tag == "a" and urllib.parse.unquote(target.split("#")[0]).endswith("/" + file_name):
            self.found = target


page = f"{index().rstrip('/')}/{project}/"
with urllib.request.urlopen(page, timeout=60) as response:
    base, text = response.geturl(), response.read().decode()
links = Links()
links.feed(text)
if links.found is None:
    sys.exit(f"the index has no {file_name}")
with urllib.request.urlopen(urllib.parse.urljoin(base, links.found), timeout=300) as response:
    content = response.read()
if hashlib.sha256(content).hexdigest() != sha256:
    sys.exit(f"{file_name} does not match the pinned sha256")
archive = os.path.join(folder, file_name)
with open(archive, "wb") as out:
    out.write(content)
with tarfile.open(archive) as packed:
    # The content has the pinned hash; Python before 3.11.4 does not support filters.
    packed.extractall(folder)
os.remove(archive)
