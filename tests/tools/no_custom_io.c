/* SPDX-License-Identifier: Apache-2.0 */
/* For LD_PRELOAD: a libfuse that is built without custom I/O. */
#include <errno.h>

int fuse_session_custom_io(void);
int fuse_session_custom_io_317(void);

int fuse_session_custom_io(void)
{
	return -ENOTSUP;
}

/* Since libfuse 3.17. */
int fuse_session_custom_io_317(void)
{
	return -ENOTSUP;
}
