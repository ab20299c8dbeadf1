/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of events; names that front ends may keep. */
#include "vfs_driver.h"

#include <poll.h>

#include "files_fixture.h"

static uint64_t events;

static void begin(void)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;

	set_up();
	ck_assert_int_eq(files_add_events(fs), 0);
	node = pf_dir_lookup(pf_tree_root(fs->tree), "events");
	events = node->ino;
}

/* --- events ----------------------------------------------------------------------------- */

static struct pf_open *open_events(const struct pf_cred *cred)
{
	struct pf_open *of;

	ck_assert_int_eq(open_by(fs->tree, events, O_RDONLY, cred, &of), 0);
	return of;
}

static void report(void)
{
	files_report(devices[0].buffers, "told", NULL);
}

/* How many bytes OF gives at OFF. */
static ssize_t read_at(struct pf_open *of, uint64_t off)
{
	struct answer a;

	pf_vfs_read(of, 1 << 16, off, answer_begin(&a));
	return answer_take(&a);
}

TEST(a_reader_of_events_is_woken)
{
	struct pf_open *of = open_events(&owner);
	const struct pf_kind *kind = of->node->kind;
	ssize_t len = read_at(of, 0);

	ck_assert_int_eq(kind->poll(of), 0);
	report();
	ck_assert_int_eq(kind->poll(of), POLLIN);
	ck_assert_int_gt(read_at(of, (uint64_t)len), 0);
	ck_assert_int_eq(kind->poll(of), 0);
	pf_vfs_release(of);
}

TEST(events_of_others_are_not_seen)
{
	struct pf_open *of = open_events(&other);
	struct stat st;

	report();
	ck_assert_int_eq(read_at(of, 0), 0);
	ck_assert_int_eq(pf_vfs_getattr(fs->tree, events, &other, of, &st), 0);
	ck_assert_int_eq(st.st_size, 0);
	pf_vfs_release(of);
}

TEST(a_reader_of_an_earlier_life_goes_on_with_this_one)
{
	struct pf_open *before = open_events(&owner), *now = open_events(&owner);
	ssize_t all = read_at(now, 0);

	report();
	before->reopened = true;
	ck_assert_int_gt(read_at(before, 1 << 20), all);
	ck_assert_int_eq(read_at(now, 1 << 20), 0);
	pf_vfs_release(before);
	pf_vfs_release(now);
}

/* --- links ------------------------------------------------------------------------------ */

static bool is_added(const char *name)
{
	return !strcmp(name, "added");
}

/* May the directory of plugin NAME be removed, in a mount whose plugins CHANGE? */
static const struct {
	const char *name;
	bool change, keeps;
} links[] = {
	{ "cpu", false, true },
	{ "cpu", true, true },
	{ "added", false, true },
	{ "added", true, false },
};

TEST_EACH(a_front_end_keeps_names_that_stay, links)
{
	struct pf_plugin_ops ops = { .can_change = links[_i].change,
				     .is_added = is_added };
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;

	fs->config.plugins = &ops;
	ck_assert_int_eq(files_link_plugin(pf_tree_root(fs->tree), links[_i].name,
					   &kind_top, NULL, &node),
			 0);
	ck_assert_int_eq(!!(pf_vfs_keeps(fs->tree, node->ino) & PF_KEEP_NAME),
			 links[_i].keeps);
	fs->config.plugins = NULL;
}

UNIT_FIXTURE(begin, tear_down)
