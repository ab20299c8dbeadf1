/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins that change at run time.
 *
 * The workers, the devices and the accounts of a mount never change while a daemon serves it.  So a
 * change is noted in the journal, and another daemon takes over, as after SIGUSR2: it starts the
 * plugins of the command line, with the create options of the journal, and then the journal's own.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"
#include "pjrtfs/base.h"
#include "pjrtfs/discover.h"
#include "pjrtfs/files.h"
#include "pjrtfs/json.h"
#include "pjrtfs/state.h"

/* --- the journal: {"name", "path", "options"}; path is null for one of the command line ----- */

/* The journal's records, by number; the journal itself is only read at the start, as another thread may
 * move them. */
static struct {
	pthread_mutex_t lock;                         /* rank 9; protects records */
	struct json_object *records[MAX_PLUGINS + 1]; /* owned, or NULL */
	/* Owned, or NULL: the records of the plugins that had a client, by number. */
	char *clients[MAX_PLUGINS + 1];
} noted = { .lock = PTHREAD_MUTEX_INITIALIZER };

static atomic_bool ending;

/* The number of the record of plugin NAME; if there is none, one that is free; 0: there are too many. */
static unsigned find_locked(const char *name)
{
	unsigned spare = 0;

	for (unsigned id = MAX_PLUGINS; id > 0; id--)
		if (!noted.records[id])
			spare = id;
		else if (!strcmp(pf_json_get_string(noted.records[id], "name"), name))
			return id;
	return spare;
}

/* Set record ID to RECORD, which is taken and whose text is TEXT; NULL removes the record. */
static void put_locked(unsigned id, struct json_object *record, const char *text)
{
	json_object_put(noted.records[id]);
	noted.records[id] = record;
	if (text)
		pf_state_put(PF_STATE_PLUGIN, id, text, strlen(text), NULL, 0);
	else
		pf_state_drop(PF_STATE_PLUGIN, id);
}

/* Is record ID there, and about a plugin that is not of the command line? */
static bool is_added_locked(unsigned id)
{
	return *pf_json_get_string(noted.records[id], "path");
}

/* Borrowed, or NULL. */
static struct json_object *options_of(struct json_object *record)
{
	return pf_json_get(record, "options", json_type_object);
}

/* Candidate P of the command line gets the options that the journal has for it. */
static int override_locked(struct pf_candidate *p, struct pf_err *err)
{
	struct json_object *record = noted.records[find_locked(p->name)];

	if (!record)
		return 0;
	return settings_replace_options(p, options_of(record), err);
}

/* Make *P of RECORD, which has a path. */
static int candidate_of(const struct options *o, struct json_object *record,
			struct pf_candidate *p, struct pf_err *err)
{
	struct json_object *options = options_of(record);
	int r;

	*p = (struct pf_candidate){ .name = strdup(pf_json_get_string(record, "name")),
				    .path = strdup(pf_json_get_string(record, "path")) };
	if (!p->name || !p->path)
		return pf_err_set(err, -ENOMEM, "no memory for a plugin");
	r = settings_attach(&o->settings, p, false, err);
	return r < 0 || !options ? r : settings_replace_options(p, options, err);
}

/* --- the plugins that had a client: one that is gone is an error, and no plugin that only compiles --- */

/* The number of the record of plugin NAME; 0: it had none. */
static unsigned find_client_locked(const char *name)
{
	for (unsigned id = 1; id <= MAX_PLUGINS; id++)
		if (noted.clients[id] && !strcmp(noted.clients[id], name))
			return id;
	return 0;
}

bool plugins_had_client(const char *name)
{
	PF_LOCK_SCOPE(&noted.lock);
	return find_client_locked(name) != 0;
}

void plugins_require_client(struct pf_worker_config *config)
{
	if (config->client == PF_CLIENT_OPTIONAL && plugins_had_client(config->name))
		config->client = PF_CLIENT_REQUIRED;
}

void plugins_note_client(const char *name)
{
	PF_LOCK_SCOPE(&noted.lock);
	if (find_client_locked(name))
		return;
	for (unsigned id = 1; id <= MAX_PLUGINS; id++) {
		if (noted.clients[id])
			continue;
		noted.clients[id] = strdup(name);
		pf_state_put(PF_STATE_CLIENT, id, name, strlen(name), NULL, 0);
		return;
	}
}

static void forget_client_locked(const char *name)
{
	unsigned id = find_client_locked(name);

	if (!id)
		return;
	free(pf_steal(&noted.clients[id]));
	pf_state_drop(PF_STATE_CLIENT, id);
}

int plugins_restore(struct options *o, struct pf_err *err)
{
	int r = 0;

	PF_LOCK_SCOPE(&noted.lock);
	for (unsigned id = 1; id <= MAX_PLUGINS; id++) {
		size_t len;
		const char *text = pf_state_get(PF_STATE_CLIENT, id, &len);

		noted.clients[id] = text ? strndup(text, len) : NULL;
		text = pf_state_get(PF_STATE_PLUGIN, id, &len);
		if (text && pf_json_parse(text, len, &noted.records[id], err) < 0)
			return pf_err_wrap(err, -EPROTO,
					   "the journal's record of a plugin");
	}
	for (unsigned i = 0; i < o->n_plugins && r == 0; i++)
		r = override_locked(&o->plugins[i], err);
	for (unsigned id = 1; id <= MAX_PLUGINS && r == 0; id++) {
		struct pf_candidate *p = &o->plugins[o->n_plugins];

		if (!is_added_locked(id) || o->n_plugins == MAX_PLUGINS)
			continue;
		r = candidate_of(o, noted.records[id], p, err);
		if (r == 0)
			o->n_plugins++;
		else
			candidate_release(p);
	}
	return r;
}

bool plugins_is_added(const char *name)
{
	PF_LOCK_SCOPE(&noted.lock);
	return is_added_locked(find_locked(name));
}

int plugins_note(const char *name, const char *path, struct json_object *options,
		 struct pf_err *err)
{
	struct json_object *record = json_object_new_object();
	const char *text;
	unsigned id;

	pf_json_add_string(record, "name", name);
	if (path)
		pf_json_add_string(record, "path", path);
	if (options)
		pf_json_add_copy(record, "options", options);
	text = record ? pf_json_text(record) : NULL;
	if (!text) {
		json_object_put(record);
		return pf_err_set(err, -ENOMEM, "no memory for a plugin");
	}
	PF_LOCK_SCOPE(&noted.lock);
	id = find_locked(name);
	if (id) {
		put_locked(id, record, text);
		return 0;
	}
	json_object_put(record);
	return pf_err_set(err, -ENOSPC, "a mount has at most %d plugins", MAX_PLUGINS);
}

void plugins_forget(const char *name)
{
	unsigned id;

	PF_LOCK_SCOPE(&noted.lock);
	id = find_locked(name);
	if (noted.records[id])
		put_locked(id, NULL, NULL);
	forget_client_locked(name);
}

void plugins_stop(void)
{
	atomic_store(&ending, true);
}

void plugins_end(void)
{
	for (unsigned id = 1; id <= MAX_PLUGINS; id++)
		json_object_put(pf_steal(&noted.records[id]));
	for (unsigned id = 1; id <= MAX_PLUGINS; id++)
		free(pf_steal(&noted.clients[id]));
}

/* --- a trial ----------------------------------------------------------------------------- */

/* The file that WORD, a path or the name of a plugin, means: the caller's. */
static char *find_file(const struct options *o, const char *word, struct pf_err *err)
{
	char *path = NULL;
	struct stat st;

	if (!strchr(word, '/'))
		return plugin_choice_find(o, word, &path, err) < 0 ? NULL : path;
	if (*word != '/')
		pf_err_set(err, -EINVAL,
			   "expected an absolute path, or the name of a plugin, found %s",
			   word);
	else if (!(path = realpath(word, NULL)) || stat(path, &st))
		pf_err_set(err, -errno, "%s: %s", word, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		pf_err_set(err, -EINVAL, "expected a plugin's file, found %s", word);
	else
		return path;
	free(path);
	return NULL;
}

/* The caller's objects go when the mount ends. */
void plugins_tried(void)
{
	while (atomic_load(&ending))
		pause();
}

int plugins_try(void *arg, const char *name, const char *word,
		struct json_object *options, char **ret_path, struct json_object **ret,
		struct pf_err *err)
{
	const struct served *s = arg;
	struct pf_candidate p = { .name = strdup(name) };
	struct pf_worker_config config;
	int r;

	*ret = NULL;
	p.path = find_file(s->options, word, err);
	if (!p.path || !p.name) {
		r = p.name ? err->code : pf_err_set(err, -ENOMEM, "no memory");
		candidate_release(&p);
		return r;
	}
	r = settings_attach(&s->options->settings, &p, false, err);
	if (r == 0 && options)
		r = settings_replace_options(&p, options, err);
	if (r == 0)
		r = plugin_choice_config(&p, &config, err);
	config.libraries = s->fs->libraries;
	plugin_choice_start_timeout(&config, s->options);
	if (r == 0) {
		plugins_require_client(&config);
		r = pf_inspect(&config, false, ret, err);
	}
	plugins_tried();
	if (r == 0)
		*ret_path = pf_steal(&p.path);
	candidate_release(&p);
	return r;
}

/* --- what there is ------------------------------------------------------------------------ */

static struct json_object *file_json(const struct pf_discovery *d,
				     const struct pf_plugin_file *f, const char *loaded)
{
	struct json_object *o = json_object_new_object();

	pf_json_add_string(o, "name", f->name);
	pf_json_add_string(o, "path", f->path);
	if (*f->version)
		pf_json_add_string(o, "version", f->version);
	if (*f->package)
		pf_json_add_string(o, "package", f->package);
	pf_json_add_string(o, "source", d->places[f->place].source);
	if (f->refused)
		pf_json_add_string(o, "refused", f->refused);
	if (loaded)
		pf_json_add_string(o, "plugin", loaded);
	return o;
}

int plugins_available(void *arg, struct pf_buf *out, struct pf_err *err)
{
	const struct options *o = ((const struct served *)arg)->options;
	PF_CLEANUP(pf_discovery_freep) struct pf_discovery *d = NULL;
	struct json_object *all = json_object_new_object();
	struct json_object *list = json_object_new_array();
	int r = plugin_choice_list(o, &d, err);

	for (unsigned i = 0; r == 0 && i < d->n_files; i++) {
		pf_autofree char *real = realpath(d->files[i].path, NULL);
		const char *loaded = NULL;

		for (unsigned k = 0; real && k < o->n_plugins; k++)
			if (!strcmp(o->plugins[k].path, real))
				loaded = o->plugins[k].name;
		pf_json_append(list, file_json(d, &d->files[i], loaded));
	}
	pf_json_add(all, "plugins", list);
	pf_json_print_line(all, out);
	json_object_put(all);
	return r;
}
