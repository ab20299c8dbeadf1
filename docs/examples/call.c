/* SPDX-License-Identifier: Apache-2.0 */
/* Call a program of a pjrtfs mount that takes two F32[2,3] and gives one:
 * cc -o call call.c && ./call /mnt/pjrt/executables/add/call */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A .npy file of F32[2,3]: such headers take 128 bytes, as do those that are read. */
struct array {
	char head[128];
	float data[6];
};

static void set_head(struct array *a)
{
	memset(a->head, ' ', sizeof(a->head));
	memcpy(a->head, "\x93NUMPY\x01\x00\x76\x00", 10);
	memcpy(a->head + 10,
	       "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 59);
	a->head[127] = '\n';
}

int main(int argc, char **argv)
{
	struct array in[2] = { { .data = { 1, 2, 3, 4, 5, 6 } },
			       { .data = { 10, 20, 30, 40, 50, 60 } } };
	struct array out;
	char why[4096];
	ssize_t n;
	int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0) {
		perror(argc > 1 ? argv[1] : "call");
		return 1;
	}
	set_head(&in[0]);
	set_head(&in[1]);
	/* Whatever fails, the read does, and the next one tells why. */
	(void)!write(fd, in, sizeof(in));
	if (read(fd, &out, sizeof(out)) != sizeof(out)) {
		n = read(fd, why, sizeof(why));
		fprintf(stderr, "%.*s", n > 0 ? (int)n : 0, why);
		return 1;
	}
	for (int i = 0; i < 6; i++)
		printf("%g%c", (double)out.data[i], i < 5 ? ' ' : '\n');
	return 0;
}
