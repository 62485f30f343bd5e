# tool_checks.sh - what the tests of the lockstep tool share (tests/unit/tool_<command>.sh, which
# read it first and end with `exit $failed`).
set -u
failed=0

fail() {
    printf 'FAILED: %s\n' "$*"
    failed=1
}
# tool STATUS COMMAND ARGUMENTS...: runs it; standard output to ./out, standard error to ./err.
tool() {
    expected=$1
    shift
    last="$*"
    "$LK_TOOL" "$@" >out 2>err
    status=$?
    [ "$status" = "$expected" ] || fail "$last: exit status $status, expected $expected: $(cat err)"
}
# run STATUS ARGUMENTS...: the command named in $command, without input.
run() {
    wanted=$1
    shift
    tool "$wanted" "$command" "$@" </dev/null
}
# Over the emulated driver: `with_devices N` for all runs from here on, -1 for none at all.
with_devices() {
    if [ "$1" -lt 0 ]; then
        unset LD_LIBRARY_PATH LK_EMULATED_DEVICES
    else
        export LD_LIBRARY_PATH="$LK_DRIVER" LK_EMULATED_DEVICES="$1"
    fi
}
# A seventh of a second of a recording into FILE: little work for the emulated driver.
short_clip() {
    {
        printf 'RIFF\144\022\000\000'
        head -c 40 "$LK_DATA/omni/clips/ref0.wav" | tail -c 32
        printf '\100\022\000\000'
        head -c 20044 "$LK_DATA/omni/clips/ref0.wav" | tail -c 4672
    } >"$1"
}
# Whether the build has code for devices; without Clang it has none.
has_device_code() {
    ! grep -q 'no device code' err
}
# says TEXT: standard error holds it. has TEXT: standard output does.
says() {
    grep -F -e "$1" err >/dev/null || fail "$last: no '$1' in: $(cat err)"
}
has() {
    grep -F -e "$1" out >/dev/null || fail "$last: no '$1' in: $(cat out)"
}
# matches FILE PATTERN: FILE (out or err) holds a match.
matches() {
    grep -e "$2" "$1" >/dev/null || fail "$last: no '$2' in $1: $(cat "$1")"
}
