#!/usr/bin/env bash
# Merges what the jobs of .github/workflows/release.yml built, and signs it: sign.sh BUILT OUT
#
# BUILT has a folder for each target with `archives`, `packed`, `programs` and wheels. OUT gets `release` (an OCI layout for
# `gpubuild install`), `files` (archives, sums, install scripts) and `wheels`. Needs minisign, and in the environment
# GPUBUILD_SIGN_KEY, GPUBUILD_SIGN_PASSWORD if that key has one, and the public GPUBUILD_RELEASE_KEY.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
built=$(cd "$1" && pwd)
mkdir "$2"
out=$(cd "$2" && pwd)
: "${GPUBUILD_SIGN_KEY:?}"
case ${GPUBUILD_RELEASE_KEY-} in
  RW*) ;;
  *) echo "GPUBUILD_RELEASE_KEY is not a minisign public key" >&2; exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$out/files" "$out/wheels"
cp "$built"/*/archives/*.tar.gz "$out/files"
find "$built" -name '*.whl' -exec cp {} "$out/wheels" \;

# Artifacts lose their permissions.
gpubuild=$work/gpubuild
cp "$built/x86_64-unknown-linux-gnu/programs/gpubuild" "$gpubuild"
chmod +x "$gpubuild"
from=()
for packed in "$built"/*/packed; do from+=(--from "$packed"); done
# A later commit has a higher serial, and the same commit gives the same manifest.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Outside the checkout, whose gpubuild.toml describes another program.
(cd "$work" && "$gpubuild" pack "${from[@]}" --out "$out/release" --serial "$SOURCE_DATE_EPOCH")
"$gpubuild" resolve --manifest "$out/release" --key "$GPUBUILD_RELEASE_KEY" --name gpubuild --variant cpu

python3 "$root/.ci/archive" --sums "$out/files"
(umask 077 && printf '%s\n' "$GPUBUILD_SIGN_KEY" > "$work/key")
sign() { # FILE SIGNATURE
  minisign -S -s "$work/key" -m "$1" -x "$2" <<< "${GPUBUILD_SIGN_PASSWORD-}" >/dev/null
  minisign -V -q -P "$GPUBUILD_RELEASE_KEY" -m "$1" -x "$2"
}
sign "$out/files/SHA256SUMS" "$out/files/SHA256SUMS.minisig"
# `cargo binstall` looks for one signature beside each archive.
for archive in "$out"/files/*.tar.gz; do sign "$archive" "$archive.sig"; done
for script in install.sh install.ps1; do
  grep -qF "$GPUBUILD_RELEASE_KEY" "$root/packaging/$script" || { echo "packaging/$script has another key" >&2; exit 1; }
  cp "$root/packaging/$script" "$out/files"
done
