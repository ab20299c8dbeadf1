# SPDX-License-Identifier: Apache-2.0
# Words that tests of programs and arrays share: a test sources it in place of lib.sh.
# shellcheck shell=bash
. "$srcdir/tests/lib.sh"
chmod 755 "$work" # other users take part

# x + y of the data
sum=$'11 22 33\n44 55 66'

# computes: a run of add makes z of x and y.
computes()
{
	run add 'x y -> z'
	shows "$mnt/buffers/z.txt" "$sum"
}

# endless TYPE [ATTRIBUTES]: a program that never ends, with such a parameter and result.
endless()
{
	cat <<-END
		func.func @main(%x: $1${2+ $2}) -> $1 {
		  %0 = stablehlo.while(%a = %x) : $1
		    cond { %c = stablehlo.constant dense<true> : tensor<i1>
		           stablehlo.return %c : tensor<i1> }
		    do { %n = stablehlo.add %a, %a : $1
		         stablehlo.return %n : $1 }
		  return %0 : $1
		}
	END
}

# own_data: the program and the arrays in $work, where other users can read them.
own_data()
{
	cp "$data/add.mlir" "$data/x.npy" "$data/y.npy" .
	chmod 644 add.mlir x.npy y.npy
}

# unharmed: the mount is well, and no worker has died.
unharmed()
{
	shows "$mnt/health" ok
	shows "$mnt/plugins/${plugin:-cpu}/restarts" 0
}

# used: how many bytes of the memory limit df tells; uses_less N: fewer than N.
used()
{
	bounded df --output=used -B1 "$mnt" | tail -n 1 | tr -d ' '
}
uses_less()
{
	[ "$(used)" -lt "$1" ]
}

# knows FILE FILTER: jq's filter is true of the JSON in the file.
knows()
{
	bounded jq -e "$2" "$1" >/dev/null || fail "not so: $2: $(bounded cat "$1")"
}

# good COMMAND [FILE]: it succeeds; its reply is in the file reply.
good()
{
	ask "$@" >reply
	tells reply '"ok":true'
}

# bad COMMAND PATTERN...: it fails, and its reply has the patterns.
bad()
{
	ask "$1" >reply
	tells reply '"ok":false' "${@:2}"
}

# allowed UID COMMAND: it succeeds for that user; its reply is in the file reply.
allowed()
{
	ask_as "$@" >reply
	tells reply '"ok":true'
}

# as_run UID NAME LINE: that user has the executable run.
as_run()
{
	as_write "$1" "$mnt/executables/$2/run" "$3"
}

# as_write UID FILE TEXT: that user writes the line into the file.
as_write()
{
	as "$1" bash -c 'printf "%s\n" "$2" >"$1"' write "$2" "$3"
}

# next_daemon SIGNAL: the daemon of $mnt gets it, and another one serves.
next_daemon()
{
	local old
	old=$(bounded cat "$mnt/pid")
	kill -"$1" "$old"
	eventually another "$old"
}

# page FILE FROM TO: its indented lines between the two patterns, for this mount.
page()
{
	sed -n "\\|^$2|,\\|^$3|s/^    //p" "$top/$1" | sed "s|/mnt/pjrt|${mnt:-/mnt/pjrt}|g"
}

# run_page FILE FROM TO: run them; what they print is in the file said.
run_page()
{
	page "$@" >block
	[ -s block ] || fail "$1 shows nothing between '$2' and '$3'"
	"$patient" $((patience * 3)) bash -eu block >said 2>&1 </dev/null || fail "$1, $2: $(cat said)"
}
