#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 4 CPU-s in 12 s
# What wakes a client that waits, and neither ends it nor is caught, ends no wait: a stop, a tracer, the
# freezer.  A signal that is caught ends it with EINTR, one that ends the client at once.
. "$srcdir/tests/lib.sh"
faults memory=kept # its first upload: close(2) waits for the plugin from then on
mount_pjrtfs faulty
b=$mnt/buffers
put_add
cat "$data/x.npy" "$data/y.npy" >inputs
ops=(run control program array call read) # a call waits for the program, its read for the result

# client OP N: a process that waits in that operation, and writes how that ended: "ok", or errno
client()
{
	exec perl -we '
		use strict;
		use Fcntl;
		use POSIX;
		my ($op, $n, $mnt, $data) = @ARGV;
		sub must { defined $_[0] or die "$op: $!\n"; $_[0] }
		sub opened { must(POSIX::open("$mnt/$_[0]", $_[1] | O_CREAT, 0644)) }
		sub text { local (@ARGV, $/) = $_[0]; <> }
		sub put { must(POSIX::write($_[0], $_[1], length $_[1])) == length $_[1] or die "short" }
		my $restarts = $n =~ /restart/ ? SA_RESTART : 0;
		POSIX::sigaction($_, POSIX::SigAction->new(sub {}, undef, $restarts)) for SIGALRM;
		$SIG{INT} = $SIG{CHLD} = $SIG{WINCH} = "DEFAULT";
		$SIG{USR1} = "IGNORE";
		my %how = (
			run => sub {
				put(opened("executables/add/run", O_WRONLY), "x y -> run$n\n");
				-e "$mnt/buffers/run$n.npy" or die "no result\n";
			},
			control => sub {
				my $fd = opened("control", O_RDWR);
				put($fd, q({"op":"execute","executable":"add","inputs":["x","y"],"outputs":["c) . "$n\"]}");
				-e "$mnt/buffers/c$n.npy" or die "no result\n";
			},
			program => sub {
				my $fd = opened("programs/p$n.mlir", O_WRONLY);
				put($fd, text("$data/add.mlir") . "// $n\n");
				must(POSIX::close($fd));
			},
			array => sub {
				my $fd = opened("buffers/a$n.npy", O_WRONLY);
				put($fd, text("$data/x.npy"));
				must(POSIX::close($fd));
			},
			call => sub { put(opened("executables/p$n/call", O_RDWR), text("inputs")) },
			read => sub {
				my $fd = opened("executables/add/call", O_RDWR);
				put($fd, text("inputs"));
				must(POSIX::read($fd, my $out, 4096));
			});
		$how{$op}->();
		print "ok\n";' "$1" "$2" "$mnt" "$data" >"$1.said" 2>&1
}

# all_wait N: a client waits in each operation, $clients
all_wait()
{
	local op
	faults {execute,compile,upload}=held:"$1"
	clients=()
	for op in "${ops[@]}"; do
		client "$op" "$1" &
		clients+=($!)
		[ "$op" != program ] || eventually test -e "$mnt/executables/p$1/call"
	done
	reached "$1" 5
	for op in "${clients[@]}"; do
		eventually waits "$op"
	done
}

# woken: the kernel has told pjrtfs of a wake-up of each client, which only a fatal signal wakes now
woken()
{
	local pid
	for pid in "${clients[@]}"; do
		eventually grep -q '^State:.[^S]' "/proc/$pid/status"
	done
}

# end WANT: the operations end, and each client has said that, or was ended by that signal
end()
{
	local i status
	for i in "${!ops[@]}"; do
		lib_gone "${clients[i]}" || impatient "${ops[i]} does not end"
		status=0
		wait "${clients[i]}" 2>/dev/null || status=$?
		equal "${ops[i]} after $wake" "$(<"${ops[i]}.said") $status" "$1"
	done
	faults
	settle
}

# -- freezers: the file that freezes a group, and the words
freezers=()
while read -r _ at type options _; do
	case $type,$options in
	cgroup2,*) group=$at$(sed -n 's/^0:://p' /proc/self/cgroup) words='cgroup.freeze 1 0' ;;
	cgroup,*freezer*)
		group=$at$(sed -n 's/^[0-9]*:freezer://p' /proc/self/cgroup)
		words='freezer.state FROZEN THAWED'
		;;
	*) continue ;;
	esac
	group=$group/${work##*/}
	if mkdir "$group" 2>/dev/null; then
		rmdir "$group"
		freezers+=("$group $words")
	fi
done </proc/self/mounts

freeze() # GROUP FILE FREEZE THAW
{
	local pid
	mkdir "$1"
	for pid in "${clients[@]}"; do
		echo "$pid" >"$1/cgroup.procs"
	done
	echo "$3" >"$1/$2"
	woken
	echo "$4" >"$1/$2"
}

signal() # SIGNAL...: one after the other
{
	local signal
	for signal; do
		kill -"$signal" "${clients[@]}"
	done
}

trace() # until the operations are about to end
{
	coproc python3 -c '
import ctypes, sys
for pid in map(int, sys.argv[1:]):
    for request in 0x4206, 0x4207: # PTRACE_SEIZE, PTRACE_INTERRUPT
        if ctypes.CDLL(None).ptrace(request, pid, None, None):
            sys.exit("ptrace")
print("traced", flush=True)
sys.stdin.readline()' "${clients[@]}"
	local tracer=$COPROC_PID # which bash forgets once the tracer has ended
	read -r _ <&"${COPROC[0]}"
	woken
	echo >&"${COPROC[1]}"
	wait "$tracer"
}

n=0
# wakes WANT NAME COMMAND...: the command, done to clients that wait, ends their operations with WANT
wakes()
{
	local want=$1
	wake=$2
	n=$((n + 1))
	all_wait "$n$wake"
	"${@:3}"
	[ "$want" != 'ok 0' ] || faults
	end "$want"
}
stop() # SIGNAL: which stops, then SIGCONT
{
	signal "$1"
	woken
	signal CONT
}
stop_and() # SIGNAL: when the kernel tells nothing more
{
	stop STOP
	signal "$1"
}

wakes 'ok 0' STOP stop STOP
wakes 'ok 0' TSTP stop TSTP
wakes 'ok 0' trace trace
for freezer in "${freezers[@]}"; do
	# shellcheck disable=SC2086 # the words
	wakes 'ok 0' "${freezer##* }" freeze $freezer
	rmdir "${freezer%% *}"
done
wakes 'ok 0' ignored signal WINCH CHLD URG CONT USR1
wakes ' 130' INT signal INT
wakes ' 137' KILL signal KILL
wakes ' 130' STOP-INT stop_and INT
wakes ' 137' STOP-KILL stop_and KILL

# -- caught, with and without SA_RESTART
for wake in ALRM restart-ALRM STOP-ALRM; do
	all_wait "$wake"
	case $wake in
	STOP-*) stop_and ALRM ;;
	*) signal ALRM ;;
	esac
	for i in "${!ops[@]}"; do
		! wait "${clients[i]}" || fail "${ops[i]} succeeds after $wake"
		equal "${ops[i]} after $wake" "$(<"${ops[i]}.said")" "${ops[i]}: Interrupted system call"
	done
	gone "$b/run$wake.npy"
	faults
	settle
done
