# SPDX-License-Identifier: Apache-2.0
"""Check that standard input is a trace that Perfetto shows, and print "CATEGORY NAME" of each span."""

import json
import sys

trace = json.load(sys.stdin)
names = {}
tracks = {}
for event in trace["traceEvents"]:
    track = (event["pid"], event["tid"])
    if event["ph"] == "M":
        names[event["name"], track] = event["args"]["name"]
        continue
    assert event["ph"] == "X" and event["dur"] >= 0 and event["ts"] > 1e15, event
    # Perfetto rounds fractions, and drops a span that then ends after the one around it.
    assert isinstance(event["ts"], int) and isinstance(event["dur"], int), event
    assert ("process_name", (event["pid"], 0)) in names, f"a device without a name: {event}"
    assert names["thread_name", track].startswith("user "), event
    tracks.setdefault(track, []).append((event["ts"], -event["dur"]))
    print(names["process_name", (event["pid"], 0)], event["cat"], event["name"])
for track, spans in tracks.items():
    within = []  # the ends of the spans that are open
    for start, length in sorted(spans):
        end = start - length
        while within and within[-1] <= start:
            within.pop()
        assert not within or end <= within[-1], f"spans of track {track} overlap at {start}"
        within.append(end)
