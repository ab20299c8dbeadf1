#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# TIER: smoke
# SANITIZE: none
# The files of a layer call each other in one direction.
exec "$srcdir/scripts/check-circles" .
