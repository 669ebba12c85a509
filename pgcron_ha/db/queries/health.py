"""How the database is: what `pgcron-ha doctor` reads (``sql/health.sql``), and the sizes of tables
(``sql/storage.sql``). Nothing is changed.
"""

from __future__ import annotations

from typing import Any, Final

from pgcron_ha.db.queries.overview import DEFAULT_LIMIT, LOOK
from pgcron_ha.db.queries.rows import Query, Row, Rows
from pgcron_ha.model.storage import tables_of

# Of findings that have one cause, mostly.
FEW: Final = 5
# Functions with the owner's rights that all roles may call: each checks the caller.
FOR_EVERYBODY: Final = ("run_status", "look_for_end", "await_runs", "judge_guest")


server: Final = Rows("read_server").the
"""Version, clock, and the settings that work or safety depend on."""


role: Final = Rows("read_role").the
"""The caller's: name, whether it is a superuser, has the owner's rights, can see others."""


def _listed(name: str, **parameters: Any) -> Rows:
    return Rows(name, limit=DEFAULT_LIMIT, **parameters)


# Past these a snapshot is felt: claims walk over the dead rows of that many transactions.
snapshot_holders: Final = _listed("list_snapshot_holders", age=1_000_000, seconds=300.0)
"""Holders that keep dead rows: kind, name, age in transactions, seconds (None: not known), remedy;
the oldest first.
"""

READINGS: Final[dict[str, Any]] = {
    # Overflow rows, at-most-once work, where partitions end.
    "risks": Rows("read_risks").the,
    # What schedules want and no living node takes: `name` of one, how many `schedules`, reason.
    "unserved_schedules": _listed("list_unserved_schedules", look=LOOK),
    # Open workflows that would wait for ever, or have begun a step twice: run_id, step, problem.
    "broken_workflows": Rows("check_workflows", limit=FEW),
    # Excess privileges, and objects with the wrong owner: kind, name, who, remedy.
    "excess_privileges": _listed("list_privileges_excess", known=list(FOR_EVERYBODY)),
    "role": role,
    # Sessions that hold our advisory locks for long: name, process_id, seconds.
    "lock_holders": _listed("list_lock_holders", seconds=30.0),
}
"""What the doctor reads, by name: a row, or the rows of a list, each of which is a finding."""


async def readings(connection: Any, **options: Any) -> dict[str, Any]:
    """All `READINGS`, by their names."""
    return {name: await read(connection, **options) for name, read in READINGS.items()}


# Ten years of daily partitions of each table that has them.
_sizes: Final = Query("list_table_sizes", limit=15_000)


async def tables(connection: Any, **options: Any) -> list[Row]:
    """Every table of the schema with its partitions, as `tables_of`; reads the catalog and
    statistics, and no row of the tables.
    """
    return tables_of(await _sizes(connection, **options))
