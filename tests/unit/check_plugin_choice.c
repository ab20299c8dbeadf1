/* SPDX-License-Identifier: Apache-2.0 */
/* Which plugins the command line means, and what it asks about them. */
#include "options_fixture.h"

START_TEST(plugins_are_asked_about)
{
	struct pf_discovery *d;
	struct options o;
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(
		parse("--list-plugins --json --plugin one=file --plugin ./plugins/flat.so "
		      "--plugin-dir other --timeout 7",
		      &o, &err) == 0,
		"%s", err.text);
	ck_assert(o.list_plugins && o.json && !o.check_plugin);
	ck_assert_uint_eq(o.timeout_s, 7);
	ck_assert_ptr_null(o.mountpoint);
	ck_assert_uint_eq(o.n_plugins, 0);
	ck_assert_int_eq(plugin_choice_list(&o, &d, &err), 0);
	ck_assert_uint_gt(d->n_files, 4);
	ck_assert_str_eq(d->files[0].name, "flat");
	ck_assert_str_eq(d->files[1].name, "one");
	ck_assert_str_eq(d->files[2].name, "cpu");
	ck_assert_ptr_nonnull(strstr(d->files[2].path, "/other/cpu.so"));
	pf_discovery_free(d);
	options_release(&o);
	ck_assert_msg(parse("--check-plugin gpu", &o, &err) == 0, "%s", err.text);
	ck_assert_str_eq(o.check_plugin, "gpu");
	ck_assert_str_eq(shown_plugins(&o), GPU);
	options_release(&o);
	ck_assert_msg(parse("--check-plugin x=plugins/flat.so", &o, &err) == 0, "%s",
		      err.text);
	ck_assert_str_eq(shown_plugins(&o), "x=plugins/flat.so");
	options_release(&o);
}
END_TEST

/* Who has told others of a plugin has told us, but not what is loaded by default. */
START_TEST(plugins_of_others_have_their_turn)
{
	char list[PATH_MAX];
	struct options o;
	struct pf_err err = PF_ERR_INIT;

	snprintf(list, sizeof(list), "jax:%s/file,cpu:%s/other/cpu.so", dir, dir);
	unsetenv("PJRTFS_PLUGIN_PATH");
	setenv("PJRT_NAMES_AND_LIBRARY_PATHS", list, 1);
	ck_assert_int_eq(parse("jax,cpu m", &o, &err), 0);
	ck_assert_str_eq(shown_plugins(&o), "jax=file cpu=other/cpu.so");
	options_release(&o);
	ck_assert_int_eq(parse("m", &o, &err), -ENOENT);
	options_release(&o);
	setenv("PJRTFS_PLUGIN_PATH", "plugins", 1);
	ck_assert_int_eq(parse("m", &o, &err), 0);
	ck_assert_str_eq(shown_plugins(&o), CPU);
	options_release(&o);
	unsetenv("PJRT_NAMES_AND_LIBRARY_PATHS");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plugin_choice");
	TCase *tc = tcase_create("core");

	tcase_add_checked_fixture(tc, make_files, remove_files);
	tcase_add_test(tc, plugins_are_asked_about);
	tcase_add_test(tc, plugins_of_others_have_their_turn);
	suite_add_tcase(s, tc);
	return unit_run(s);
}
