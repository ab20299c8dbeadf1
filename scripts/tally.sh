# SPDX-License-Identifier: Apache-2.0
# Count what passed and failed; scripts/test and .ci/run source it.
# shellcheck shell=bash
passed=0
failed=0
told= # what failed, for the end

# tally PASSED FAILED NAME [LINES]: LINES say more of what failed.
tally()
{
	passed=$((passed + $1))
	failed=$((failed + $2))
	[ "$2" != 0 ] || return 0
	told+="FAILED: $3 ($2)"$'\n'${4:+$4$'\n'}
	echo "FAILED: $3 ($2)"
}

# One command is one test.
tally_command()
{
	echo "== $*"
	if "$@"; then tally 1 0 "$*"; else tally 0 1 "$*"; fi
}

# A command whose last line is 'N passed, N failed'.
tally_last_line()
{
	local out
	echo "== $*"
	out=$(mktemp)
	{ "$@" 2>&1 || :; } | tee "$out"
	if [[ $(tail -n 1 "$out") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed$ ]]; then
		tally "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$*" \
			"$(sed '1,/^== what failed/d;$d' "$out")"
	else
		tally 0 1 "$* gave no result"
	fi
	rm -f "$out"
}

# tally_make BUILD TARGET LOG...: tests that the harness of make check counts in each LOG.
# Tests that did not pass, also skipped ones, count as failed; the ends of their outputs are
# printed.
tally_make()
{
	local build=$1 target=$2 log ok all
	shift 2
	echo "== make $target"
	rm -f "$@"
	# Tests wait as much as they compute: one more than there are processors.
	make -C "$build" -j"$(($(nproc) + 1))" "$target" || :
	for log in "$@"; do
		if [ -s "$log" ]; then
			ok=$(sed -n 's/^# PASS: *//p' "$log")
			all=$(sed -n 's/^# TOTAL: *//p' "$log")
			tally "$ok" $((all - ok)) "make $target" \
				"$(sed '1,/^\.\. contents/d' "$log" | grep -v '^PASS' | tail -n 200)"
		else
			tally 0 1 "make $target: no $log"
		fi
	done
}

# tally_fuzz BUILD SECONDS: each fuzzer, for so long, is one test.
tally_fuzz()
{
	local build=$1 seconds=$2 source name log
	echo "== make fuzz, $seconds s each"
	log=$(mktemp)
	{ make -C "$build" -k -j"$(nproc)" fuzz FUZZ_SECONDS="$seconds" 2>&1 || :; } |
		tee "$log"
	for source in "$(dirname "${BASH_SOURCE[0]}")"/../tests/fuzz/fuzz_*.c; do
		name=${source##*/fuzz_}
		name=fuzz-${name%.c}
		if grep -qx "PASS: $name" "$log"; then
			tally 1 0 "$name"
		else
			tally 0 1 "$name"
		fi
	done
	rm -f "$log"
}

# Print the failed tests and the last line; return the exit status.
tally_end()
{
	[ "$failed" = 0 ] || printf '== what failed\n%s' "$told"
	echo "$passed passed, $failed failed"
	[ "$failed" = 0 ]
}
