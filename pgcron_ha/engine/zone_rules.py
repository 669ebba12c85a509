"""Keeps the nodes of a cluster at one set of time zones, and schedules at its rules.

The newest data that any node has installed are the cluster's: that node puts them into the
database, the others read them there. So nodes with other packages decide alike, and going back to
an older package changes nothing. Schedules of a zone whose clocks differ by the new rules have what
was made ahead of them made again, in batches that any node goes on with.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from pgcron_ha.db.link import Link, Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.clock_jumps import ClockJump, clock_jump
from pgcron_ha.model.schedule_spec import spec_of
from pgcron_ha.model.zone_data import (
    package_digests,
    package_rules,
    package_version,
    use_rules,
    version_in_force,
    zone_from,
)
from pgcron_ha.model.zones import first_difference
from pgcron_ha.telemetry.log import emit
from pgcron_ha.telemetry.zone_events import ZoneChangeApplied, ZoneDataIsOlder, ZonesTaken

BATCH: Final = 100
"""Schedules of one statement, each about a millisecond: no lock is held for long."""

_LOOKED_BACK: Final = timedelta(days=100)
"""How late after a change of clocks newer data may come and the ledger still tell of it."""
_YEARS_AHEAD: Final = 15
_NAMED: Final = 5


class ZoneRules:
    """What a node does about time zones: at its start, when another node brings newer ones, and
    while schedules take them over.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waits = False

    async def look(self, duties: Container[str]) -> bool:
        """One bounded step of the duties ``zones`` and ``zone_changes``; True: there is more."""
        if "zones" in duties or (self._waits and "zone_changes" not in duties):
            return await self._agree()
        return "zone_changes" in duties and await self._sweep()

    async def _agree(self) -> bool:
        own = await asyncio.to_thread(package_digests)
        found = (await self._link.rows("cluster_zones"))[0]
        theirs, mine = found["tzdata"], package_version()
        differing = await self._link.rows("rules_that_differ", **own)
        if not found["is_changing"] and (theirs is None or mine > theirs):
            return await self._bring(theirs, differing, found["now"])
        if theirs is None:  # somebody has set it back while schedules followed
            return await self._sweep()
        use_rules(theirs, {row["name"]: row["rules"] for row in differing if row["rules"]})
        self._waits = mine > theirs  # until schedules have taken what another node brought
        if mine < theirs:
            emit(ZoneDataIsOlder(mine, theirs))
        return bool(found["is_changing"])

    async def _bring(self, before: str | None, differing: list[Row], now: datetime) -> bool:
        own = package_rules()
        changed = [row for row in differing if row["name"] in own]
        old = {row["name"]: row["rules"] for row in changed if row["rules"]}
        since = (now - _LOOKED_BACK).replace(tzinfo=None)
        differ_from = await asyncio.to_thread(_differences, old, own, since)
        taken = await self._link.rows(
            "take_zones",
            tzdata=package_version(),
            base=before,
            zones=[row["name"] for row in changed],
            rules=[own[row["name"]] for row in changed],
            differ_from=[differ_from.get(row["name"]) for row in changed],
        )
        is_taken = bool(taken[0]["is_taken"])
        if is_taken:
            use_rules(package_version(), {})
            self._waits = False
            named = ", ".join(sorted(differ_from)[:_NAMED])
            more = f" and {len(differ_from) - _NAMED} more" if len(differ_from) > _NAMED else ""
            emit(ZonesTaken(package_version(), before, len(old), named + more))
        return not is_taken or bool(differ_from)  # another node was faster; or schedules follow

    async def _sweep(self) -> bool:
        """A batch of each zone; False: what is left is locked by others, or nothing is."""
        is_moving = False
        for change in await self._link.rows("zone_changes_under_way"):
            if change["tzdata"] != version_in_force():
                continue
            given = {"zone": change["zone"], "tzdata": change["tzdata"]}
            rows = await self._link.rows("schedules_to_sweep", at_most=BATCH, **given)
            swept_to = rows[-1]["schedule_id"] if rows else change["swept_to"]
            is_moving = is_moving or bool(rows) or not change["postponed"]
            if not rows:
                rows = await self._link.rows("postponed_schedules", at_most=BATCH, **given)
            answer = await self._link.rows(
                "take_rules",
                after=change["swept_to"],
                swept_to=swept_to,
                schedules=[row["schedule_id"] for row in rows],
                moved=json.dumps(await _moved(rows, change)),
                **given,
            )
            remade = answer[0]["remade"]
            if remade is not None and not rows:
                emit(ZoneChangeApplied(**given, schedules=change["remade"]))
        return is_moving


def _differences(
    old: Mapping[str, bytes], new: Mapping[str, bytes], since: datetime
) -> dict[str, datetime]:
    """Of the zones whose clocks differ: from when on."""
    found = {}
    for name, rules in old.items():
        zones = zone_from(name, rules), zone_from(name, new[name])
        at = first_difference(*zones, since, since.year + _YEARS_AHEAD)
        if at is not None:
            found[name] = at.replace(tzinfo=UTC)
    return found


async def _moved(rows: list[Row], change: Row) -> dict[str, Any]:
    """Of the schedules whose clocks jump when they take the new rules: which fires that moves."""
    if change["differs_from"] > change["now"]:
        return {}
    old = zone_from(change["zone"], change["old_rules"])
    found = {}
    for row in rows:
        jump = _jump(row, old) if row["is_remade"] else None
        if jump is not None:
            found[str(row["schedule_id"])] = {
                "shift": jump.shift.total_seconds(),
                "earlier": [fire.isoformat() for fire in jump.earlier],
                "later": [fire.isoformat() for fire in jump.later],
            }
        await asyncio.sleep(0)
    return found


def _jump(row: Row, old: ZoneInfo) -> ClockJump | None:
    now, next_fire = row["now"], row["next_fire"]
    is_behind = row["watermark"] < now and (next_fire is None or next_fire <= now)
    try:
        return clock_jump(spec_of(row), old, row["watermark"] if is_behind else now)
    except PgcronError:  # another version wrote it; it is decided by nobody here
        return None
