/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pjrtfs/base.h"

enum { MOST = 1000 };

void pf_oom_score_add(int steps)
{
	static const char path[] = "/proc/self/oom_score_adj";
	pf_autoclose int fd = open(path, O_RDWR | O_CLOEXEC);
	char text[32] = "";
	long score;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return;
	score = strtol(text, NULL, 10) + (long)steps * PF_OOM_STEP;
	score = score > MOST ? MOST : score < -MOST ? -MOST : score;
	snprintf(text, sizeof(text), "%ld", score);
	(void)!pwrite(fd, text, strlen(text), 0);
}
