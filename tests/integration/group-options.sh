#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What --group and its options refuse: status 2 and one sentence, before any plugin is loaded; where libhiredis is
# missing, the sentence names its package.
. "$srcdir/tests/lib.sh"
requires_mount
unset "${!SLURM_@}" "${!OMPI_@}" "${!PMIX_@}" "${!PJRTFS_GROUP@}" JOB_COMPLETION_INDEX
mkdir m
url=redis://127.0.0.1:7
export PJRTFS_PLUGIN_PATH=$plugins

# denies PATTERN [option...]
denies()
{
	refuses 2 "$1" cpu m -f "${@:2}"
}
two=(--group-name x --group-process 0/2)

# -- the URL
denies 'group: a URL with a password is visible to all users: expected redis://HOST' --group redis://:pw@h "${two[@]}"
denies 'group: expected redis://HOST\[:PORT\] or rediss://HOST\[:PORT\], found http://h' --group http://h "${two[@]}"
denies 'group: expected redis://HOST\[:PORT\] or rediss://HOST\[:PORT\], found redis://h:0' --group redis://h:0 "${two[@]}"
denies 'group: expected redis://HOST\[:PORT\] or rediss://HOST\[:PORT\], found redis://h:6379x' --group redis://h:6379x "${two[@]}"
denies 'group: expected redis://HOST\[:PORT\] or rediss://HOST\[:PORT\], found redis://h/db' --group redis://h/db "${two[@]}"
denies 'group: expected redis://HOST\[:PORT\] or rediss://HOST\[:PORT\], found redis://$' --group redis:// "${two[@]}"
denies 'group: expected .*, found rediss://h:0' --group rediss://h:0 "${two[@]}"
denies 'group: expected .*, found rediss:/h' --group rediss:/h "${two[@]}"
PJRTFS_GROUP=ftp://h denies 'PJRTFS_GROUP: group: expected redis://' "${two[@]}"

# -- the number and the name
denies 'expected --group-process I/N, or the variables of Slurm' --group $url --group-name x
for word in 2/2 0/0 -1/2 1/1000000000 x/2 1 /; do
	denies "group process: expected \[I\]/N with N from 1 to 1024 and I below N, found $word\$" \
		--group $url --group-name x --group-process "$word"
done
denies 'the group needs the number' --group $url --group-name x --group-process /4
denies 'the group needs a name: expected --group-name NAME' --group $url --group-process 0/2
denies 'group name: expected up to 200 letters' --group $url --group-name 'a b' --group-process 0/2
JOB_COMPLETION_INDEX=7 denies 'group process: expected .*found /4' --group $url --group-name x --group-process /4
denies 'group plugin other is not loaded' --group $url "${two[@]}" --group-plugin other
denies 'group timeout in seconds: expected a number from 1' --group $url "${two[@]}" --group-timeout 0

# -- the secret
denies 'group secret nothing: No such file' --group $url "${two[@]}" --group-secret nothing
echo pw >secret
chmod 640 secret
denies 'group secret .*secret: other users can read it' --group $url "${two[@]}" --group-secret secret
: >empty
chmod 600 empty
denies 'group secret .*empty: it is empty' --group $url "${two[@]}" --group-secret empty
denies 'group secret .*: it is not a file' --group $url "${two[@]}" --group-secret .

# -- the files for TLS
tls=rediss://127.0.0.1:7
: >file
chmod 644 file
for name in ca cert key; do
	pair=()
	case $name in cert) pair=(--group-key secret) ;; key) pair=(--group-cert file) ;; esac
	denies "group $name nothing: No such file" --group $tls "${two[@]}" --group-$name nothing "${pair[@]}"
	denies "group $name .*: it is not a file" --group $tls "${two[@]}" --group-$name . "${pair[@]}"
	denies '--group-ca, --group-cert and --group-key are for TLS: expected --group rediss://.*, found redis://127' \
		--group $url "${two[@]}" --group-$name file
	denies 'a group needs a store: expected --group redis' --group-$name file
done
chmod 600 secret
denies 'group key .*file: other users can read it' --group $tls "${two[@]}" --group-cert file --group-key file
denies 'expected --group-cert FILE and --group-key FILE, found one' --group $tls "${two[@]}" --group-cert file
PJRTFS_GROUP_KEY=secret denies 'expected --group-cert FILE and --group-key FILE, found one' --group $tls "${two[@]}"
PJRTFS_GROUP_CA=nothing denies 'group ca .*nothing: No such file' --group $tls "${two[@]}"
"$pjrtfs" --dump-config --group $tls --group-ca file >config
tells config "\"group_ca\": *\"$work/file\""

# -- what does not go together
denies 'a group needs a store: expected --group redis' "${two[@]}"
denies 'num_nodes is 2, but there is no group: expected --group redis' --plugin-option cpu:num_nodes=2
denies 'expected --keep or --group URL' --group $url "${two[@]}" --keep
denies 'expected --isolate user or --group URL' --group $url "${two[@]}" --isolate user

# -- the launchers' names; the password leaves the environment
SLURM_PROCID=3 SLURM_NTASKS=2 denies 'the group needs the number' --group $url
for launcher in "SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_JOB_ID=1" "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=j" \
	"JOB_COMPLETION_INDEX=1 PJRTFS_GROUP_PROCESS=/2 PJRTFS_GROUP_NAME=k"; do
	# shellcheck disable=SC2086,SC2163 # several variables
	(
		export $launcher PJRTFS_GROUP_TIMEOUT=1
		refuses 1 "the group's store: redis 127.0.0.1:7: Connection refused" cpu m -f --group $url
	)
done

# -- a system without libhiredis
mkdir lean
cp "$pjrtfs" "$build/pjrtfs-worker" lean
sed 's/libhiredis\.so\.[0-9]/libhiredis.so.9/' "$build/pjrtfs-redis.so" >lean/pjrtfs-redis.so
pjrtfs=lean/pjrtfs refuses 1 'libhiredis\.so\.(9[0-9.]+), which groups need, is missing: apt install libhiredis9[0-9.]+$' \
	cpu m -f --no-cache --group $url "${two[@]}"

# -- a group of users is still one
"$pjrtfs" --dump-config --group root >config
tells config '"group": *0'
