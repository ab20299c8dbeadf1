#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# Each page of the manual is found by its name, and each link to it leads somewhere.
exec "$srcdir/scripts/check-manual"
