# tool_run.sh - `lockstep run` from outside: text, tables, JSON, seeds, stop texts, the end of the
# context, Ctrl-C, wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
command=run
model=$LK_DATA/models/tiny-q4_k_m.gguf
prompt="Once upon a time, there was"

# same FILE: standard output is as in the file.
same() {
    cmp -s out "$1" || fail "$last: '$(cat out)' is not '$(cat "$1")'"
}

# Wrong use.
run 2
says "MODEL is missing"
run 2 "$model"
says "give the prompt once: -p TEXT, -f FILE or -"
run 2 "$model" -p a -f b
says "give the prompt once"
run 2 "$model" -p a --no-such-option
says "unknown option '--no-such-option'"
run 2 "$model" -p a -n many
says "--n-predict needs a whole number, not 'many'"
run 2 "$model" -p a -n -2
says "--n-predict needs a number from -1"
run 2 "$model" -p a --top-p 1.5
says "--top-p needs a number from 0 to 1, not '1.5'"
run 2 "$model" -p a --temp nan
says "--temp needs a number"
run 2 "$model" -p a --seed -1
says "--seed needs a number"
run 2 "$model" -p a --json=yes
says "--json takes no value"
run 2 "$model" -p
says "-p needs a value"
run 2 "$model" -p a --stop ""
says "--stop needs a text"
run 2 "$model" extra -p a
says "unexpected argument 'extra'"
run 2 "$model" -p a --kv-type f8
says "--kv-type needs f32, f16 or q8_0"
run 1 no-such-model.gguf -p a
says "no-such-model.gguf"
run 1 "$model" -f no-such-prompt
says "cannot open no-such-prompt"
run 1 "$model" -p ""
says "the prompt is empty"
run 1 "$model" -p a --logit-bias 5000=1
says "--logit-bias needs ID=NUMBER with an id from 0 to 4095 and a number from -1e30 to 1e30"
run 0 "$model" -p a -n 1 --repeat-penalty 0.01
run 0 --help
has "usage: lockstep run MODEL"
[ "$(wc -l <out)" -le 30 ] || fail "the help has $(wc -l <out) lines"

# Greedy text: the same from all sources of the prompt and with any number of threads.
run 0 "$model" -p "$prompt" -n 16 --temp 0 -t 1
says "generated 16 tokens"
says "stop: length"
cp out greedy
[ "$(wc -c <greedy)" -gt 16 ] || fail "no text: $(cat greedy)"
run 0 "$model" -p "$prompt" -n 16 --temp 0 -t 3
same greedy
printf '%s' "$prompt" >prompt.txt
run 0 "$model" -f prompt.txt -n 16 --temp 0
same greedy
"$LK_TOOL" run "$model" - -n 16 --temp 0 <prompt.txt >out 2>err || fail "the prompt from -"
same greedy
run 0 "$model" -p "$prompt" -n 16 --temp 0 --echo
printf '%s' "$prompt" | cat - greedy >wanted
same wanted
run 0 "$model" -p "$prompt" -n 0
[ "$(cat out)" = "" ] || fail "-n 0 gave '$(cat out)'"

# A seed repeats a run; without one it is random, and printed.
run 0 "$model" -p "$prompt" -n 24 --temp 1.2 --seed 5
cp out seeded
run 0 "$model" -p "$prompt" -n 24 --temp 1.2 --seed 5 -t 2
same seeded
run 0 "$model" -p "$prompt" -n 24 --temp 1.2 --seed 6
! cmp -s out seeded || fail "seeds 5 and 6 give the same text"
run 0 "$model" -p "$prompt" -n 24 --temp 1.2
cp out unseeded
seed=$(sed -n 's/^seed \([0-9]*\) .*/\1/p' err)
run 0 "$model" -p "$prompt" -n 24 --temp 1.2 --seed "$seed"
same unseeded
run 0 "$model" -p "$prompt" -n 24 --temp 1.2 --seed 18446744073709551615 --json
has '"seed": "18446744073709551615"'

# Tables.
run 0 "$model" -p "$prompt" -n 16 --temp 0 --ids --digests
[ "$(wc -l <out)" = 16 ] || fail "$(wc -l <out) lines for 16 tokens"
! grep -v -E '^[0-9]+	[0-9a-f]{32}	".*"$' out || fail "$last: lines of another form"
cp out table
run 0 "$model" -p "$prompt" -n 16 --temp 0 --ids --digests -t 2
same table
run 0 "$model" -p "$prompt" -n 16 --temp 0 --ids
cut -f 1,3 table >wanted
same wanted

# A ban of the first token.
first=$(head -n 1 table | cut -f 1)
run 0 "$model" -p "$prompt" -n 1 --temp 0 --ids --logit-bias "$first=-inf"
[ "$(cut -f 1 out)" != "$first" ] || fail "a banned token came"
run 0 "$model" -p "$prompt" -n 2 --temp 0 --ids --logit-bias 77=1000
[ "$(cut -f 1 out | uniq)" = 77 ] || fail "a bias of 1000 did not decide"

# Stop texts: bytes 8 to 12 of the text, wherever its tokens end.
text=$(cat greedy)
stop=$(printf '%s' "$text" | cut -c 8-12)
run 0 "$model" -p "$prompt" -n 16 --temp 0 --stop "never there" --stop "$stop"
says "stop: stop"
printf '%s\n' "${text%%"$stop"*}" >wanted
same wanted
run 0 "$model" -p "$prompt" -n 16 --temp 0 --stop "$text and more" # a beginning that stays one
same greedy

# The context's end.
run 1 "$model" -p "$prompt and so on and so on" -c 5
says "tokens, the context 5 positions"
run 0 "$model" -p "$prompt" --json -n 1 --temp 0
n_prompt=$(sed -n 's/.*"prompt_tokens": \([0-9]*\).*/\1/p' out)
run 0 "$model" -p "$prompt" -n -1 --temp 0 --ignore-eos -c $((n_prompt + 2)) --ids
says "stop: context"
head -n 3 table | cut -f 1,3 >wanted
same wanted
run 0 "$model" -p a -n 1 -c 4000
says "4000 positions are more than the 2048"

# Chat: the markers are special tokens, those in the user's text are not.
run 0 "$model" -p "What is a cat?" --chat -n 8 --temp 0 --ids
cp out chat
turns=$(printf '<|im_start|>user\nWhat is a cat?<|im_end|>\n<|im_start|>assistant\n')
run 0 "$model" -p "$turns
" --special -n 8 --temp 0 --ids
same chat
run 0 "$model" -p "a <|im_end|> b" --chat -n 1 --json
plain=$(sed -n 's/.*"prompt_tokens": \([0-9]*\).*/\1/p' out)
run 0 "$model" -p "a <|im_end|> b" --chat --special -n 1 --json
parsed=$(sed -n 's/.*"prompt_tokens": \([0-9]*\).*/\1/p' out)
[ "$plain" -gt "$parsed" ] || fail "special tokens in the user's text: $plain and $parsed tokens"

# JSON.
run 0 "$model" -p "$prompt" -n 4 --temp 0 --json --digests --model-digest --kv-type q8_0,f32
for key in model text ids prompt_ids digests seed stop_reason numerics usage speed model_digest; do
    has "\"$key\": "
done
has '"stop_reason": "length"'
has '8d90a270f4db0983abf3b19de0cf835efc58690f9b0e7852044535a485b5d748'
tr -d ' \n' <out | grep -F '"kv_type":["q8_0","f32"]' >/dev/null || fail "$last: $(cat out)"

# The KV type counts.
run 0 "$model" -p "$prompt" -n 16 --temp 0 --digests --kv-type q8_0
cp out q8
run 0 "$model" -p "$prompt" -n 16 --temp 0 --digests --kv-type f32
! cmp -s out q8 || fail "q8_0 and f32 keys and values give the same digests"

# Ctrl-C ends cleanly, with what there is. On a busy machine the first tries may come before the
# first token.
if command -v timeout >/dev/null; then
    last="run with an interrupt"
    for delay_s in 1 4 16 60; do
        timeout --preserve-status -s INT $delay_s "$LK_TOOL" run "$model" -p "$prompt" -n -1 \
            --temp 1 --seed 1 --ignore-eos >out 2>err
        status=$?
        [ ! -s out ] || break
    done
    [ "$status" = 130 ] || [ "$status" = 0 ] || fail "$last: exit status $status: $(cat err)"
    [ "$status" = 0 ] || says "stop: cancelled"
fi

# A full disk is noticed.
if [ -w /dev/full ]; then
    "$LK_TOOL" run "$model" -p "$prompt" -n 2 >/dev/full 2>err
    [ $? = 1 ] || fail "a full disk was not noticed"
    says "cannot write to standard output"
    # ... at once, not when all has been generated.
    "$LK_TOOL" run "$model" -p "$prompt" -n -1 --ignore-eos >/dev/full 2>err
    [ $? = 1 ] || fail "a full disk was not noticed"
    ! grep "stop: context" err || fail "generation went on into a full disk"
    for argument in --help --version; do
        "$LK_TOOL" $argument >/dev/full 2>err
        [ $? = 1 ] || fail "$argument does not notice a full disk"
    done
fi
exit $failed
