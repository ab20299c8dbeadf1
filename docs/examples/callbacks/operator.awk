# SPDX-License-Identifier: Apache-2.0
# An operator that no plugin has: each number becomes the mean of all numbers up to it.
# awk -W interactive -f operator.awk 0<>/mnt/pjrt/executables/smooth/callbacks/0.txt 1>&0
# (Without -W interactive, mawk waits for more than one request; other awks ignore it.)
{
	sum = 0
	for (i = 1; i <= NF; i++) {
		sum += $i
		$i = sum / i
	}
	print
	fflush()
}
