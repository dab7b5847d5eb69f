#!/usr/bin/env bash
# The steps of action.yml: action.sh install | prepare. tests/install/script.rs runs them as a runner does.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# Its own folder, so that the store can be cached and nothing else is.
export GPUBUILD_CACHE=${RUNNER_TEMP:?}/gpubuild-cache GPUBUILD_BIN=$RUNNER_TEMP/gpubuild-bin

install() {
  case $VERSION in
    latest) tag=latest place=latest/download ;;
    v[0-9]*) tag=${VERSION#v} place=download/$VERSION ;;
    *) echo "::error::\`version\` has to be \`latest\` or a tag such as \`v0.1.0\`"; exit 2 ;;
  esac
  export GPUBUILD_FILES=${FILES:-https://github.com/gpubuild/gpubuild/releases/$place}
  export GPUBUILD_RELEASE=${RELEASE:-oci://ghcr.io/gpubuild/gpubuild:$tag}
  case $(uname -s) in
    MINGW* | MSYS*)
      GPUBUILD_BIN=$(cygpath -w "$GPUBUILD_BIN") powershell -NoProfile -ExecutionPolicy Bypass -File "$(cygpath -w "$here/install.ps1")"
      # Git's bash does not look for .cmd files.
      program=$GPUBUILD_BIN/gpubuild.cmd ;;
    *)
      sh "$here/install.sh"
      program=$GPUBUILD_BIN/gpubuild ;;
  esac
  echo "$GPUBUILD_BIN" >> "$GITHUB_PATH"
  echo "GPUBUILD_CACHE=$GPUBUILD_CACHE" >> "$GITHUB_ENV"
  { echo "version=$("$program" --version | cut -d ' ' -f 2)"; echo "cache=$GPUBUILD_CACHE"; } >> "$GITHUB_OUTPUT"
}

prepare() {
  program=$GPUBUILD_BIN/gpubuild
  [ -e "$program" ] || program=$program.cmd
  if [ "$CUDA" = latest ]; then
    "$program" toolkit install cuda
  elif [ -n "$CUDA" ]; then
    "$program" toolkit install "cuda@$CUDA"
  fi
  [ -n "$BACKENDS" ] || return 0
  "$program" detect --backends "$BACKENDS"
  # Only a project says what a build of it needs.
  if [ -e gpubuild.toml ]; then
    "$program" ci preflight --backends "$BACKENDS"
  fi
}

case ${1-} in
  install | prepare) "$1" ;;
  *) echo "usage: action.sh install | prepare" >&2; exit 2 ;;
esac
