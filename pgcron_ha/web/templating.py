"""Templates and static files: loaded once, escaped always, addressed by their content; and what
each page has around its content: the links on top, and what was just done.
"""

from __future__ import annotations

import hashlib
from functools import cache
from inspect import getmembers, isfunction
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pgcron_ha import assets
from pgcron_ha.harmless import left_out
from pgcron_ha.model import formats

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_CHARACTERS: Final = 12
# ``?done=WORD`` after a verb: words, so that a link can't put sentences into the page.
NOTICES: Final[dict[str, str]] = {
    "run": "A run was made; it starts as soon as a node takes it.",
    "paused": "Paused: no fires from now on.",
    "created": "Created: nodes begin with its next fire.",
    "edited": "Saved: what is due keeps the old definition, later fires follow the new one.",
    "restored": "Restored: the version from then is the newest now.",
    "schedule_deleted": "Deleted: what waited is cancelled, what runs goes on, its history stays.",
    "renamed": "Renamed: what waits follows the name; what has begun keeps the old one.",
    "backfill": "Started: nodes make its runs, a few at a time.",
    "backfill_paused": "Paused: it makes no more runs; those that were made go on.",
    "backfill_resumed": "Resumed: it goes on.",
    "backfill_stopped": "Stopped: what waited is cancelled, what runs goes on.",
    "calendar_saved": "Saved: the schedules that use it follow it from now on.",
    "calendar_deleted": "The calendar is deleted.",
    "fire_skipped": "Skipped: it will not run then.",
    "fire_moved": "Moved: it runs at the other time, as the fire of its own.",
    "fire_edited": "It will run with these args.",
    "fire_restored": "Restored: it is as the schedule says.",
    "resumed": "Resumed: it fires again from now on.",
    "password_set": "The password is set; your other sessions have ended. Tokens stay: see below.",
    "sessions_ended": "Ended: what had such a session must log in again.",
    "token_revoked": "The token is worth nothing from now on.",
    "queue_paused": "Paused: no node takes runs from this queue; what runs goes on.",
    "queue_resumed": "Resumed: its runs are taken again.",
    "cordoned": "Cordoned: it takes nothing new; what it holds goes on.",
    "uncordoned": "It takes runs again.",
    "breaker_reset": "Reset: the runs that waited for it go now.",
    "cancelled": "Cancelled: it had not begun and never will.",
    "cancel_requested": "It was asked to stop.",
    "kill_requested": "It was asked to end at once.",
    "finished": "It had ended already; nothing was changed.",
    "retried": "It is due now.",
    "rerun": "It runs again as this new run.",
    "repeated": "This form had been sent already; this is the run that it made.",
    "redriven": "The dead letter runs again as this new run.",
    "redriven_none": "Nothing of this cause was left to run again: no run was made.",
    "started": "Started: its steps begin as soon as a node takes it.",
    "workflow_paused": "Paused: no further step of it begins; those that execute go on.",
    "workflow_resumed": "Resumed: its steps begin again.",
    "step_signalled": "The step has got it, and its dependents go on.",
    "signal_kept": "Kept: the step takes it once it waits for it.",
    "step_skipped": "Skipped: what comes after it goes on as its rule says.",
    "step_succeeded": "Marked as succeeded: what comes after it goes on.",
    "step_cleared": "It and all that comes after it run again.",
    "step_args_set": "It will begin with these args.",
    "archived": "Archived: closed without another run; they stay in the list of all.",
    "archived_none": "Nothing of it was open: nothing was changed.",
    "redriven_cause": "Its letters run again as new runs; those that were lost are left.",
}

# The links on top of each page: name of the route, its word, the key after "g", and the document
# that explains the pages of this section.
NAVIGATION: Final[tuple[tuple[str, str, str, str], ...]] = (
    ("overview", "Overview", "o", "on-call"),
    ("schedules", "Schedules", "s", "specs"),
    ("workflows", "Workflows", "w", "states"),
    ("runs", "Runs", "r", "states"),
    ("dead", "Dead letters", "d", "retries"),
    ("queues", "Queues", "q", "queues"),
    ("nodes", "Nodes", "n", "lease"),
    ("storage", "Storage", "t", "settings"),
    ("audit", "Audit", "a", "audit"),
    ("roles", "Roles", "l", "roles"),
    ("docs", "Documents", "h", "glossary"),
)
# Pages whose link on top is that of another address.
_SECTIONS: Final = {
    "": "overview",
    **dict.fromkeys(("new-schedule", "backfills", "calendars"), "schedules"),
}
DOCUMENTS: Final = {
    **{route: document for route, _, _, document in NAVIGATION},
    **dict.fromkeys(("login", "account"), "log-in"),
}
"""The document that explains the pages of a section; of the others it is the one for on call."""


def section_of(path: str) -> str:
    """The link on top that a page belongs to, by the first segment of its path."""
    first = path[1:].partition("/")[0]
    return _SECTIONS.get(first, first)


@cache
def static_files() -> dict[str, tuple[str, bytes, str]]:
    """All of ``web/static``, read once: of ``app.css`` its name in addresses, content and type.

    That name, ``app.0123456789ab.css``, has a hash, so browsers keep the file for ever.
    """
    found = {}
    for path in assets.STATIC.iterdir():
        if path.suffix in _TYPES:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:_HASH_CHARACTERS]
            name = f"{path.stem}.{digest}{path.suffix}"
            found[path.name] = name, content, _TYPES[path.suffix]
    return found


@cache
def templates() -> Environment:
    """``web/templates``, compiled: everything is escaped, nothing undefined is let through.

    It takes half a second, once for each process.
    """
    environment = Environment(
        loader=FileSystemLoader(assets.TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Each function that words a value is a filter of its name.
    environment.filters.update(
        getmembers(formats, isfunction), harmless=left_out, mark=formats.mark_of
    )
    environment.globals.update(
        static=lambda name: static_files()[name][0], navigation=NAVIGATION, documents=DOCUMENTS
    )
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    return environment
