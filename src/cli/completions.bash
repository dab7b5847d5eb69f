# bash splits words at the characters of COMP_WORDBREAKS, such as `=` in `--backends=cpu` and `@` in `cuda@13.0`. gpubuild needs
# the words of the command line, so they are joined again, and each candidate loses the part that bash keeps in front of it.
_clap_complete_gpubuild() {
    local -a words=()
    local line=${COMP_LINE:0:COMP_POINT} index=0 kept="" i word
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $line == [[:blank:]]* ]]; then
            line=${line#"${line%%[![:blank:]]*}"}
            ((index += 1))
        fi
        if ((i == COMP_CWORD)); then
            word=$line
            kept=${words[index]-}
            [[ $word != [=:] ]] || kept+=$word
            # readline replaces an `@` together with what follows it.
            kept=${kept%@}
        fi
        words[index]=${words[index]-}$word
        line=${line#"$word"}
    done
    local IFS=$'\013' space=true
    if compopt +o nospace 2> /dev/null; then
        space=false
    fi
    COMPREPLY=( $( \
        _CLAP_IFS="$IFS" \
        _CLAP_COMPLETE_INDEX="$index" \
        _CLAP_COMPLETE_COMP_TYPE="${COMP_TYPE}" \
        _CLAP_COMPLETE_SPACE="$space" \
        COMPLETE="bash" \
        "gpubuild" -- "${words[@]}" \
    ) )
    if [[ $? != 0 ]]; then
        unset COMPREPLY
        return
    fi
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
    done
    if [[ $space == false && "${COMPREPLY-}" =~ [=/:]$ ]]; then
        compopt -o nospace
    fi
}
if [[ "${BASH_VERSINFO[0]}" -eq 4 && "${BASH_VERSINFO[1]}" -ge 4 || "${BASH_VERSINFO[0]}" -gt 4 ]]; then
    complete -o nospace -o bashdefault -o nosort -F _clap_complete_gpubuild gpubuild
else
    complete -o nospace -o bashdefault -F _clap_complete_gpubuild gpubuild
fi
