#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# No layer is larger, and no feature known in more files, than scripts/budget allows.
exec "$srcdir/scripts/check-budget"
