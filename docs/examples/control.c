/* SPDX-License-Identifier: Apache-2.0 */
/* Execute a program with two arrays that are uploaded, and print the reply:
 * cc -o control control.c && ./control /mnt/pjrt */
#include <stdio.h>
#include <unistd.h>

static const char command[] = "{\"op\":\"execute\",\"executable\":\"add\","
			      "\"inputs\":[\"x\",\"y\"],\"outputs\":[\"z\"]}";

static int upload(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

int main(int argc, char **argv)
{
	char reply[4096];
	FILE *control;

	if (argc < 2 || chdir(argv[1]) < 0 || !upload("buffers/x.txt", "1 2 3\n4 5 6\n") ||
	    !upload("buffers/y.txt", "10 20 30\n40 50 60\n") || !(control = fopen("control", "r+")) ||
	    fprintf(control, "%s\n", command) < 0 || fflush(control) != 0 ||
	    !fgets(reply, sizeof(reply), control))
		return perror("control"), 1;
	return fputs(reply, stdout) < 0;
}
