#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 8 CPU-s
# fio writes and verifies files in buffers/: several jobs, orders, block sizes, engines.
. "$srcdir/tests/lib.sh"
requires fio --version
mount_pjrtfs
b=$mnt/buffers
size=32m
if sanitized; then
	size=4m
fi

# fio OPTION...: two jobs, a file each, every block verified as soon as all are written
n=0
fio_verifies()
{
	n=$((n + 1))
	"$patient" $((patience * 3)) fio --directory="$b" --filename_format='$jobname-$jobnum.raw' \
		--name="f$n" --numjobs=2 --size="$size" --verify=crc32c --verify_fatal=1 \
		--do_verify=1 --verify_dump=0 --randrepeat=1 --fallocate=none --output=fio.out "$@" ||
		fail "fio $*: $(cat fio.out)"
	grep -q 'err= 0' fio.out || fail "fio $*: $(cat fio.out)"
	! grep -q 'err= *[1-9]' fio.out || fail "fio $*: $(cat fio.out)"
	for file in "$b/f$n"-*.raw; do
		eventually jq -e '.state == "ready" and .dtype == "U8"' "${file%.raw}.json"
	done
	bounded rm "$b/f$n"-*.raw
}
fio_verifies --ioengine=psync --rw=write --bs=128k --fsync=32
fio_verifies --ioengine=pvsync --rw=randwrite --bs=64k --direct=1
fio_verifies --ioengine=mmap --rw=randrw --bsrange=4k-64k --fsync=64
fio_verifies --ioengine=psync --rw=randrw --bs=16k --verify_backlog=64
# several files at once, opened and closed all the time
fio_verifies --ioengine=psync --rw=randwrite --bs=16k --size=4m --nrfiles=4 \
	--filename_format='$jobname-$jobnum-$filenum.raw' --openfiles=2 --file_service_type=random
# what differs from these in the kernel rather than here
if [ "$times" -gt 1 ]; then
	fio_verifies --ioengine=psync --rw=write --bs=1m
	fio_verifies --ioengine=psync --rw=randwrite --bsrange=4k-128k
	fio_verifies --ioengine=psync --rw=randwrite --bs=4k --size=8m
	fio_verifies --ioengine=sync --rw=write --bs=33k --file_append=0
	fio_verifies --ioengine=mmap --rw=write --bs=128k
	fio_verifies --ioengine=mmap --rw=randwrite --bs=4k --size=8m
	fio_verifies --ioengine=psync --rw=randwrite --bs=16k --fallocate=posix
	fio_verifies --ioengine=psync --rw=randwrite --bs=16k --fallocate=keep
	fio_verifies --ioengine=psync --rw=write --bs=64k --create_on_open=1 --unlink=0 --end_fsync=1
	# asynchronous, many in flight
	fio_verifies --ioengine=libaio --iodepth=16 --rw=randwrite --bs=16k --direct=1
	fio_verifies --ioengine=posixaio --iodepth=8 --rw=randwrite --bs=16k
fi

eventually bash -c "[ \$(df --output=used -B1 $mnt | tail -n 1) -lt 1048576 ]"
shows "$mnt/health" ok
