/* SPDX-License-Identifier: Apache-2.0 */
#include "room.h"

#include <stdlib.h>
#include <string.h>

void room_release(struct room *room)
{
	free(room->pieces);
}

/* Index of the first piece at or after OFF. */
static size_t piece_after(const struct room *room, uint64_t off)
{
	size_t lo = 0, hi = room->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (room->pieces[mid].off < off)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void piece_remove(struct room *room, size_t i)
{
	memmove(room->pieces + i, room->pieces + i + 1,
		(room->n - i - 1) * sizeof(*room->pieces));
	room->n--;
}

static bool piece_insert(struct room *room, size_t i, struct piece piece)
{
	if (room->n == room->cap) {
		size_t cap = room->cap ? room->cap * 2 : 64;
		struct piece *p = realloc(room->pieces, cap * sizeof(*p));

		if (!p)
			return false;
		room->pieces = p;
		room->cap = cap;
	}
	memmove(room->pieces + i + 1, room->pieces + i,
		(room->n - i) * sizeof(*room->pieces));
	room->pieces[i] = piece;
	room->n++;
	return true;
}

bool room_add(struct room *room, uint64_t off, uint64_t len, bool warm)
{
	size_t i = piece_after(room, off);
	struct piece *prev = i ? &room->pieces[i - 1] : NULL;
	struct piece *next = i < room->n ? &room->pieces[i] : NULL;

	if (prev && prev->off + prev->len == off && prev->warm == warm) {
		prev->len += len;
		if (next && next->off == prev->off + prev->len && next->warm == warm) {
			prev->len += next->len;
			piece_remove(room, i);
		}
	} else if (next && off + len == next->off && next->warm == warm) {
		next->off = off;
		next->len += len;
	} else if (!piece_insert(room, i, (struct piece){ off, len, warm })) {
		return false;
	}
	if (warm)
		room->warm += len;
	return true;
}

/* Take LEN bytes from the start of piece I. */
static uint64_t piece_cut(struct room *room, size_t i, uint64_t len)
{
	struct piece *p = &room->pieces[i];
	uint64_t off = p->off;

	if (p->warm)
		room->warm -= len;
	p->off += len;
	p->len -= len;
	if (!p->len)
		piece_remove(room, i);
	return off;
}

bool room_take(struct room *room, uint64_t len, bool warm, uint64_t *ret)
{
	size_t best = room->n;

	for (size_t i = 0; i < room->n; i++)
		if (room->pieces[i].warm == warm && room->pieces[i].len >= len &&
		    (best == room->n || room->pieces[i].len < room->pieces[best].len))
			best = i;
	if (best == room->n)
		return false;
	*ret = piece_cut(room, best, len);
	return true;
}

bool room_take_at(struct room *room, uint64_t off, uint64_t len)
{
	size_t i = piece_after(room, off);

	if (i == room->n || room->pieces[i].off != off || room->pieces[i].len < len)
		return false;
	piece_cut(room, i, len);
	return true;
}

uint64_t room_take_warm(struct room *room, uint64_t len, uint64_t *ret)
{
	size_t best = room->n;

	for (size_t i = 0; i < room->n; i++)
		if (room->pieces[i].warm &&
		    (best == room->n || room->pieces[i].len > room->pieces[best].len))
			best = i;
	if (best == room->n)
		return 0;
	if (len > room->pieces[best].len)
		len = room->pieces[best].len;
	*ret = piece_cut(room, best, len);
	return len;
}
