# SPDX-License-Identifier: Apache-2.0
"""The commands that pip installs: each becomes the program of its name in this package."""
import os
import sys

from . import HERE, environment, installed

NAMES = ("pjrtfs", "pjrtfs-bench", "pjrtfs-fetch-plugins", "pjrtfs-top")


def main() -> None:
    name = os.path.basename(sys.argv[0])
    name = name if name in NAMES else "pjrtfs"
    path = installed(name)
    if not path:
        sys.exit(f"{name} is not in {HERE}: install the wheel of pjrtfs")
    os.execve(path, [path, *sys.argv[1:]], environment())


if __name__ == "__main__":
    main()
