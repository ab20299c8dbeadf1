#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# scripts/setup: what it installs and fetches, and that it waits for another apt-get.  The commands
# that change the machine are imitated.
. "$srcdir/tests/lib.sh"
mkdir -p tree/scripts bin tree/plugins/{validators/bin,jax/jax} # so that pip fetches nothing
touch tree/plugins/validators/bin/clang-format
cp "$top/scripts/setup" tree/scripts/
export did=$work/did refusal=$work/refusal deb=$work/prometheus_1_all.deb stale=$work/stale
mkdir -p package/{DEBIAN,usr/bin}
printf '%s\n' 'Package: prometheus' 'Version: 1' 'Architecture: all' 'Maintainer: nobody' 'Description: none' >package/DEBIAN/control
echo promtool >package/usr/bin/promtool
dpkg-deb --build package "$deb" >/dev/null

imitate()
{
	cat >"$1"
	chmod +x "$1"
}
imitate bin/dpkg-query <<'END'
#!/bin/sh
exit 1 # no package is installed
END
imitate bin/sudo <<'END'
#!/bin/sh
exec "$@"
END
imitate bin/apt-get <<'END'
#!/bin/sh
echo "apt-get $*" >>"$did"
case "$*" in
*' download '*)
	rm "$stale" 2>/dev/null && exit 100
	cp "$deb" .
	;;
esac
[ -e "$refusal" ] || exit 0
cat "$refusal"
rm "$refusal"
exit 100
END
imitate tree/scripts/fetch-plugins <<'END'
#!/bin/sh
echo "fetch-plugins $*" >>"$did"
END
imitate tree/configure <<'END'
#!/bin/sh
echo "configure $*" >>"$did"
echo 'all:; @touch all; echo made >>$(did)' >Makefile
END

setup()
{
	: >"$did"
	PATH=$work/bin:$PATH bounded tree/scripts/setup "$@"
}

# Another apt-get has locked the lists of packages: tried again.  That of dpkg's lock waits.
echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1 (apt-get)' >"$refusal"
CONFIGURE_FLAGS=--enable-werror setup
equal "updates" "$(grep -c '^apt-get.* update$' "$did")" 2
tells "$did" '^apt-get .*DPkg::Lock::Timeout=[0-9]+ .*install .* libfuse3-dev' \
	'^fetch-plugins header cpu$' '^configure -q --enable-werror$' '^made$'
! grep -q shellcheck "$did" || fail "installed for the demo: $(cat "$did")"

# The tests need more, and no configure again; the lists of packages name a promtool that is gone.
touch "$stale"
CONFIGURE_FLAGS=--enable-werror setup --tests
tells "$did" '^apt-get .*install .* shellcheck' '^fetch-plugins $'
! grep -q '^configure' "$did" || fail "configured again: $(cat "$did")"
equal "updates" "$(grep -c '^apt-get.* update$' "$did")" 2
shows tree/plugins/validators/bin/promtool promtool
setup --tests
! grep -q download "$did" || fail "promtool is fetched again: $(cat "$did")"

# Another failure ends it, with what apt-get said.
echo 'E: Unable to locate package libfuse3-dev' >"$refusal"
fails_with 'Unable to locate package' setup
equal "updates" "$(grep -c '^apt-get.* update$' "$did")" 1
