"""Every error of pgcron_ha: what happened (message), the rule (detail), what to do (hint).

::

    PgcronError
    ├── InvalidInput        the caller asked for something that can't be     SQLSTATE PC001
    │   ├── InvalidSpec     a schedule's spec (cron text, interval, …)                PC002
    │   ├── InvalidCalendar a calendar's days                                         PC005
    │   ├── UnknownZone     a time zone that tzdata does not know                     PC003
    │   └── TooLarge        args, result or text over their bound                     PC004
    ├── NotFound            no such schedule, run, queue or node                      PC010
    ├── Conflict            the state of the thing does not allow it                  PC011
    │   └── VersionConflict somebody else has edited it meanwhile                     PC014
    ├── Fenced              the caller no longer holds the run                        PC012
    ├── Refused             a privilege, a mode or a policy forbids it                PC013
    ├── SchemaError         the schema is missing, too old, too new, or can't be made PC020
    ├── DatabaseUnavailable no connection, or a server that can't be used             PC021
    ├── ConfigError         a setting or the configuration file                       PC030
    ├── RunNotSucceeded     a run that was waited for ended without success
    │   ├── RunFailed       dead, lost, or what it depended on failed
    │   ├── RunCancelled    by somebody or by its own handler
    │   └── RunNotStarted   skipped, superseded or expired
    └── WaitTimedOut        a run that was waited for goes on

SQL functions and constraints raise the same SQLSTATEs (class ``PC``), so that Python, SQL and the
command line say the same sentence. `from_sqlstate` is the way back from the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

MOST_REPORTED: Final = 20
"""As many mistakes are named at once."""


class PgcronError(Exception):
    """An error in three sentences: what happened (message), why (detail), what to do (hint)."""

    sqlstate: ClassVar[str] = "PC000"
    page: ClassVar[str | None] = None
    """The document that helps: ``pgcron-ha docs PAGE``."""

    def __init__(self, message: str, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.parts: Sequence[PgcronError] = (self,)
        """The mistakes that `together` has put into one error."""

    def about(self, what: str) -> PgcronError:
        """The error, whose message begins with what it is about."""
        if len(self.parts) > 1:
            return together([part.about(what) for part in self.parts])
        return type(self)(f"{what}: {self.message}", self.detail, self.hint)

    def as_json(self) -> dict[str, str | None]:
        """The three sentences as ``{"message", "detail", "hint"}``; absent ones are None."""
        return {"message": self.message, "detail": self.detail, "hint": self.hint}

    def as_kept(self) -> str:
        """JSON text as rows keep it: the sentences and ``sqlstate``, so that SQL can raise it."""
        return json.dumps({**self.as_json(), "sqlstate": self.sqlstate})


class InvalidInput(PgcronError):
    """The request is not valid."""

    sqlstate = "PC001"


class InvalidSpec(InvalidInput):
    """A line of a schedule's spec is not what the grammar allows, or never fires."""

    sqlstate = "PC002"
    page = "specs"


class InvalidCalendar(InvalidInput):
    """A line of a calendar is not what the grammar allows, or the calendar contains itself."""

    sqlstate = "PC005"
    page = "specs"


class UnknownZone(InvalidInput):
    """A time zone that the IANA database of this installation does not contain."""

    sqlstate = "PC003"
    page = "specs"


class TooLarge(InvalidInput):
    """Args, a result or a text is larger than its bound."""

    sqlstate = "PC004"


class NotFound(PgcronError):
    """No schedule, run, queue or node of that name or id."""

    sqlstate = "PC010"


class Conflict(PgcronError):
    """The thing exists, but its state does not allow what was asked."""

    sqlstate = "PC011"


class VersionConflict(Conflict):
    """The thing has another version than the one the caller has read: an edit would be lost."""

    sqlstate = "PC014"


class Fenced(PgcronError):
    """The caller's token is not (or no longer) the one that holds the run."""

    sqlstate = "PC012"
    page = "lease"


class Refused(PgcronError):
    """A privilege, a mode or a policy forbids it."""

    sqlstate = "PC013"


class SchemaError(PgcronError):
    """The schema is missing, too old or too new for this program, or can't be made there."""

    sqlstate = "PC020"
    page = "deploy"


class DatabaseUnavailable(PgcronError):
    """No connection, or a server that can't be used."""

    sqlstate = "PC021"
    page = "settings"


class ConfigError(PgcronError):
    """A setting, an environment variable or the configuration file."""

    sqlstate = "PC030"


class RunNotSucceeded(PgcronError):
    """A run that was waited for ended without success: `run_id`, its `outcome` and `error`."""

    def __init__(
        self, run_id: int, outcome: str, error: str | None = None, *, has_steps: bool = False
    ) -> None:
        first, _, more = (error or "").partition("\n")
        kind, parts = ("workflows", "steps") if has_steps else ("runs", "attempts")
        ended = outcome.replace("_", " ")
        super().__init__(
            f"run {run_id} ended {ended}" + (f": {first[:200]}" if first else ""),
            error if more or first[200:] else None,
            f"`pgcron-ha {kind} show {run_id}` shows its {parts}.",
        )
        self.run_id = run_id
        self.outcome = outcome
        self.error = error


class RunFailed(RunNotSucceeded):
    """It is dead or lost, or what it depended on failed."""

    page = "retries"


class RunCancelled(RunNotSucceeded):
    """Somebody, or its own handler, cancelled it."""


class RunNotStarted(RunNotSucceeded):
    """It was skipped, superseded, or did not start in time."""

    page = "states"


class WaitTimedOut(PgcronError, TimeoutError):
    """A run that was waited for is not over; it goes on."""


class Mistakes:
    """Several checks of one definition: the error of one does not hide the next."""

    def __init__(self) -> None:
        self.found: list[PgcronError] = []

    @contextmanager
    def kept(self, what: str | None = None) -> Iterator[None]:
        """An error inside, about `what`, is kept, and raised by `raise_any`."""
        try:
            yield
        except PgcronError as error:
            self.found += (error if what is None else error.about(what)).parts

    def tried(self, check: Callable[..., Any], *values: Any) -> Any:
        """What `check` returns of the values; None if its error is kept."""
        try:  # A context manager would cost each enqueued run 6 µs.
            return check(*values)
        except PgcronError as error:
            self.found += error.parts
            return None

    def raise_any(self) -> None:
        """Raise what was kept: the error itself, or one that names them all."""
        if self.found:
            raise together(self.found)


def together(errors: Sequence[PgcronError]) -> PgcronError:
    """The only one of them, or an error whose detail names each (up to `MOST_REPORTED`)."""
    if len(errors) == 1:
        return errors[0]
    lines = [_in_one_line(error) for error in errors[:MOST_REPORTED]]
    if len(errors) > MOST_REPORTED:
        lines.append(f"and {len(errors) - MOST_REPORTED} more")
    all_of_them = InvalidInput(
        f"{len(errors)} mistakes",
        "\n  ".join(["Each of them:", *lines]),
        "Nothing is changed; correct them all.",
    )
    all_of_them.parts = tuple(errors)
    return all_of_them


def _in_one_line(error: PgcronError) -> str:
    """What happened, and the rule; what to do where there is no rule. "did you mean" is enough."""
    more = error.detail or error.hint
    if not more or error.message.endswith("?"):
        return error.message
    return f"{error.message}{'. ' if more[0].isupper() else ': '}{more}"


def missing_package(who: str, package: str, extra: str) -> ConfigError:
    """The error for what `who` needs, which one of our extras installs."""
    return ConfigError(
        f"{who} need the package {package}",
        "It is not installed.",
        f"Install pgcron-ha with the extra {extra}.",
    )


def from_sqlstate(
    sqlstate: str | None, message: str, detail: str | None, hint: str | None
) -> PgcronError | None:
    """The error for an SQLSTATE of pgcron_ha, or None when the code is not of class ``PC``."""
    if sqlstate is None or not sqlstate.startswith("PC"):
        return None
    kind = next((each for each in _kinds(PgcronError) if each.sqlstate == sqlstate), PgcronError)
    return kind(message, detail, hint)


def _kinds(kind: type[PgcronError]) -> Iterator[type[PgcronError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)
