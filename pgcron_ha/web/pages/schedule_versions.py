"""``/schedules/{name}/versions``: what the schedule was, who changed it, and the way back."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.differences import changes
from pgcron_ha.web.address import WrongAddress
from pgcron_ha.web.edit_contexts import Difference, VersionRow, VersionsView
from pgcron_ha.web.page_request import PageRequest

PAGE_ROWS: Final = 25
_MOST_DIGITS: Final = 9


async def show_versions(page_request: PageRequest) -> Response:
    """The versions, newest first; of a deleted schedule, too. ``before`` turns pages."""
    name = page_request.segment("name")
    before = _number(page_request.query("before").get("before"))
    snapshot = await page_request.read(
        ("versions", name, before),
        lambda connection: ask.schedule_versions(
            connection, name, before=before, limit=PAGE_ROWS + 1, schema=page_request.schema
        ),
    )
    rows = snapshot.value
    shown = rows[:PAGE_ROWS]
    more = {"before": shown[-1]["version"]} if len(rows) > PAGE_ROWS else None
    newest = shown[0]["version"] if shown else 0
    is_deleted = bool(shown) and shown[0]["operation"] == "delete"
    view = VersionsView(
        name=name,
        rows=[_row(row, older) for row, older in zip(shown, [*rows[1:], None], strict=False)],
        is_deleted=is_deleted,
        newest=newest,
        next_href=None if more is None else page_request.link("versions", more, name=name),
        first_href=None if before is None else page_request.link("versions", name=name),
    )
    title = f"Versions of {name}"
    return page_request.page(
        "schedule_versions.html", view, snapshot, title=title, section="schedules"
    )


async def restore(page_request: PageRequest) -> Response:
    """Makes ``version`` the next one, unless ``newest`` (what the page showed) is outdated."""
    name = page_request.segment("name")
    given = await page_request.form("version", "newest")
    version, newest = _number(given.get("version")), _number(given.get("newest"))
    if version is None:
        raise InvalidInput(
            "no version was named", "One is restored at a time.", "Use the page of versions."
        )
    await page_request.act(
        lambda connection: ask.restore_schedule(
            connection,
            name,
            version,
            expected_version=newest,
            actor=page_request.actor,
            interface=page_request.interface,
            schema=page_request.schema,
        )
    )
    return page_request.redirect("versions", {"done": "restored"}, name=name)


def _row(row: Row, older: Row | None) -> VersionRow:
    differences: list[Difference] = []
    if older is not None and row["operation"] != "delete":
        differences = [
            Difference(column, _text(before), _text(after))
            for column, before, after in changes(older["content"], row["content"])
        ]
    return VersionRow(row, differences, not row["is_current"] and row["operation"] != "delete")


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > _MOST_DIGITS:
        raise WrongAddress(
            f"'{text[:60]}' is not a version",
            "Versions are counted from 1.",
            "Leave it out for the newest.",
            wrong=text,
        )
    return int(text)
