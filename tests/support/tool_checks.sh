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
