#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The files of a layer call each other in one direction.
exec "$srcdir/scripts/check-circles" .
