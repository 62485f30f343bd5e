# tool_chat.sh - `lockstep chat` from outside, its input a script: answers, commands, blocks of
# lines, saved conversations, wrong use.
. "$(dirname "$0")/../support/tool_checks.sh"
model=$LK_DATA/models/tiny-q4_k_m.gguf
bare=$LK_DATA/tokenizers/tok512.vocab.gguf

# chat STATUS INPUT ARGUMENTS...
chat() {
    wanted=$1
    printf "$2" >in
    shift 2
    tool "$wanted" chat "$@" <in
}

chat 2 ''
says "MODEL is missing"
chat 2 '' "$model" --kv-type f8
says "--kv-type needs"
chat 1 'Hi\n' "$bare"
chat 1 'Hi\n' no-such.gguf
says "no-such.gguf"
chat 0 '' --help
has "usage: lockstep chat MODEL"
chat 0 '' "$model"
[ ! -s out ] || fail "$last: $(cat out)"

# The same words with the same seed, and as lockstep run --chat answers.
chat 0 'What is a cat?\n' "$model" --temp 0 -n 12
cp out once
chat 0 'What is a cat?\n' "$model" --temp 0 -n 12 -t 1
cmp -s out once || fail "$last: '$(cat out)' is not '$(cat once)'"
"$LK_TOOL" run "$model" --chat -p 'What is a cat?' --temp 0 -n 12 >run 2>err || fail "run --chat"
cmp -s run once || fail "run --chat: '$(cat run)' is not '$(cat once)'"
chat 0 'One\n/exit\nTwo\n' "$model" --temp 0 -n 1
[ "$(wc -l <out)" -le 2 ] || fail "$last: it went on: $(cat out)"

# Commands.
chat 0 'a <|im_end|> b\n/prompt\n' "$model" --temp 0 -n 1 --system "Be brief."
has '<|im_start|>system'
has 'a <|im_end|> b<|im_end|>'
chat 0 '/help\n' "$model"
says "/retry"
chat 0 '/what\n/system\n/clear all\n/quit\n' "$model"
says "there is no command /what"
says "/system needs TEXT"
says "/clear takes nothing, not 'all'"
chat 0 '/undo\n/tool x\n' "$model"
says "there is no message yet"
says "no call waits for a result"
chat 0 'Hi\n/save first\n/undo\n/save second\n/load first\n/system New.\n/save third\n' "$model" \
    --temp 0 -n 2 --system "Old."
grep -F '"Hi"' first >/dev/null || fail "saved: $(cat first)"
grep -F '"Hi"' second >/dev/null && fail "undone: $(cat second)"
grep -F '"New."' third >/dev/null || fail "system: $(cat third)"
grep -F -e '"Old."' -e '"Hi"' third >/dev/null && fail "system: $(cat third)"
says "3 messages"

# Lines that go on.
chat 0 'one\\\ntwo\n/save lines\n' "$model" --temp 0 -n 1
grep -F '"one\ntwo"' lines >/dev/null || fail "backslash: $(cat lines)"
chat 0 '"""\n/not a command\n\nlast\n"""\n/save block\n' "$model" --temp 0 -n 1
grep -F '"/not a command\n\nlast"' block >/dev/null || fail "block: $(cat block)"

# Recordings: one forgotten, one kept, one taken back, one that cannot be read.
omni=$LK_DATA/omni
ask='Transcribe the audio.\n'
first="/audio $omni/clips/ref0.wav\n$ask"
second="/audio $omni/clips/clip27.wav\n$ask"
chat 0 "$first/clear\n$second$first/undo\n/audio no-such.wav\n/prompt\n" \
    "$omni/tiny-omni-Q4_K_M.gguf" --mmproj "$omni/mmproj-tiny-omni-Q8_0.gguf" --temp 0 -n 20
has "that knowing he's a good man"
has "three"
[ "$(grep -c '<|AUDIO|>' out)" = 1 ] || fail "$last: $(cat out)"
says "47 tokens; the next message holds them"
says "no-such.wav: No such file"
chat 0 "/audio $omni/clips/ref0.wav\n" "$model"
says "start with --mmproj"
chat 1 'Hi\n' "$model" --mmproj "$model"
says "is no projector"

# What fails is said, and ends a script.
chat 1 'Hi\nAgain\n' "$model" --tools no-such-file
says "cannot open no-such-file"
printf "{{ raise_exception('Only cats.') }}" >refuses
chat 1 'Hi\nAgain\n' "$model" --chat-template ./refuses
says "the chat template refuses the messages: Only cats."
[ "$(grep -c "Only cats" err)" = 1 ] || fail "$last: it went on: $(cat err)"

exit $failed
