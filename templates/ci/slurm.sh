#!/usr/bin/env bash
# Written by `gpubuild ci matrix --format slurm`.
#
#   bash FILE [SBATCH OPTION]...
#
# in the project's folder submits one task per row, in array jobs of rows that need the same resources, one job for each test of a package
# on another image, and a job that merges the packages. The options are passed to every sbatch and win over those below, except over those
# of an image in gpubuild.toml: `--partition=build --cpus-per-task=8`.
#
# GPUBUILD_FARM is a folder on a file system that all nodes share [default: ~/gpubuild-farm/ and the name of the repository's folder]. It
# gets the build store (unless GPUBUILD_CACHE names another folder), a folder for each run, and the release.
set -euo pipefail

call_gpubuild() { @gpubuild@ "$@"; }

# The rows that pack a release.
packing=(@packing@)

# Sets `rows` to the rows of an array job, the longest first.
rows_of() {
  case $1 in
@names@
  esac
}

# Sets `test` and `of` to a test and the row whose package it tests.
test_of() {
  case $1 in
@tested@
  esac
}

# Copies the project to this node, so that tasks do not share a build folder, and changes to it.
unpack() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/gpubuild-farm.XXXXXXXX")
  trap 'rm -rf -- "$work"' EXIT
  tar -xf "$run/source.tar" -C "$work"
  cd -- "$work/$folder"
}

run_row() {
  rows_of "$1"
  local row=${rows[$SLURM_ARRAY_TASK_ID]} one is_packing=
  for one in ${packing[@]+"${packing[@]}"}; do
    if [ "$one" = "$row" ]; then is_packing=1; fi
  done
  unpack
  call_gpubuild ci run "$row" --cache-dir "$cache" ${is_packing:+--pack}
  if [ -n "$is_packing" ]; then
    # Visible under its name when it is complete, also if Slurm runs the task again.
    local part
    part=$(mktemp -d "$run/part.XXXXXXXX")
    cp -R release "$part/"
    rm -rf -- "${run:?}/packed/$row"
    mv -- "$part/release" "$run/packed/$row"
    rmdir -- "$part"
  fi
}

run_test() {
  local test of
  test_of "$1"
  unpack
  rm -rf release
  cp -R "$run/packed/$of" release
  call_gpubuild ci run "$test" --cache-dir "$cache"
}

merge() {
  local from=() one
  for one in "${packing[@]}"; do
    from+=(--from "$run/packed/$one")
  done
  unpack
  call_gpubuild pack --out "$farm/release" "${from[@]}"
  rm -f -- "$run/source.tar"
}

# Inside a job: MODE GROUP FARM RUN FOLDER CACHE.
if [ -n "${SLURM_JOB_ID:-}" ] && [ $# = 6 ] && [[ $1 =~ ^(row|test|merge)$ ]]; then
  farm=$3 run=$4 folder=$5 cache=$6
  # Only the merge signs.
  if [ "$1" != merge ]; then unset GPUBUILD_SIGN_KEY GPUBUILD_SIGN_PASSWORD; fi
  case $1 in
    row) run_row "$2" ;;
    test) run_test "$2" ;;
    merge) merge ;;
  esac
  exit
fi

options=("$@")
script=${BASH_SOURCE[0]:-}
if [ ! -f "$script" ]; then
  echo "error: save this script to a file, and run it with bash: it submits that file" >&2
  exit 2
fi
if [ ! -f gpubuild.toml ]; then
  echo "error: no gpubuild.toml in $PWD: run this script in the project's folder" >&2
  exit 2
fi

# The repository, or the project's folder outside of one.
root=$PWD
while [ ! -e "$root/.git" ] && [ "$root" != / ]; do root=$(dirname -- "$root"); done
if [ "$root" = / ]; then root=$PWD; fi
folder=${PWD#"$root"}
folder=.${folder:+/${folder#/}}
farm=${GPUBUILD_FARM:-$HOME/gpubuild-farm/$(basename -- "$root")}
mkdir -p -- "$farm"
farm=$(cd -- "$farm" && pwd -P)
case $farm/ in
  "$(cd -- "$root" && pwd -P)"/*)
    echo "error: $farm is inside the repository, which is copied to the nodes: set GPUBUILD_FARM to a folder outside" >&2
    exit 2
    ;;
esac
cache=${GPUBUILD_CACHE:-$farm/cache}
run=$(mktemp -d "$farm/run.XXXXXXXX")
mkdir -- "$run/packed"
# Without build folders. The state of the repository can be part of a build.
tar --anchored --no-wildcards --exclude=./target --exclude="$folder/target" --exclude=./.gpubuild --exclude="$folder/.gpubuild" \
  -C "$root" -cf "$run/source.tar" .

jobs=()
# If one of the jobs is refused, none should run.
trap 'if [ ${#jobs[@]} -gt 0 ]; then scancel "${jobs[@]}"; fi' EXIT

# The options of the next job's image in gpubuild.toml.
own=()

# submit MODE GROUP [SBATCH OPTION]...: sbatch prints `ID` or `ID;CLUSTER`.
submit() {
  local mode=$1 group=$2 printed
  shift 2
  printed=$(sbatch --parsable --job-name="gpubuild-$mode" --chdir="$run" "$@" ${options[@]+"${options[@]}"} \
    ${own[@]+"${own[@]}"} "$script" "$mode" "$group" "$farm" "$run" "$folder" "$cache")
  jobs+=("${printed%%;*}")
  own=()
}

# submit_rows GROUP LAST [SBATCH OPTION]...
submit_rows() {
  local group=$1 last=$2
  shift 2
  submit row "$group" --array="0-$last" --output=row-%A-%a.log "$@"
}

# submit_test TEST GROUP TASK [SBATCH OPTION]...: starts when the task has succeeded.
submit_test() {
  local test=$1 array=${jobs[$2]} task=$3
  shift 3
  submit test "$test" --dependency="afterok:${array}_$task" --kill-on-invalid-dep=yes --output=test-%j.log "$@"
}

# Processors: those of the row's image. Memory: 1 GiB per compiler, or what gpubuild.toml or the profile says per CUDA and HIP compiler
# (else 2 GiB). Minutes: four times the measured time in steps of 20, 40, 80, ..., or 360 if it is unknown.
@arrays@
echo "rows: ${jobs[*]}"
arrays=${#jobs[@]}
@tests@
if [ ${#jobs[@]} -gt "$arrays" ]; then echo "tests: ${jobs[*]:arrays}"; fi
if [ ${#packing[@]} -gt 0 ]; then
  after=$(IFS=:; echo "${jobs[*]}")
  # One gigabyte and an hour copy and sign any release.
  submit merge - --dependency="afterok:$after" --kill-on-invalid-dep=yes --output=merge-%j.log \
    --cpus-per-task=1 --mem=1024M --time=60
  echo "merge: ${jobs[${#jobs[@]} - 1]}, writes $farm/release"
fi
trap - EXIT
echo "logs: $run"
