#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# tests/chaos.py disturbs as it says, and undoes it.
exec python3 -B "${srcdir:?}/tests/chaos/selftest.py"
