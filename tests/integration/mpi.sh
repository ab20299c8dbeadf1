#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 3 CPU-s in 18 s
# docs/CLUSTER.md under Open MPI: the lines there, as they stand, make a group of two ranks; mpirun ends
# as they do, and nothing remains.
. "$srcdir/tests/words.sh"
requires test -w /dev/fuse
requires redis-server --version
requires mpirun --version
requires isolated
export PATH=$build:$PATH TMPDIR=$work/tmp PJRTFS_CACHE_DIR=$work/cache PJRTFS_FAULTY_FILE=$faults
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
mkdir tmp
cp "$data/x.npy" .
secret=thuCh4ae
redis-server --requirepass $secret --save '' >redis.log 2>&1 &
at_end "kill $!"
# ask_redis WORD...: what the server answers
ask_redis()
{
	redis-cli -a $secret --no-auth-warning "$@"
}
eventually eval 'ask_redis ping | grep -q PONG'
page docs/CLUSTER.md '## Open MPI' '## Kub' >lines
sed "s|redis://head|redis://127.0.0.1|; s|mpirun |mpirun -n 2 |; s|pjrtfs cuda|pjrtfs ${faulty_options[*]} --group-lost 5|" \
	lines >block
tells block 'mpirun -n 2 .* pjrtfs --plugin faulty=.* --run ./train.sh'
# ranks WANT: the page's lines, with standard input as train.sh: mpirun's status is WANT
ranks()
{
	local status=0
	{
		echo '#!/bin/bash -eu'
		cat
	} >train.sh
	chmod +x train.sh
	PJRTFS_GROUP_PASSWORD=$secret "$patient" $((patience * 3)) bash -eu block >said 2>&1 </dev/null || status=$?
	equal "status of mpirun ($(cat said))" "$status" "$1"
	eventually eval '! pgrep pjrtfs'
	equal "what the ranks leave in TMPDIR" "$(find tmp -name '*pjrtfs*')" ''
	eventually eval '[ -z "$(ask_redis --scan)" ]'
}

ranks 0 <<'END'
m=$PJRTFS_MOUNT
cat $m/plugins/faulty/processes.json
cp x.npy $m/buffers/
echo 'module @everywhere' >$m/programs/all.mlir
echo 'x x -> z' >$m/executables/all/run
cp $m/buffers/z.npy out.$OMPI_COMM_WORLD_RANK.npy
env >env.$OMPI_COMM_WORLD_RANK
END
tells said '"group":"ompi-[^"]+","store":"redis://127.0.0.1","process":0,' '"process":1,.*"id":1,"state":"connected"'
same out.0.npy out.1.npy
! grep $secret env.? || fail "the ranks have the password"

# -- a rank that fails, and a rank whose worker dies, end the other one
ranks 3 <<'END'
[ $OMPI_COMM_WORLD_RANK = 0 ] || exit 3
exec sleep infinity
END
ranks 124 <<'END'
[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -KILL $(cat $PJRTFS_MOUNT/plugins/faulty/pid)
exec sleep infinity
END
tells said 'died of signal 9 .*; so the group has ended'
