/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded log of lines: readers that read in order, seek, or fall behind. */
#include <stdio.h>
#include <string.h>

#include "pjrtfs/telemetry.h"
#include "unit.h"

enum { KEPT = 4 * PF_LINES_CHUNK };

static struct pf_lines lines;

static void setup(void)
{
	ck_assert_int_eq(pf_lines_init(&lines, KEPT), 0);
}

static void teardown(void)
{
	pf_lines_release(&lines);
}

/* Line I is its number and dots: 20 to 119 bytes. */
static size_t print_line(uint64_t i, char *dst)
{
	size_t len = 20 + i * 37 % 100;

	memset(dst, '.', len);
	dst[snprintf(dst, 19, "%llu", (unsigned long long)i)] = ' ';
	dst[len - 1] = '\n';
	return len;
}

static void append(uint64_t from, uint64_t to)
{
	char line[PF_LINE_MAX];

	for (uint64_t i = from; i < to; i++)
		pf_lines_append(&lines, line, print_line(i, line));
}

static size_t notice(void *arg, uint64_t n, char *dst)
{
	(void)arg;
	return (size_t)sprintf(dst, "dropped %llu\n", (unsigned long long)n);
}

static size_t read_at(struct pf_lines_reader *r, uint64_t off, char *dst, size_t len)
{
	return pf_lines_read(&lines, r, off, dst, len, notice, NULL);
}

/* (Check notes each assertion in a file, so loops do without.)
 *
 * A reader in order, which checks that it gets each line or a notice that it was dropped. */
struct reader {
	struct pf_lines_reader at;
	uint64_t off, next, notices;
	char line[PF_LINE_MAX];
	size_t len;
};

static void check_line(struct reader *r)
{
	char want[PF_LINE_MAX];
	unsigned long long n;

	if (sscanf(r->line, "dropped %llu", &n) == 1) {
		ck_assert_uint_gt(n, 0);
		r->next += n;
		r->notices++;
		return;
	}
	if (r->len != print_line(r->next, want) || memcmp(r->line, want, r->len))
		ck_abort_msg("expected line %llu, found %.*s",
			     (unsigned long long)r->next, (int)r->len, r->line);
	r->next++;
}

/* Read up to MAX bytes, LEN at once; true: the end was reached. */
static bool go_on(struct reader *r, size_t len, size_t max)
{
	char buf[PF_LINES_CHUNK + 1];

	for (size_t done = 0; done < max;) {
		size_t n = read_at(&r->at, r->off, buf, len);

		if (n > len)
			ck_abort_msg("%zu bytes of %zu", n, len);
		if (!n)
			return true;
		for (size_t i = 0; i < n; i++) {
			if (r->len == sizeof(r->line))
				ck_abort_msg("a line without an end");
			r->line[r->len++] = buf[i];
			if (buf[i] == '\n') {
				check_line(r);
				r->len = 0;
			}
		}
		r->off += n;
		done += n;
		if (r->off > lines.end)
			ck_abort_msg("a reader beyond the end");
	}
	return false;
}

static const size_t sizes[] = { 1, 7, 100, 4096, PF_LINES_CHUNK };

TEST_EACH(a_reader_gets_every_kept_line, sizes)
{
	struct reader r = { 0 };

	ck_assert(go_on(&r, sizes[_i], SIZE_MAX));
	ck_assert(!pf_lines_ready(&lines, &r.at));
	append(0, 1000);
	ck_assert(pf_lines_ready(&lines, &r.at));
	ck_assert(go_on(&r, sizes[_i], SIZE_MAX));
	ck_assert(!pf_lines_ready(&lines, &r.at));
	append(1000, 1001);
	ck_assert(pf_lines_ready(&lines, &r.at));
	ck_assert(go_on(&r, sizes[_i], SIZE_MAX));
	ck_assert_uint_eq(r.next, 1001);
	ck_assert_uint_eq(r.notices, 0);
	ck_assert_uint_eq(r.off, lines.end);
	ck_assert_uint_eq(pf_lines_size(&lines, &r.at), r.off);
	pf_lines_reader_release(&r.at);
}

TEST_EACH(a_late_reader_learns_how_many_lines_it_missed, sizes)
{
	struct reader r = { 0 };
	uint64_t first, start;

	append(0, 20000);
	start = pf_lines_start(&lines, &first);
	ck_assert_uint_gt(first, 0);
	ck_assert_uint_le(lines.end - start, KEPT);
	ck_assert_uint_ge(lines.end - start, KEPT / 2);
	ck_assert(go_on(&r, sizes[_i], SIZE_MAX));
	ck_assert_uint_eq(r.next, 20000);
	ck_assert_uint_eq(r.notices, 1);
	/* Its file ends where it read to, the log's end is not before that. */
	ck_assert_uint_eq(pf_lines_size(&lines, &r.at), r.off);
	ck_assert_uint_le(r.off, pf_lines_size(&lines, NULL));
	pf_lines_reader_release(&r.at);
}

/* Every line is read or counted as dropped, however reader and writer interleave. */
TEST_EACH(a_slow_reader_learns_how_many_lines_it_missed, sizes)
{
	struct reader r = { 0 };
	uint64_t n = 0;

	for (unsigned round = 0; round < 120; round++) {
		uint64_t more = 1 + round * 7919 % 3000;

		append(n, n + more);
		n += more;
		go_on(&r, sizes[_i], 1 + round * 104729 % 20000);
	}
	ck_assert(go_on(&r, sizes[_i], SIZE_MAX));
	ck_assert_uint_eq(r.next, n);
	ck_assert_uint_gt(r.notices, 10);
	pf_lines_reader_release(&r.at);
}

/* A reader that got half a line gets the other half, though the log has dropped it. */
TEST(a_reader_gets_whole_lines)
{
	struct reader r = { 0 };
	uint64_t n = 10, told = 0;

	append(0, n);
	for (unsigned cut = 1; cut < 60; cut += 7) {
		uint64_t next = r.next + 8000;

		go_on(&r, cut, 1);
		append(n, n + 8000);
		n += 8000;
		ck_assert(go_on(&r, PF_LINES_CHUNK, SIZE_MAX));
		ck_assert_uint_ge(r.next, next);
		ck_assert_uint_eq(r.notices, ++told);
	}
	pf_lines_reader_release(&r.at);
}

static size_t long_notice(void *arg, uint64_t n, char *dst)
{
	(void)arg;
	(void)n;
	memset(dst, '!', 500);
	dst[499] = '\n';
	return 500;
}

/* One line is dropped that is shorter than the notice: more lines go, so that no offset is beyond the
 * log's end. */
TEST(a_notice_takes_no_more_bytes_than_the_lines)
{
	struct pf_lines_reader r = { 0 };
	static char buf[PF_LINES_CHUNK];
	uint64_t n = 0, last = 0, off, dropped;
	size_t len;

	for (; lines.n < 2; n++) {
		off = lines.end;
		append(n, n + 1);
		if (lines.n < 2)
			last = off;
	}
	ck_assert_uint_eq(read_at(&r, 0, buf, last), last);
	for (; pf_lines_start(&lines, &dropped) == 0; n++)
		append(n, n + 1);
	off = last;
	while ((len = pf_lines_read(&lines, &r, off, buf, sizeof(buf), long_notice,
				    NULL)) > 0) {
		if (off == last)
			ck_assert_int_eq(buf[0], '!');
		off += len;
	}
	ck_assert_uint_le(off, lines.end);
	ck_assert_uint_eq(r.pos, lines.end);
	pf_lines_reader_release(&r);
}

/* As tail(1) reads: from the end backwards, whole blocks, then on from there. */
TEST(a_seek_reads_the_bytes_at_its_offset)
{
	struct pf_lines_reader r = { 0 };
	char block[8192], line[PF_LINE_MAX];
	uint64_t first, start, end;
	size_t n;

	append(0, 20000);
	start = pf_lines_start(&lines, &first);
	end = pf_lines_size(&lines, &r);
	ck_assert_uint_eq(end, lines.end);
	ck_assert_uint_eq(read_at(&r, end - sizeof(block), block, sizeof(block)),
			  sizeof(block));
	n = print_line(19999, line);
	ck_assert(!memcmp(block + sizeof(block) - n, line, n));
	ck_assert_uint_eq(read_at(&r, end, block, sizeof(block)), 0);
	ck_assert(!pf_lines_ready(&lines, &r));
	append(20000, 20001);
	ck_assert_uint_eq(read_at(&r, end, block, sizeof(block)),
			  print_line(20000, line));
	/* across chunks: a block is whole at any offset */
	for (uint64_t off = start; off + sizeof(block) <= lines.end; off += 8191)
		ck_assert_uint_eq(read_at(&r, off, block, sizeof(block)), sizeof(block));
	/* in the hole: zeros up to its end, then the lines */
	ck_assert_uint_eq(read_at(&r, start - 10000, block, sizeof(block)), 8192);
	for (size_t i = 0; i < sizeof(block); i++)
		ck_assert_int_eq(block[i], 0);
	ck_assert_uint_eq(read_at(&r, start - 10, block, sizeof(block)), 10);
	n = print_line(first, line);
	ck_assert_uint_eq(read_at(&r, start, block, n), n);
	ck_assert(!memcmp(block, line, n));
	/* back to the start: the notice is repeated */
	n = read_at(&r, 0, block, sizeof(block));
	ck_assert_uint_eq(n, sizeof(block));
	ck_assert(!memcmp(block, "dropped ", 8));
	pf_lines_reader_release(&r);
}

TEST(a_seek_beyond_the_end_waits_for_it)
{
	struct pf_lines_reader r = { 0 };
	char buf[256];

	append(0, 3);
	ck_assert_uint_eq(read_at(&r, lines.end + 1000, buf, sizeof(buf)), 0);
	ck_assert(!pf_lines_ready(&lines, &r));
	append(3, 100);
	ck_assert(pf_lines_ready(&lines, &r));
	ck_assert_uint_gt(read_at(&r, r.next, buf, sizeof(buf)), 0);
	pf_lines_reader_release(&r);
}

/* Memory is that of the chunks, however much is appended. */
TEST(the_longest_lines)
{
	static char line[PF_LINE_MAX];
	uint64_t first;

	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (unsigned i = 0; i < 1000; i++)
		pf_lines_append(&lines, line, sizeof(line));
	ck_assert_uint_le(lines.end - pf_lines_start(&lines, &first), KEPT);
	ck_assert_uint_eq(lines.count - first, 3 * (PF_LINES_CHUNK / PF_LINE_MAX) + 8);
	ck_assert_uint_eq(lines.n, 4);
	ck_assert_uint_eq(lines.lost, 0);
}

UNIT_FIXTURE(setup, teardown)
