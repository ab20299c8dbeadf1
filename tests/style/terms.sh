#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# Code, comments and manuals have one word for one thing, that of docs/HACKING.md.
exec "$srcdir/scripts/check-terms"
