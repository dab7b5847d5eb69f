# Ends the children of a process that was killed. Arguments: the process group of its child.
# Standard input: a pipe from the process. A word on it says that all is well; its end without one, that the process is gone.
# Standard output is a lock that nobody else gets before this has ended.
read -r word && exit 0

# Process, parent and group of everything that runs.
processes() {
    if [ -r /proc/self/stat ]; then
        cat /proc/[0-9]*/stat 2>/dev/null |
            awk '{ id = $1; sub(/^.*\) /, ""); if ($1 != "Z") print id, $2, $3 }'
    else
        ps -A -o pid= -o ppid= -o pgid= -o stat= | awk '$4 !~ /^Z/ { print $1, $2, $3 }'
    fi
}

# The group and all that its members started: build tools give every compiler a group of its own.
family=$(
    kill -s STOP -- "-$1" 2>/dev/null
    processes | awk -v group="$1" '
        { parent[$1] = $2; if ($3 == group) member[$1] = 1 }
        END {
            do {
                more = 0
                for (one in parent) if (!(one in member) && (parent[one] in member)) { member[one] = 1; more = 1 }
            } while (more)
            for (one in member) printf " %s", one
        }'
)

is_left() {
    processes | awk -v family="$family " 'index(family, " " $1 " ") { found = 1 } END { exit !found }'
}

# Build tools pass this on to their compilers and remove what is half done.
kill -s TERM -- "-$1" 2>/dev/null
kill -s CONT -- "-$1" 2>/dev/null
rounds=0
while is_left; do
    rounds=$((rounds + 1))
    [ "$rounds" -eq 50 ] && kill -s KILL $family 2>/dev/null
    # Something that does not even end by that holds up nobody for ever.
    [ "$rounds" -ge 100 ] && exit 0
    sleep 0.1
done
