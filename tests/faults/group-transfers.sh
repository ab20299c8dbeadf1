#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 7 CPU-s in 17 s
# The commands send and receive: arrays between members of a group, whose plugin pairs transfers by their
# order alone, and waits for ever for one that has no other side.
# shellcheck disable=SC2034 # what another shell expands; what members.sh uses
. "$srcdir/tests/lib.sh"
requires test -w /dev/fuse
requires isolated
. "$top/tests/members.sh"

# on I TEXT: the replies of member I to commands
on()
{
	mnt=${members[$1]} ask "$2"
}
# succeeds I TEXT: they are {"ok":true,...}
succeeds()
{
	local said
	said=$(on "$1" "$2") || fail "no reply to $2"
	case $said in '{"ok":true'*) ;; *) fail "$2: $said" ;; esac
}
# fails I ERRNO PATTERN TEXT
fails()
{
	local said
	said=$(on "$1" "$4") || fail "no reply to $4"
	grep -Eq "\"ok\":false,\"error\":\{\"errno\":\"$2\".*$3" <<<"$said" ||
		fail "$4: '$said' instead of $2 '$3'"
}
# send NAME TO KEY [more keys], receive NAME DTYPE SHAPE FROM KEY [more keys]: the commands
send()
{
	echo "{\"op\":\"send\",\"buffer\":\"$1\",\"to\":\"faulty:$2\",\"key\":$3${4:-}}"
}
receive()
{
	echo "{\"op\":\"receive\",\"buffer\":\"$1\",\"dtype\":\"$2\",\"shape\":$3,\"from\":\"faulty:$4\",\"key\":$5${6:-}}"
}
# all PID...: these processes succeed
all()
{
	local pid
	for pid; do wait "$pid" || fail "a transfer failed"; done
}
# array FILE N SEED: N numbers of F32
array()
{
	perl -e 'my ($n, $seed) = @ARGV; print pack("V*", map { ($_ * 2654435761 + $seed * 40503) & 0x3fffffff } 1 .. $n)' \
		"$2" "$3" | npy '<f4' "($2,)" >"$1"
}
# job I COMMAND: as a job, whose number is $job; it has begun when the stat after it is answered
job()
{
	local said
	said=$(on "$1" "${2%\}},\"async\":true}{\"op\":\"stat\",\"buffer\":\"x\"}")
	job=$(sed -n 's/.*"job":\([0-9]*\)}$/\1/p' <<<"$said")
	[ -n "$job" ] || fail "$2: $said"
}
# offered FROM TO KEY...: receivers wait for these
offered()
{
	local key
	ask_redis --scan --pattern 'pjrtfs:*:transfer/*' >offers
	for key in "${@:3}"; do
		grep -q "transfer/$1/$2/$key$" offers || return 1
	done
}
withdrawn()
{
	! offered "$@"
}
# has FILE TEXT: it has the text by now
has()
{
	[ "$(cat "$1")" = "$2" ]
}
# ended I JOB STATE
ended()
{
	has "${members[$1]}/jobs/$2/state" "$3"
}
two()
{
	whole 2 "$@"
	a=${members[0]} b=${members[1]}
	cp "$data/x.npy" "$a/buffers/"
	cp "$data/y.npy" "$b/buffers/"
}

redis
two ${others:+-o allow_other}

# -- arrays of several sizes, in both directions; either side may come first
for count in 0 1 1000 262144 6000000; do
	array in.npy "$count" "$count"
	cp in.npy "$a/buffers/in.npy"
	job 0 "$(send in 2 1)"
	succeeds 1 "$(receive out F32 "[$count]" 0 1)"
	eventually ended 0 "$job" "done"
	same in.npy "$b/buffers/out.npy"
	succeeds 0 "$(receive back F32 "[$count]" 3 1 ',"device":"faulty:1"')" &
	pids=("$!")
	eventually offered 3 1 1
	cp in.npy "$b/devices/faulty/3/buffers/"
	succeeds 1 "$(send in 1 1 ',"device":"faulty:3"')"
	all "${pids[@]}"
	same in.npy "$a/devices/faulty/1/buffers/back.npy"
done
gone "$a/buffers/back.npy"

# -- commands and replies are as the schema has them
python3 -B - "$top/tests/tools" "$(send x 2 0)" "$(receive y F32 '[2,3]' 0 0)" <<'END'
import json, sys
sys.path.insert(0, sys.argv[1])
import schema
for text, reply in zip(sys.argv[2:], ({"ok": True}, {"ok": True, "buffer": "y"})):
    request = json.loads(text)
    wrong = schema.errors(request, "#/$defs/command") + schema.reply_errors(request["op"], reply)
    for key in list(request):
        less = {k: v for k, v in request.items() if k != key}
        if not schema.errors(less, "#/$defs/command"):
            wrong.append(f"{less} is not refused")
    sys.exit("\n".join(wrong)) if wrong else None
END
job 0 "$(send x 2 0)"
equal "the reply" "$(on 1 "$(receive y F32 '[2,3]' 0 0)")" '{"ok":true,"buffer":"y"}'
eventually has "$a/jobs/$job/state" "done"
tells "$a/jobs/$job/result.json" '"result":\{"ok":true\}'

# -- many at once, all ways, begun in opposite orders: each arrives under its key
ways=("0 2" "2 0" "1 2" "2 1" "3 0" "0 3")
for k in {0..23}; do array "in$k.npy" 5000 "$k"; done
begin_all() # MEMBER KEY...
{
	local k from to
	for k in "${@:2}"; do
		read -r from to <<<"${ways[k % 6]}"
		if [ $((from / 2)) = "$1" ]; then
			cp "in$k.npy" "${members[$1]}/devices/faulty/$from/buffers/"
			succeeds "$1" "$(send "faulty:$from/in$k" "$to" "$k")" &
		else
			succeeds "$1" "$(receive "out$k" F32 '[5000]' "$from" "$k" ",\"device\":\"faulty:$to\"")" &
		fi
		pids+=("$!")
	done
}
pids=()
begin_all 0 {0..23}
begin_all 1 {23..0}
all "${pids[@]}"
for k in {0..23}; do
	read -r _ to <<<"${ways[k % 6]}"
	same "in$k.npy" "${members[to / 2]}/devices/faulty/$to/buffers/out$k.npy"
done

# -- the source may be removed while it waits
array in.npy 1000 77
cp in.npy "$a/buffers/gone.npy"
job 0 "$(send gone 2 2)"
rm "$a/buffers/gone.npy"
succeeds 1 "$(receive kept F32 '[1000]' 0 2)"
eventually ended 0 "$job" "done"
same in.npy "$b/buffers/kept.npy"

# -- a column-major array arrives as the same array
succeeds 0 '{"op":"copy","buffer":"x","as":"c","layout":[0,1]}'
succeeds 0 "$(send c 2 3)" &
pids=("$!")
succeeds 1 "$(receive c F32 '[2,3]' 0 3)" &
all "${pids[@]}" "$!"
same "$a/buffers/x.npy" "$b/buffers/c.npy"

# -- the two sides must move the same type
fails 0 EINVAL 'device 2 receives F32\[6\], not F32\[2,3\]' "$(send x 2 4)" &
pids=("$!")
fails 1 EINVAL 'device 0 sends F32\[2,3\], not F32\[6\]' "$(receive z F32 '[6]' 0 4)" &
all "${pids[@]}" "$!"
gone "$b/buffers/z.npy"

# -- commands that are wrong
x=$(send x 2 5) z=$(receive z F32 '[2,3]' 0 5)
fails 0 ENOENT 'no buffer nothing' "${x/\"x\"/\"nothing\"}"
fails 0 ENODEV 'no device faulty:9' "${x/:2/:9}"
fails 0 ENODEV 'no device 2 in' "${x/faulty:2/2}"
fails 0 EINVAL 'faulty:1 is this process.s own' "${x/:2/:1}"
fails 1 EINVAL 'faulty:3 is this process.s own' "${z/:0/:3}"
fails 0 EINVAL '\\"key\\" is missing' "${x/,\"key\":5/}"
for key in '"5"' -1 1.5 null '[5]' 9007199254740993; do
	fails 0 EINVAL '\\"key\\"' "${x/:5/:$key}"
	fails 1 EINVAL '\\"key\\"' "${z/:5/:$key}"
done
fails 0 EINVAL '\\"to\\"' "${x/\"faulty:2\"/2}"
fails 0 EINVAL '\\"to\\"' "${x/,\"to\":\"faulty:2\"/}"
fails 0 EINVAL 'from' "${x/\"to\"/\"from\"}"
fails 1 EINVAL 'no element type F99' "${z/F32/F99}"
fails 1 EINVAL '\\"shape\\" is missing' "${z/,\"shape\":\[2,3\]/}"
fails 1 EINVAL '\\"shape\\"' "${z/\[2,3\]/7}"
fails 1 ENOENT . "${z/\"z\"/\"none\/z\"}"
if [ -n "$others" ]; then
	chmod 755 "$work"
	chmod 1777 "$a/buffers"
	said=$(as 1001 bash -c 'echo "$2" >"$1/control"' - "$a" "$x" 2>&1) && fail "another user sends"
	case $said in *'Operation not permitted'*) ;; *) fail "it failed with $said" ;; esac
fi

# -- memory is charged before anything is awaited, and given back
quota=$b/users/$(id -u)/faulty:2/memory
settle "$b"
before=$(cat "$quota.current")
echo $((before + 4000)) >"$quota.max"
fails 1 EDQUOT 'memory.max' "$(receive z F32 '[1001]' 0 6)"
job 1 "$(receive z F32 '[1000]' 0 6)"
shows "$quota.current" $((before + 4000))
succeeds 1 "{\"op\":\"cancel\",\"job\":$job}"
eventually has "$quota.current" "$before"
echo max >"$quota.max"

# -- a timeout, a cancel, and a writer that ends give up what waits; the key is free again
s=$(send x 2 7) r=$(receive z F32 '[2,3]' 0 7)
for i in 0 1; do
	t=$s
	[ $i = 0 ] || t=$r
	fails $i ETIMEDOUT 'within 300 ms' "${t%\}},\"timeout_ms\":300}"
	job $i "$t"
	first=$job
	job $i "$t" # one of the two is refused
	jobs=${members[$i]}/jobs
	eventually grep -q EBUSY "$jobs/$first/result.json" "$jobs/$job/result.json"
	succeeds $i "{\"op\":\"cancel\",\"job\":$first}"
	succeeds $i "{\"op\":\"cancel\",\"job\":$job}"
	eventually grep -q ECANCELED "$jobs/$first/result.json" "$jobs/$job/result.json"
done
eventually withdrawn 0 2 7
say "$b/control" "$r" &
writer=$!
eventually offered 0 2 7
pkill -TERM -P "$writer" || true
wait "$writer" && fail "the writer ended well"
eventually withdrawn 0 2 7
gone "$b/buffers/z.npy"
succeeds 0 "$s" &
pids=("$!")
succeeds 1 "$r" &
all "${pids[@]}" "$!"
same "$data/x.npy" "$b/buffers/z.npy"

# -- what waits does not keep others from working, and is limited
jobs=()
for k in {100..163}; do
	job 1 "$(receive "w$k" F32 '[2,3]' 0 "$k")"
	jobs+=("$job")
done
eventually offered 0 2 {100..163}
fails 1 EBUSY '64 transfers are under way' "$(receive z F32 '[1]' 0 164)"
cp "$data/x.npy" "$b/buffers/u.npy"
same "$data/x.npy" "$b/buffers/u.npy"
for k in {100..163}; do
	succeeds 0 "$(send x 2 "$k")"
done
for k in {100..163}; do
	eventually ended 1 "${jobs[k - 100]}" "done"
	same "$data/x.npy" "$b/buffers/w$k.npy"
done

# -- a server that is away, and comes back empty
succeeds 1 "$(receive z F32 '[1000]' 0 8)" &
pids=("$!")
eventually offered 0 2 8
no_redis
redis
cp in.npy "$a/buffers/"
succeeds 0 "$(send in 2 8)" &
all "${pids[@]}" "$!"
same in.npy "$b/buffers/z.npy"

# -- the plugin's own failures
faults send=error:INTERNAL:torn receive=error:RESOURCE_EXHAUSTED:full
fails 0 EIO 'send: torn' "$(send x 2 9)" &
pids=("$!")
fails 1 ENOSPC 'receive: full' "$(receive z F32 '[2,3]' 0 9)" &
all "${pids[@]}" "$!"
faults
succeeds 0 "$(send x 2 9)" &
pids=("$!")
succeeds 1 "$(receive z F32 '[2,3]' 0 9)"
all "${pids[@]}"

# -- the other process ends in order
fails 0 ECONNABORTED 'process 1 of the group has ended' "$(receive z F32 '[2,3]' 2 10)" &
pids=("$!")
eventually offered 2 0 10
unmount_pjrtfs "$b"
all "${pids[@]}"
unset 'members[1]'
leave

# -- or is lost: while one side waits for it, or when the plugin moves the array
two
fails 0 ECONNABORTED 'process 1 of 2 .* is gone since' "$(send x 2 1)" &
pids=("$!")
fails 0 ECONNABORTED 'process 1 of 2 .* is gone since' "$(receive z F32 '[2,3]' 2 2)" &
pids+=("$!")
eventually offered 2 0 2
faults 'receive=hang:it hangs'
fails 0 ECONNABORTED 'process 1 of 2 .* is gone since' "$(send x 3 3)" &
pids+=("$!")
on 1 "$(receive z F32 '[2,3]' 0 3 ',"device":"faulty:3"')" >said &
receiver=$!
eventually grep -q 'it hangs' "$b/plugins/faulty/log"
kill -KILL "$(cat "$b/plugins/faulty/pid")"
all "${pids[@]}"
wait "$receiver"
tells said '"ECONNABORTED"'
faults
leave

# -- a plugin without the functions, and no group
faults api=extension:40
two
fails 0 EOPNOTSUPP 'no CrossHostTransfers extension' "$(send x 2 1)"
fails 1 EOPNOTSUPP 'no CrossHostTransfers extension' "$(receive z F32 '[2,3]' 0 1)"
leave
faults
mount_pjrtfs faulty
members=("$mnt")
cp "$data/x.npy" "$mnt/buffers/"
fails 0 EOPNOTSUPP 'plugin faulty is in no group' "$(send x 2 1)"
fails 0 EOPNOTSUPP 'plugin faulty is in no group' "$(receive z F32 '[2,3]' 2 1)"

no_redis
