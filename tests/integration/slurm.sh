#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# docs/jobs.md under Slurm: the script there, as it stands, gives the files of a single mount; and
# nothing remains of a job that scancel ends.  munged, slurmctld and slurmd are the test's own.
. "$srcdir/tests/words.sh"
requires redis-server --version
for program in munged slurmctld slurmd; do
	requires test -x /usr/sbin/$program
done
requires isolated
requires_mount
export PJRTFS_PLUGIN_PATH=$plugins PATH=$build:$PATH PJRTFS_CACHE_DIR=$work/cache
export TMPDIR=$work/tmp SLURM_CONF=$work/slurm/slurm.conf
mkdir -p tmp demo slurm/log
cp -r "$top/demo/mlp" demo/

# -- a cluster of two nodes on this machine, without the system's services and control groups
host=$(uname -n | cut -d . -f 1) port=6817 user=$(id -un)
head -c 64 /dev/urandom >slurm/munge.key
chmod 400 slurm/munge.key
cat >"$SLURM_CONF" <<END
ClusterName=pjrtfs
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$work/slurm/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0,defer_batch
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$work/slurm/state
SlurmdSpoolDir=$work/slurm/spool.%n
SlurmctldPidFile=$work/slurm/slurmctld.pid
SlurmdPidFile=$work/slurm/%n.pid
SlurmctldLogFile=$work/slurm/log/slurmctld
SlurmdLogFile=$work/slurm/log/%n
PlugStackConfig=/dev/null
NodeName=n[1-2] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((port + 1))-$((port + 2))] CPUs=2
PartitionName=all Nodes=ALL Default=YES
END
# slurmd loads such a plugin, whatever uses it; this one begins without any control group.
printf '%s\n' CgroupPlugin=cgroup/v1 "CgroupMountpoint=$work/slurm/cgroup" >slurm/cgroup.conf
mkdir slurm/{state,spool.n1,spool.n2,cgroup}
services=()
# Whatever is left of jobs, and services, ends with this process, the first of its namespace.
end_slurm()
{
	local pid
	[ "$lib_status" = 0 ] || tail -n 30 slurm/log/* slurm-*.out >&2
	bounded scancel --me 2>/dev/null
	for pid in "${services[@]}"; do
		kill "$pid"
		wait "$pid"
	done
}
at_end end_slurm
# service NAME OPTION...
service()
{
	"/usr/sbin/$1" "${@:2}" >>"slurm/log/$1.out" 2>&1 </dev/null &
	services+=($!)
}
# Slurm resolves names only where a device has an address beside the loopback's.
if [ "$(ip -o link | wc -l)" = 1 ]; then
	ip link add slurm0 type veth peer name slurm1
	ip address add 192.0.2.1/24 dev slurm0
	ip link set slurm0 up
fi
service munged --foreground --force --key-file="$work/slurm/munge.key" --socket="$work/slurm/munge" \
	--pid-file="$work/slurm/munge.pid" --log-file="$work/slurm/log/munge" --seed-file="$work/slurm/seed"
eventually test -S slurm/munge
service slurmctld -D
service slurmd -D -N n1
service slurmd -D -N n2
eventually eval '[ "$(sinfo -h -o "%D %T")" = "2 idle" ]'

run_page docs/jobs.md '# Jobs' '## GNU'
run_page docs/jobs.md '## Slurm' '## '
grep -q '^srun pjrtfs cpu --run' digits.sbatch || fail "the page has no script for Slurm"

# nothing_left WHAT: no process of a mount is there, no mount in any namespace, no directory.
nothing_left()
{
	eventually eval '! pgrep pjrtfs'
	eventually eval '! grep -ls " $TMPDIR/[^ ]* fuse\.pjrtfs " /proc/[0-9]*/mounts'
	equal "what $1 leaves in TMPDIR" "$(ls tmp)" ''
}
# finished JOB: none of its tasks is there any more
finished()
{
	[ -z "$(squeue -h -j "$1" -o %i)" ]
}

# -- the array's files are those of a single mount: of pictures in the order N, N + 1, ..., N - 1
files=${PJRTFS_TEST_SLURM_FILES:-40}
for i in $(seq 7 "$files"); do
	first=$(((i % 7 + 1) * 256)) # a picture has 64 numbers
	{ head -c 128 in/1.npy && tail -c +$((129 + first)) in/1.npy && tail -c +129 in/1.npy | head -c "$first"; } >"in/$i.npy"
done
"$patient" $((patience * 6)) pjrtfs cpu --run ./digits.sh in/*.npy
mkdir single
mv out/* single/
equal "files of a single mount" "$(find single -name '*.txt' | wc -l)" "$files"
equal "different files" "$(sort -u single/* | wc -l)" 8
job=$(bounded sbatch --parsable digits.sbatch)
patience=$((patience * 6)) eventually finished "$job"
bounded diff -r single out
equal "how the tasks ended" \
	"$(bounded scontrol show job "$job" | grep -o 'JobState=[A-Z]* \|ExitCode=[0-9:]*' | sort | uniq -c | xargs)" \
	'4 ExitCode=0:0 4 JobState=COMPLETED'
nothing_left 'an array'

# -- scancel: the command still has its mount.  It says that it runs, and that it was ended.  Slurm sends
# SIGTERM to one process after another, and pjrtfs sends it once more: the script stays when its sleep
# has ended, and nothing that its trap starts takes notice.
cat >digits.sh <<'END'
#!/bin/sh
trap 'trap "" TERM; cat $PJRTFS_MOUNT/health >ended.$SLURM_ARRAY_TASK_ID; exit' TERM
cat $PJRTFS_MOUNT/health >started.$SLURM_ARRAY_TASK_ID
while :; do sleep 0.1; done
END
# begin: submit it, and wait until its four tasks run; $job
begin()
{
	rm -f started.* ended.*
	job=$(bounded sbatch --parsable digits.sbatch)
	patience=$((patience * 3)) eventually eval '[ "$(cat started.?)" = "$(printf "ok\nok\nok\nok")" ]'
}
begin
bounded scancel "$job"
patience=$((patience * 3)) eventually finished "$job"
equal "mounts as their commands were ended" "$(cat ended.?)" "$(printf 'ok\nok\nok\nok')"
nothing_left scancel

# -- scancel -s KILL leaves at most an empty directory of each.
begin
bounded scancel -s KILL "$job"
patience=$((patience * 3)) eventually finished "$job"
bounded find tmp -mindepth 1 -type d -empty -delete
nothing_left 'scancel -s KILL'

# -- a group: docs/CLUSTER.md's job, on the two nodes; each process has a mount and a shard of its own
page docs/CLUSTER.md '## Slurm' '## Open' >lines
sed -n '1,/^END$/p' lines >block
sed '1,/^END$/d' lines >train.sh
echo 'echo $SLURMD_NODENAME >node.$SLURM_PROCID' >>train.sh
# No CPU plugin makes a client of several processes: the one that does computes nothing, of two arguments.
sed -i "s/'x -> x'/'x x -> y'/" train.sh
chmod +x train.sh
bash -eu block
sed -i 's/--nodes=4/--nodes=2/; s/\$(hostname)/127.0.0.1/' train.sbatch
tells train.sbatch '--nodes=2 --ntasks-per-node=1' '127\.0\.0\.1:\$port'
cp "$data/add.mlir" step.mlir
for i in 0 1; do
	packed 'f<*' $i 1 2 3 4 5 | npy '<f4' '(2, 3)' >shard.$i.npy
done
job=$(bounded sbatch --parsable --export=ALL,PLUGIN="faulty=$build/tests/faults/faulty_plugin.so" train.sbatch)
patience=$((patience * 6)) eventually finished "$job"
equal "how the group ended ($(tail -n 20 "slurm-$job.out"))" \
	"$(bounded scontrol show job "$job" | grep -o 'JobState=[A-Z]*')" JobState=COMPLETED
tells "slurm-$job.out" "\"group\":\"slurm-$job.0.0\".*\"id\":1,\"state\":\"connected\""
for i in 0 1; do same out.$i.npy shard.$i.npy; done
equal "nodes of the group" "$(cat node.?)" $'n1\nn2'
! ls secret.* 2>/dev/null || fail "the secret stays"
nothing_left 'a group'
