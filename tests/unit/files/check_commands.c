/* SPDX-License-Identifier: Apache-2.0 */
/* Commands at control: what is refused before a plugin is asked, batches, replies for people. */
#include "vfs_driver.h"

#include "files/commands/command.h"
#include "files_fixture.h"
#include "pjrtfs/json.h"
#include "quoted.h"
#include "sharding_text.h"

static uint64_t control, people; /* inode numbers */
static int reply_of_people;

static void answer_people(struct pf_command *command);

static const struct pf_kind kind_people = { .mode = S_IFREG | 0666,
					    PF_CONTROL,
					    .command = answer_people };

static uint64_t link_file(const char *name, const struct pf_kind *kind)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *node = NULL;

	ck_assert_int_eq(files_link(pf_tree_root(fs->tree), name, kind, NULL, &node), 0);
	return node->ino;
}

/* s.sharding.json, of a program that does not tell how it splits its results. */
static void make_sharding(void)
{
	struct sharded sh = { .dtype = PF_DTYPE_F32 };

	ck_assert_int_eq(parse_sharding("{'x':2}", "[]", "['cpu:0','cpu:1']", 0, &sh.s,
					NULL),
			 0);
	PF_NAMES_SCOPE(fs->tree);
	ck_assert_int_eq(files_put_sharding_locked(fs, "s", &owner, &sh, NULL), 0);
}

static void begin(void)
{
	set_up();
	control = link_file("control", &kind_control);
	people = link_file("people", &kind_people);
	make_sharding();
}

/* What CRED reads after writing TEXT to FILE; the caller's. */
static char *answer_to(uint64_t file, const struct pf_cred *cred, const char *text)
{
	struct pf_open *of;
	struct answer a;
	char *reply;

	ck_assert_int_eq(open_by(fs->tree, file, O_RDWR, cred, &of), 0);
	ck_assert_int_eq(write_by(pf_vfs_write, of, text, strlen(text), 0),
			 (ssize_t)strlen(text));
	pf_vfs_read(of, 1 << 16, 0, answer_begin(&a));
	ck_assert_int_gt(answer_wait(&a), 0);
	reply = strndup(a.data.data, a.data.len - 1);
	answer_end(&a);
	pf_vfs_release(of);
	return reply;
}

/* --- what is refused -------------------------------------------------------------------- */

#define ONE_EACH "one for each of \"buffers\", found "

static const struct {
	const char *text, *code, *why;
} refused[] = {
	/* keys of all commands */
	{ "{'op':'stat','async':1}", "EINVAL",
	  "\"async\": expected true or false, found int" },
	{ "{'op':'stat','timeout_ms':0}", "EINVAL",
	  "\"timeout_ms\": expected a whole number from 1 to 1000000000, found 0" },
	{ "{'op':'execute','timeout_ms':1,'repeat':0}", "EINVAL",
	  "execute: \"repeat\": expected a whole number from 1 to 1000000000, found 0" },
	{ "{'op':'settle','buffer':'x'}", "EINVAL",
	  "settle: unknown key \"buffer\": expected one of op, id, async, timeout_ms" },
	{ "{'op':'stat','buffer':'x','executable':'y'}", "EINVAL",
	  "stat: expected \"buffer\" or \"executable\", found both" },
	/* batches, and commands of several buffers */
	{ "{'op':'batch'}", "EINVAL", "batch: \"steps\": expected a list of commands" },
	{ "{'op':'batch','steps':[7]}", "EINVAL",
	  "batch: step 0: expected a JSON object" },
	{ "{'op':'batch','steps':[{'op':'delete','buffer':'ns/y'},{'op':'batch'}]}",
	  "EINVAL", "batch: step 1: a batch within a batch" },
	{ "{'op':'batch','steps':[{'op':'batch','steps':[],'async':true}]}", "EINVAL",
	  "batch: step 0: a batch within a batch" },
	{ "{'op':'delete','buffers':'x'}", "EINVAL",
	  "delete: \"buffers\": expected a list of names" },
	{ "{'op':'delete','buffers':['x',null]}", "EINVAL",
	  "delete: \"buffers\", element 1: found null" },
	{ "{'op':'delete','buffers':[7]}", "EINVAL",
	  "\"buffers\", element 0: delete: \"buffer\": expected a string, found int" },
	{ "{'op':'copy','buffer':'x','as':['y']}", "EINVAL",
	  "copy: \"as\": expected a string, found array" },
	{ "{'op':'delete','buffers':['x'],'buffer':'x'}", "EINVAL",
	  "delete: \"buffer\" and \"buffers\" exclude each other" },
	{ "{'op':'delete','buffers':['x'],'device':null}", "EINVAL",
	  "delete: \"device\": found null" },
	{ "{'op':'delete','buffers':['ns/y','none']}", "ENOENT",
	  "\"buffers\", element 1: delete: there is no buffer none" },
	{ "{'op':'copy','buffers':['x','y'],'as':'z'}", "EINVAL",
	  "copy: \"as\": expected a list of 2 names, " ONE_EACH "\"z\"" },
	{ "{'op':'copy','buffers':['x','y'],'as':['z']}", "EINVAL",
	  "copy: \"as\": expected 2 elements, " ONE_EACH "1" },
	{ "{'op':'copy','buffers':['x'],'as':[null]}", "EINVAL",
	  "copy: \"as\", element 0: found null" },
	{ "{'op':'shard','buffers':['x'],'as':['s'],'sharding':[]}", "EINVAL",
	  "shard: \"sharding\": expected 1 elements, " ONE_EACH "0" },
	/* arrays on several devices */
	{ "{'op':'gather','buffer':'x','as':'y'}", "ENOENT",
	  "gather: x is not an array on several devices: there is no x.sharding.json in "
	  "buffers/" },
	{ "{'op':'reshard','buffer':'s','as':'y'}", "EINVAL",
	  "reshard: how s is split is not known: the program that made it does not "
	  "tell" },
	{ "{'op':'reshard','buffer':'s','as':'y','device':'cpu:0'}", "EINVAL",
	  "reshard: unknown key \"device\" (did you mean \"devices\"?): expected one of "
	  "buffer, as, mesh, spec, sharding, devices, memory, op, id, async, timeout_ms" },
	{ "{'op':'assemble','buffer':'cpu:0/x'}", "EINVAL",
	  "assemble: cpu:0/x: the buffers of an array on several devices have one name, "
	  "without a device" },
	{ "{'op':'assemble','buffer':'x'}", "EINVAL",
	  "assemble: \"mesh\" is missing, or \"sharding\"" },
	{ "{'op':'assemble','buffer':'x','mesh':{'d':2}}", "EINVAL",
	  "assemble: \"spec\" is missing" },
	{ "{'op':'assemble','buffer':'x','sharding':7}", "EINVAL",
	  "assemble: \"sharding\": expected a string, found int" },
	{ "{'op':'assemble','buffer':'x','sharding':'s','spec':[]}", "EINVAL",
	  "assemble: \"spec\" and the text of \"sharding\" exclude each other" },
	{ "{'op':'assemble','buffer':'x','sharding':{},'mesh':{}}", "EINVAL",
	  "assemble: \"mesh\" is there beside \"sharding\", which is an object with that "
	  "key" },
	{ "{'op':'assemble','buffer':'x','sharding':{'as':'y'}}", "EINVAL",
	  "assemble: \"sharding\": unknown key \"as\": expected one of mesh, spec, "
	  "devices, op, id, async, timeout_ms" },
	{ "{'op':'assemble','buffer':'x','mesh':{},'spec':[],'devices':null}", "EINVAL",
	  "assemble: \"devices\": expected a list of devices, found null" },
	{ "{'op':'assemble','buffer':'x','mesh':{},'spec':[],'devices':['cpu:2']}",
	  "ENODEV",
	  "assemble: \"devices\": there is no device cpu:2; there are cpu:0 and cpu:1" },
	{ "{'op':'assemble','buffer':'y','mesh':{},'spec':[],'devices':['cpu:0','cpu:1']}",
	  "ENOENT", "assemble: there is no buffer y" },
	/* libraries */
	{ "{'op':'register','library':'/a.so','targets':[]}", "EINVAL",
	  "register: \"targets\": expected an object of targets and their symbols, found "
	  "[]" },
	{ "{'op':'register','library':'/a.so','targets':{'t':1}}", "EINVAL",
	  "register: \"targets\": \"t\": expected a string, found int" },
	{ "{'op':'register','library':'a.so'}", "EINVAL",
	  "register: \"library\": expected an absolute path, found a.so" },
	{ "{'op':'register','library':'/a.so','traits':4294967296}", "EINVAL",
	  "register: \"traits\": expected a whole number from 0 to 4294967295, found "
	  "4294967296" },
	{ "{'op':'register','library':'/a.so'}", "EOPNOTSUPP",
	  "register: this mount's libraries do not change" },
};

/* CRED's command TEXT fails with CODE, whose sentence is WHY. */
static void expect_refusal(const struct pf_cred *cred, const char *text, const char *code,
			   const char *why)
{
	char *reply = answer_to(control, cred, quoted(text));
	struct json_object *o = json_tokener_parse(reply), *error = NULL;

	ck_assert_msg(json_object_object_get_ex(o, "error", &error), "%s", reply);
	ck_assert_str_eq(pf_json_get_string(error, "message"), why);
	ck_assert_str_eq(pf_json_get_string(error, "errno"), code);
	json_object_put(o);
	free(reply);
}

/* And x, which many of them name, stays. */
TEST_EACH(a_command_is_refused, refused)
{
	PF_CLEANUP(pf_node_unrefp) struct pf_node *x = NULL;

	expect_refusal(&owner, refused[_i].text, refused[_i].code, refused[_i].why);
	x = pf_dir_lookup(devices[0].buffers, "x.npy");
	ck_assert_ptr_nonnull(x);
}

TEST(only_the_owner_registers_libraries)
{
	expect_refusal(&other, "{'op':'register','library':'/a.so'}", "EPERM",
		       "register: an FFI library is native code: only the mount's owner "
		       "may register one");
}

TEST(a_batch_has_only_so_many_steps)
{
	struct pf_buf text = PF_BUF_INIT;

	pf_buf_puts(&text, "{'op':'batch','steps':[0");
	for (int i = 0; i < 100000; i++)
		pf_buf_puts(&text, ",0");
	pf_buf_puts(&text, "]}");
	expect_refusal(&owner, text.data, "E2BIG", "batch: \"steps\": more than 100000");
	pf_buf_release(&text);
}

/* --- what is done ----------------------------------------------------------------------- */

/* Each reply to the owner's command is that. */
static const struct {
	const char *text, *reply;
} done[] = {
	{ "{'op':'batch','steps':[],'id':{'a':1}}",
	  "{'ok':true,'replies':[],'id':{'a':1}}" },
	{ "{'op':'delete','buffers':[]}", "{'ok':true,'replies':[]}" },
	{ "{'op':'delete','buffers':['x','ns/y'],'id':2}",
	  "{'ok':true,'replies':[{'ok':true},{'ok':true}],'id':2}" },
	{ "{'op':'batch','steps':[{'op':'delete','buffer':'x','id':3}]}",
	  "{'ok':true,'replies':[{'ok':true,'id':3}]}" },
	{ "{'op':'delete','buffer':'x','async':true}", "{'ok':true,'job':1}" },
};

TEST_EACH(a_command_is_answered, done)
{
	char *reply = answer_to(control, &owner, quoted(done[_i].text));

	ck_assert_str_eq(reply, quoted(done[_i].reply));
	free(reply);
}

static const struct {
	const char *reply, *line; /* reply NULL: a failure */
} lines[] = {
	{ "{}", "ok:" },
	{ "{'job':7}", "ok: job 7" },
	{ "'ok: z F32[2,3] on cpu:0'", "ok: z F32[2,3] on cpu:0" },
	{ NULL, "error: ENODEV: first second" },
};

static void answer_people(struct pf_command *command)
{
	const char *reply = lines[reply_of_people].reply;
	struct task *task = command_task_new(command, false);
	struct pf_err err = PF_ERR_INIT;

	if (reply) {
		task_done(task, NULL, json_tokener_parse(quoted(reply)));
		return;
	}
	pf_err_set_lines(&err, -ENODEV, "first\nsecond", strlen("first\nsecond"));
	task_fail(task, &err);
}

TEST_EACH(people_read_a_line, lines)
{
	char *line;

	reply_of_people = _i;
	line = answer_to(people, &owner, "x\n");
	ck_assert_str_eq(line, lines[_i].line);
	free(line);
}

UNIT_FIXTURE(begin, tear_down)
