/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: which are read, which are refused. */
#include "daemon/internal.h"

#include <errno.h>

#include "quoted.h"
#include "work_dir.h"

static struct options o; /* of the last read_config */
static struct pf_err err;

static void set_up(void)
{
	work_dir_begin();
	make_dirs("home/.config/");
	setenv("HOME", "/nonexistent", 1);
	unsetenv("XDG_CONFIG_HOME");
	umask(022);
}

/* The user's configuration is the one in home/. */
static void have_home(void)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/home", work_dir);
	setenv("HOME", path, 1);
}

/* Put TEXT, with ' for ", into PATH. */
static void put_json(const char *path, const char *text)
{
	put_file(path, quoted(text));
}

static const char *member(struct json_object *json, const char *key)
{
	return pf_json_text(json_object_object_get(json, key));
}

static int read_config(const char *file)
{
	options_release(&o);
	options_init(&o);
	return config_read(&o, file, &err);
}

TEST(later_files_override)
{
	struct json_object *dump;

	have_home();
	ck_assert_int_eq(read_config(NULL), 0); /* none is there */
	put_json("system.json", "{'compile_jobs':3,'devices':2,'plugin_dir':'/s',"
				"'plugins':[{'name':'a','log_level':2,'options':{'x':1,"
				"'y':1}},'b'],'debug_options':{'f':1,'g':1}}");
	put_json("home/.config/pjrtfs.json",
		 "{'devices':5,'plugin_dir':'/u','plugins':['b',{'name':'a',"
		 "'options':{'y':2,'z':3}}],'debug_options':{'g':2}}");
	ck_assert_msg(read_config(NULL) == 0, "%s", err.text);
	dump = options_dump(&o);
	ck_assert_uint_eq(o.compile_jobs, 3);
	ck_assert_uint_eq(o.settings.devices, 5);
	ck_assert_str_eq(member(dump, "plugin_dir"), quoted("['/u']"));
	ck_assert_str_eq(member(dump, "plugins"),
			 quoted("[{'name':'b'},{'name':'a','options':{'x':1,'y':2,"
				"'z':3},'log_level':2}]"));
	ck_assert_str_eq(member(dump, "compile_options"),
			 quoted("{'env_option_overrides':{'f':1,'g':2}}"));
	json_object_put(dump);
	/* A file of --config is the only one. */
	put_json("f.json", "{'compile_timeout':9}");
	ck_assert_int_eq(read_config("f.json"), 0);
	ck_assert_uint_eq(o.compile_timeout_s, 9);
	ck_assert_uint_eq(o.compile_jobs, 0);
	ck_assert_uint_eq(o.settings.devices, 0);
	/* The user's file may be elsewhere. */
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	ck_assert_int_eq(read_config(NULL), 0);
	ck_assert_uint_eq(o.settings.devices, 2);
	put_json("system.json", "{\n]");
	ck_assert_int_eq(read_config(NULL), -EINVAL);
	ck_assert_int_eq(strncmp(err.text, "system.json:2:1: ", 17), 0);
}

static const struct {
	const char *first, *second; /* files */
	const char *level;          /* of plugin a */
} levels[] = {
	{ "{'plugins':{'name':'a','log_level':1}}", "{}", "1" },
	{ "{'plugins':{'name':'a','log_level':1}}", "{'plugin_log_level':2}", "2" },
	{ "{'plugin_log_level':2}", "{'plugins':{'name':'a','log_level':1}}", "1" },
	{ "{'plugin_log_level':2,'plugins':{'name':'a','log_level':1}}", "{}", "1" },
	{ "{'plugins':{'name':'a','log_level':1,'env':{'TF_CPP_MIN_LOG_LEVEL':'3'}}}",
	  "{'plugin_log_level':2}", "3" },
};

TEST_EACH(the_last_log_level_applies, levels)
{
	struct pf_candidate p = { .name = strdup("a") };

	have_home();
	put_json("system.json", levels[_i].first);
	put_json("home/.config/pjrtfs.json", levels[_i].second);
	ck_assert_msg(read_config(NULL) == 0, "%s", err.text);
	ck_assert_int_eq(settings_attach(&o.settings, &p, false, &err), 0);
	ck_assert_str_eq(pf_json_get_string(p.env, "TF_CPP_MIN_LOG_LEVEL"),
			 levels[_i].level);
	candidate_release(&p);
}

TEST(files_writable_by_others_are_refused)
{
	put_json("f.json", "{'devices':2}");
	ck_assert_int_eq(chmod("f.json", 0664), 0);
	ck_assert_int_eq(read_config("f.json"), -EPERM);
	ck_assert_ptr_nonnull(strstr(err.text, "f.json can name plugins to run"));
	ck_assert_ptr_nonnull(strstr(err.text, "found mode 0664"));
	ck_assert_int_eq(chmod("f.json", 0602), 0);
	ck_assert_int_eq(read_config("f.json"), -EPERM);
	ck_assert_int_eq(chmod("f.json", 0644), 0);
	ck_assert_int_eq(read_config("f.json"), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(chown("f.json", 12345, 0), 0);
		ck_assert_int_eq(read_config("f.json"), -EPERM);
		ck_assert_ptr_nonnull(strstr(err.text, "found user 12345"));
	}
	/* An empty file sets no option. */
	ck_assert_int_eq(read_config("/dev/null"), 0);
}

TEST(unreadable_files_are_refused)
{
	static char text[PF_CONFIG_MAX + 2];

	ck_assert_int_eq(read_config("none.json"), -ENOENT);
	ck_assert_str_eq(err.text,
			 "read the configuration none.json: No such file or directory");
	ck_assert_int_eq(read_config("home"), -EISDIR);
	memset(text, ' ', sizeof(text) - 1);
	text[0] = '{';
	put_json("f.json", text);
	ck_assert_int_eq(read_config("f.json"), -EINVAL);
	ck_assert_str_eq(err.text, "f.json: expected at most 1048576 bytes");
	setenv("XLA_DEBUG_OPTIONS", "f.json", 1);
	ck_assert_int_eq(config_read_debug_options(&o, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.text, "expected at most 1048576 bytes"));
	unsetenv("XLA_DEBUG_OPTIONS");
}

UNIT_FIXTURE(set_up, work_dir_end)
