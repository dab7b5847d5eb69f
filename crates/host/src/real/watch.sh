# Ends the child of a process that was killed. Argument: the child's process group.
# Standard input: a pipe from the process. A line means that the child has ended; end of file means that the process died.
# Standard output: a lock file, which stays locked until this script exits.
read -r word && exit 0

# Process, parent, group and session of all running processes. `ps` does not show the session on every system.
processes() {
    if [ -r /proc/self/stat ]; then
        cat /proc/[0-9]*/stat 2>/dev/null |
            awk '{ id = $1; sub(/^.*\) /, ""); if ($1 != "Z") print id, $2, $3, $4 }'
    else
        ps -A -o pid= -o ppid= -o pgid= -o stat= | awk '$4 !~ /^Z/ { print $1, $2, $3 }'
    fi
}

# The group, its session and all descendants of their members: build tools start every compiler in a new group, and a build
# tool that dies before this script runs leaves compilers without a parent.
family=$(
    kill -s STOP -- "-$1" 2>/dev/null
    processes | awk -v group="$1" '
        { parent[$1] = $2; if ($3 == group || $4 == group) member[$1] = 1 }
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

# Build tools forward this to their compilers and remove incomplete files.
kill -s TERM -- "-$1" 2>/dev/null
kill -s CONT -- "-$1" 2>/dev/null
rounds=0
while is_left; do
    rounds=$((rounds + 1))
    [ "$rounds" -eq 50 ] && kill -s KILL $family 2>/dev/null
    # Do not wait forever for a process that survives SIGKILL.
    [ "$rounds" -ge 100 ] && exit 0
    sleep 0.1
done
