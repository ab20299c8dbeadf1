/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that an instance of a worker compiles, for tests of the engine. */
#ifndef PJRTFS_TESTS_UNIT_COMPILE_FIXTURE_H
#define PJRTFS_TESTS_UNIT_COMPILE_FIXTURE_H

#include "engine_fixture.h"

#include "pjrtfs/shm.h"
#include "pjrtfs/wire.h"

/* CompileOptionsProto: executable_build_options { num_replicas: 1 num_partitions: 1 }. */
static const char one_device[] = { 0x1a, 0x04, 0x20, 0x01, 0x28, 0x01 };

static inline struct pf_extent extent(uint64_t len)
{
	struct pf_extent e;

	ck_assert_int_eq(pf_arena_alloc(arena, len, &e, NULL), 0);
	return e;
}

/* Have INSTANCE compile TEXT, which is put into PROGRAM; the executable's id. */
static inline uint64_t start_compile(struct pf_instance *instance, struct question *q,
				     const char *text, const struct pf_extent *program)
{
	struct pf_req_compile req = { .head.op = PF_OP_COMPILE,
				      .id = pf_worker_id(worker),
				      .program_off = program->off,
				      .program_len = strlen(text),
				      .format = "mlir",
				      .options_len = sizeof(one_device) };

	memcpy(pf_arena_at(arena, program->off), text, strlen(text));
	ck_assert_int_eq(pf_instance_call(instance,
					  question_init(q, sizeof(struct pf_rep_compile)),
					  &req, sizeof(req), one_device,
					  sizeof(one_device), NULL),
			 0);
	return req.id;
}

/* The id of TEXT, compiled. */
static inline uint64_t compile(struct pf_instance *instance, const char *text)
{
	struct pf_extent program = extent(strlen(text));
	struct question q;
	uint64_t id = start_compile(instance, &q, text, &program);

	event_wait(&q.answered);
	ck_assert_msg(q.code == 0, "%s", q.err.text);
	pf_instance_free_block(instance, ((struct pf_rep_compile *)q.reply)->info_off);
	pf_arena_give(arena, &program);
	return id;
}

#endif
