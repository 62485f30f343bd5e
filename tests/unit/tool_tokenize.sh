# tool_tokenize.sh - `lockstep tokenize` from outside: rows, ids, JSON, decoding, hostile text,
# wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
model=$LK_DATA/models/tiny-q4_k_m.gguf
llama=$LK_DATA/tokenizers/tok512.vocab.gguf

# run STATUS ARGUMENTS...: the command of this test, input from ./in.
run() {
    wanted=$1
    shift
    tool "$wanted" tokenize "$@" <in
}
# prints TEXT: standard output is this and a line end.
prints() {
    printf '%s\n' "$1" >expected
    cmp -s out expected || fail "$last: '$(cat out)' is not '$1'"
}
: >in

# Wrong use.
run 2
says "MODEL is missing"
run 2 "$model"
says "give one of TEXT, -f FILE, - and --decode IDS"
run 2 "$model" text -f file
says "give one of"
run 2 "$model" text --special --plain
says "exclude each other"
run 2 "$model" text --ids --json
says "--ids goes neither"
run 2 "$model" --decode 1 --no-bos
says "do not go with --decode"
run 1 "$model" --decode "1 4096"
says "'4096' is no token id; they are numbers from 0 to 4095"
run 1 "$model" --decode "1 two"
says "'two' is no token id"
run 1 "$model" --decode "-1"
says "'-1' is no token id"
run 1 "$model" --decode "99999999999999999999"
says "is no token id"
run 1 "$LK_DATA/nothing.gguf" text
says "nothing.gguf"
run 1 "$model" -f nothing.txt
says "cannot open nothing.txt"
printf 'no file of this kind\n' >bad.gguf
run 1 bad.gguf text
says "LK_E_FORMAT"
run 0 --help
[ "$(wc -l <out)" -le 24 ] || fail "the help does not fit a screen"

# Rows.
run 0 "$model" "Hello world"
prints "    2174  \"Hello\"
    1334  \" world\""
[ ! -s err ] || fail "$last wrote to standard error: $(cat err)"
run 0 "$model" "Hello world" --ids
prints "2174 1334"
run 0 "$model" "" --ids
prints ""
run 0 "$model" "" --json
prints '{"n_tokens": 0, "tokens": []}'
run 0 "$model" "a<|im_end|>" --special
prints "      64  \"a\"
    4086  \"<|im_end|>\"  control"
run 0 "$model" "<think>"
prints "    4090  \"<think>\"  user-defined"
run 0 "$model" "<think>" --plain --ids
grep -q 4090 out && fail "$last recognised an added token"
run 0 "$model" "<|im_end|>" --ids
grep -q 4086 out && fail "$last recognised a control token"
run 0 "$llama" "a" --ids
case $(cat out) in "1 "*) ;; *) fail "$last added no BOS: $(cat out)" ;; esac
run 0 "$llama" "a" --ids --no-bos
case $(cat out) in "1 "*) fail "$last added BOS: $(cat out)" ;; esac

# What could do harm on a terminal is escaped; half characters are.
printf 'a\033[2Jb\000\377\n' >in
run 0 "$model" -
grep -q "$(printf '\033')" out && fail "$last printed an escape character"
grep -F '"\u{1b}"' out >/dev/null || fail "$last: no \\u{1b} in: $(cat out)"
printf 'x\360\237\230\200' >in
run 0 "$model" -f - --json
grep -F '"text": {"hex": "f09f"}' out >/dev/null || grep -F '"hex"' out >/dev/null ||
    fail "$last: no half character in: $(cat out)"

# There and back, by a file, standard input and all kinds of separators.
printf 'Two lines\nand  "quotes", <think> \303\251\n' >text
run 0 "$model" -f text --ids
cp out in
run 0 "$model" --decode -
cmp -s out text || fail "$last: '$(cat out)' is not the text"
run 0 "$llama" -f text --ids
cp out in
run 0 "$llama" --decode -
cmp -s out text || fail "$last: '$(cat out)' is not the text"
run 0 "$model" --decode "[2174, 1334]"
[ "$(cat out)" = "Hello world" ] || fail "$last: '$(cat out)'"
run 0 "$model" --decode "64 4086"
[ "$(cat out)" = "a" ] || fail "$last: '$(cat out)'"
run 0 "$model" --decode "64 4086" --special --json
prints '{"n_tokens": 2, "text": "a<|im_end|>"}'

# A full disk is noticed.
if [ -w /dev/full ]; then
    "$LK_TOOL" tokenize "$model" "Hello world" >/dev/full 2>err && fail "a full disk went unnoticed"
fi
exit $failed
