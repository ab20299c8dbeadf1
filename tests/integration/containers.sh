#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# docs/containers.md: what it shows works as it stands there, in containers of crun, and the files
# for builders and Kubernetes are right.
. "$srcdir/tests/lib.sh"
requires test "$(id -u)" = 0
requires crun --version
requires_mount
validators=$plugins/validators # of scripts/setup --tests
requires test -x "$validators/bin/hadolint"
requires isolated

# -- the image has the libraries that the programs need, and what is copied is there
# The paths of libraries as dpkg knows them: some systems have /lib as a link to /usr/lib.
ldd "$build/pjrtfs" "$build/pjrtfs-top" "$build/pjrtfs-worker" | sed -n 's/.* => \(.*\) (.*/\1/p' | sort -u |
	while read -r library; do
		dpkg -S "$library" 2>/dev/null || dpkg -S "/usr$library" 2>/dev/null ||
			dpkg -S "${library#/usr}"
	done | sed 's/:.*//' | sort -u >needed
grep -q libfuse3 needed || fail "the packages of the programs: $(cat needed)"
sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' "$top/Containerfile" >joined
# (Debian's releases have other packages: those of the image's are compared.)
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
grep -q "^FROM debian:$release-slim$" joined || : >needed
while read -r package; do
	case $package in
	libc6 | libgcc-s1 | zlib1g) ;; # in each image
	*) grep -qw "apt-get install .*$package" joined || fail "the image lacks $package" ;;
	esac
done <needed
while read -r word _; do
	case $word in
	'' | '#'* | FROM | RUN | COPY | USER | ENTRYPOINT) ;;
	*) fail "Containerfile: $word is no instruction" ;;
	esac
done <joined
bounded "$validators/bin/hadolint" "$top/Containerfile"
mkdir tools
printf '#!/bin/sh\necho "$PWD: podman $*"\n' >tools/podman
chmod +x tools/podman
PATH=$work/tools:$PATH bounded make -s --no-print-directory -C "$build" image >out
shows out "$top: podman build -t pjrtfs -f Containerfile ."

# -- the manifests: strict YAML, no key twice, and each volume is there
/usr/bin/python3 - "$top/docs/examples/kubernetes.yaml" <<'END'
import sys, yaml

class Strict(yaml.SafeLoader):
    pass

def mapping(loader, node):
    pairs = loader.construct_pairs(node, deep=True)
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key twice: {keys}"
    return dict(pairs)

Strict.add_constructor("tag:yaml.org,2002:map", mapping)
objects = list(yaml.load_all(open(sys.argv[1]), Strict))
assert [o["kind"] for o in objects] == ["DaemonSet", "Pod"], objects
for o in objects:
    assert o["apiVersion"] and o["metadata"]["name"]
    spec = o["spec"]["template"]["spec"] if o["kind"] == "DaemonSet" else o["spec"]
    volumes = {v["name"]: v["hostPath"]["path"] for v in spec["volumes"]}
    for c in spec["containers"] + spec.get("initContainers", []):
        for m in c["volumeMounts"]:
            assert volumes[m["name"]] == m["mountPath"]
propagation = [o["spec"].get("template", o)["spec"]["containers"][0]["volumeMounts"][0]["mountPropagation"]
               for o in objects]
assert propagation == ["Bidirectional", "HostToContainer"], propagation
END
# validate FILE: against the schemas of Kubernetes
validate()
{
	PYTHONPATH=$validators "$patient" $((patience * 3)) /usr/bin/python3 -B -m kubernetes_validate --strict "$1"
}
validate "$top/docs/examples/kubernetes.yaml"
sed 's/hostPath:/hostPaths:/' "$top/docs/examples/kubernetes.yaml" >wrong.yaml
! validate wrong.yaml >out 2>&1 || fail "the validator finds nothing: $(cat out)"
printf 'FROM debian:bookworm\nRUN cd /src && sudo make\n' >wrong
! bounded "$validators/bin/hadolint" wrong >out || fail "hadolint finds nothing: $(cat out)"

# -- the page
# crun takes one version of control groups, not both at a time.
umount /sys/fs/cgroup/unified 2>/dev/null || :
export PJRTFS_PLUGIN_PATH=$plugins PATH=$build:$PATH PJRTFS_CACHE_DIR=$work/cache
mkdir -p srv rootfs/bin rootfs/proc rootfs/dev rootfs/sys rootfs/tmp rootfs/usr bundles
mount -t tmpfs --make-shared srv srv
chmod 1777 rootfs/tmp
ln -s usr/lib usr/lib64 rootfs/
cp /usr/bin/busybox rootfs/bin/
for name in sh cat ls sleep mount; do # images have mount, which Debian 13's libfuse runs
	ln -s busybox "rootfs/bin/$name"
done

cat >bundle.py <<'END'
import json, sys
path, root, plugins, device, user, binds, caps, *args = sys.argv[1:]
config = json.load(open(path))
process = config["process"]
uid, gid = map(int, user.split(":"))
held = ("bounding",) if uid else ("bounding", "effective", "permitted")
process.update(terminal=False, args=args, user={"uid": uid, "gid": gid},
               capabilities={k: caps.split() for k in held})
process["env"].append("HOME=/tmp")
process["env"].append("PJRTFS_PLUGIN_PATH=" + plugins)
del process["rlimits"], config["linux"]["resources"]
config["root"] = {"path": root, "readonly": False}
if device:
    config["linux"]["devices"] = [{"path": device, "type": "c", "major": 10, "minor": 229,
                                   "fileMode": 0o666}]
config["mounts"] = [m for m in config["mounts"] if m["destination"] != "/sys/fs/cgroup"]
for bind in binds.split():
    source, destination, *options = bind.split(":")
    config["mounts"].append({"source": source, "destination": destination,
                             "options": ["rbind", *options]})
    for option in options:  # as podman does it; else later mounts do not reach the container
        if option in ("rshared", "rslave"):
            config["linux"]["rootfsPropagation"] = option
json.dump(config, open(path, "w"))
END

# podman run OPTION... IMAGE WORD...: as podman, with crun, on a file system that has busybox alone,
# and /usr for its libraries; the image pjrtfs also has the build, the plugins, and the user that Containerfile names.
podman()
{
	local bundle binds=() caps=() drop='' fds=0 device='' user='' args=() image
	bundle=$(mktemp -d "$work/bundles/XXXXXX")
	binds=(/usr/lib:/usr/lib:ro /usr/lib64:/usr/lib64:ro)
	shift # run
	while [ "${1#-}" != "$1" ]; do
		case $1 in
		--rm) shift ;;
		-v) binds+=("$2") && shift 2 ;;
		--cap-add) caps+=("CAP_$2") && shift 2 ;;
		--cap-drop) drop=$2 && shift 2 ;;
		--preserve-fds) fds=$2 && shift 2 ;;
		--device)
			device=$2
			shift 2
			;;
		--user)
			user=$2:0
			shift 2
			;;
		*) fail "podman $1" ;;
		esac
	done
	image=$1 && shift
	args=("$@")
	if [ "$image" = pjrtfs ]; then
		args=("$build/pjrtfs" "$@")
		user=${user:-$(sed -n 's/^USER //p' "$top/Containerfile")}
		binds+=(/etc:/etc:ro "$build:$build:ro" "$plugins/:$plugins:ro")
	fi
	[ -n "$drop" ] || caps+=(CAP_CHOWN CAP_DAC_OVERRIDE CAP_KILL CAP_SETUID CAP_SETGID)
	(cd "$bundle" && crun spec)
	python3 "$work/bundle.py" "$bundle/config.json" "$work/rootfs" "$plugins" "$device" \
		"${user:-0:0}" "${binds[*]}" "${caps[*]}" "${args[@]}"
	crun --cgroup-manager=disabled --root "$work/crun" run --preserve-fds "$fds" \
		--bundle "$bundle" "${bundle##*/}"
}

# page FROM TO: run what stands between the two headings; its output is in out.
page()
{
	sed -n "/^## $1/,/^## $2/s/^    //p" "$top/docs/containers.md" |
		sed "s|/srv|$work/srv|g" >block
	[ -s block ] || fail "docs/containers.md shows nothing of $1"
	"$patient" $((patience * 3)) bash -eu block >out 2>err </dev/null ||
		fail "docs/containers.md, $1: $(cat out err)"
}
export -f podman fail
export work build plugins top
page 'The host mounts' 'The container mounts'
shows out $'ok\n11 22 33'
gone srv/pjrt/cpu/health
# The page's container may start before the mount or after it; this one runs before.
podman run --rm -v "$work/srv/pjrt:/srv/pjrt:rslave" busybox sh -c 'echo runs
	until cat /srv/pjrt/cpu/health 2>/dev/null; do sleep 0.1; done' >client &
eventually grep -qx runs client
bounded "$build/pjrtfs" cpu "$work/srv/pjrt/cpu" -o allow_other
eventually grep -qx ok client
wait $!

# -- what kubelet and Prometheus ask the DaemonSet for, without containers
# of_daemonset WHAT: the command of a probe of the container pjrtfs, or of the container metrics, or the URL that is scraped
of_daemonset()
{
	/usr/bin/python3 -B - "$top/docs/examples/kubernetes.yaml" "$1" "$work" <<'END'
import shlex, sys, yaml
path, what, work = sys.argv[1:]
template = next(yaml.safe_load_all(open(path)))["spec"]["template"]
served, metrics = template["spec"]["containers"]
notes = {key.partition("/")[2]: value for key, value in template["metadata"]["annotations"].items()}
assert notes["scrape"] == "true" and int(notes["port"]) == metrics["ports"][0]["containerPort"], notes
words = served[what]["exec"]["command"] if what in served else metrics["command"]
print(f"http://127.0.0.1:{notes['port']}{notes['path']}" if what == "scrape" else
      shlex.join(words).replace("/srv", work + "/srv").replace("/www", work + "/www"))
END
}
for probe in startupProbe livenessProbe readinessProbe; do
	of_daemonset "$probe" >asked
	bounded bash -eu asked >out 2>&1 || fail "$probe: $(cat asked out)"
done
of_daemonset metrics >asked
for name in chmod httpd mkdir timeout; do
	ln -s busybox "rootfs/bin/$name"
done
PATH=$work/rootfs/bin /bin/bash -eu -c 'eval "exec $(cat asked)"' &
server=$!
url=$(of_daemonset scrape)
eventually curl -sf -o scraped -D head "$url"
tells head '^Content-Type: text/plain; version=0\.0\.4'
equal "healthy" "$(bounded python3 "$top/tests/tools/prometheus.py" scraped pjrtfs_healthy)" 1
fails_with 'error: 404' curl -sSf "${url%/cgi-bin/metrics}/srv/pjrt/cpu/health"
bounded fusermount3 -u "$work/srv/pjrt/cpu"
fails_with 'error: 503' curl -sSf "$url"
kill "$server"
wait "$server" || :
page 'The container mounts' 'The host hands'
shows out $'ok\ncpu'
page 'The host hands' 'Kubernetes'
shows out ok

# -- a plugin that is not there; no right to mount; no device
fails_with 'plugin nothing: not found' podman run --rm --device /dev/fuse --cap-add SYS_ADMIN pjrtfs \
	nothing --run cat
fails_with 'in a container: start it with --cap-add SYS_ADMIN' podman run --rm --user 0 --device /dev/fuse \
	pjrtfs cpu /tmp -f
fails_with '/dev/fuse is missing' podman run --rm --cap-add SYS_ADMIN pjrtfs cpu --run cat
umount -R srv
