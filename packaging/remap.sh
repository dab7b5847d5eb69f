#!/usr/bin/env bash
# Keeps the folders of the build machine out of the program, so that builds in other folders have the same bytes:
#
#   . packaging/remap.sh
#
# Sources of crates become /cargo/NAME-VERSION/…, those of this repository /gpubuild/…. rustc replaces its own folder itself, and cargo gives
# the crates of a workspace names that do not depend on its folder. The crates must have been downloaded.
remap() {
  # cl.exe knows no such option, and paths have another form there.
  case $(uname -s) in MINGW* | MSYS* | CYGWIN*) return ;; esac
  local cargo=${CARGO_HOME:-$HOME/.cargo} root folder flags="" options=""
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  for folder in "$cargo"/registry/src/*/ "$cargo"/git/checkouts/ "$root/"; do
    [ -d "$folder" ] || continue
    local name=/cargo/
    [ "$folder" = "$root/" ] && name=/gpubuild/
    flags+="${flags:+$'\x1f'}--remap-path-prefix=$folder=$name"
    # CFLAGS is split at spaces.
    case $folder in
    *[[:space:]]*) ;;
    *) options+=" -ffile-prefix-map=$folder=$name" ;;
    esac
  done
  export CARGO_ENCODED_RUSTFLAGS=$flags
  # Headers and sources of C libraries, such as zstd's.
  export CFLAGS="${CFLAGS-}$options"
}
remap
