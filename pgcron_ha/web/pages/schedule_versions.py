"""``/schedules/{name}/versions``: what the schedule was, who changed it, and the way back."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import schedule_versions as ask
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.differences import changes
from pgcron_ha.web.address import WrongAddress, whole_number
from pgcron_ha.web.page_request import INTERFACE, PageRequest

PAGE_ROWS: Final = 25
_MOST_VERSION: Final = 2**31 - 1


async def show_versions(page_request: PageRequest) -> Response:
    """The versions, newest first; of a deleted schedule, too. ``before`` turns pages."""
    name = page_request.segment("name")
    before = version_number(page_request.query("before").get("before"))
    of_it = {"before": before, "limit": PAGE_ROWS + 1}
    snapshot = await page_request.read("versions", ask.schedule_versions, name, **of_it)
    rows = snapshot.value
    shown = rows[:PAGE_ROWS]
    more = {"before": shown[-1]["version"]} if len(rows) > PAGE_ROWS else None
    return page_request.page(
        "schedule_versions.html",
        snapshot,
        title=f"Versions of {name}",
        name=name,
        rows=[_row(row, older) for row, older in zip(shown, [*rows[1:], None], strict=False)],
        is_deleted=bool(shown) and shown[0]["operation"] == "delete",
        newest=shown[0]["version"] if shown else 0,
        next_href=None if more is None else page_request.link("versions", more, name=name),
        first_href=None if before is None else page_request.link("versions", name=name),
    )


async def restore(page_request: PageRequest) -> Response:
    """Makes ``version`` the next one, unless ``newest`` (what the page showed) is outdated."""
    name = page_request.segment("name")
    given = await page_request.form("version", "newest")
    version, newest = version_number(given.get("version")), version_number(given.get("newest"))
    if version is None:
        raise InvalidInput(
            "no version was named", "One is restored at a time.", "Use the page of versions."
        )
    await page_request.do(
        ask.restore_schedule, name, version, expected_version=newest, interface=INTERFACE
    )
    return page_request.redirect("versions", {"done": "restored"}, name=name)


def _row(row: Row, older: Row | None) -> dict[str, Any]:
    exists = row["operation"] != "delete"
    differences = changes(older["content"], row["content"]) if older and exists else []
    can_be_restored = exists and not row["is_current"]
    return {**row, "differences": differences, "can_be_restored": can_be_restored}


def version_number(text: str | None) -> int | None:
    """The version that an address or a form names; None for None. WrongAddress."""
    if text is None:
        return None
    number = whole_number(text, _MOST_VERSION)
    if number is None:
        raise WrongAddress(
            f"'{text[:60]}' is not a version",
            "Versions are counted from 1.",
            "Leave it out for the newest.",
            wrong=text,
        )
    return number
