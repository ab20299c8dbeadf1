#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# The units under a real systemd, in namespaces of its own: the mount is the host's, the plugin has
# its sandbox, and what dies or hangs is started again; users have mounts of their own.
. "$srcdir/tests/words.sh"
requires isolated
requires_mount
requires systemd-analyze --version
requires test -x /lib/systemd/systemd
name=pjrtfs@$(systemd-escape --path "$work/mnt").service
hangs=pjrtfs@$(systemd-escape --path "$work/hangs").service
wrong=pjrtfs@$(systemd-escape --path "$work/wrong").service
device=pjrtfs@$(systemd-escape --path "$work/device").service
mkdir -p mnt hangs wrong device run units units/{"$name","$hangs","$wrong","$device"}.d user-units cgroups generators seen home/.config run-user run-verify
user=nobody
chown "$user" home run-user

parent='' group=''
# what systemd, and the user's, know of a failure
told_by_systemd()
{
	cat "$work/systemd.log"
	[ "$(type -t as_user)" = function ] || return 0
	as_user cat "$work/home/pjrt/health" "$work/home/pjrt/last_death"
	as_user systemctl --user status --full --lines 50 pjrtfs@pjrt
	as_user systemctl --user show --property NRestarts,Result,ExecMainStatus,NFileDescriptorStore pjrtfs@pjrt
}
end_systemd()
{
	[ "$lib_status" = 0 ] || told_by_systemd
	[ -z "$parent" ] || kill -KILL "$parent"
	wait $parent 2>/dev/null
	until [ -z "$group" ] || find "$group" -depth -type d -exec rmdir {} + 2>/dev/null; do
		sleep 0.1
	done
	umount -l "$work/cgroups" /sbin /dev/fuse "$work/seen" 2>/dev/null # (or they are not mounted)
}
at_end end_systemd

# Where others can read it, and open /dev/fuse.
mount -t tmpfs -o mode=755 tmpfs seen
mkdir seen/build seen/plugins
mount --rbind "$build" seen/build
mount --rbind "$plugins" seen/plugins
mknod -m 666 seen/fuse c 10 229
mount --bind seen/fuse /dev/fuse
# Of files that nobody may write, a user's second cp would not write the copies either.
own_data

# The unit as it will be installed, but with this build; the targets that it names, and no other
# unit.
echo "{\"plugin_dir\": [\"$plugins\"]}" >config.json
sed "s|^ExecStart=.*/pjrtfs %f|ExecStart=$pjrtfs %f --config $work/config.json|" \
	"$build/systemd/pjrtfs@.service" >units/pjrtfs@.service
grep -q "^ExecStart=$pjrtfs %f --config .* -o allow_other,mode=1777\$" units/pjrtfs@.service ||
	fail "what does ExecStart start? $(cat units/pjrtfs@.service)"
for target in sysinit basic shutdown umount multi-user default; do
	printf '[Unit]\nDefaultDependencies=no\n' >"units/$target.target"
	cp "units/$target.target" user-units
done
printf '[Unit]\nOnFailure=failed.service\n' >"units/$name.d/failure.conf"
printf '[Service]\nType=oneshot\nExecStart=touch %s\n' "$work/has-failed" >units/failed.service
printf '[Unit]\nStartLimitIntervalSec=0\n[Service]\nWatchdogSec=1\n' >"units/$hangs.d/watchdog.conf"

# Two that cannot begin; what they print is in files, because no journal runs here.
cat >"units/$wrong.d/start.conf" <<END
[Service]
ExecStart=
ExecStart=$pjrtfs nothing %f -f --keep --plugin-dir $plugins
StandardError=append:$work/wrong.log
END
printf '[Service]\nPrivateDevices=yes\nStandardError=append:%s\n' "$work/device.log" \
	>"units/$device.d/start.conf"

# The unit of users likewise.  Their manager starts without a login: no PAM is here.
echo "{\"plugin_dir\": [\"$work/seen/plugins\"]}" >home/.config/pjrtfs.json
mkdir -p home/.config/systemd/user
sed "s|^ExecStart=.*/pjrtfs |ExecStart=$work/seen/build/pjrtfs |" \
	"$build/systemd/user/pjrtfs@.service" >user-units/pjrtfs@.service
cp user-units/pjrtfs@.service home/.config/systemd/user/
chown -R "$user" home
cat >units/manager.service <<END
[Service]
Type=notify
User=$user
Delegate=yes
KillMode=mixed
Environment=HOME=$work/home XDG_RUNTIME_DIR=$work/run-user SYSTEMD_LOG_TARGET=console
UnsetEnvironment=SYSTEMD_UNIT_PATH SYSTEMD_GENERATOR_PATH
ExecStart=/lib/systemd/systemd --user
END

# A line of fstab with x-systemd.automount, as the generator of systemd makes units of it.
mkdir inst lazy
sed "s|@bindir@|$build|" "$top/mount/mount.pjrtfs.in" >inst/mount.pjrtfs
chmod +x inst/mount.pjrtfs
requires mount -t overlay -o "lowerdir=$work/inst:/sbin" overlay /sbin
echo "cpu $work/lazy pjrtfs noauto,x-systemd.automount,plugin_dir=$plugins,no_cache 0 0" >fstab
SYSTEMD_FSTAB=$work/fstab SYSTEMD_PROC_CMDLINE='' \
	/lib/systemd/system-generators/systemd-fstab-generator units units units
lazy=$(systemd-escape --path "$work/lazy")

# -- no mistake in it; and as much is forbidden as can be: 10 is nothing, 0 everything
for unit in '--system units' '--user user-units'; do
	XDG_RUNTIME_DIR=$work/run-verify bounded systemd-analyze "${unit% *}" verify --man=no "$work/${unit#* }/pjrtfs@.service" >out 2>&1 ||
		fail "systemd-analyze $unit verify: $(cat out)"
	[ ! -s out ] || fail "systemd-analyze $unit verify: $(cat out)"
done
bounded systemd-analyze security --offline=yes --threshold=40 --no-pager \
	"$work/units/pjrtfs@.service" >out 2>&1 || fail "too much is permitted: $(grep -v ✓ out)"
tail -n 1 out

# -- start systemd, in a control group of its own
requires mount -t cgroup2 cgroup2 cgroups
name_of_group=$work/cgroups$(sed -n 's/^0:://p' /proc/self/cgroup)/${work##*/}
requires mkdir "$name_of_group"
group=$name_of_group
export group work
bash -c 'echo $$ >"$group/cgroup.procs" &&
	exec unshare --mount --propagation slave --pid --fork --kill-child --uts --ipc --cgroup bash -eu -c "$1"' - '
	mount --bind /etc /etc
	mount -o remount,ro,bind /etc
	mount --bind "$work/run" /run
	mount -t tmpfs tmpfs /var/cache
	mount -t proc proc /proc
	umount -R /sys/fs/cgroup
	mount -t tmpfs tmpfs /sys/fs/cgroup
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	export container=pjrtfs
	export SYSTEMD_UNIT_PATH=$work/units SYSTEMD_GENERATOR_PATH=$work/generators
	exec /lib/systemd/systemd --system --unit=basic.target --log-target=console' \
	>systemd.log 2>&1 </dev/null &
parent=$!

# within COMMAND...: run it where systemd runs.
within()
{
	"$patient" "$patience" nsenter --target "$init" --mount --pid --uts --ipc --cgroup "$@"
}
started()
{
	local init
	init=$(pgrep -P "$parent") && [ "$(cat "/proc/$init/comm")" = systemd ] &&
		within systemctl is-active basic.target
}
eventually started
init=$(pgrep -P "$parent")

# -- the mount is where systemd and all others see it, and other users use it
within systemctl start "$name"
within grep -q " $work/mnt fuse.pjrtfs " /proc/1/mounts
within systemctl show --value --property StatusText "$name" >text
tells text '^cpu: [0-9]+ devices$'
within cat "$work/mnt/plugins/cpu/sandbox" >sandbox
tells sandbox '^strict$' '^seccomp yes$'
! has_landlock || tells sandbox '^landlock [1-9]'
use='cd "$1" && cp "$2/add.mlir" programs/ && cp "$2/x.npy" "$2/y.npy" buffers/ &&
	echo "x y -> z" >executables/add/run && cat buffers/z.txt'
within setpriv --reuid 1001 --regid 1001 --clear-groups bash -c "$use" - "$work/mnt" "$work" >z
shows z "$sum"
within sh -c 'exec 3<>"$1" && echo "{\"op\":\"settle\"}" >&3 && cat <&3' - "$work/mnt/control" >settled
shows settled '{"ok":true}'
equal "programs in the cache" "$(within ls "/var/cache/pjrtfs/entries" | wc -l)" 1
main()
{
	within systemctl show --value --property MainPID "$name"
}
replaced() # FORMER COMMAND...: the process, which COMMAND prints, is another one
{
	local now
	now=$("${@:2}") && [ "$now" != 0 ] && [ "$now" != "$1" ]
}
first=$(main) # the holder
within cat "/proc/$first/status" >status
tells status '^NoNewPrivs:.1$' '^CapEff:.00000000002000e4$' '^Seccomp:.2$'

# -- a worker that is killed, as for want of memory, is pjrtfs's affair
within bash -c 'kill -KILL $(cat "$1"/pid)' - "$work/mnt/plugins/cpu"
eventually within grep -qx '[1-9][0-9]*' "$work/mnt/plugins/cpu/restarts"
equal "the main process" "$(main)" "$first"

# -- a daemon that is killed: the holder starts another one, which serves the same files
within cat "$work/mnt/buffers/z.txt" >z
served=$(within cat "$work/mnt/pid")
within kill -KILL "$served"
eventually replaced "$served" within cat "$work/mnt/pid"
within cat "$work/mnt/buffers/z.txt" >z
shows z "$sum"
equal "the holder" "$(main)" "$first"

# -- a holder that is killed or restarted: systemd starts another one
again()
{
	eventually replaced "$1" main
	eventually within grep -qx ok "$work/mnt/health"
	within cat "$work/mnt/buffers/z.txt" >z
	shows z "$sum"
}
within kill -KILL "$first"
again "$first"
no_jobs()
{
	[ -z "$(within systemctl list-jobs --no-legend)" ]
}
eventually no_jobs
rm -f has-failed # systemd 254 and later take the kill for a failure, though it starts another one
# … as planned, which is no failure
for restart in 'systemctl restart "$1"' 'kill -USR2 "$2"'; do
	second=$(main)
	within bash -c "$restart" - "$name" "$second"
	again "$second"
done
[ ! -e has-failed ] || fail 'a restart counts as a failure'
within setpriv --reuid 1001 --regid 1001 --clear-groups bash -c "$use" - "$work/mnt" "$work" >z
shows z "$sum"

# -- stop unmounts
within systemctl stop "$name"
equal "its state" "$(within systemctl is-active "$name" || :)" inactive
! within grep -q fuse.pjrtfs /proc/1/mounts || fail "it is still mounted"

# -- the page's lines, but for the names
sed -n '/^## A service for all/,/^## /s/^    //p' "$top/docs/systemd.md" |
	sed "s|/mnt/pjrt|$work/mnt|; s|pjrtfs@mnt-pjrt|'${name//\\/\\\\}'|; s|enable --now|start|" >lines
[ "$(wc -l <lines)" = 5 ] || fail "the page has other lines: $(cat lines)"
within bash -eu "$work/lines" >out 2>&1 || fail "$(cat out)"
tells out 'Status: "cpu: [0-9]+ devices"'
equal "its state" "$(within systemctl is-active "$name" || :)" inactive

# -- a daemon that hangs: systemd starts another holder
within systemctl start "$hangs"
within cat "$work/hangs/version" >version
hanging=$(within cat "$work/hangs/pid")
within kill -STOP "$hanging"
eventually replaced "$hanging" within cat "$work/hangs/pid"
within systemctl show --value --property NRestarts "$hangs" >restarts
! grep -qx 0 restarts || fail "systemd did not notice the daemon that hangs"
within systemctl stop "$hangs"

# -- a plugin that is not there: one sentence, no second start
has_failed()
{
	within systemctl is-failed "$1"
}
! within systemctl start "$wrong" 2>out || fail "it starts without a plugin"
has_failed "$wrong" >out || fail "its state: $(cat out)"
equal "its exit status" "$(within systemctl show --value --property ExecMainStatus "$wrong")" 2
equal "its restarts" "$(within systemctl show --value --property NRestarts "$wrong")" 0
equal "its log" "$(wc -l <wrong.log)" 1
tells wrong.log '^pjrtfs: error: plugin nothing: not found'

# -- no /dev/fuse: tried again, as it may appear, but not for ever
! within systemctl start "$device" 2>out || fail "it starts without /dev/fuse"
eventually has_failed "$device"
equal "its exit status" "$(within systemctl show --value --property ExecMainStatus "$device")" 1
equal "its starts" "$(wc -l <device.log)" 10
equal "its sentences" "$(sort -u device.log | wc -l)" 1
tells device.log '^pjrtfs: error: .*/dev/fuse is missing'

# -- a mount that begins when it is first used
within systemctl start "$lazy.automount"
! within grep fuse.pjrtfs /proc/1/mounts >mounts || fail "it is mounted before it is used: $(cat mounts)"
within cat "$work/lazy/health" >health
shows health ok
within systemctl stop "$lazy.automount" "$lazy.mount"
! within grep -q fuse.pjrtfs /proc/1/mounts || fail "the automount is still mounted"

# -- a user's own, as the page starts it: it makes the directory, outlives its processes, and is the
# user's alone
within systemctl start manager
as_user()
{
	within setpriv --reuid "$user" --regid nogroup --clear-groups \
		env -u SYSTEMD_UNIT_PATH "HOME=$work/home" "XDG_RUNTIME_DIR=$work/run-user" "$@"
}
page docs/systemd.md '## A service of one user' '## ' >lines
tells lines '^systemctl --user enable --now pjrtfs@pjrt$'
as_user bash -eu "$work/lines" >out 2>&1 || fail "$(cat out)"
as_user bash -c "$use" - "$work/home/pjrt" "$work" >z
shows z "$sum"
as_user systemctl --user is-enabled pjrtfs@pjrt >out || fail "$(cat out)"
fails_with 'Permission denied' within ls "$work/home/pjrt"
served() { as_user cat "$work/home/pjrt/pid"; }
held() { as_user systemctl --user show --value --property MainPID pjrtfs@pjrt; }
for victim in served held; do
	former=$("$victim")
	within kill -KILL "$former"
	eventually replaced "$former" "$victim"
	eventually as_user grep -qx ok "$work/home/pjrt/health"
	as_user cat "$work/home/pjrt/buffers/z.txt" >z
	shows z "$sum"
done
# Nothing that starts it waits for the mount, of which the kernel has forgotten all that it knew.
holder=$(held)
within kill -STOP "$(served)"
sleep 3 # real time: the kernel keeps attributes for a second
within kill -KILL "$holder"
eventually as_user grep -qx ok "$work/home/pjrt/health"
as_user systemctl --user stop pjrtfs@pjrt
! within grep -q fuse.pjrtfs /proc/1/mounts || fail "the user's is still mounted"
within systemctl stop manager
