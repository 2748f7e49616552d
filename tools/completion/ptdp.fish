# Completes the command lines of ptdp in fish, with what the command itself says may follow.
function __ptdp_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :directories
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $line
        end
    end
end
for command in ptdp ptdp-plan ptdp-sim ptdp-run ptdp-validate ptdp-calibrate ptdp-profile
    complete -c $command -f -a '(__ptdp_complete)'
end
