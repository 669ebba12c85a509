"""The pages that are asked for: each with its filters, its sorts and a page from far back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlencode

import asyncpg

# What the addresses name: a busy and a rare schedule, and a run of each kind.
_FACTS: Final = """
SELECT (SELECT name FROM pgcron.schedule WHERE id = 1) AS busy,
       (SELECT name FROM pgcron.schedule ORDER BY id DESC LIMIT 1) AS rare,
       (SELECT max(name) FROM (SELECT name FROM pgcron.schedule ORDER BY name
          LIMIT (SELECT count(*) / 2 FROM pgcron.schedule)) half) AS middle,
       (SELECT max(id) / 2 FROM pgcron.history) AS deep,
       (SELECT id FROM pgcron.history WHERE outcome = 'succeeded' ORDER BY id LIMIT 1) AS old_run,
       (SELECT id FROM pgcron.history WHERE outcome = 'dead' ORDER BY id DESC LIMIT 1) AS dead_run,
       (SELECT id FROM pgcron.run WHERE state = 'running' ORDER BY id LIMIT 1) AS running_run,
       (SELECT id FROM pgcron.run WHERE state = 'ready' ORDER BY id DESC LIMIT 1) AS waiting_run,
       (SELECT run_id FROM pgcron.dead_letter ORDER BY run_id OFFSET
          (SELECT count(*) / 2 FROM pgcron.dead_letter) LIMIT 1) AS deep_letter,
       (SELECT max(run_id) FROM pgcron.dead_letter) AS open_letter,
       (SELECT incarnation::text FROM pgcron.node ORDER BY name LIMIT 1) AS node,
       (SELECT scheduled_for FROM pgcron.history WHERE schedule_id = 1 ORDER BY finished_at DESC
          OFFSET 9 LIMIT 1) AS fire,
       now() - interval '15 days' AS long_ago
"""
# Lists by what they are filtered and sorted; a value that begins with "$" is one of the facts.
_RUNS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"state": "attention"},
    {"state": "running"},
    {"state": "waiting"},
    {"state": "ended"},
    {"state": "blocked"},
    {"state": "dead"},
    {"state": "cancelled"},
    {"state": "upstream_failed"},
    {"queue": "q3"},
    {"queue": "q3", "state": "succeeded"},
    {"handler": "py:job_119"},
    {"node": "node-2"},
    {"schedule": "$busy"},
    {"schedule": "$busy", "state": "expired"},
    {"schedule": "$busy", "before": "$deep_end"},
    {"schedule": "$rare"},
    {"since": "1h"},
    {"since": "16d", "until": "15d"},
    {"since": "16d", "until": "15d", "state": "expired"},
    {"before": "$deep_number"},
    {"handler": "py:job_119", "before": "$deep_number"},
    {"state": "upstream_failed", "before": "$deep_number"},
)
_SCHEDULES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"health": "failing"},
    {"health": "late"},
    {"health": "invalid"},
    {"state": "on"},
    {"state": "paused"},
    {"queue": "q3"},
    {"text": "job-77"},
    {"text": "no such schedule"},
    {"after": "$middle"},
)
_OCCURRENCES: Final[tuple[dict[str, str], ...]] = (
    {},
    {"decision": "expired"},
    {"decision": "cancelled"},
    {"decision": "missed"},
    {"before": "$long_ago"},
    {"at": "$fire"},
)
_LETTERS: Final[tuple[dict[str, str], ...]] = (
    {},
    {"state": "redriven"},
    {"state": "all"},
    {"handler": "py:job_119"},
    {"class": "Error3"},
    {"queue": "q3", "state": "all"},
    {"before": "$open_letter"},
    {"state": "all", "before": "$letter"},
)


async def addresses(connection: asyncpg.Connection) -> dict[str, str]:
    """Paths by a word for each, of a database that `page_rows` has filled."""
    row = await connection.fetchrow(_FACTS)
    assert row is not None
    facts = {name: _text(value) for name, value in row.items()}
    # As the pages write where a page begins.
    facts |= {
        "deep_number": f"0.{facts['deep']}",
        "deep_end": f"{facts['long_ago']}~{facts['deep']}",
        "letter": facts["deep_letter"],
    }
    busy, rare = (quote(facts[name], safe="") for name in ("busy", "rare"))
    found = {
        "overview": "/",
        "overview, 7 days": "/?window=7d",
        "schedule, busy": f"/schedules/{busy}",
        "schedule, rare": f"/schedules/{rare}",
        "run, old": f"/runs/{facts['old_run']}",
        "run, dead": f"/runs/{facts['dead_run']}",
        "run, running": f"/runs/{facts['running_run']}",
        "run, waiting": f"/runs/{facts['waiting_run']}",
        "run, its log": f"/runs/{facts['running_run']}/log",
        "nodes": "/nodes",
        "nodes, one": f"/nodes/{facts['node']}",
        "queues": "/queues",
        "queues, one": "/queues/q3",
    }
    for word, path, lists in (
        ("schedules", "/schedules", _SCHEDULES),
        ("occurrences", f"/schedules/{busy}/occurrences", _OCCURRENCES),
        ("runs", "/runs", _RUNS),
        ("dead letters", "/dead", _LETTERS),
    ):
        for filters in lists:
            given = {key: facts.get(value[1:], value) for key, value in filters.items()}
            found[_word(word, filters)] = f"{path}?{urlencode(given)}" if given else path
    return dict(sorted(found.items()))


def _word(page: str, filters: Mapping[str, str]) -> str:
    return ", ".join([page, *(f"{key} {value.lstrip('$')}" for key, value in filters.items())])


def _text(value: object) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
