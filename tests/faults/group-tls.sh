#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: asan
# COST: 8 CPU-s in 30 s
# --group rediss://: members that reach the store through TLS, with and without certificates of their own, and what
# they say if a certificate, a key or the server is not what it should be.
# shellcheck disable=SC2034 # what members.sh uses
. "$srcdir/tests/lib.sh"
requires test -w /dev/fuse
requires isolated
. "$top/tests/members.sh"
requires openssl version

# authority NAME: a CA in NAME.pem.  certificate NAME CA SUBJECT_ALTERNATIVE_NAME [option...]: one in NAME.pem, for key.pem
authority()
{
	openssl req -x509 -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -keyout "$1.key" -out "$1.pem" \
		-subj "/CN=$1" -days 2 2>>openssl.log || fail "$(cat openssl.log)"
}
certificate()
{
	openssl req -new -key key.pem -subj "/CN=$1" -addext "subjectAltName=$3" -out "$1.csr"
	openssl x509 -req -in "$1.csr" -CA "$2.pem" -CAkey "$2.key" -CAcreateserial -copy_extensions copy -out "$1.pem" \
		"${@:4}" 2>>openssl.log || fail "$(cat openssl.log)"
}
umask 077
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out key.pem
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out other.key.pem
openssl pkey -in key.pem -aes256 -passout pass:x -out locked.key.pem
authority ca
authority foreign
certificate server ca DNS:localhost,IP:127.0.0.1 -days 2
certificate expired ca DNS:localhost,IP:127.0.0.1 -days 0 # OpenSSL 3.5 makes none that ends before it begins
certificate elsewhere ca DNS:elsewhere.example,IP:10.9.9.9 -days 2
certificate stranger foreign DNS:member -days 2
certificate client ca DNS:member -days 2

# The server without TLS has port 6379, with TLS 6380.
tls=(--tls-port 6380 --tls-cert-file server.pem --tls-key-file key.pem --tls-ca-cert-file ca.pem --tls-auth-clients no)
configure()
{
	equal "config set $*" "$(ask_redis config set "$@")" OK
}
has_member()
{
	ask_redis --scan | grep -q ":member:$1\$"
}
redis "${tls[@]}"

# -- two members, one by name, one by address; the store's large, empty and late values, and threads that wait
size=2
faults client=store
url=rediss://localhost:6380
group --group-ca ca.pem
member 0
url=rediss://127.0.0.1:6380
member 1
complete
stores
for m in "${members[@]}"; do tells "$m/plugins/faulty/processes.json" '"store": *"rediss://'; done
# a server that is started anew, without their keys
no_redis
redis "${tls[@]}"
for i in 0 1; do eventually has_member $i; done
for m in "${members[@]}"; do eventually states "$m" connected; done
leave

# -- the members have certificates, or the server refuses them; also in the strict sandbox, and with the system's CAs
configure tls-auth-clients yes
mine=(--group-cert client.pem --group-key key.pem)
sandbox=()
if has_landlock; then sandbox=(--sandbox faulty:strict); fi
group "${mine[@]}" "${sandbox[@]}"
for i in 0 1; do SSL_CERT_FILE=$work/ca.pem member $i; done
complete
stores
faults
leave
few=("${faulty_options[@]}" "$work" -f --no-cache --group-name x --group-process 0/2 --group-secret secret)
says()
{
	refuses 1 "the group's store: $1" "${few[@]}" --group "$url" "${@:2}"
}
server='rediss 127\.0\.0\.1:6380: TLS: '
says "${server}it has sent tlsv13 alert certificate required\$" --group-ca ca.pem
says "${server}it has sent tlsv1 alert unknown ca\$" --group-ca ca.pem --group-cert stranger.pem --group-key key.pem
configure tls-protocols TLSv1.2
says "${server}it has sent .* alert handshake failure\$" --group-ca ca.pem
whole 2 --group-ca ca.pem "${mine[@]}"
leave
configure tls-auth-clients no tls-protocols ""

# -- files that are not what they should be
key='expected the certificate.s key in PEM, without a pass phrase'
says "group key .*/other\.key\.pem: $key: key values mismatch\$" --group-ca ca.pem --group-cert client.pem --group-key other.key.pem
# on a terminal, where OpenSSL would ask for the pass phrase
ends_with 1 'locked.key.pem: expected' script -qec "$(printf '%q ' "$pjrtfs" "${few[@]}" --group "$url" --group-ca ca.pem \
	--group-cert client.pem --group-key locked.key.pem)" /dev/null
says 'group cert .*/key\.pem: expected a certificate in PEM: no start line$' --group-ca ca.pem --group-cert key.pem --group-key key.pem
says 'group ca .*/key\.pem: expected certificates in PEM: no (start line|certificate or crl found)$' --group-ca key.pem

# -- the server's certificate
unknown='(self.signed certificate in certificate chain|unable to get local issuer certificate)'
says "${server}its certificate is refused: $unknown\$" --group-ca foreign.pem
says "${server}its certificate is refused: $unknown\$"
configure tls-cert-file expired.pem
says "${server}its certificate is refused: certificate has expired\$" --group-ca ca.pem
configure tls-cert-file elsewhere.pem
says "${server}its certificate is refused: IP address mismatch\$" --group-ca ca.pem
url=rediss://localhost:6380
says 'rediss localhost:6380: TLS: its certificate is refused: hostname mismatch$' --group-ca ca.pem
configure tls-cert-file server.pem

# -- the other kind of server, one that hangs, and one that never comes to an end
url=rediss://127.0.0.1:6379
says 'rediss 127\.0\.0\.1:6379: it does not speak TLS: expected --group redis://' --group-ca ca.pem
url=redis://127.0.0.1:6380
says 'redis 127\.0\.0\.1:6380: it speaks TLS: expected --group rediss://'
halt "$redis"
url=rediss://127.0.0.1:6380
says "${server}the server does not answer\$" --group-ca ca.pem --group-timeout 1
no_redis
says 'rediss 127\.0\.0\.1:6380: Connection refused$' --group-ca ca.pem --group-timeout 1
# endless PORT MODE [CERTIFICATE KEY]
endless()
{
	python3 "$top/tests/tools/endless_store.py" "$@" >"endless-$1.log" &
	sleepers+=($!)
	eventually test -s "endless-$1.log"
}
endless 6380 slow server.pem key.pem
says 'rediss 127\.0\.0\.1:6380: (TLS: the server does not answer|its answer does not end)$' --group-ca ca.pem --group-timeout 1
endless 6381 fast server.pem key.pem
url=rediss://127.0.0.1:6381
says 'rediss 127\.0\.0\.1:6381: its answer (is too long|does not end)$' --group-ca ca.pem --group-timeout 1
endless 6382 slow
url=redis://127.0.0.1:6382
says 'redis 127\.0\.0\.1:6382: (its answer does not end|Resource temporarily unavailable)$' --group-timeout 1
endless 6383 fast
url=redis://127.0.0.1:6383
says 'redis 127\.0\.0\.1:6383: its answer (is too long|does not end)$' --group-timeout 1
