# tool_run_grammar.sh - `lockstep run` under a grammar, a JSON schema, or for a JSON object: given
# as text and in files, in every kind of wrong use, with the end that the grammar gives.
. "$(dirname "$0")/../support/tool_checks.sh"
model=$LK_DATA/models/tiny-q4_k_m.gguf

# run STATUS ARGUMENTS...: the command of this test.
run() {
    wanted=$1
    shift
    tool "$wanted" run "$model" -p "Once" "$@" </dev/null
}
# matches REGEX: the whole output is one line that matches.
matches() {
    [ "$(wc -l <out)" = 1 ] && grep -E -x -e "$1" out >/dev/null || fail "$last: '$(cat out)'"
}

for seed in 1 2 3 4 5; do
    hot="--temp 1.5 --top-k 0 --top-p 1 --min-p 0 --seed $seed"
    # shellcheck disable=SC2086
    run 0 $hot --grammar 'root ::= "a" [b-d]{3} | "xyz" [0-9]+ "!"' -n 300
    matches 'a[b-d]{3}|xyz[0-9]+!'
    says "stop: end"
    # shellcheck disable=SC2086
    run 0 $hot --json-schema ' {"type":"object","properties":{"n":{"type":"integer","minimum":5,
        "maximum":17},"ok":{"type":"boolean"}},"required":["n","ok"]}' -n 300
    tr -d ' \n' <out >packed
    echo >>packed
    mv packed out
    matches '\{"n":([5-9]|1[0-7]),"ok":(true|false)\}'
    says "stop: end"
done

printf 'root ::= "q"+ "."\n' >grammar.gbnf
run 0 --temp 0 --grammar grammar.gbnf -n 5
matches 'q+\.?'
printf '{"const": [1, {"a": "b"}]}\n' >schema.json
run 0 --temp 0 --json-schema schema.json
matches '\[1,\{"a":"b"\}\]'
run 0 --temp 0 --json-object -n 3
head -c 1 out | grep -F '{' >/dev/null || fail "$last: '$(cat out)'"
run 0 --temp 0 --grammar 'root ::= "ab"' --json
grep -F '"text": "ab"' out >/dev/null || fail "$last: '$(cat out)'"
grep -F '"stop_reason": "end"' out >/dev/null || fail "$last: '$(cat out)'"

# Wrong use.
run 1 --grammar 'root ::= root "a"'
says "'root' is left-recursive"
run 1 --grammar 'root ::= "a'
says "line 1"
run 1 --grammar missing.gbnf
says "missing.gbnf"
run 1 --json-schema '{"properties":{"a":{"contains":{}}}}'
says "/properties/a/contains"
run 1 --json-schema '{"type":}'
says "byte 8"
run 1 --json-schema missing.json
says "missing.json"
run 2 --json-object --grammar 'root ::= "a"'
says "exclude"
run 2 --json-object --ignore-eos
says "--ignore-eos"
run 0 --temp 0 --grammar 'root ::= "a"' -n 0

exit $failed
