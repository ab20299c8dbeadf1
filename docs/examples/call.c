/* SPDX-License-Identifier: Apache-2.0 */
/* Call a program that takes two F32[2,3] and gives one:
 * cc -o call call.c && ./call /mnt/pjrt/executables/add/call.raw */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const float xy[2][6] = { { 1, 2, 3, 4, 5, 6 }, { 10, 20, 30, 40, 50, 60 } };
	float z[6];
	char why[4096];
	ssize_t n;
	int call = argc > 1 ? open(argv[1], O_RDWR) : -1;

	if (call < 0) {
		perror("call");
		return 1;
	}
	/* Whatever fails, the read does, and the next one tells why. */
	(void)!write(call, xy, sizeof(xy));
	if (read(call, z, sizeof(z)) != sizeof(z)) {
		n = read(call, why, sizeof(why));
		fprintf(stderr, "%.*s", n > 0 ? (int)n : 0, why);
		return 1;
	}
	for (int i = 0; i < 6; i++)
		printf("%g%c", (double)z[i], i < 5 ? ' ' : '\n');
	return 0;
}
