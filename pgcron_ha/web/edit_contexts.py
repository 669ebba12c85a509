"""What the pages get that show and edit what a schedule says, now and before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.preview import Preview


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
    most: int
    """Characters that it may have."""
    example: str
    """How it is written, if that is not plain."""
    problem: PgcronError | None = None
    """Why it can't be so."""


@dataclass(frozen=True)
class DefinitionForm:
    """``_definition.html``: what a schedule says, as fields, and when it would fire."""

    fields: Sequence[EditField]
    """When and what."""
    more: Sequence[EditField]
    """All the rest."""
    is_unfolded: bool
    """Whether the rest is shown at once."""
    preview: Preview | None
    """None: its spec can't be read."""
    warnings: Sequence[str]
    error: PgcronError | None
    """Why it was not saved."""
    known: Mapping[str, Sequence[str]]
    """What a field may be, by its name; others may be typed."""

    @property
    def wrong(self) -> EditField | None:
        """The field that is to blame for `error`, if it is one."""
        return next((one for one in (*self.fields, *self.more) if one.problem), None)


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
    form: DefinitionForm
    note: str
    owner: str | None
    """What becomes of an edit here, when the schedule is managed elsewhere."""
    theirs: Sequence[Difference] = ()
    """What somebody else has changed since the form was opened."""


@dataclass(frozen=True)
class NewView:
    """``schedule_new.html``."""

    name: EditField
    form: DefinitionForm
    is_paused: bool
    """Whether it is made paused."""
    copied: str | None = None
    """The schedule that the fields were filled in from."""
    taken: str | None = None
    """The schedule that has the name already."""


@dataclass(frozen=True)
class VersionRow:
    """One version."""

    facts: dict[str, Any]
    """A row of `pgcron_ha.db.commands.schedule_versions.schedule_versions`."""
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
