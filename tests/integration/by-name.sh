#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# COST: 3 CPU-s in 5 s
# Inputs by name: a whole line is matched, wherever the inputs of a directory stand.
. "$srcdir/tests/scalars.sh"
mount_pjrtfs
b=$mnt/buffers

# A net whose weights stand around its input, in the order of their use, as PyTorch/XLA lists them.
program net "w['l2.bias']" x "k['pos']" "w['l1.weight']" "w['l1.bias']"
net=$mnt/executables/net
scalars . x=2
scalars attn l1.weight=4 l1.bias=5 l2.bias=1
scalars c pos=3
run net 'attn x c -> a b d e f'
equal 'around an input' "$(values a b d e f)" '10 20 30 40 50 '
tells "$net/run" ' s, by name$'
# a tensor that the program does not use, and results in the place of the directory's own leaves
scalars attn l1.num_batches_tracked=9
run net 'attn x c -> attn/ b d'
equal 'into the same directory' "$(values attn/l2.bias attn/l1.weight attn/l1.bias attn/l1.num_batches_tracked b d)" \
	'10 20 30 9 40 50 '

# -- a model in shards: a directory for each file
scalars hf model-00001-of-00002/l1.bias=5 model-00001-of-00002/l2.bias=1 model-00002-of-00002/l1.weight=4
run net 'hf x c -> a b d e f'
equal 'shards' "$(values a b d e f)" '10 20 30 40 50 '

# -- words that name their inputs, in any order
run net 'x=x k=c w=hf -> a b d e f'
equal 'all by name' "$(values a b d e f)" '10 20 30 40 50 '
scalars . bias=7
run net "w['l1.bias']=bias hf x c -> a b d e f"
equal 'one of a directory' "$(values a b d e f)" '10 20 30 40 70 '
say "$net/run" '{"inputs":{"w":"hf","x":"x","k[pos]":"c/pos"},"outputs":["a","b","d","e","f"]}'
equal 'in JSON' "$(values a b d e f)" '10 20 30 40 50 '
tells "$net/run" '"order":"by name"'
# in bind, where calls bring the rest
say "$net/bind" 'w=hf * k=c'
calls=$(bounded python3 - "$net/call.raw" <<-'END'
	import struct, sys
	with open(sys.argv[1], "r+b", buffering=0) as call:
	    call.write(struct.pack("f", 2))
	    print(*struct.unpack("5f", call.read(20)))
END
)
equal 'bound' "$calls" '10.0 20.0 30.0 40.0 50.0'
say "$net/bind" ''

# -- two inputs of the same leaves: the name of the directory decides, or the line says which
program step "m['a']" "m['b']" "v['a']" "v['b']"
scalars m a=1 b=2 unused=0
scalars v a=3 b=4
scalars other a=5 b=6 unused=0
run step 'v=v m -> a b d e'
equal 'one is said' "$(values a b d e)" '10 20 30 40 '
run step 'm v -> a b d e'
equal 'by their own names' "$(values a b d e)" '10 20 30 40 '
bounded mkdir "$b/day2"
bounded mv "$b/m" "$b/v" "$b/day2/"
run step 'day2/m day2/v -> a b d e'
equal 'below another directory' "$(values a b d e)" '10 20 30 40 '

# refused LINE SENTENCE: what is refused leaves no result
refused()
{
	fails_with 'Invalid argument' say "$net/run" "$1 -> r1 r2 r3 r4 r5"
	tells "$net/run" "$2"
	gone "$b/r1.txt"
}
refused 'z=x attn c' 'the program has no input called z$'
refused "w['l1.bais']=bias hf x c" "called w\\['l1.bais'\\] \\(did you mean \"w\\['l1.bias'\\]\"\\?\\)$"
refused 'x=x x=bias hf c' 'input 1 \(x\) is given twice$'
refused 'hf bias x c' 'the program takes 5 inputs, and x is one more$'
refused 'hf c' 'input 1 \(x\) was not given$'
refused 'hf x c positional x=x' 'positional: an input of a name was given, too$'
refused 'other x c' "other: none of its 3 arrays is named as an input of the program is: found a, b, unused, expected .*; rename"
refused 'x= hf c' 'INPUT=NAME before the arrow'
bounded rm "$b/hf/model-00002-of-00002/l1.weight.txt"
refused 'hf x c' "input 3 \\(w\\['l1.weight'\\]\\) was not given$"
fails_with 'Invalid argument' say "$mnt/executables/step/run" 'other day2/m -> a b d e'
tells "$mnt/executables/step/run" \
	'other: its arrays are named as .* below "m" are, and as those below "v": write which, as in m=other$'
# an array of another input's name, where a directory leaves its place to it
program two x "w['a']" y
scalars w a=1 unused=0
scalars . y=3
fails_with 'Invalid argument' say "$mnt/executables/two/run" 'y w x -> a b d'
tells "$mnt/executables/two/run" 'y would be input 0 \(x\), and input 2 has its name: write which, as in x=y, or positional$'
run two 'y=y w x=x -> a b d'
equal 'by names' "$(values a b d)" '20 10 30 '

# -- arrays that are called as the inputs, in another order: x y -> z of a program that takes y, x
program sub y x
scalars . x=1 y=2
fails_with 'Invalid argument' say "$mnt/executables/sub/run" 'x y -> a b'
tells "$mnt/executables/sub/run" 'x would be input 0 \(y\), and input 1 has its name: write which, as in y=x, or positional$'
fails_with 'Invalid argument' say "$mnt/executables/sub/bind" 'x y'
run sub 'x=x y=y -> a b'
equal 'by name' "$(values a b)" '20 10 '
run sub 'x y positional -> a b'
equal 'by position' "$(values a b)" '10 20 '
run sub 'x x -> a b'
equal 'one of the names' "$(values a b)" '10 10 '

# -- names in the text itself are names like the others; so they are of the compiled program
cat >"$mnt/programs/text.mlir" <<-END
	func.func @main(%y: tensor<f32>, %x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
	  return %y, %x : tensor<f32>, tensor<f32>
	}
END
bounded cp "$mnt/executables/text/serialized" text.pjrtexe
bounded cp text.pjrtexe "$mnt/programs/compiled.pjrtexe"
for name in text compiled; do
	x=$mnt/executables/$name
	fails_with 'Invalid argument' say "$x/run" 'x y -> a b'
	tells "$x/run" 'x would be input 0 \(y\), and input 1 has its name: write which, as in y=x, or positional$'
	run "$name" 'x=x y=y -> a b'
	equal "$name by name" "$(values a b)" '2 1 '
	run "$name" 'x y positional -> a b'
	equal "$name by position" "$(values a b)" '1 2 '
done
scalars pair x=3 y=4
run text 'pair -> a b'
equal 'a directory' "$(values a b)" '4 3 '
scalars list 0=3 1=4
run text 'list -> a b'
equal 'a numbered directory' "$(values a b)" '3 4 '
scalars other2 u=3 v=4
fails_with 'Invalid argument' say "$mnt/executables/text/run" 'other2 -> a b'
tells "$mnt/executables/text/run" 'other2: none of its 2 arrays is named as an input .*: found u, v, expected y, x; .*positional'

# -- names that a user gives: PyTorch/XLA numbers the inputs, backwards for sin(x) + cos(y)
cat >"$mnt/programs/numbered.mlir" <<-END
	func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
	  return %arg0, %arg1, %arg2 : tensor<f32>, tensor<f32>, tensor<f32>
	}
END
numbered=$mnt/executables/numbered
run numbered 'x y bias -> a b d'
equal 'in their order' "$(values a b d)" '1 2 7 '
say "$numbered/options.json" '{"input_names":["y","x","fc.bias"]}'
shows "$numbered/state" ready
run numbered 'x y fc.bias=bias -> a b d'
equal 'by the names that a user gave' "$(values a b d)" '2 1 7 '
tells "$numbered/run" ' s, by name$'
tells "$numbered/signature.json" '"inputs":\[\{"name":"y",.*\{"name":"x",.*\{"name":"fc.bias",'
fails_with 'Invalid argument' say "$numbered/options.json" '{"input_names":["y","x",""]}'
tells "$numbered/error" 'option input_names: expected a list with a name for each input, found '
shows "$numbered/state" ready
say "$numbered/options.json" '{"input_names":["y","x"]}'
shows "$numbered/state" 'ready, update failed: option input_names: expected 3 names, one for each input of the program, found 2'
say "$numbered/options.json" '{"input_names":["y","x","x"]}'
tells "$numbered/state" 'expected names that tell the inputs apart, found input 1 \(x\) and input 2 \(x\), which are equal'
say "$numbered/options.json" '{"input_names":["fc.w","x","fc/w"]}'
tells "$numbered/state" 'found input 0 \(fc\.w\) and input 2 \(fc/w\), which are equal'
say "$numbered/options.json" '{"input_names":["y","x","b","c"]}'
tells "$numbered/state" 'expected 3 names, one for each input of the program, found 4'
fails_with 'Invalid argument' say "$numbered/options.json" '{"input_names":["y","x","b\u0000c"]}'
fails_with 'Invalid argument' say "$numbered/options.json" '{"input_names":["y","x",7]}'
fails_with 'Invalid argument' say "$numbered/options.json" '{"input_names":{"y":0,"x":1,"b":2}}'
say "$numbered/options.json" '{"input_names":["y","x",'
tells "$numbered/error" 'JSON: byte [0-9]+: expected a value, found its end'
# a number in each does no harm where a user says which is which, as import_torch_xla.py does of a module without weights
say "$numbered/options.json" '{"input_names":["v1","v0","v2"]}'
shows "$numbered/state" ready
scalars . v0=5 v1=6 v2=7
run numbered 'v0 v1 v2 -> a b d'
equal 'by names with numbers' "$(values a b d)" '6 5 7 '
say "$numbered/options.json" '{"input_names":["y","x","fc.bias"]}'
shows "$numbered/state" ready
say "$numbered/options.json" '{"input_names":["y","x"]}'
# what ran runs on
run numbered 'x y fc.bias=bias -> a b d'
# the names are no one else's who has the same program from the cache
bounded touch "$mnt/programs/early.mlir"
say "$mnt/executables/early/options.json" '{"input_names":["y","x"]}'
echo 'func.func @main(%arg0: tensor<f32>, %arg1: tensor<f32>) -> tensor<f32> { return %arg0 : tensor<f32> }' >two.mlir
for name in early late; do
	bounded cp two.mlir "$mnt/programs/$name.mlir"
	settle # the copy returns before the program is in the cache
done
tells "$mnt/executables/early/signature.json" '"inputs":\[\{"name":"y"'
tells "$mnt/executables/late/signature.json" '"inputs":\[\{"name":"arg0"'
tells "$mnt/executables/late/info.json" '"cache":"hit"'
