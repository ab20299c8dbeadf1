#!/usr/bin/env bash
exec "$srcdir/scripts/format" --check
