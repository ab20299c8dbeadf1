/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that send false data or die early: this program as a worker. */
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine_fixture.h"
#include "pjrtfs/wire.h"

static char *self; /* the path of this program, which also plays workers */

#define DESCRIPTION(devices)                                                             \
	"{\"ok\":true,\"api_version\":[0,1],\"platform\":\"p\",\"devices\":" devices "}"

static const char two_devices[] = DESCRIPTION("[{\"id\":0},{\"id\":1}]");

static void say(const char *text)
{
	if (pf_channel_send(PF_CHANNEL_FD, text, strlen(text), NULL, 0, NULL) < 0)
		_exit(9);
}

/* A file that all instances share: a byte for each one that began. */
static const char instances_variable[] = "PJRTFS_TEST_LIVES_FD";

/* The number of this instance. */
static int count_instances(void)
{
	const char *number = getenv(instances_variable);
	int fd = number ? atoi(number) : -1;
	struct stat st;

	if (write(fd, "", 1) != 1 || fstat(fd, &st))
		_exit(9);
	return (int)st.st_size;
}

static void open_instances(void)
{
	char number[16];
	int fd = memfd_create("instances", 0);

	ck_assert_int_ge(fd, 0);
	snprintf(number, sizeof(number), "%d", fd);
	setenv(instances_variable, number, 1);
	self = realpath("/proc/self/exe", NULL);
	open_arena();
}

static void close_instances(void)
{
	free(self);
	close(atoi(getenv(instances_variable)));
	unsetenv(instances_variable);
	close_arena();
}

/* The behaviour of the worker called NAME. */
static int play(const char *name)
{
	struct pf_buf text = PF_BUF_INIT;
	int fds[3], instance;

	if (!strcmp(name, "deaf"))
		_exit(0);
	if (pf_channel_recv(PF_CHANNEL_FD, &text, fds, 3, -1, NULL) < 0)
		return 9;
	instance = count_instances();
	if (!strcmp(name, "garbler"))
		say("no JSON");
	else if (!strcmp(name, "silent"))
		say("");
	else if (!strcmp(name, "changer") && instance == 2)
		say(DESCRIPTION("[{\"id\":0}]"));
	else if (!strcmp(name, "longwinded"))
		send(PF_CHANNEL_FD, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 0);
	else
		say(two_devices);
	if (!strcmp(name, "short-lived") && instance < 4) {
		printf("FATAL: run %d ends\n", instance);
		fflush(stdout);
		_exit(instance);
	}
	if (!strcmp(name, "hung-up"))
		close(PF_CHANNEL_FD);
	for (;;)
		pause();
}

static const struct {
	const char *name;
	int code;
	const char *why;
} liars[] = {
	{ "garbler", -EPROTO, "the worker's answer is not a JSON object" },
	{ "silent", -EPROTO, "the worker's answer is not a JSON object" },
	{ "longwinded", -EPROTO, "the other process announced a text of" },
	{ "deaf", -EIO, "the worker of plugin deaf exited with status 0" },
};

TEST_EACH(a_lying_worker_does_not_start, liars)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_int_eq(try_worker(self, "none", liars[_i].name, &err), liars[_i].code);
	ck_assert_msg(strstr(err.text, liars[_i].why) != NULL, "%s", err.text);
}

static void start_player(const char *name)
{
	struct pf_err err = PF_ERR_INIT;

	ck_assert_msg(try_worker(self, "none", name, &err) == 0, "%s", err.text);
}

TEST(an_instance_that_dies_early_is_replaced)
{
	struct pf_lines_reader reader = { 0 };
	unsigned restarts = 0;
	char log[128];
	size_t n;
	pid_t pid;

	start_player("short-lived");
	for (int i = 0; i < 3000 && restarts < 3; i++) {
		usleep(10000);
		pf_worker_pid(worker, &pid, &restarts);
	}
	pf_instance_unref(next_instance(NULL));
	pf_worker_pid(worker, &pid, &restarts);
	ck_assert_uint_eq(restarts, 3);
	n = pf_plugin_log_read(pf_worker_plugin_log(worker), &reader, 0, log,
			       sizeof(log) - 1);
	log[n] = '\0';
	pf_lines_reader_release(&reader);
	ck_assert_str_eq(log, "FATAL: run 1 ends\nFATAL: run 2 ends\n"
			      "FATAL: run 3 ends\n");
	stop_worker();
}

TEST(a_restart_with_another_plugin_is_refused)
{
	struct pf_err err = PF_ERR_INIT;
	struct event waiting;

	start_player("changer");
	kill_worker();
	while (pf_worker_state(worker) == PF_WORKER_READY)
		usleep(1000);
	if (pf_worker_wait(worker, event_init(&waiting)))
		event_wait(&waiting);
	if (!pf_worker_instance(worker, &err))
		ck_assert_msg(strstr(err.text, "came back with 1 devices, it had 2") !=
				      NULL,
			      "%s", err.text);
	pf_instance_unref(next_instance(NULL)); /* the third has two again */
	ck_assert_uint_eq(pf_worker_description(worker)->n_devices, 2);
	stop_worker();
}

/* It runs, but cannot be called: the monitor ends it and starts the next one. */
TEST(a_worker_that_hangs_up_is_replaced)
{
	unsigned restarts = 0;
	pid_t pid;

	start_player("hung-up");
	for (int i = 0; i < 3000 && !restarts; i++) {
		pf_worker_pid(worker, &pid, &restarts);
		usleep(10000);
	}
	ck_assert_uint_ge(restarts, 1);
	stop_worker();
	ck_assert_int_lt(waitpid(-1, NULL, WNOHANG), 0); /* all of them have ended */
	ck_assert_int_eq(errno, ECHILD);
}

UNIT_FIXTURE(open_instances, close_instances)

/* A worker of these tests is this program, too. */
__attribute__((constructor)) static void play_or_test(int argc, char **argv)
{
	if (argc == 3 && getenv(instances_variable))
		exit(play(argv[1]));
}
