# check_packages.sh - tools/packages.sh on machines that are not there: a folder of stand-ins is the
# whole PATH, and the stand-in for apt-get writes down what it was asked for.
set -u
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0

complain() {
    echo "FAILED: $1" >&2
    sed 's/^/    /' "$scratch/output" >&2
    failed=1
}

# stand_in NAME [COMMAND]: a program that runs the command, or just succeeds.
stand_in() {
    printf '#!/bin/sh\n%s\n' "${2:-exit 0}" >"$scratch/bin/$1"
    chmod +x "$scratch/bin/$1"
}

# machine UID: everything is installed; apt-get makes the programs that it installs.
machine() {
    rm -rf "$scratch/bin"
    mkdir "$scratch/bin"
    : >"$scratch/asked"
    for tool in sh cat mktemp rm sed sort head tail env; do
        ln -s "$(command -v $tool)" "$scratch/bin/$tool"
    done
    for tool in cc cmake ninja pkg-config true; do
        stand_in $tool
    done
    stand_in id "echo $1"
    stand_in sudo 'while [ "$1" = -n ]; do shift; done; exec "$@"'
    cp "$scratch/bin/cc" "$scratch/template"
    stand_in apt-get "echo \"\$*\" >>$scratch/asked
for word in \"\$@\"; do
    case \$word in cmake) /bin/cp $scratch/template $scratch/bin/cmake ;; esac
done"
}

# expect NAME STATUS ASKED TEXT: runs it; ASKED are apt-get's first words, TEXT is in the output.
expect() {
    PATH=$scratch/bin sh "$LK_SOURCE/tools/packages.sh" run >"$scratch/output" 2>&1 </dev/null
    status=$?
    asked=$(sed 's/ .*//' "$scratch/asked" | tr '\n' ' ')
    [ $status -eq "$2" ] || complain "$1: exit status $status, expected $2"
    [ "$asked" = "$3" ] || complain "$1: apt-get was asked '$asked', expected '$3'"
    grep -q -e "$4" "$scratch/output" || [ -z "$4" ] || complain "$1: no '$4' in the output"
}

unset LK_NO_INSTALL
for uid in 0 1000; do
    machine $uid
    expect "everything is there, user $uid" 0 "" ""
    machine $uid
    rm "$scratch/bin/cmake"
    expect "cmake is missing, user $uid" 0 "update install " "installing cmake"
    grep -q 'install.* cmake$' "$scratch/asked" || complain "apt-get was not asked for cmake alone"
done

machine 1000
rm "$scratch/bin/cmake" "$scratch/bin/sudo"
expect "no sudo" 1 "" "neither root nor sudo"

machine 1000
rm "$scratch/bin/cmake"
stand_in sudo "exit 1"
expect "sudo refuses" 1 "" "sudo was refused"

machine 0
rm "$scratch/bin/cmake" "$scratch/bin/apt-get"
expect "no apt-get" 1 "" "no apt-get"
grep -q '^ *cmake$' "$scratch/output" || complain "the missing package is not listed"

machine 0
rm "$scratch/bin/cmake"
stand_in apt-get "exit 100"
expect "no network" 1 "" "apt-get update"

machine 0
rm "$scratch/bin/ninja" # this apt-get knows no ninja-build: it succeeds and installs nothing
expect "still missing afterwards" 1 "update install " "still not usable"

machine 0
rm "$scratch/bin/cmake"
LK_NO_INSTALL=1
export LK_NO_INSTALL
expect "LK_NO_INSTALL" 1 "" "LK_NO_INSTALL is set"

exit $failed
