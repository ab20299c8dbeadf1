#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# PLUGIN: each
# FFI libraries that cannot be loaded end the start with a sentence.
. "$srcdir/tests/lib.sh"
requires_mount
name=${plugin:-cpu}
cp "$build/tests/faults/ffi_library.so" good.so
mkdir mnt directory.so
mkfifo fifo.so

# refused PATTERN OPTION...: pjrtfs does not start with the options, and says why.
refused()
{
	local want=$1 status=0
	shift
	bounded "$pjrtfs" "$name" mnt -f --plugin-dir "$plugins" --no-cache "$@" >said 2>&1 || status=$?
	[ "$status" = 1 ] || [ "$status" = 2 ] || fail "status $status with $*: $(cat said)"
	tells said "$want"
}

refused "FFI library $work/none.so: No such file or directory" --ffi-library none.so
refused "FFI library $work/directory.so: expected a regular file, found a directory" \
	--ffi-library directory.so
refused "FFI library $work/fifo.so: expected a regular file, found a FIFO" --ffi-library fifo.so
refused "expected \[PLUGIN:\]PATH\[:TARGET=SYMBOL,...\], found \"$name:\"" --ffi-library "$name:"
refused 'is for plugin other, which is not loaded' --ffi-library other:good.so

cp good.so loose.so
chmod 0775 loose.so
refused "FFI library $work/loose.so: .*only its owner may write to it, found mode 0775" \
	--ffi-library loose.so
if [ "$(id -u)" = 0 ]; then
	cp good.so foreign.so
	chown 1234 foreign.so
	refused 'expected root or user 0 for its owner, found user 1234' --ffi-library foreign.so
fi

# Of another architecture: bytes 18 and 19 are the machine.
cp good.so alien.so
printf '\x2a\x01' | dd of=alien.so bs=1 seek=18 conv=notrunc status=none
refused 'expected a shared library for this machine .*, found one for another .ELF machine 298, 64 bits.' \
	--ffi-library alien.so
head -c 6000 good.so >cut.so
refused "FFI library $work/cut.so: it is cut short: 6000 bytes of [0-9]+: download or copy it again" \
	--ffi-library cut.so
echo text >text.so
refused 'expected a shared library, found no ELF header in its 5 bytes' --ffi-library text.so

# The linker finds it, but not what it must have.
refused "FFI library .*: expected a function pjrtfs_ffi_library, .* found neither" \
	--ffi-library "$(ldconfig -p 2>/dev/null | sed -n 's/.*> //p' | grep -m1 '/libm\.so\.6')"
map() # SYMBOL
{
	cat >config.json <<-END
		{"ffi_libraries": [{"path": "$work/good.so", "targets": {"a": "$1"}}]}
	END
}
map missing
refused 'target a: expected a function missing in the library, found none' --config config.json
refused 'target a: expected a function missing in the library, found none' --ffi-library good.so:a=missing
refused 'expected TARGET=SYMBOL, found "b"' --ffi-library good.so:b,a=missing
refused 'expected TARGET=SYMBOL, found "a="' --ffi-library "$name:good.so:a="
refused 'target a is there twice' --ffi-library "$work/good.so:a=b,a=c"

# Its constructor, or its list, is not as it should be.
ends=(crash exit)
! sanitized || ends=(crash) # ThreadSanitizer reports an exit(3) within dlopen(3) itself
for fault in "${ends[@]}"; do
	refused "worker of plugin $name .*FFI library $work/good.so ended the process while it was loaded" \
		--ffi-library good.so --plugin-env "$name:FFI_FAULT=$fault"
done
while read -r fault want; do
	refused "FFI library $work/good.so: $want" --ffi-library good.so \
		--plugin-env "$name:FFI_FAULT=$fault"
done <<-'END'
	size expected a list of 24 bytes \(struct pjrtfs_ffi_targets\), found 25
	null target test_newer has no handler
	name target 1: its name has a control character
END

# Another plugin lives when one cannot load its library.
mount_pjrtfs "$name,second=$plugins/$name/pjrt_plugin.so" --ffi-library second:good.so \
	--plugin-env second:FFI_FAULT=crash
shows "$mnt/plugins/second/state" failed
tells "$mnt/plugins/second/error" 'ended the process while it was loaded'
bounded cp "$data/add.mlir" "$mnt/programs/"
shows "$mnt/executables/add/state" ready
