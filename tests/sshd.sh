# SPDX-License-Identifier: Apache-2.0
# Help for tests over ssh: sourced after lib.sh, it starts an sshd of the test, and "far" is this
# machine for ssh, scp, sftp, sshfs and rsync.  sshfs mounts on folders of $sshfs_mounts go at the end.
# shellcheck shell=bash disable=SC2154
requires sshfs --version
requires test -x /usr/sbin/sshd
export HOME=$work
ssh-keygen -q -t ed25519 -N '' -f host
ssh-keygen -q -t ed25519 -N '' -f id
port=2222 # the network is the test's own
cat >sshd_config <<END
Port $port
ListenAddress 127.0.0.1
HostKey $work/host
PidFile none
AuthorizedKeysFile $work/id.pub
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
END
cat >ssh_config <<END
Host far
  HostName 127.0.0.1
  Port $port
  IdentityFile $work/id
  StrictHostKeyChecking no
  UserKnownHostsFile $work/known
  LogLevel ERROR
END
[ "$(id -u)" != 0 ] || mkdir -p /run/sshd
sshfs_mounts=()
/usr/sbin/sshd -f sshd_config -D -e 2>sshd.log &
sshd=$!
end_sshd()
{
	local m
	for m in "${sshfs_mounts[@]}"; do
		bounded fusermount3 -u -z "$m" 2>/dev/null
	done
	kill "$sshd"
	wait "$sshd"
}
at_end end_sshd
eventually grep -q 'Server listening' sshd.log
mkdir bin
for program in ssh scp sftp; do
	printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v $program)" "$work/ssh_config" >bin/$program
	chmod +x bin/$program
done
export PATH=$work/bin:$PATH RSYNC_RSH=$work/bin/ssh

