#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# docs/serving.md: what it shows works as it stands there.
. "$srcdir/tests/lib.sh"
mount_pjrtfs
cp -r "$top/demo" .

# run_page FROM TO: run the page's indented lines between two headings
run_page()
{
	sed -n "/^## $1/,/^## $2/s/^    //p" "$top/docs/serving.md" |
		sed "s|/mnt/pjrt|$mnt|g" >block
	grep -q "$mnt" block || fail "the page has no '$1'"
	timeout -k 5 $((patience * 2)) bash -eu block >out 2>err || fail "$1: $(cat err)"
}
run_page 'Load the model' 'Call it'
tells out '^mlp/w1 mlp/b1 mlp/w2 mlp/b2 \* -> \* \*$'
run_page 'Call it' 'Over HTTP'
tells out '^3 1 4 1 5 9 2 6$'
run_page 'Over HTTP' 'While it runs'
equal "digits over HTTP" "$(xargs <out)" '3 1 4 1 5 9 2 6'

# -- what the page says of a running server
call=$mnt/executables/mlp/call.raw
tail -c 2048 demo/mlp/x.npy >x
exec 3<>"$call"
cat x >&3
bounded head -c 352 <&3 >first
# another bias makes another digit of all pictures
/usr/bin/python3 - demo/mlp/b2.npy "$mnt/buffers/mlp/b2.part" <<'END'
import struct, sys
old = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(old[:-40] + struct.pack("<10f", *[0] * 7, 1000, 0, 0))
END
bounded mv "$mnt/buffers/mlp/b2.part" "$mnt/buffers/mlp/b2.npy"
cat x >&3
bounded head -c 352 <&3 >second
exec 3>&-
equal "digits of the old bias" "$(tail -c 32 first | od -An -v -td4 | xargs)" '3 1 4 1 5 9 2 6'
equal "digits of the new bias" "$(tail -c 32 second | od -An -v -td4 | xargs)" '7 7 7 7 7 7 7 7'

# -- what goes wrong: the server answers with the sentence, and its log has it; a block of the page
# ends with one
python3 serve.py 2>server.log &
server=$!
end_serving()
{
	local status=$?
	set +e
	kill "$server" 2>/dev/null
	wait "$server"
	(exit "$status")
	lib_end
}
trap end_serving EXIT
post()
{
	bounded curl -s -o answer -w '%{http_code}' --data-binary "@$1" "http://127.0.0.1:8008/"
}
eventually curl -s "http://127.0.0.1:8008/"
head -c 100 x >short
equal "a picture that is too short" "$(post short)" 500
why='mlp: .*input 0 \(x\): 100 of 2048 bytes'
tells answer "$why"
tells server.log "code 500, message .*$why"
equal "a good one after it" "$(post x)" 200
ends_with 22 'error: 500' curl -sSf --data-binary @short "http://127.0.0.1:8008/"
bounded rm "$mnt/buffers/mlp/w1.npy"
equal "a weight that is gone" "$(post x)" 500
tells answer 'mlp/w1'
unmount_pjrtfs
equal "a mount that is gone" "$(post x)" 500
tells answer 'No such file or directory'


# The block that loads the model: no mount, no memory for its user, no rights
sed -n '/^## Load the model/,/^## /s/^    //p' "$top/docs/serving.md" >load
chmod 755 "$work"
sed -i "s|/mnt/pjrt|$mnt|g" load
ends_with 1 "^cp: .*/programs/mlp\.mlir': No such file or directory$" bash -eu "$work/load"
first=$mnt
mount_pjrtfs ${others:+-o allow_other} --quota "$(id -u):memory=8K"
sed -i "s|$first|$mnt|g" load
ends_with 1 "^cp: .*/programs/mlp\.mlir': Disk quota exceeded$" bash -eu "$work/load"
[ -z "$others" ] ||
	ends_with 1 "^cp: .*/programs/mlp\.mlir': Permission denied$" as 1001 bash -eu "$work/load"
