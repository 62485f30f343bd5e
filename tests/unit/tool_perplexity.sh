# tool_perplexity.sh - `lockstep perplexity` from outside: figures that do not depend on threads,
# both outputs, wrong use. The quality figures are judged in docs/quality.md.
. "$(dirname "$0")/../support/tool_checks.sh"
command=perplexity
model=$LK_DATA/models/tiny-q4_k_m.gguf

cat >text.txt <<'TEXT'
The sun was low when the two brothers came to the river. The water was high and brown, and the
bridge was gone. "We must wait until the morning," said the older one, and he put his bag on the
ground. The younger one looked at the water for a long time. Then he sat down and took the bread
out of his bag. They ate in silence, and the night came over the river.
TEXT

run 2
says "MODEL is missing"
run 2 "$model"
says "FILE is missing"
run 2 "$model" text.txt --ctx 2
says "--ctx needs a number from 4"
run 1 "$model" no-such-text
says "cannot open no-such-text"
run 1 "$model" text.txt --ctx 500
says "one window needs 500"
run 0 --help
has "usage: lockstep perplexity MODEL FILE"

run 0 "$model" text.txt --ctx 24
has "windows of 24 tokens"
value=$(sed -n 's/^perplexity \([0-9.]*\) .*/\1/p' out)
# Between what a good guesser and a blind one (4096) would reach.
case $value in
[1-9][0-9].* | [1-9][0-9][0-9].*) ;;
*) fail "perplexity '$value'" ;;
esac
run 0 "$model" text.txt --ctx 24 -t 1
grep -F "perplexity $value " out >/dev/null || fail "another figure with one thread: $(cat out)"
run 0 "$model" text.txt --ctx 24 --chunks 2 --json --kv-type f32
has '"windows": 2,'
has '"scored_tokens": 22,'
has '"numerics": "lk1"'
exit $failed
