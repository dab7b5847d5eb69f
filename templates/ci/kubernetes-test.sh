test=$(printf '%s\n' "$JOBS" | sed -n "$((JOB_COMPLETION_INDEX + 1))p")
of=$(printf '%s\n' "$PACKING" | sed -n "$((JOB_COMPLETION_INDEX + 1))p")
tested=/farm/runs/$RUN/tested
# A second attempt after a complete first one.
if [ -e "$tested/$test" ]; then exit 0; fi
if [ ! -e "/farm/runs/$RUN/packed/$of" ]; then
  echo "error: $of has packed nothing yet: create the tests when the rows are complete" >&2
  exit 1
fi
cp -R /farm/source/. /work
cd "/work/$FOLDER"
rm -rf release
cp -R "/farm/runs/$RUN/packed/$of" release
@prepare@
export PATH="$HOME/.cargo/bin:$PATH"
@install@
@gpubuild@ ci run "$test" --cache-dir /farm/cache
mkdir -p "$tested"
: > "$tested/$test"
