#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# The mount's README and docs/serving.md: what they show works as it stands there.
. "$srcdir/tests/words.sh"
mount_pjrtfs

# -- the mount's README: indented lines are commands; a here-document ends at END without the indent
bounded cat "$mnt/README" >readme
sed -n '/^Try it/,/^Write a program/{s/^  //p;}' readme >lines
[ "$(grep -cE '^(cat >.*|END)$' lines)" = 2 ] || fail "the README's example has changed"
bounded bash -eu lines >out
tells out '^11 22 33$'
shows "$mnt/buffers/z.txt" '11 22 33'
# The commands for control: exec keeps the descriptor.
sed -n '/^  exec 3<>/,/^  cat <&3/{s/^  //p;}' readme >lines
equal "lines of the example for control" "$(wc -l <lines)" 3
bounded bash -eu lines >out
tells out '^\{"ok":true'
# Every path that it names outside of the examples is there, for the names of the example.
grep -oE "^  [a-z]+/NAME[a-z/.]*" readme | sed 's/^  //' >paths
while read -r path; do
	found=
	for name in add x "${plugin:-cpu}"; do
		! bounded test -e "$mnt/${path/NAME/$name}" || found=yes
	done
	[ -n "$found" ] || fail "the README names $path, which nothing has"
done <paths
# The devices that it names are those that are there.
equal "devices" "$(grep -oE '^  [^ ]+:[0-9]+ ' readme | tr -d ' ' | sort)" \
	"$(cd "$mnt/devices" && printf '%s\n' */* | tr / : | sort)"

# -- docs/serving.md
cp -r "$top/demo" .
run_page docs/serving.md '## Load the model' '## Call it'
tells said '^mlp/w1 mlp/b1 mlp/w2 mlp/b2 \* -> \* \*$'
run_page docs/serving.md '## Call it' '## Over HTTP'
tells said '^3 1 4 1 5 9 2 6$'
run_page docs/serving.md '## Over HTTP' '## While it runs'
equal "digits over HTTP" "$(grep '^ ' said | xargs)" '3 1 4 1 5 9 2 6'

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
at_end "kill $! 2>/dev/null; wait $!"
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
page docs/serving.md '## Load the model' '## ' >load
ends_with 1 "^cp: .*/programs/mlp\.mlir': No such file or directory$" bash -eu "$work/load"
mount_pjrtfs ${others:+-o allow_other} --quota "$(id -u):memory=8K"
page docs/serving.md '## Load the model' '## ' >load
ends_with 1 "^cp: .*/programs/mlp\.mlir': Disk quota exceeded$" bash -eu "$work/load"
[ -z "$others" ] ||
	ends_with 1 "^cp: .*/programs/mlp\.mlir': Permission denied$" as 1001 bash -eu "$work/load"
