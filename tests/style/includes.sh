#!/usr/bin/env bash
exec "$srcdir/scripts/check-includes"
