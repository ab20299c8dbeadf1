#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# What code in a plugin could do: in each sandbox no more than the tables here say.
. "$srcdir/tests/lib.sh"
requires has_landlock
faulty_options=("${faulty_options[@]/--sandbox-write/--sandbox-read}") # no call is held here
mkdir files
# A service of the owner's, beside the test; it ends when its input does.
exec 3> >(cd files && exec python3 -c '
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind("service")
s.listen(100)
sys.stdin.read()')
eventually test -S files/service

# succeeded NAME: what the plugin's log says succeeded, in the file NAME, a line each.
succeeded()
{
	local log
	eventually grep -q '^attempts: ' "$mnt/plugins/faulty/log" # a thread fills it
	log=$(bounded cat "$mnt/plugins/faulty/log")
	sed -n 's/^attempt \(.*\) succeeded$/\1/p' <<<"$log" | sort >"$1"
	shows "$mnt/health" ok
	shows "$mnt/plugins/faulty/restarts" 0
	faults
	unmount_pjrtfs
}

# attempts MODE [ABI]: what succeeds in the sandbox, in the file MODE, a line each; ABI is that of
# Landlock, which the mount must show.
attempts()
{
	echo secret >files/victim
	echo text >files/target
	cp files/target files/target.spare
	chmod 600 files/*
	mount_pjrtfs faulty --sandbox "$1" --fault "client=attempts:$work/files"
	tells "$mnt/plugins/faulty/sandbox" "^$1\$" "^landlock ${2:-[0-9]+}\$"
	faults compile=attempts
	bounded cp "$data/add.mlir" "$mnt/programs/"
	succeeded "$1"
}

# at_most MODE NAME...: no other attempt succeeded.
at_most()
{
	local mode=$1 more
	shift
	more=$(printf '%s\n' "$@" | sort | comm -13 - "$mode" | paste -sd ' ')
	equal "what $mode lets through besides" "$more" ''
}

# lets MODE NAME...: these succeeded.
lets()
{
	local mode=$1 less
	shift
	less=$(printf '%s\n' "$@" | sort | comm -23 - "$mode" | paste -sd ' ')
	equal "what $mode does not let through" "$less" ''
}

# Without a sandbox each kind of attempt succeeds; otherwise this test would prove nothing.
attempts off
lets off own_clone_user socket_group socket_owner kernel_mount_setattr daemon_madvise control_cpuinfo control_thread control_urandom file_stat file_read file_write \
	file_create file_chmod file_rename file_unlink daemon_kill daemon_prlimit other_affinity other_scheduler \
	other_sched_param other_sched_attr other_io_priority own_signal own_memory own_fork \
	own_vfork_exec socket_inet socket_service socket_unix ipc_shm memory_file
gone files/target.spare

attempts strict
lets strict control_cpuinfo control_thread control_urandom
at_most strict control_cpuinfo control_thread control_urandom file_stat
test -e files/target.spare || fail "a file was removed"

# While it is loaded, a plugin may read files and write none.  Threads that it starts then keep
# these rights, until pjrtfs has its description.
mount_pjrtfs faulty --sandbox strict --fault "api=attempts:$work/files" --fault client=attempts
succeeded loading
lets loading file_read
at_most loading control_cpuinfo control_thread control_urandom file_directory file_open_path \
	file_passwd file_read file_stat kernel_filter kernel_landlock own_environ
test -e files/target.spare || fail "a file was removed"

# The rights of an older Landlock suffice.
if [ "$(id -u)" = 0 ]; then
	cp strict newer
	with_landlock 2
	attempts strict 2
	pjrtfs=$build/pjrtfs
	same strict newer
fi

# Drivers make processes, sockets of the machine and memory; they look at themselves.
attempts device
lets device control_cpuinfo control_thread control_urandom own_fork own_thread_name memory_file socket_unix
at_most device control_cpuinfo control_thread control_urandom file_stat file_statfs file_getxattr \
	file_inotify file_open_path own_clone own_environ own_fork own_limits own_memory \
	own_setuid own_thread_name own_vfork_exec socket_pair socket_service socket_unix ipc_message ipc_semaphore ipc_shm \
	memory_file kernel_filter kernel_landlock
test -e files/target.spare || fail "a file was removed"
equal "the file" "$(cat files/target)" text

# -- a plugin that needs more than strict to start gets device, which is said; if the owner says
# strict, it does not start
mount_pjrtfs faulty --fault "client=needs-socket,init=print:1:E0000 00:00:1.5 x.cc:1] each start"
tells "$mnt/plugins/faulty/sandbox" '^device$'
eventually tells "$mnt/plugins/faulty/log" \
	'does not start in the sandbox strict .*no socket.*sandbox device'
eventually grep -q 'does not start in the sandbox strict' "$mnt.log" # a moment later
both_starts()
{
	[ "$(grep -c 'each start' "$mnt/plugins/faulty/log")" = 2 ]
}
eventually both_starts
equal "errors in the daemon's log" "$(grep -c 'error: plugin faulty: .*each start' "$mnt.log")" 1
shows "$mnt/plugins/faulty/restarts" 0
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$mnt/executables/add/state" ready
unmount_pjrtfs
mkdir no
status=0
PJRTFS_FAULTY_FILE=$faults bounded "$pjrtfs" "${faulty_options[@]}" --sandbox faulty:strict no -f 2>said ||
	status=$?
equal "the exit status" "$status" 1
tells said 'plugin faulty: .*no socket'
