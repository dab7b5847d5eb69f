row=$(printf '%s\n' "$JOBS" | sed -n "$((JOB_COMPLETION_INDEX + 1))p")
packed=/farm/runs/$RUN/packed
mkdir -p "$packed"
# A second attempt after a complete first one.
if [ -e "$packed/$row" ]; then exit 0; fi
# Rows do not share build folders.
cp -R /farm/source/. /work
cd "/work/$FOLDER"
@prepare@
export PATH="$HOME/.cargo/bin:$PATH"
@install@
if printf '%s\n' "$PACKING" | grep -qxF -e "$row"; then
  @gpubuild@ ci run "$row" --setup --cache-dir /farm/cache --pack
  rm -rf "$packed/.$row"
  cp -R release "$packed/.$row"
  mv "$packed/.$row" "$packed/$row"
else
  @gpubuild@ ci run "$row" --setup --cache-dir /farm/cache
fi
