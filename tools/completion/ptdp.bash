# shellcheck shell=bash
# Completes the command lines of ptdp in bash, with what the command itself says may follow.
_ptdp() {
  local i line word piece=${COMP_WORDS[COMP_CWORD]}
  local -a words=()
  # Readline splits words at "=" and ":", which the command takes together.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == [=:] || ${COMP_WORDS[i - 1]} == [=:] ]]; then
      words[-1]+=$word
    else
      words+=("$word")
    fi
  done
  # What stands before the piece is not replaced.
  [[ $piece == [=:] ]] && piece=
  local before=${words[-1]%"$piece"}
  COMPREPLY=()
  while IFS= read -r line; do
    case "$line" in
      :files)
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -f -- "$piece")
        ;;
      :directories)
        compopt -o filenames 2>/dev/null
        while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen -d -- "$piece")
        ;;
      *)
        word=${line%%$'\t'*}
        COMPREPLY+=("${word#"$before"}")
        [[ $word == *= ]] && compopt -o nospace 2>/dev/null
        ;;
    esac
  done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
  return 0
}
complete -F _ptdp ptdp ptdp-plan ptdp-sim ptdp-run ptdp-validate ptdp-calibrate ptdp-profile
