cp -R /farm/source/. /work
cd "/work/$FOLDER"
@prepare@
export PATH="$HOME/.cargo/bin:$PATH"
@install@
set --
while IFS= read -r row; do set -- "$@" --from "/farm/runs/$RUN/packed/$row"; done <<END
$PACKING
END
@gpubuild@ pack --out "/farm/runs/$RUN/release" "$@"
