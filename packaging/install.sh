#!/bin/sh
# Installs gpubuild for this user: verifies the signature and sha256 of a first copy, with which `gpubuild install` installs the release.
# GPUBUILD_FILES: address of the files; GPUBUILD_RELEASE: for `gpubuild install --manifest`; GPUBUILD_BIN: folder for the links.
set -eu
key=${GPUBUILD_KEY-@KEY@}
files=${GPUBUILD_FILES-https://github.com/gpubuild/gpubuild/releases/latest/download}
release=${GPUBUILD_RELEASE-oci://ghcr.io/gpubuild/gpubuild:latest}

fail() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }
has() { command -v "$1" >/dev/null 2>&1; }

fetch() { # NAME: into the current folder
  if has curl; then curl -fsSL --retry 3 -o "$1" "${files%/}/$1"; else wget -q -O "$1" "${files%/}/$1"; fi ||
    fail "failed to download ${files%/}/$1" "check the network and run the script again; nothing was installed"
}

platform() {
  case $(uname -s)-$(uname -m) in
    Linux-x86_64) if [ -e /lib/ld-musl-x86_64.so.1 ]; then echo x86_64-unknown-linux-musl; else echo x86_64-unknown-linux-gnu; fi ;;
    Linux-aarch64) echo aarch64-unknown-linux-gnu ;;
    Darwin-arm64) echo aarch64-apple-darwin ;;
    *) echo "$(uname -m)-$(uname -s)" ;;
  esac
}

signed() { # FILE: checks FILE.minisig. openssl is used where minisign is missing; it cannot read minisign's formats.
  if has minisign; then minisign -V -q -P "$key" -m "$1"; return; fi
  has openssl || fail "neither minisign nor openssl is installed" "install one of them to verify the signature"
  { printf '\060\052\060\005\006\003\053\145\160\003\041\000'; echo "$key" | openssl base64 -d -A | tail -c 32; } > key.der
  sed -n 2p "$1.minisig" | openssl base64 -d -A | tail -c 64 > signature
  openssl dgst -blake2b512 -binary "$1" > digest
  openssl pkeyutl -verify -pubin -keyform DER -inkey key.der -rawin -in digest -sigfile signature >/dev/null 2>&1
}

sha256() { if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1; }

main() { # A script that was cut while it was downloaded does nothing.
  case $key in RW*) ;; *) fail "this copy of the script has no key" "use the script of a release, or set GPUBUILD_KEY" ;; esac
  bin=${GPUBUILD_BIN-$HOME/.local/bin}
  for name in gpubuild cargo-gpubuild; do
    [ -L "$bin/$name" ] || [ ! -e "$bin/$name" ] || fail "$bin/$name exists and is not a link" "remove it, or set GPUBUILD_BIN"
  done
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  archive=gpubuild-$(platform).tar.gz
  fetch SHA256SUMS && fetch SHA256SUMS.minisig
  signed SHA256SUMS || fail "the signature of SHA256SUMS is not valid" "run the script again; if the error remains, report it"
  expected=$(sed -n "s/^\([0-9a-f]\{64\}\)  $archive\$/\1/p" SHA256SUMS)
  [ -n "$expected" ] || fail "the release has no $archive" "install it from source: cargo install gpubuild"
  fetch "$archive"
  [ "$(sha256 "$archive")" = "$expected" ] || fail "the sha256 of $archive is wrong" "run the script again; nothing was installed"
  tar -xzf "$archive"
  program=$(bin/gpubuild install --manifest "$release" --key "$key" --name gpubuild --variant cpu)
  mkdir -p "$bin" && ln -sf "$program" "$bin/gpubuild" && ln -sf "$(dirname "$program")/cargo-gpubuild" "$bin/cargo-gpubuild"
  case :$PATH: in *":$bin:"*) ;; *) echo "hint: add $bin to PATH" >&2 ;; esac
}
main
