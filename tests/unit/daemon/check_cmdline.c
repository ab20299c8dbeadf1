/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: every option, every refusal, what mount(8) passes. */
#include "options_fixture.h"

static const char *shown_fuse(void)
{
	static char text[1024];

	*text = '\0';
	for (char **word = o.fuse.at; word && *word; word++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s",
			 *text ? "," : "", *word);
	return text;
}

static const struct {
	const char *line, *plugins, *source, *fuse;
	bool foreground, debug;
} good[] = {
	{ "m", CPU, "cpu", "", 0, 0 },
	{ "-f m", CPU, "cpu", "", 1, 0 },
	{ "-d m", CPU, "cpu", "", 1, 1 },
	{ "-fd m", CPU, "cpu", "", 1, 1 },
	{ "m --foreground --debug", CPU, "cpu", "", 1, 1 },
	{ "cpu m", CPU, "cpu", "", 0, 0 },
	{ "gpu -f m", GPU, "gpu", "", 1, 0 },
	{ "gpu,cpu m", GPU " " CPU, "gpu,cpu", "", 0, 0 },
	{ "-- cpu m", CPU, "cpu", "", 0, 0 },
	{ "-f -- m", CPU, "cpu", "", 1, 0 },
	{ "flat m", "flat=plugins/flat.so", "flat", "", 0, 0 },
	{ "plugins/flat.so m", "flat=plugins/flat.so", "plugins/flat.so", "", 0, 0 },
	{ "./plugins/cpu/pjrt_plugin.so m", CPU, "./plugins/cpu/pjrt_plugin.so", "", 0,
	  0 },
	{ "mine=plugins/flat.so m", "mine=plugins/flat.so", "mine=plugins/flat.so", "", 0,
	  0 },
	{ "./file m", "file=file", "./file", "", 0, 0 },
	{ "--plugin gpu m", GPU, "gpu", "", 0, 0 },
	{ "--plugin=gpu --plugin=cpu m", GPU " " CPU, "gpu", "", 0, 0 },
	{ "--plugin a=plugins/flat.so --plugin b=plugins/flat.so m",
	  "a=plugins/flat.so b=plugins/flat.so", "a", "", 0, 0 },
	{ "cpu m --plugin gpu", CPU " " GPU, "cpu", "", 0, 0 },
	{ "--plugin-dir other m", "cpu=other/cpu.so", "cpu", "", 0, 0 },
	{ "--plugin-dir=other --plugin-dir=plugins cpu,gpu m", "cpu=other/cpu.so " GPU,
	  "cpu,gpu", "", 0, 0 },
	{ "--plugin-dir /none m", CPU, "cpu", "", 0, 0 },
	{ "m -o allow_other", CPU, "cpu", "allow_other", 0, 0 },
	{ "m -o allow_other,ro -o auto_unmount", CPU, "cpu",
	  "allow_other,ro,auto_unmount", 0, 0 },
	{ "m -oro", CPU, "cpu", "ro", 0, 0 },
	{ "m -o ,,ro,,", CPU, "cpu", "ro", 0, 0 },
	{ "m -o rw,noexec,nosuid,nodev,dev,suid", CPU, "cpu",
	  "rw,noexec,nosuid,nodev,dev,suid", 0, 0 },
	{ "cpu m -o rw,defaults,user,noauto,_netdev,nofail,x-systemd.automount,comment=hi,"
	  "user=me,uhelper=x,relatime,owner,group,nousers",
	  CPU, "cpu", "rw", 0, 0 },
	{ "m -o plugin=gpu", GPU, "gpu", "", 0, 0 },
	{ "m -o plugin=x=plugins/flat.so,ro,plugin=gpu", "x=plugins/flat.so " GPU, "x",
	  "ro", 0, 0 },
	{ "m -o plugin_dir=other", "cpu=other/cpu.so", "cpu", "", 0, 0 },
	{ "m -o fsname=a,subtype=b,max_read=4096", CPU, "cpu",
	  "fsname=a,subtype=b,max_read=4096", 0, 0 },
};

TEST_EACH(a_good_line_is_understood, good)
{
	ck_assert_msg(parse(good[_i].line) == 0, "%s", err.text);
	ck_assert_str_eq(shown_plugins(), good[_i].plugins);
	ck_assert_str_eq(o.source ? o.source : o.plugins[0].name, good[_i].source);
	ck_assert_str_eq(shown_fuse(), good[_i].fuse);
	ck_assert_int_eq(o.foreground, good[_i].foreground);
	ck_assert_int_eq(o.debug, good[_i].debug);
	ck_assert(!o.help && !o.version);
	ck_assert_int_eq(o.mountpoint[0], '/');
	ck_assert_str_eq(strrchr(o.mountpoint, '/'), "/m");
	ck_assert_uint_gt(o.memory_limit, 1 << 20);
	options_release(&o);
	ck_assert_ptr_null(o.mountpoint);
	options_release(&o);
}

static const struct {
	const char *line;
	int code;
	const char *why; /* in the sentence */
} bad[] = {
	{ "", -EINVAL, "expected [SOURCE] MOUNTPOINT; see --help" },
	{ "-f", -EINVAL, "expected [SOURCE] MOUNTPOINT; see --help" },
	{ "cpu m extra", -EINVAL, "no third word 'extra'; see --help" },
	{ "-- cpu m -f", -EINVAL, "no third word '-f'; see --help" },
	{ "nowhere", -ENOENT,
	  "mount point nowhere: No such file or directory; expected [SOURCE] MOUNTPOINT" },
	{ "m/deep/er", -ENOENT, "mount point m/deep/er: No such file or directory" },
	{ "cpu nowhere", -ENOENT,
	  "mount point nowhere: No such file or directory; mkdir" },
	{ "./nodir cpu", -ENOENT, "; the plugin comes first: pjrtfs cpu ./nodir" },
	{ "-u m", -EINVAL, "unknown option -u; a mount ends with: fusermount3 -u" },
	{ "--unmount m", -EINVAL, "unknown option --unmount; a mount ends with" },
	{ "--status --json m", -EINVAL,
	  "--status needs an argument: MOUNT, found the option --json" },
	{ "m --cache-dir --no-cache", -EINVAL,
	  "--cache-dir needs an argument: DIR, found the" },
	{ "umount m", -EINVAL, "found umount; a mount ends with: fusermount3 -u m" },
	{ "unmount", -EINVAL, "found unmount; a mount ends with: fusermount3 -u MOUNT" },
	{ "help", -ENOENT,
	  "mount point help: No such file or directory; did you mean "
	  "pjrtfs --help?" },
	{ "version", -ENOENT, "; did you mean pjrtfs --version?" },
	{ "cpu /", -EINVAL,
	  "mount point /: expected a directory for the mount, found one "
	  "that the system needs" },
	{ "cpu /usr/", -EINVAL, "mount point /usr: expected" },
	{ "cpu /usr/../proc", -EINVAL, "mount point /proc: expected" },
	{ "-x m", -EINVAL, "unknown option -x; see --help" },
	{ "-fx m", -EINVAL, "unknown option -" },
	{ "m -xf", -EINVAL, "unknown option -x" },
	{ "--nope=1 m", -EINVAL, "unknown option --nope=1; see --help" },
	{ "--help=1 m", -EINVAL, "--help" },
	{ "m -o", -EINVAL, "-o needs an argument" },
	{ "m --plugin", -EINVAL, "--plugin needs an argument: [NAME=]PATH" },
	{ "none m", -ENOENT,
	  "plugin none: not found: looked for none/pjrt_plugin.so and none.so in "
	  "$PJRTFS_PLUGIN_PATH and /nowhere/built-in" },
	{ "--plugin-dir other none m", -ENOENT, "in other, $PJRTFS_PLUGIN_PATH and" },
	{ "--plugin-dir /none none m", -ENOENT,
	  "in /none (No such file or directory), $PJRTFS_PLUGIN_PATH and" },
	{ "m --plugin ./a.so --plugin /b.so", -ENOENT, "plugin a: ./a.so: No such file" },
	{ "/no/such.so m", -ENOENT,
	  "plugin such: /no/such.so: No such file or directory" },
	{ "cpu,,gpu m", -EINVAL, "SOURCE cpu,,gpu has an empty name" },
	{ "cpu, m", -EINVAL, "SOURCE cpu, has an empty name" },
	{ "cpu,cpu m", -EINVAL,
	  "two plugins are called cpu: name one with --plugin NAME=PATH" },
	{ "cpu m --plugin cpu=plugins/flat.so", -EINVAL, "two plugins are called cpu" },
	{ "=plugins/flat.so m", -EINVAL, "plugin name : expected up to 32 letters" },
	{ ".x=plugins/flat.so m", -EINVAL,
	  "plugin name .x: expected up to 32 letters, digits, '.', '_' and '-', the first of "
	  "them not '.'" },
	{ "a:b=plugins/flat.so m", -EINVAL,
	  "plugin name a:b: expected up to 32 letters" },
	{ "a123456789012345678901234567890123=plugins/flat.so m", -EINVAL,
	  "expected up to 32" },
	{ "a:b m", -EINVAL, "plugin name a:b: expected up to 32 letters" },
	{ "m -o memory_limit=x", -EINVAL,
	  "memory limit: expected a size from 1M on, as in 4G, "
	  "found x" },
	{ "m -o remount,ro", -EINVAL,
	  "remount: a mount's options cannot be changed; unmount it, and mount it with "
	  "the others" },
	{ "m --mode 1778", -EINVAL,
	  "mode: expected an octal mode with all rights for the owner, as in 1777 or "
	  "2775, found 1778" },
	{ "m --mode=0177", -EINVAL, "found 0177" },
	{ "m -o mode=", -EINVAL, "mode: expected an octal mode" },
	{ "m --mode 17777", -EINVAL, "found 17777" },
	{ "m --group nobody-at-all", -EINVAL,
	  "group: expected a group's name or number, found nobody-at-all" },
	{ "m -o group=", -EINVAL, "group: expected" },
	{ "m -o plugin=none", -ENOENT, "plugin none: not found" },
	{ "m --cache-dir=", -EINVAL, "cache dir: expected a path" },
	{ "m --cache-size 1X", -EINVAL,
	  "cache size: expected a size in bytes, as in 512M or 2G, or the word max, found 1X" },
	{ "m --no-cache=1", -EINVAL, "--no-cache" },
	{ "m --compile-jobs 0", -EINVAL,
	  "compile jobs: expected a number from 1 to 32, found 0" },
	{ "m --compile-jobs 33", -EINVAL, "compile jobs: expected" },
	{ "m --compile-jobs 2x", -EINVAL, "compile jobs: expected" },
	{ "m --compile-timeout 0", -EINVAL,
	  "compile timeout in seconds: expected a number from 1 to 604800, found 0" },
	{ "m --start-timeout 0", -EINVAL,
	  "start timeout in seconds: expected a number from 1 to 604800, found 0" },
	{ "m --start-timeout 604801", -EINVAL, "start timeout in seconds: expected" },
	{ "m --abandoned-timeout 604801", -EINVAL,
	  "abandoned timeout in seconds: expected a number from 0 to 604800, found 604801" },
	{ "--list-plugins m", -EINVAL,
	  "expected no word beside --list-plugins, found 'm'" },
	{ "--check-plugin cpu m", -EINVAL,
	  "expected no word beside --check-plugin's, found 'm'" },
	{ "--list-plugins --check-plugin cpu", -EINVAL, "expected one of --list" },
	{ "--status m --list-plugins", -EINVAL, "expected one of --list" },
	{ "--status m n", -EINVAL, "no word beside --status's, found 'n'" },
	{ "--check-plugin none", -ENOENT, "plugin none: not found" },
	{ "--check-plugin /no/such.so", -ENOENT,
	  "plugin such: /no/such.so: No such file" },
	{ "m --json", -EINVAL,
	  "--json is for --list-plugins, --check-plugin, --estimate and --status" },
	{ "m --timeout 5", -EINVAL,
	  "--timeout is for --list-plugins, --check-plugin, --estimate and --status" },
	{ "--estimate v5e:2x2", -EINVAL, "PROGRAM beside --estimate, found no words" },
	{ "--estimate v5e:2x2 a b c", -EINVAL, "beside --estimate, found three words" },
	{ "--estimate v5e:2x2 m --status m", -EINVAL, "expected one of --list" },
	{ "--list-plugins --timeout 3601", -EINVAL,
	  "timeout in seconds: expected a number from 1 to 3600, found 3601" },
	{ "empty m", -ENOENT, "plugin empty: " },
	{ "m --plugin-option a=4", -EINVAL, "expected NAME:KEY=VALUE, found a=4" },
	{ "m --plugin-option :a=4", -EINVAL, "plugin name : expected up to 32" },
	{ "m --plugin-option cpu:=4", -EINVAL, "expected KEY=VALUE" },
	{ "m --plugin-option cpu:a:int=4", -EINVAL,
	  "plugin option: option a: expected the type int64, string" },
	{ "m --plugin-option gpu:a=4", -EINVAL,
	  "options for plugin gpu, which is not loaded: expected one of cpu" },
	{ "cpu,flat m --plugin-env gpu:A=4", -EINVAL, "expected one of cpu, flat" },
	{ "m --plugin-env cpu:A", -EINVAL,
	  "plugin env: expected NAME:KEY=VALUE, found cpu:A" },
	{ "m --plugin-log-level x", -EINVAL,
	  "plugin log level: expected a number from 0 to 4, found x" },
	{ "m --compile-option num_replicas=x", -EINVAL,
	  "compile option: option num_replicas: expected an integer of 1 or more, found" },
	{ "m --compile-option nope=1", -EINVAL,
	  "compile option: unknown option \"nope\"" },
	{ "m --config none.json", -ENOENT,
	  "read the configuration none.json: No such file or directory" },
	{ "--dump-config a b c", -EINVAL, "no third word 'c'; see --help" },
};

TEST_EACH(a_bad_line_is_refused, bad)
{
	ck_assert_int_eq(parse(bad[_i].line), bad[_i].code);
	ck_assert_int_eq(err.code, bad[_i].code);
	ck_assert_msg(strstr(err.text, bad[_i].why) != NULL, "%s", err.text);
}

static const struct {
	const char *line;
	bool help, version;
} asked[] = {
	{ "--help", true, false },           { "-h", true, false },
	{ "--version", false, true },        { "-V", false, true },
	{ "a b c d e --help", true, false }, { "no-such-plugin nowhere -V", false, true },
};

TEST_EACH(help_needs_no_other_argument, asked)
{
	ck_assert_msg(parse(asked[_i].line) == 0, "%s", err.text);
	ck_assert_int_eq(o.help, asked[_i].help);
	ck_assert_int_eq(o.version, asked[_i].version);
	ck_assert_ptr_null(o.mountpoint);
}

static const struct {
	const char *form; /* of one more */
	int n, code;
	const char *why;
} many[] = {
	{ "--plugin=p%d=file ", 16, 0, "" },
	{ "--plugin=p%d=file ", 17, -EINVAL, "more than 16 plugins" },
	{ "--plugin-dir=%d ", 17, -EINVAL, "more than 16 plugin" },
	{ "-oplugin=p%d=file ", 16, 0, "" },
	{ "-oplugin=p%d=file ", 17, -EINVAL, "more than 16 plugins" },
	{ "-oplugin_dir=%d ", 17, -EINVAL, "more than 16 plugin" },
	{ "-omax_read=%d,a,b ", 21, 0, "" },
	{ "-omax_read=%d,a,b ", 22, -EINVAL, "more than 64 mount options" },
};

TEST_EACH(there_are_limits, many)
{
	char line[4096] = "";

	for (int i = 0; i < many[_i].n; i++)
		sprintf(line + strlen(line), many[_i].form, i);
	strcat(line, "m");
	ck_assert_int_eq(parse(line), many[_i].code);
	ck_assert_msg(strstr(err.text, many[_i].why) != NULL, "%s", err.text);
}

UNIT_FIXTURE(make_files, remove_files)
