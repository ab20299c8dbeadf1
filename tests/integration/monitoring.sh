#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SANITIZE: none
# COST: 2 CPU-s in 3 s
# The alerts and the dashboard in docs/examples ask for metrics that there are (schemas.sh compares the names
# with a mount's), and Prometheus' own tool understands them: each alert fires at its trouble alone.
. "$srcdir/tests/lib.sh"
promtool=$plugins/validators/bin/promtool # of scripts/setup --tests
requires test -x "$promtool"
cp -r "$top/docs" docs
cd docs/examples || exit

# check: of the copy
check()
{
	PYTHONDONTWRITEBYTECODE=1 bounded /usr/bin/python3 "$top/tests/tools/monitoring.py" "$work/docs" >"$work/dashboard.yml"
}
check
bounded "$promtool" check rules alerts.yml "$work/dashboard.yml" >"$work/out" 2>&1 || fail "$(cat "$work/out")"
bounded "$promtool" test rules alerts_test.yml >"$work/out" 2>&1 || fail "$(cat "$work/out")"

# -- a metric or a label that is not there, and a query that is none, are found
sed 's/pjrtfs_healthy == 0/pjrtfs_healthy_ == 0/' "$top/docs/examples/alerts.yml" >alerts.yml
fails_with 'expected a metric, not pjrtfs_healthy_, in PjrtfsUnhealthy' check
fails_with 'PjrtfsUnhealthy' "$promtool" test rules alerts_test.yml
cp "$top/docs/examples/alerts.yml" .
sed 's/labels\.plugin/labels.worker/' "$top/docs/examples/alerts.yml" >alerts.yml
fails_with 'expected a label of the query, not worker, in PjrtfsPluginDown' check
cp "$top/docs/examples/alerts.yml" .
sed 's/rate(pjrtfs_executions_total/rate(pjrtfs_runs_total/' "$top/docs/examples/grafana.json" >grafana.json
fails_with 'expected a metric, not pjrtfs_runs_total, in Executions' check
sed 's/histogram_quantile(0.99, /histogram_quantile(/' "$top/docs/examples/grafana.json" >grafana.json
check
fails_with 'expected 2 argument(s)' "$promtool" check rules "$work/dashboard.yml"
