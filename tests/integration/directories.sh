#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Directories as arguments and results: which leaf is which.
. "$srcdir/tests/scalars.sh"
mount_pjrtfs
b=$mnt/buffers

strings="p['0'] p['1'] p['10'] p['2'] p['3'] p['4'] p['5'] p['6'] p['7'] p['8'] p['9']"
eleven='0=0 1=1 2=2 3=3 4=4 5=5 6=6 7=7 8=8 9=9 10=10'
ten_times='0 10 100 20 30 40 50 60 70 80 90 '

# -- a dictionary whose keys are strings of digits: JAX sorts them as strings
# shellcheck disable=SC2086 # words
program strings $strings
# shellcheck disable=SC2086 # words
scalars p $eleven
run strings 'p -> a b c d e f g h i j k'
equal 'by name' "$(values a b c d e f g h i j k)" "$ten_times"
# results take the places of the leaves that they belong to
run strings 'p -> p/'
equal 'into itself' "$(values p/0 p/1 p/2 p/9 p/10)" '0 10 20 90 100 '
run strings 'p/ -> p/'
equal 'again' "$(values p/0 p/1 p/2 p/9 p/10)" '0 100 200 900 1000 '
say "$mnt/executables/strings/run" '{"inputs":["p"],"outputs":["p/"],"repeat":2}'
equal 'repeated' "$(values p/0 p/1 p/2 p/9 p/10)" '0 10000 20000 90000 100000 '
# shellcheck disable=SC2086 # words
scalars p $eleven
# shellcheck disable=SC2086 # words
scalars q $eleven
run strings 'p -> q/'
equal 'into another one of these leaves' "$(values q/0 q/1 q/2 q/10)" '0 10 20 100 '
# on another device, too
bounded cp -r "$b/p" "$mnt/devices/${plugin:-cpu}/1/buffers/"
ask "{\"op\":\"execute\",\"executable\":\"strings\",\"inputs\":[\"${plugin:-cpu}:1/p\"],
	\"outputs\":[\"q/\"],\"move\":true}" >reply
tells reply '^\{"ok":true'
equal 'from another device' "$(values q/0 q/1 q/2 q/10)" '0 10 20 100 '

# -- results of a new directory are numbered by their place, and go back in that order
run strings 'p -> new/'
equal 'numbered' "$(values new/0 new/1 new/2 new/3 new/10)" '0 10 100 20 90 '
bounded mkdir "$b/empty"
run strings 'p -> empty/'
for numbered in new empty; do
	run strings "$numbered -> a b c d e f g h i j k"
	equal "from $numbered" "$(values a b c d e f g h i j k)" \
		'0 100 1000 200 300 400 500 600 700 800 900 '
	run strings "$numbered -> $numbered/"
	equal "into $numbered" "$(values "$numbered/2" "$numbered/3")" '1000 200 '
	run strings "$numbered -> a b c d e f g h i j k"
	equal "from $numbered again" "$(values b c d)" '1000 10000 2000 '
done
# a copy has names that a user gave
bounded cp -r "$b/p" "$b/copied"
run strings 'copied -> a b c d e f g h i j k'
equal 'from a copy' "$(values a b c d e f g h i j k)" "$ten_times"

# -- numbers that are indices
# shellcheck disable=SC2046 # words
program indices $(sed "s/'//g; s/p\[10\]//; s/$/ p[10]/" <<<"$strings")
run indices 'p -> a b c d e f g h i j k'
equal 'by index' "$(values a b c d e f g h i j k)" '0 10 20 30 40 50 60 70 80 90 100 '
# and without type or shape
# shellcheck disable=SC2046 # words
program unknown $(for i in {0..10}; do echo "n$i"; done)
run unknown 'p -> a b c d e f g h i j k'
equal 'by number' "$(values a b c d e f g h i j k)" '0 10 20 30 40 50 60 70 80 90 100 '

# -- trees: the fields of classes are in their own order, keys may have slashes
program tree x "s['opt'].zeta" "s['opt'].alpha['w/~/b']" "s['opt'].alpha['w'][1]" "s['z']" y
scalars t opt/alpha/w/~/b=3 opt/alpha/w/1=4 opt/zeta=2 z=5
scalars . x=1 y=6
run tree 'x t y -> a b c d e f'
equal 'a tree' "$(values a b c d e f)" '10 20 30 40 50 60 '
run tree 'x t y -> x t/ y'
equal 'a tree of results' "$(values x t/opt/zeta t/opt/alpha/w/~/b t/opt/alpha/w/1 t/z y)" \
	'10 20 30 40 50 60 '
# a part of it, and several arguments in one directory
run tree 'x t/opt t/z y -> a b c d e f'
equal 'a part of a tree' "$(values a b c d e f)" '100 200 300 400 500 600 '
scalars all x=1 y=6 s/opt/alpha/w/~/b=3 s/opt/alpha/w/1=4 s/opt/zeta=2 s/z=5
run tree 'all -> a b c d e f'
equal 'all arguments' "$(values a b c d e f)" '10 20 30 40 50 60 '

# -- names that are not the parameters': never by position in silence
# shellcheck disable=SC2046 # words
program layers $(for i in {0..10}; do echo "params['layers'][$i]['w']"; done)
# shellcheck disable=SC2046 # words
scalars params $(for i in {0..10}; do echo "layers.$i.w=$i"; done)
run layers 'params -> a b c d e f g h i j k'
equal 'tensors' "$(values a b c d e f g h i j k)" '0 10 20 30 40 50 60 70 80 90 100 '
tells "$mnt/executables/layers/run" ' s, by name$'
bounded mv "$b/params/layers.10.w.txt" "$b/params/layers_10_w.txt"
fails_with 'Invalid argument' say "$mnt/executables/layers/run" 'params -> a b c d e f g h i j k'
sentence="input 10 \\(params\\['layers'\\]\\[10\\]\\['w'\\]\\) was not given; no input is called as params/layers_10_w is: "
sentence+="rename them, or add the word positional"
tells "$mnt/executables/layers/run" "$sentence"
fails_with 'Invalid argument' say "$mnt/executables/layers/bind" 'params'
say "$mnt/executables/layers/bind" 'params positional'
run layers 'params positional -> a b c d e f g h i j k'
equal 'by position' "$(values a b c d e f g h i j k)" '0 10 20 30 40 50 60 70 80 90 100 '
tells "$mnt/executables/layers/run" ' s, by position$'
# depth first, as they are
scalars other opt/alpha/w=2 opt/beta=3 opt/zeta=4 z=5
fails_with 'Invalid argument' say "$mnt/executables/tree/run" 'x other y -> a b c d e f'
say "$mnt/executables/tree/run" \
	'{"inputs":["x","other","y"],"outputs":["a","b","c","d","e","f"],"positional":true}'
equal 'another tree' "$(values b c d e)" '20 30 40 50 '
tells "$mnt/executables/tree/run" '"order":"by position"'
