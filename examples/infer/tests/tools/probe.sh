#!/bin/sh
# A fake probe that fails in the way its argument names.
case "$2" in
    crash) echo "driver: assertion failed" >&2; kill -SEGV $$ ;;
    leave) echo "cannot open device" >&2; exit 7 ;;
    hang) sleep 600 ;;
    garbage) echo "hello from the driver" ;;
    empty) ;;
    endless) while :; do echo "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"; done ;;
    other) echo '{"backend": "cuda", "devices": []}' ;;
    noise) echo "warning: old firmware" >&2; echo '{"backend": "noise", "why": "too old: 1.0"}' ;;
    good) cat <<'JSON'
{"backend": "good", "devices": [{"index": 0, "name": "Card", "driver": "1", "arch": "x", "pci": "", "kind": "discrete",
 "memory_total": 2, "memory_free": 1, "max_buffer": 1}]}
JSON
        ;;
esac
