/* SPDX-License-Identifier: Apache-2.0 */
/* The set-up connection: texts of every length, descriptors, and peers that misbehave. */
#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

enum { KIB64 = 64 << 10, PATIENCE_MS = 20000 };

static int pair[2];

static void open_pair(void)
{
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void close_pair(void)
{
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
}

/* One side sends while the other receives: a socket holds less than a large text. */
struct sender {
	pthread_t thread;
	const char *text;
	size_t len;
	const int *fds;
	int n, result;
};

static void *send_main(void *arg)
{
	struct sender *s = arg;
	struct pf_err err = PF_ERR_INIT;

	s->result = pf_channel_send(pair[0], s->text, s->len, s->fds, s->n, &err);
	return NULL;
}

static char *pattern(size_t len)
{
	char *p = malloc(len + 1);

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < len; i++)
		p[i] = (char)(i * 7 + i / 251);
	return p;
}

static const size_t lengths[] = {
	0, 1, 2, KIB64 - 1, KIB64, KIB64 + 1, 2 * KIB64, 3 << 20, 9999999,
};

TEST_EACH(texts_arrive_whole, lengths)
{
	struct sender s = { .len = lengths[_i] };
	struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	char *sent = pattern(s.len);

	s.text = sent;
	pthread_create(&s.thread, NULL, send_main, &s);
	ck_assert_msg(pf_channel_recv(pair[1], &text, NULL, 0, PATIENCE_MS, &err) == 0,
		      "%s", err.text);
	pthread_join(s.thread, NULL);
	ck_assert_int_eq(s.result, 0);
	ck_assert_uint_eq(text.len, s.len);
	if (s.len) {
		ck_assert_int_eq(memcmp(text.data, sent, s.len), 0);
		ck_assert_int_eq(text.data[s.len], '\0');
	}
	pf_buf_release(&text);
	free(sent);
}

TEST(each_text_is_received_apart)
{
	struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(pf_channel_send(pair[0], "one", 3, NULL, 0, &err), 0);
	ck_assert_int_eq(pf_channel_send(pair[0], "", 0, NULL, 0, &err), 0);
	ck_assert_int_eq(pf_channel_send(pair[0], "three", 5, NULL, 0, &err), 0);
	ck_assert_int_eq(pf_channel_recv(pair[1], &text, NULL, 0, -1, &err), 0);
	ck_assert_str_eq(text.data, "one");
	ck_assert_int_eq(pf_channel_recv(pair[1], &text, NULL, 0, -1, &err), 0);
	ck_assert_str_eq(text.data, "one");
	ck_assert_int_eq(pf_channel_recv(pair[1], &text, NULL, 0, -1, &err), 0);
	ck_assert_str_eq(text.data, "onethree");
	pf_buf_release(&text);
}

/* --- descriptors --------------------------------------------------------------------- */

static int numbered_file(int number)
{
	int fd = memfd_create("numbered", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 1000 + number), 0);
	return fd;
}

static int count_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static const struct {
	int sent, wanted;
} descriptors[] = {
	{ 0, 3 }, { 1, 1 }, { 3, 3 }, { 3, 1 }, { 3, 0 }, { 2, 5 }, { 8, 8 }
};

TEST_EACH(descriptors_arrive, descriptors)
{
	int sent = descriptors[_i].sent, wanted = descriptors[_i].wanted, before;
	int out[8], in[8] = { 77, 77, 77, 77, 77, 77, 77, 77 };
	struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	struct stat st;

	for (int i = 0; i < sent; i++)
		out[i] = numbered_file(i);
	before = count_open();
	ck_assert_int_eq(pf_channel_send(pair[0], "x", 1, out, sent, &err), 0);
	ck_assert_msg(pf_channel_recv(pair[1], &text, in, wanted, PATIENCE_MS, &err) == 0,
		      "%s", err.text);
	for (int i = 0; i < wanted; i++) {
		if (i >= sent) {
			ck_assert_int_eq(in[i], -1);
			continue;
		}
		ck_assert_int_eq(fstat(in[i], &st), 0);
		ck_assert_int_eq(st.st_size, 1000 + i);
		ck_assert_int_eq(fcntl(in[i], F_GETFD), FD_CLOEXEC);
		close(in[i]);
	}
	for (int i = wanted; i < 8; i++)
		ck_assert_int_eq(in[i], 77);
	ck_assert_int_eq(count_open(), before); /* what was too many is closed */
	for (int i = 0; i < sent; i++)
		close(out[i]);
	pf_buf_release(&text);
}

TEST(too_long_texts_are_refused)
{
	struct pf_err err = PF_ERR_INIT;
	int fds[41] = { 0 };

	ck_assert_int_eq(pf_channel_send(pair[0], "", (size_t)PF_CHANNEL_MAX_TEXT + 1,
					 NULL, 0, &err),
			 -EMSGSIZE);
	ck_assert_str_eq(err.text, "a set-up text of 67108865 bytes is too long");
	ck_assert_int_eq(pf_channel_send(pair[0], "", 0, fds, 41, &err), -EMSGSIZE);
}

/* --- peers that die, hang and lie ---------------------------------------------------- */

static void hang_up(void)
{
	close(pair[0]);
	pair[0] = -1;
}

#define GONE "the other process has gone"
#define LATE "no answer from the other process in 50 ms"
#define LARGE "the other process sent too large a packet"

static const struct {
	const char *what;
	size_t first;   /* bytes of the announcement, */
	uint64_t total; /* which says so many */
	size_t second;  /* bytes of the next packet; 0: none */
	bool unread;    /* it was sent something that it does not read */
	bool hangs_up;
	int want;
	const char *text;
} peers[] = {
	{ "nothing", 0, 0, 0, false, false, -ETIMEDOUT, LATE },
	{ "its end", 0, 0, 0, false, true, -EPIPE, GONE },
	{ "its end, with unread bytes", 0, 0, 0, true, true, -EPIPE, GONE },
	{ "no text", 8, 5, 0, false, true, -EPIPE, GONE },
	{ "half of a text", 8, 100000, KIB64, false, true, -EPIPE, GONE },
	{ "a text that is late", 8, 1, 0, false, false, -ETIMEDOUT, LATE },
	{ "too long a text", 8, PF_CHANNEL_MAX_TEXT + UINT64_C(1), 0, false, false,
	  -EPROTO, "the other process announced a text of 67108865 bytes" },
	{ "the longest text", 8, UINT64_MAX, 0, false, false, -EPROTO,
	  "the other process announced a text of 18446744073709551615 bytes" },
	{ "a short announcement", 4, 1, 0, false, false, -EPROTO,
	  "the other process announced a text of 1 bytes" },
	{ "a long announcement", 10, 1, 0, false, false, -EPROTO, LARGE },
	{ "more than announced", 8, 3, 4, false, false, -EPROTO,
	  "the other process sent more than it announced" },
	{ "a part of a packet", 8, 100000, 1, false, false, -EPROTO,
	  "the other process sent a packet of 1 bytes while 100000 are left" },
	{ "a large packet", 8, 200000, KIB64 + 1, false, false, -EPROTO, LARGE },
};

TEST_EACH(bad_peers_are_reported, peers)
{
	uint64_t announcement[2] = { peers[_i].total };
	struct pf_buf text = PF_BUF_INIT;
	struct pf_err err = PF_ERR_INIT;
	char *bytes = pattern(peers[_i].second);
	int r;

	if (peers[_i].first)
		ck_assert_int_gt(send(pair[0], announcement, peers[_i].first, 0), 0);
	if (peers[_i].second)
		ck_assert_int_gt(send(pair[0], bytes, peers[_i].second, 0), 0);
	if (peers[_i].unread)
		ck_assert_int_eq(send(pair[1], "unread", 6, 0), 6);
	if (peers[_i].hangs_up)
		hang_up();
	r = pf_channel_recv(pair[1], &text, NULL, 0, 50, &err);
	ck_assert_msg(r == peers[_i].want && err.code == r, "%s: %d", peers[_i].what, r);
	ck_assert_str_eq(err.text, peers[_i].text);
	ck_assert_uint_le(text.cap, 1 << 20); /* an announcement alone costs no memory */
	pf_buf_release(&text);
	free(bytes);
}

/* It has ended, and read all before, or not. */
TEST_TIMES(sending_to_an_ended_process_fails, 2)
{
	struct pf_err err = PF_ERR_INIT;

	if (_i)
		ck_assert_int_eq(pf_channel_send(pair[1], "x", 1, NULL, 0, &err), 0);
	hang_up();
	ck_assert_int_eq(pf_channel_send(pair[1], "x", 1, NULL, 0, &err), -EPIPE);
	ck_assert_str_eq(err.text, GONE);
}

/* --- the memory ---------------------------------------------------------------------- */

/* A worker that could make it shorter would kill the daemon with SIGBUS. */
TEST(the_size_is_sealed)
{
	int fd = pf_channel_create(NULL);

	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_lt(ftruncate(fd, 0), 0);
	ck_assert_int_eq(errno, EPERM);
	ck_assert_int_lt(ftruncate(fd, 1 << 30), 0);
	ck_assert_int_lt(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ck_assert_int_eq(pwrite(fd, "x", 1, 0), 1);
	ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				   4096),
			 0);
	close(fd);
}

TEST(a_short_file_is_not_mapped)
{
	struct pf_err err = PF_ERR_INIT;
	int fd = pf_shm_new("short", 4096, &err);
	void *p;

	ck_assert_msg(fd >= 0, "%s", err.text);
	ck_assert_int_eq(pf_shm_map(fd, 4097, PROT_READ, &p, &err), -EINVAL);
	ck_assert_str_eq(err.text, "shared memory: expected 4097 bytes, found 4096");
	ck_assert_int_eq(pf_shm_map(fd, 4096, PROT_READ, &p, &err), 0);
	ck_assert_int_eq(*(char *)p, 0);
	munmap(p, 4096);
	ck_assert_int_eq(pf_shm_map(-1, 4096, PROT_READ, &p, &err), -EBADF);
	close(fd);
}

UNIT_FIXTURE(open_pair, close_pair)
