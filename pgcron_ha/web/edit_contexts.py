"""What the pages get that show and edit what a schedule says, now and before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgcron_ha.errors import PgcronError
from pgcron_ha.model.preview import Preview


@dataclass(frozen=True)
class EditField:
    """One field of the form."""

    name: str
    label: str
    text: str
    """What stands in it."""
    choices: Sequence[str]
    """The words it may have; none: any text."""
    is_long: bool
    is_too_long: bool
    """Too long for a form: it is not in it, and stays as it is."""


@dataclass(frozen=True)
class Difference:
    """One column in two versions; None: no value."""

    column: str
    before: str | None
    after: str | None
    mine: str | None = None
    """What the form that met another edit says."""


@dataclass(frozen=True)
class EditView:
    """``schedule_edit.html``."""

    name: str
    version: int
    """The one that is edited: another one at saving is another editor's."""
    fields: Sequence[EditField]
    note: str
    owner: str | None
    """What becomes of an edit here, when the schedule is managed elsewhere."""
    preview: Preview | None
    previewed_at: datetime
    error: PgcronError | None
    """Why it was not saved."""
    theirs: Sequence[Difference]
    """What somebody else has changed since the form was opened."""


@dataclass(frozen=True)
class VersionRow:
    """One version."""

    facts: dict[str, Any]
    """A row of `pgcron_ha.db.schedule_versions.schedule_versions`."""
    differences: Sequence[Difference]
    can_be_restored: bool


@dataclass(frozen=True)
class VersionsView:
    """``schedule_versions.html``."""

    name: str
    rows: Sequence[VersionRow]
    is_deleted: bool
    newest: int
    next_href: str | None
    first_href: str | None
