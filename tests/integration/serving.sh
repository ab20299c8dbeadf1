#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/serving.md: what it shows works as it stands there.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
port=$((20000 + $$ % 20000))
cp -r "$top/demo" .

# run_page FROM TO: run the page's indented lines between two headings
run_page()
{
	sed -n "/^## $1/,/^## $2/s/^    //p" "$top/docs/serving.md" |
		sed "s|/mnt/pjrt|$mnt|g; s|8008|$port|" >block
	grep -q "$mnt" block || fail "the page has no '$1'"
	timeout -k 5 $((patience * 2)) bash -eu block >out 2>err || fail "$1: $(cat err)"
}
run_page 'Load the model' 'Call it'
tells out '^digits/w1 digits/b1 digits/w2 digits/b2 \* -> \* \*$'
run_page 'Call it' 'Over HTTP'
tells out '^3 1 4 1 5 9 2 6$'
run_page 'Over HTTP' 'While it runs'
equal "digits over HTTP" "$(xargs <out)" '3 1 4 1 5 9 2 6'

# -- what the page says of a running server
call=$mnt/executables/digits/call.raw
tail -c 2048 demo/mlp/x.npy >x
exec 3<>"$call"
cat x >&3
bounded head -c 352 <&3 >first
# another bias makes another digit of all pictures
/usr/bin/python3 - demo/mlp/b2.npy "$mnt/buffers/digits/b2.part" <<'END'
import struct, sys
old = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(old[:-40] + struct.pack("<10f", *[0] * 7, 1000, 0, 0))
END
bounded mv "$mnt/buffers/digits/b2.part" "$mnt/buffers/digits/b2.npy"
cat x >&3
bounded head -c 352 <&3 >second
exec 3>&-
equal "digits of the old bias" "$(tail -c 32 first | od -An -v -td4 | xargs)" '3 1 4 1 5 9 2 6'
equal "digits of the new bias" "$(tail -c 32 second | od -An -v -td4 | xargs)" '7 7 7 7 7 7 7 7'
