#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# The completions of bash, zsh and fish, each in its shell: options, their values, plugins' names.
. "$srcdir/tests/lib.sh"
requires test -e /usr/share/bash-completion/bash_completion
requires command -v zsh
requires command -v fish
requires test -e "$plugins/cpu/pjrt_plugin.so"
mkdir home home/here
export HOME=$work/home PJRTFS_PLUGIN_PATH=$work/home/here XDG_CONFIG_HOME=$work/home
ln -s "$plugins/cpu" home/here/
# As installed, but for the path of the script that finds the words.
for shell in bash zsh fish; do
	sed "s|/[^ ]*/complete |$top/completions/complete |" "$build/completions/pjrtfs.$shell" >"$shell"
	grep -q "$top/completions/complete " "$shell" || fail "no path in $shell"
done
PATH=$build:$PATH

# The words that each shell offers for the line of WORD..., whose last one is completed, sorted.
in_bash()
{
	bounded bash --norc -c '
		. /usr/share/bash-completion/bash_completion
		. ./bash
		COMP_WORDS=() COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
		# readline takes = and : for words of their own
		for word; do
			while [[ $word =~ ^([^=:]*)([=:])(.*)$ ]]; do
				COMP_WORDS+=(${BASH_REMATCH[1]:+"${BASH_REMATCH[1]}"} "${BASH_REMATCH[2]}")
				word=${BASH_REMATCH[3]}
			done
			COMP_WORDS+=("$word")
		done
		COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
		compopt() { :; }
		_pjrtfs "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
		printf "%s\n" "${COMPREPLY[@]}"' bash "$@" | grep . | sort | tr '\n' ' '
}
# zsh filters words outside of the function, and offers files, too.
in_zsh()
{
	bounded zsh -f -c '
		compadd() { while [[ $1 != -- ]] shift; shift; print -l -- $@ }
		_files() { : }
		words=("$@") CURRENT=$#
		. ./zsh' zsh "$@" | grep -e "^${*: -1}" | sort | tr '\n' ' '
}
in_fish()
{
	bounded fish --no-config -c 'source fish; complete -C "$argv"' "$@" | cut -f 1 | sort | tr '\n' ' '
}

sandboxes='--sandbox --sandbox-read --sandbox-uid --sandbox-write '
for shell in bash zsh fish; do
	equal "$shell: an option" "$(in_$shell pjrtfs --sandb)" "$sandboxes"
	equal "$shell: a value" "$(in_$shell pjrtfs x --isolate u)" 'user '
	equal "$shell: a plugin" "$(in_$shell pjrtfs --check-plugin c)" 'cpu '
	equal "$shell: a source" "$(in_$shell pjrtfs cp)" 'cpu '
	equal "$shell: a plugin's value" "$(in_$shell pjrtfs --sandbox cpu:s | sed 's/cpu://')" 'strict '
	equal "$shell: a mount option" "$(in_$shell pjrtfs cpu -o ro,state)" 'ro,state_dir= '
	equal "$shell: a file" "$(in_$shell pjrtfs cpu --config zz)" ''
done
equal "bash: behind =" "$(in_bash pjrtfs --isolate=n)" 'none '
equal "zsh: behind =" "$(in_zsh pjrtfs --isolate=n)" '--isolate=none '
equal "fish: behind =" "$(in_fish pjrtfs --isolate=n)" '--isolate=none '

# without the program nothing is offered, and nothing is said
equal "without pjrtfs" "$("$top/completions/complete" ./no-pjrtfs x -- 2>&1)" ''
