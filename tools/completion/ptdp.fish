# Completes the command lines of ptdp in fish, with what the command itself says may follow.
function __ptdp_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null
end
function __ptdp_takes_files
    __ptdp_complete | string match -qr '^:(files|directories)$'
end
for command in ptdp ptdp-plan ptdp-sim ptdp-run ptdp-validate ptdp-calibrate ptdp-profile
    complete -c $command -f -a '(__ptdp_complete | string match -v ":*")'
    complete -c $command -n __ptdp_takes_files -F
end
