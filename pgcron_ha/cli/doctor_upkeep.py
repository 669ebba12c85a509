"""More checks of `pgcron-ha doctor`: what keeps vacuum from its work, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.cli.doctor_checks import Diagnosis, Finding
from pgcron_ha.db.queries.storage import LOGICAL, release_words

# Of 2^31; the server warns at 40 million that are left, and takes no more writes at 3 million.
MOST_TRANSACTIONS: Final = 1_600_000_000
_LAST_TRANSACTION: Final = 2**31 - 1 - 3_000_000


def check_autovacuum(found: Diagnosis) -> Iterator[Finding]:
    """Whether anybody vacuums."""
    for setting in found.server["without"]:
        yield Finding(
            "autovacuum",
            "problem",
            f"{setting} is off for the whole server: dead rows stay, and tables grow",
            f"ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf();",
        )
    for table in found.without_autovacuum:
        toast = " (values out of line)" if table["option"].startswith("toast.") else ""
        yield Finding(
            "autovacuum",
            "problem",
            f"it is off for {table['name']}{toast}",
            f"ALTER TABLE {table['name']} RESET ({table['option']});",
        )
    if not (found.server["without"] or found.without_autovacuum):
        yield Finding("autovacuum", "ok", "on")


def check_holders(found: Diagnosis) -> Iterator[Finding]:
    """Who keeps dead rows alive, and who keeps the server's log."""
    for holder in found.snapshot_holders:
        seconds, other = holder["seconds"], holder["other_database"]
        lasting = f" for {timedelta(seconds=int(seconds))}" if seconds is not None else ""
        there = f" in database {other} (a standby reports it)" if other is not None else ""
        dead = "Dead rows of the catalog" if holder["kind"] in LOGICAL else "Dead rows"
        yield Finding(
            "old snapshots",
            "advice",
            f"{holder['kind']} {holder['name']}{there} holds one{lasting}, "
            f"{holder['age']:,} transactions old",
            f"{dead} stay as long; if nobody needs it: {release_words(holder)}",
        )
    if not found.role["sees_all"]:
        yield Finding(
            "old snapshots",
            "advice",
            f"{found.role['name']} may not see what sessions of other roles hold",
            f"As a superuser: GRANT pg_read_all_stats TO {found.role['name']};",
        )
    for slot in found.idle_slots:
        yield Finding(
            "replication",
            "advice",
            f"nobody reads slot {slot['name']}: {slot['bytes'] // 2**20:,} MiB of log are kept",
            "The disk fills up, unless max_slot_wal_keep_size bounds it. If nobody needs it: "
            f"{release_words({**slot, 'kind': 'replication slot'})}",
        )


def check_vacuum(found: Diagnosis) -> Iterator[Finding]:
    """Tables that nobody ever vacuumed, and the end of the transaction ids."""
    for table in found.never_vacuumed:
        yield Finding(
            "autovacuum",
            "advice",
            f"it never came to {table['name']}: {table['dead']:,} dead rows, "
            f"{table['inserted']:,} inserted",
            f"Now: VACUUM (ANALYZE) {found.settings.schema}.{table['name']}; and give autovacuum"
            " more workers, or a higher autovacuum_vacuum_cost_limit.",
        )
    yield from _check_wraparound(found.wraparound)


def _check_wraparound(read: dict[str, Any]) -> Iterator[Finding]:
    oldest, felt = read["database_name"], max(2 * read["freeze_max_age"], MOST_TRANSACTIONS // 4)
    if read["database_age"] > felt and read["is_this"]:
        what = f"this database ({read['oldest_here']})"
        yield _aged(what, read["database_age"], "VACUUM (FREEZE);")
        return  # of all tables, ours too
    if read["database_age"] > felt:
        into = f"connect to {oldest} (ALTER DATABASE … ALLOW_CONNECTIONS true lets one in)"
        yield _aged(f"database {oldest}", read["database_age"], f"{into}, and VACUUM (FREEZE);")
    if read["table_age"] > felt:
        table = read["table_name"]
        yield _aged(f"table {table}", read["table_age"], f"VACUUM (FREEZE) {table};")


def _aged(what: str, age: int, remedy: str) -> Finding:
    return Finding(
        "wraparound",
        "problem" if age > MOST_TRANSACTIONS else "advice",
        f"the oldest transaction of {what} is {age:,} old: the server takes no more writes at"
        f" {_LAST_TRANSACTION:,}",
        f"End what holds old snapshots (above), then, as a superuser: {remedy}",
    )


UPKEEP: Final[tuple[Callable[[Diagnosis], Iterator[Finding]], ...]] = (
    check_autovacuum,
    check_holders,
    check_vacuum,
)
