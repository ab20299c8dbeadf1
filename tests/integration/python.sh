#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 2 CPU-s in 6 s
# The module python/pjrtfs: the lines of docs/python.md; what it refuses; threads, children and its own mounts.
. "$srcdir/tests/words.sh"
requires find_numpy
requires "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))'
mount_pjrtfs
# Blocks of the page say python3.
mkdir bin tests
ln -s "$(command -v "$python")" bin/python3
ln -s "$data" tests/data
ln -s "$top/demo" demo
export PATH=$work/bin:$build:$PATH PYTHONPATH=$top/python PYTHONDONTWRITEBYTECODE=1
export PJRTFS_PLUGIN_PATH=$plugins PJRTFS_CACHE_DIR=$work/cache
run_page docs/python.md '## A program' '## Weights'
equal "add" "$(xargs <said)" '[[11. 22. 33.] [44. 55. 66.]] [2, 3]'
run_page docs/python.md '## Weights' '## What'
equal "digits" "$(cat said)" '3 1 4 1 5 9 2 6'
page docs/python.md '## What' '## End' | sed '/^END$/q' >block
bounded bash -eu block >said
tells said "^22 close programs/wrong.mlir: line 1, column 30: custom op 'x' is unknown"

cat >cases.py <<'END'
import errno
import os
import sys
import threading

import numpy as np
import pjrtfs

mount = pjrtfs.Mount(sys.argv[1])
add = mount.program("add")
x = np.arange(6, dtype="f4").reshape(2, 3)


def fails(kind, words, function, *arguments, number=None, **named):
    try:
        function(*arguments, **named)
    except kind as error:
        assert words in str(error), error
        assert number in (None, getattr(error, "errno", None)), error.errno
    else:
        sys.exit(f"succeeded, but should have failed with '{words}'")


# -- arguments: what is no array, other types, names; what is refused before the mount sees it
assert (add.call(x.tolist(), arg1=x.T.astype("f8").T) == 2 * x).all()
assert (add(np.asfortranarray(x), x > 2) == x + (x > 2)).all()
fails(TypeError, "add: expected 2 inputs (arg0, arg1), found 1", add.call, x)
fails(TypeError, "found 1, other", add.call, x, other=x)
fails(ValueError, "arg1: expected F32[2, 3], found int64[2]", add.call, x, [1, 2])
fails(TypeError, "arg0: expected F32, found complex64", add.call, 1j * x.astype("c8"), x)
text = "func.func @main(%i: tensor<i8>, %b: tensor<2xi1>) -> (tensor<i8>, tensor<2xi1>, tensor<0xf32>) {\n" \
    "%z = stablehlo.constant dense<> : tensor<0xf32>\n" \
    "return %i, %b, %z : tensor<i8>, tensor<2xi1>, tensor<0xf32> }"
types = mount.compile("types", text)
assert [str(one.dtype) for one in types.call(-3, [True, False])] == ["int8", "bool", "float32"]
fails(TypeError, "i: expected S8, found int64", types.call, 300, [True, False])
fails(TypeError, "i: expected S8, found uint8", types.call, np.uint8(200), [True, False])
fails(TypeError, "arg1: expected F32, found float64", add.call, x, np.full((2, 3), 1e300))
one = mount.compile("one", "func.func @main() -> tensor<f32> {\n"
                    "%z = stablehlo.constant dense<4.0> : tensor<f32>\nreturn %z : tensor<f32> }")
assert one.call() == 4
none = mount.compile("none", "func.func @main(%x: tensor<0xf32>) -> tensor<0xf32> { return %x : tensor<0xf32> }")
assert none.call(np.empty(0)).shape == (0,)

# -- more than one write and one read take, and arrays by name
text = open("tests/data/add.mlir").read()
large = np.arange(3 << 20, dtype="f4")
assert (mount.compile("large", text.replace("2x3", str(large.size))).call(large, large) == 2 * large).all()
many = 1500
names = [f"%a{i}: tensor<f32>" for i in range(many)]
text_many = f"func.func @main({', '.join(names)}) -> tensor<f32> {{ return %a{many - 1} : tensor<f32> }}"
assert mount.compile("many", text_many).call(*range(many)) == many - 1
mount.put("folder/x", x)
assert (mount.get("folder/x") == x).all()
add.bind("folder *")  # the folder's only array
assert (add.call(10 * x) == 11 * x).all()
assert (mount.program("add").call(x) == 2 * x).all()
mount.put("it's", 3 * x)
add.bind("it's *")
assert (add.call(x) == 4 * x).all()
add.bind("")

# -- the mount's sentences, and a call after one
fails(pjrtfs.Error, "bind a b c: the program takes 2 inputs, 3 were given", add.bind, "a b c", number=errno.EINVAL)
fails(pjrtfs.Error, "none.npy: No such file", mount.get, "none", number=errno.ENOENT)
fails(pjrtfs.Error, "wrong", mount.program, "wrong", number=errno.EBUSY)
fails(pjrtfs.Error, "bound input 0: there is no buffer none", add.bind, "none *", number=errno.ENOENT)
fails(pjrtfs.Error, "has no program ad: did you mean add?", mount.program, "ad", number=errno.ENOENT)
fails(pjrtfs.Error, "has no program quite-other: it has add, ", mount.program, "quite-other", number=errno.ENOENT)
mount.compile("add", text.replace("2x3", "3x3"))
fails(pjrtfs.Error, "input 1 (arg1): 12 of 36 bytes", add.call, x, x, number=errno.EINVAL)
for other in ("f32", "7x7xf32"):  # fewer and more bytes than the signature that add has
    mount.compile("add", f"func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<{other}> {{\n"
                  f"%z = stablehlo.constant dense<4.0> : tensor<{other}>\nreturn %z : tensor<{other}> }}")
    fails(pjrtfs.Error, "has other outputs now", add.call, x, x, number=errno.EIO)
mount.compile("add", text)
assert (add.call(x, x) == 2 * x).all()

# -- a name is free after a program that failed, also for one of another kind
fails(pjrtfs.Error, "wrong.mlirbc", mount.compile, "wrong", b"ML\xefR of another", number=errno.EINVAL)
assert (mount.compile("wrong", text).call(x, x) == 2 * x).all()

# -- threads, and a child, do not meet in one conversation
wrong = []


def work(number):
    array = np.full((2, 3), number, "f4")
    wrong.extend(i for i in range(50) if not (add.call(array, array) == 2 * array).all())


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
child = os.fork()
if not child:
    assert not any(mount._idle.values())
    os._exit(not (add.call(x, x) == 2 * x).all())
assert os.waitpid(child, 0)[1] == 0

# -- mounts of its own: one that stays open is unmounted when it can be, and a found one stays
own = pjrtfs.Mount(no_cache=True)
assert (own.compile("add", text).call(x, x) == 2 * x).all()
with open(own.path + "/events"):
    fails(pjrtfs.Error, "busy", own.close)
own.close()
own.close()
assert not os.path.exists(own.path)
fails(pjrtfs.Error, "none", pjrtfs.Mount, plugin="none")
mount.close()
assert os.path.ismount(mount.path)

# -- a path as a shell has it, and a link
os.symlink(mount.path, "link")
os.environ["HOME"] = os.getcwd()
assert (pjrtfs.Mount("~/link").program("add").call(x, x) == 2 * x).all()
END
"$patient" $((patience * 6)) "$python" cases.py "$mnt" >said 2>&1 || fail "$(cat said)"
