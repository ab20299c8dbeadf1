#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# A plugin makes topologies of what is written to NAME.txt and NAME.json.
. "$srcdir/tests/words.sh"
requires test "$(id -u)" = 0
export PJRTFS_FAULTY_CALLS=yes
mount_pjrtfs faulty --keep --compile-timeout 1 -o allow_other
t=$mnt/topologies at=$mnt/plugins/faulty x=$mnt/executables/add
chmod 755 "$work"
bounded chmod 1777 "$t"
bounded cp "$at/topology.pb" two.pb
chmod 644 two.pb
json()
{
	bounded jq -c "$2" "$t/$1.json"
}
# Not echo: a shell does not report what close(2) says.
put() # FILE TEXT
{
	echo "$2" >"text.$1"
	bounded cp "text.$1" "$t/$1"
}
refused() # FILE TEXT SENTENCE
{
	fails_with 'nvalid argument' put "$1" "$2"
	tells "$mnt/error" "topologies/$1: .*$3"
}
put_as() # UID FILE TEXT
{
	echo "$3" >"text.$2"
	as "$1" cp "text.$2" "$t/$2"
}

# -- a line
put "v5e.txt" two
there()
{
	shows "$t/v5e.txt" two
	same two.pb "$t/v5e.pb"
	equal 'what it is' "$(json v5e '[.plugin, .name, .platform, .platform_version, (.devices | length)]')" \
		'["faulty","two","faulty","1",2]'
	same two.pb "$t/h100.pb"
	equal 'what it was made of' "$(json h100 '[.plugin, .name, .options]')" \
		'["faulty","",{"target_config":"h100_sxm"}]'
}

# -- JSON, with the name of a target, and with its text
put "h100.json" '{"plugin":"faulty","name":"","options":{"target_config":"h100_sxm"}}'
there
put "text.json" '{"name":"","options":{"target_config":"gpu_device_info { }"}}'
same two.pb "$t/text.pb"

# -- what NAME.json says makes the same
bounded cp "$t/h100.json" "$t/copy.json"
same "$t/h100.json" "$t/copy.json"

# -- programs are compiled for it
bounded cp "$data/add.mlir" "$mnt/programs/"
say "$x/options.json" '{"topology":"v5e"}'
shows "$x/state" compiled

# -- the worker dies, then the daemon
kill_worker faulty
there
next_daemon KILL
there
eventually grep -qx compiled "$x/state"
say "$x/options.json" '{"topology":"h100"}'
shows "$x/state" compiled

# -- the plugin refuses: in its words, and what was there stays
refused v5e.txt v9 'expected a topology that a plugin makes: faulty: .*there is no topology "v9"'
shows "$t/v5e.txt" v9
same two.pb "$t/v5e.pb"
say "$x/options.json" '{"topology":"v5e"}'
refused a.json '{"name":"","options":{"speed":3}}' 'faulty: .*there is no option speed'
refused a.json '{"name":"","options":{"target_config":"a target"}}' 'faulty: .*that is no target'
fails_with 'No such file' bounded stat "$t/a.pb"

# -- what no plugin sees
refused a.txt $'two\nthree' 'expected one line, .*0x0a'
refused a.txt "$(printf '%300s' '')" 'at most 255 bytes, found 300'
refused a.json '{"name":"two"' 'expected'
refused a.json '{"plugin":"faulty"}' 'expected the member "name"'
refused a.json '{"name":2}' '"name": expected the name of a topology, found 2'
refused a.json '{"name":"two","options":[]}' '"options": expected an object'
refused a.json '{"name":"two","option":{}}' 'expected the members .* found "option"'
refused a.json '{"name":"two","plugin":"tpu"}' 'there is no plugin tpu'
refused a.json '{"name":"","options":{"target_config":{}}}' 'option target_config: expected a string'
refused a.json '{"name":"","options":{"target_config":"h101"}}' 'expected a target .*h100_sxm.* found h101'
refused a.json "{\"name\":\"\",\"options\":{\"x\":\"$(printf '%65537s' '')\"}}" 'at most 65536 bytes'
options='{"name":"","options":{' text=$(printf '%65000s' '')
for i in {1..4}; do
	options+="\"x$i\":\"$text\","
done
refused a.json "${options%,}}}" 'a name and options of at most 196608 bytes'
fails_with 'too large' bash -c 'tr "\0" x </dev/zero | head -c 100000000 >"$1"' - "$t/a.json"
fails_with 'too large' bash -c 'tr "\0" x </dev/zero | head -c 100000 >"$1"' - "$t/a.txt"

# -- a plugin of API 0.69 cannot read what it has made, and makes it anew
deserialize=PJRT_TopologyDescription_Deserialize
faults $deserialize=missing
kill_worker faulty
fails_with 'not supported' cp two.pb "$t/older.pb"
tells "$mnt/error" "faulty: the plugin has no $deserialize: .*; a newer plugin has it, .* written to topologies/NAME.txt"
put older.json '{"name":"","options":{"target_config":"h100_sxm"}}'
equal 'what it was made of' "$(json older '[.plugin, .name, .options, (.devices | length)]')" \
	'["faulty","",{"target_config":"h100_sxm"},2]'
say "$x/options.json" '{"topology":"older"}'
shows "$x/state" compiled
kill_worker faulty
eventually grep -qx compiled "$x/state"
# a newer one makes it, too
faults
kill_worker faulty
bounded cp "$t/older.pb" "$t/newer.pb"
say "$x/options.json" '{"topology":"newer"}'
shows "$x/state" compiled
# of a name that means something else by now, it makes another one, which is refused
sed 's/"devices":2/"devices":3/' "$t/older.pb" >other.pb
fails_with 'Invalid argument' cp other.pb "$t/other.pb"
tells "$mnt/error" 'another topology of the name "" than it was, expected .*"devices":3.*, found .*"devices":2.*: write the name'
bounded rm "$t/older.pb" "$t/newer.pb" "$t/other.pb"

# -- names
fails_with 'not supported' bounded mv "$t/v5e.txt" "$t/v5e2.json"
fails_with 'not supported' bounded mv "$t/v5e.json" "$t/v6.json"
bounded mv "$t/copy.pb" "$t/moved.pb"
equal 'the options of one that was moved' "$(json moved .options.target_config)" '"h100_sxm"'
bounded rm "$t/moved.pb" "$t"/a.* "$t/v5e.txt"
equal 'names' "$(bounded ls "$t" | tr '\n' ' ')" 'h100.json h100.pb text.json text.pb v5e.json v5e.pb '

# -- what is made belongs to whom NAME.txt does, and has its mode, which only the first write says
umask 027
refused own.txt v9 'there is no topology'
umask 022
put own.txt two
equal 'modes' "$(bounded stat -c %a "$t/own.txt" "$t/own.pb" "$t/own.json" | tr '\n' ' ')" '640 640 640 '

# -- another user's file is not replaced
as 1001 cp two.pb "$t/mine.pb"
fails_with 'ermission denied' put_as 1002 mine.txt two
as 1002 cat "$mnt/error" >said
tells said 'topologies/mine.pb: permission denied'

# -- each file is charged, and what cannot be charged replaces nothing
echo 5 >"$mnt/users/1002/programs.max"
put_as 1002 b.txt two
fails_with 'quota' put_as 1002 c.txt two
fails_with 'No such file' bounded stat "$t/c.pb"
fails_with 'quota' put_as 1002 b.txt two
same two.pb "$t/b.pb"

# -- a name that ends the worker is refused to its user, and not to others
faults PJRT_TopologyDescription_Create=abort:'Check failed: name'
fails_with 'Input/output error' put_as 1003 d.txt two
faults
eventually grep -qx ready "$at/state"
fails_with 'Input/output error' put_as 1003 d.txt two
as 1003 cat "$mnt/error" >said
tells said 'died'
put_as 1004 e.txt two

# -- a plugin that hangs delays no other; sixteen may hang, and not more
faults PJRT_TopologyDescription_Create=held:named
hangs()
{
	fails_with 'timed out' put "slow$1.txt" two
}
hangs 1 &
slow[1]=$!
reached named
bounded cp two.pb "$t/quick.pb"
for i in {2..16}; do
	hangs "$i" &
	slow[i]=$!
done
for i in {1..16}; do
	wait "${slow[i]}" || fail 'a plugin that hangs did not time out'
done
fails_with 'busy' put "slow.txt" two
faults
eventually put "slow.txt" two
same two.pb "$t/slow.pb"
shows "$mnt/health" ok
