#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# The plugin log, plugins/NAME/log, and its part in the daemon's log, however much is printed; check_plugin_log.c
# has what is dropped.
. "$srcdir/tests/lib.sh"
mount_pjrtfs faulty --fault client=print:3:early
log=$mnt/plugins/faulty/log
# told PATTERN: the number of lines in the daemon's log that match
told()
{
	grep -Ec -e "$1" "$mnt.log" || true
}

# at_most PATTERN: the daemon's log has no more of it than so many seconds allow
at_most()
{
	[ "$(told "$1")" -le $((100 * (SECONDS / 10 + 2))) ] ||
		fail "the daemon's log has $(told "$1") lines of $1 after $SECONDS s"
}

# -- from the start on, line by line, with the plugin's name
tells "$log" '^early 1$' '^early 3$'
eventually grep -q 'info: plugin faulty: early 3$' "$mnt.log"
equal "early lines" "$(told 'info: plugin faulty: early [123]$')" 3
equal "mode" "$(bounded stat -c %a "$log")" 440
equal "size" "$(bounded stat -c %s "$log")" "$(bounded cat "$log" | wc -c)"
put_add

# -- tail -f shows new lines
tail -n 1 -s 0.1 -f "$log" >followed 2>followed.err &
follower=$!
eventually grep -q 'early 3' followed
faults 'execute=print:2:E0000 00:00:1.5 x.cc:1] later'
run add 'x y -> z'
eventually grep -q 'later 2' followed
eventually grep -q 'error: plugin faulty: E0000 .* later 2$' "$mnt.log"
kill "$follower"
wait "$follower" 2>/dev/null || true
equal "what tail said" "$(cat followed.err)" ''
# and poll(2) returns
bounded perl -e '
	open my $f, "<", $ARGV[0] or die; 1 while <$f>;
	vec(my $r = "", fileno $f, 1) = 1;
	system("echo x y -\\> z >$ARGV[1]") == 0 or die;
	select($r, undef, undef, undef) == 1 or die; seek $f, 0, 1; <$f> =~ /later 1/ or die' \
	"$log" "$mnt/executables/add/run"

# -- one that prints for ever, in a mount with another that computes
unmount_pjrtfs
rm -f "$faults"
first=${plugin:-cpu}
mount_pjrtfs "$first" "${faulty_options[@]}" \
	--fault execute=babble
log=$mnt/plugins/faulty/log
far=$mnt/devices/faulty/0/buffers
put_add
bounded cp "$data/x.npy" "$data/y.npy" "$far/"
ask '{"op":"compile","program":"add","as":"far","options":{"plugin":"faulty"}}' | jq -e .ok >/dev/null
run far 'x y -> z'
eventually grep -q '^babble' "$log"
size=$(bounded stat -c %s "$log")
grows()
{
	[ "$(bounded stat -c %s "$log")" -gt "$size" ]
}
for _ in $(seq 20); do
	run add 'x y -> z'
	run far 'x y -> z'
done
eventually grows # lines above the rate limit are ignored for the rest of the second
bounded tail -n 3 "$log" >last
equal "the last lines" "$(wc -l <last)" 3
at_most 'plugin faulty: babble'
if ! sanitized; then
	# the daemon reads at most 10 MiB a second
	ticks()
	{
		awk '{ print $14 + $15 }' "/proc/$daemon/stat"
	}
	began=$(date +%s%N) before=$(ticks)
	# real time: a second in which the daemon uses a part of a processor
	sleep 1
	used=$(($(ticks) - before))
	ms=$((($(date +%s%N) - began) / 1000000))
	[ $((used * 5000)) -lt $((ms * $(getconf CLK_TCK))) ] || fail "it takes $used ticks in $ms ms"
fi
kill -KILL "$(cat "$mnt/plugins/faulty/pid")"
restarted 1 faulty
run far 'x y -> z'
bounded tail -n 1 "$log" >/dev/null

# -- a plugin that prints more than a pipe holds before it is ready
unmount_pjrtfs
rm -f "$faults"
mount_pjrtfs faulty --fault client=print:20000:loud
eventually grep -qx 'loud 20000' "$mnt/plugins/faulty/log"
