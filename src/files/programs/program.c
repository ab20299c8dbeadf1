/* SPDX-License-Identifier: Apache-2.0 */
/* A program: it and its executable, the inputs that users have bound, and its end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "pjrtfs/state.h"

enum { PROGRAM_HEAP = 20480 }; /* bytes that a program and its executable take */

int program_of_executable(struct pf_fs *fs, const struct home *home, uid_t owner,
			  struct pf_executable *x, bool forced, struct program **ret,
			  struct pf_err *err)
{
	struct pf_account *account = files_account(fs, owner);
	struct program *program = x ? calloc(1, sizeof(*program)) : NULL;
	int r;

	if (!program) {
		pf_executable_unref(x);
		return pf_err_set(err, -ENOMEM, "no memory for a program");
	}
	atomic_init(&program->refs, 1);
	program->fs = fs;
	program->home = home;
	program->x = x;
	pf_executable_charge_to(x, account);
	r = pf_file_charge(&program->charge, fs->config.arena, account, PF_PROGRAMS,
			   PROGRAM_HEAP, forced, err);
	if (r < 0)
		program_unref(program);
	else
		*ret = program;
	return r;
}

struct pf_executable_config program_config(const struct pf_fs *fs,
					   const struct home *home)
{
	return (struct pf_executable_config){ .workers = home->workers,
					      .n_workers = fs->n_workers,
					      .arena = home->arena,
					      .compiler = fs->config.compiler,
					      .timers = fs->timers };
}

int program_new(struct pf_fs *fs, uid_t user, struct program **ret, struct pf_err *err)
{
	PF_CLEANUP(files_leave_homep) const struct home *home = NULL;
	struct pf_executable_config config;
	int r = files_home(fs, user, &home, err);

	if (r < 0)
		return r;
	config = program_config(fs, home);
	return program_of_executable(fs, home, user, pf_executable_new(&config, user),
				     false, ret, err);
}

void program_charge_to(struct program *program, uid_t uid)
{
	struct pf_account *account = files_account(program->fs, uid);

	pf_executable_charge_to(program->x, account);
	pf_file_charge_move(&program->charge, account);
}

void program_save(const struct pf_node *node)
{
	const struct program *program = node->object;
	const struct program_record r = { pf_executable_number(program->x),
					  pf_executable_user(program->x) };
	pf_autobuf struct pf_buf text = PF_BUF_INIT;

	for (const struct binding *b = program->bindings; b; b = b->next)
		pf_buf_printf(&text, "%u %s\n", b->uid, b->line);
	pf_state_put(PF_STATE_OBJECT, node->ino, &r, sizeof(r), text.data, text.len);
}

/* Where the binding of UID is linked, or the end of the list. */
static struct binding **find_binding(struct program *program, uid_t uid)
{
	struct binding **at = &program->bindings;

	while (*at && (*at)->uid != uid)
		at = &(*at)->next;
	return at;
}

int program_add_binding(struct program *program, uid_t uid, const char *line, size_t len,
			struct pf_err *err)
{
	struct binding **at = find_binding(program, uid), *old = *at, *b = NULL;
	unsigned n = 0;

	for (const struct binding *i = program->bindings; i; i = i->next)
		n++;
	if (!old && len && n == BIND_USERS)
		return pf_err_set(err, -EUSERS,
				  "%u users have bound inputs of the program already", n);
	if (len && !(b = malloc(sizeof(*b) + len + 1)))
		return pf_err_set(err, -ENOMEM, "no memory for a binding");
	if (b) {
		b->uid = uid;
		memcpy(b->line, line, len);
		b->line[len] = '\0';
		b->next = old ? old->next : NULL;
		*at = b;
	} else if (old) {
		*at = old->next;
	}
	free(old);
	atomic_fetch_add(&program->rebindings, 1);
	return 0;
}

int program_bind(struct program *program, uid_t uid, const char *line, size_t len,
		 struct pf_err *err)
{
	const struct pf_node *node;
	int r;

	PF_NAMES_SCOPE(program->fs->tree);
	r = program_add_binding(program, uid, line, len, err);
	node = program->node ? program->node : program->executable;
	if (r == 0 && node)
		program_save(node);
	return r;
}

void program_binding(struct program *program, uid_t uid, struct pf_buf *ret)
{
	const struct binding *b;

	PF_NAMES_SCOPE(program->fs->tree);
	b = *find_binding(program, uid);
	if (b)
		pf_buf_puts(ret, b->line);
}

char *program_options(struct program *program)
{
	struct pf_buf text = PF_BUF_INIT;

	pf_executable_options(program->x, &text);
	if (text.failed || !text.len)
		pf_buf_release(&text);
	return text.data;
}

static void program_free(struct program *program)
{
	pf_file_discharge(&program->charge);
	pf_executable_unref(program->x);
	while (program->bindings)
		(void)program_add_binding(program, program->bindings->uid, "", 0, NULL);
	free(program);
}

PF_DEFINE_REF(struct program, program, program_free)

void program_node_free(struct pf_node *node)
{
	program_unref(node->object);
}

/* Either this function sees the open file, or source_open sees the dead program. */
static void free_source(struct program *program)
{
	atomic_store(&program->dead, true);
	if (atomic_load(&program->opens))
		return;
	pf_tree_write(program->fs->tree);
	pf_executable_discard(program->x);
	pf_file_discharge(&program->charge);
}

void program_removed(struct program *program)
{
	atomic_store(&program->removed, true);
	if (!atomic_load(&program->opens))
		free_source(program);
}

void program_leave(struct program *program)
{
	if (atomic_fetch_sub(&program->opens, 1) == 1 && atomic_load(&program->removed))
		free_source(program);
}
