"""Secret args and what is personal: the statements of ``sql/secrets.sql``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pgcron_ha.db.queries.rows import Rows

reveal: Final = Rows("reveal", "run_id").the
"""The handler, args and result of a run, as they are kept; the audit has who asked. NotFound."""

stale: Final = Rows("stale_secrets", "kind", "key", "after", at_most=500)
"""Of a kind of `rotations`: id, handler and args of those whose args have another key."""

stale_elsewhere: Final = Rows("stale_elsewhere", "key")
"""What has args of another key that no rotation reaches: kind, left."""

rotations: Final[Mapping[str, Rows]] = {
    kind: Rows(f"rotate_{kind.replace(' ', '_')}", "id", "old", "args")
    for kind in ("schedule", "run", "dead letter")
}
"""Replaces args that are still as they were read; a row if they were."""

erase: Final = Rows("erase", cancel=False, dry_run=False, at_most=1000).the
"""How many runs, log lines and definitions were erased in this call, and what is alive.

Runs are chosen by run_ids, concurrency_key, unique_key, idempotency_key, tag and args_contain (JSON
text of an object): all that are given. Call it until it erases nothing. InvalidInput.
"""
