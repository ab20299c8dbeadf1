/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: as long as the file $NO_SYNC exists, the disk does not take the bytes of files. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int fsync(int fd)
{
	int (*next)(int fd);
	const char *file = getenv("NO_SYNC");
	struct stat st;

	*(void **)&next = dlsym(RTLD_NEXT, "fsync");
	if (file && access(file, F_OK) == 0 && fstat(fd, &st) == 0 &&
	    S_ISREG(st.st_mode)) {
		errno = EIO;
		return -1;
	}
	return next(fd);
}
