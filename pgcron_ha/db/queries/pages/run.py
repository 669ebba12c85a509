"""What the page of one run reads: the statements of ``sql/pages_run.sql``."""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.queries.rows import Query, Rows

# Characters of args and of a result that are read; of the rest only the size is shown.
MOST_JSON: Final = 30_000
# A run is tried up to a hundred times; older attempts are rarely of interest.
ATTEMPTS: Final = 30
# Characters of an attempt's error and of its traceback.
MOST_TEXT: Final = 8_000
LINES: Final = 500

# The place of a dead letter whose history is gone.
GONE: Final = 3

NO_RUN: Final = (
    "run {} does not exist",
    "It was never enqueued, its transaction was rolled back, or retention removed it.",
    "`pgcron-ha runs list` lists runs.",
)

runs_of_ids: Final = Query("runs_of_ids", "run_ids")
"""Everything about runs, by number, the highest first. `args` and `result` are JSON text of at
most ``most`` characters, laid out if they have no more bytes, `args_bytes` and `result_bytes` their
whole size (with ``most`` 0 all of them are None), `timeout` is in seconds, `retry` is its policy's
JSON text or None.

`waits_for` is a word and `waits_detail` a sentence for what keeps it from starting, `waits_on` the
run it waits for; all None if it is not due, or executes.

`done`, `total`, `note` and `progress_at` are of the last progress report of the attempt under way.

``place`` is 1 for a live run, 2 for an ended one, 3 for a dead letter whose history is gone;
then `due_at`, `created_at` and `max_attempts` may be None.
"""


run: Final = Query("runs_of_ids", "run_ids", most=MOST_JSON).existing(*NO_RUN, in_array=True)
"""As `runs_of_ids`, of one run; NotFound."""

waits_of: Final = Rows("waits_of_runs", "run_ids")
"""What keeps each of these waiting runs from starting: `waits_for` is a word, `waits_detail` a
sentence, `waits_on` the run it waits for. All None: it is not due.
"""


letter: Final = Query("page_run_letter").one
"""The dead letter of ``run_id``."""

# Nobody makes more of one run by hand than are looked at, and no page sorts more.
children: Final = Query("page_run_children", look=1_000, limit=20)
"""Runs made from ``run_id``, the newest first."""

attempts: Final = Query("list_attempts", most=MOST_TEXT, limit=ATTEMPTS + 1)
"""Its attempts that did not succeed, the newest first: one more than is shown."""

# A whole page of lines of so many characters is still a page.
last_lines: Final = Query("page_last_lines", most=2_000, limit=LINES + 1)
"""The last lines of ``run_id``, the last first: one more than is shown."""


async def what_run_waits_for(connection: Any, run_id: int, **options: Any) -> dict[str, str]:
    """``waits_for``, a word, and ``waits_detail``, a sentence; nothing if a node may take it now,
    or it does not wait.
    """
    waits = await waits_of.one(connection, [run_id], **options)
    if waits is None or waits["waits_for"] in (None, "slots"):
        return {}
    return {name: waits[name] for name in ("waits_for", "waits_detail")}


async def why_run_waits(connection: Any, run_id: int, **options: Any) -> str | None:
    """The sentence of `what_run_waits_for`."""
    return (await what_run_waits_for(connection, run_id, **options)).get("waits_detail")
