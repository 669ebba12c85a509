"""The progress that runs report: checked, bounded, and read from lines of a program.

A program that is no Python reports with a line of its output that begins with ``::progress``::

    echo "::progress 3/10 copying orders"    # 3 of 10; the note may be left out
    echo "::progress 40% uploading"          # the same as 40/100
    echo "::progress 12000 rows"             # of an unknown total

Such a line is not kept in the log. A line that has another form is an ordinary one.
"""

from __future__ import annotations

import math
import re
from typing import Final, NamedTuple

from pgcron_ha.executors.contract.masking import Masker, masked_beginning, room

MARK: Final = "::progress "

MOST_NOTE: Final = 200
"""Characters of a note: it is shown beside a bar, on one line."""

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_LINE: Final = re.compile(rf"::progress ({_NUMBER})(%|/({_NUMBER}))?(?:\s+(.*))?\s*", re.DOTALL)


class Progress(NamedTuple):
    """`done` of `total` (None: unknown), and a note of one line."""

    done: float
    total: float | None
    note: str | None


def checked(
    done: float, total: float | None, note: str | None, own: Masker | None = None
) -> Progress | None:
    """What a handler reports; None for a number that is negative or not finite: a senseless report
    must not end the work that it is about.
    """
    try:
        done, total = float(done), None if total is None else float(total)
    except OverflowError:  # an integer that no float can hold
        return None
    if not math.isfinite(done) or done < 0:
        return None
    if total is not None:
        total = total if math.isfinite(total) and total > 0 else None
    return Progress(done, total, None if note is None else _one_line(str(note), own))


def read_line(line: str, own: Masker | None = None) -> Progress | None:
    """What a line of output reports, or None when it is an ordinary line."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    total = 100.0 if found[2] == "%" else float(found[3] or 0)
    return Progress(float(found[1]), total or None, _one_line(found[4] or "", own) or None)


def _one_line(note: str, own: Masker | None) -> str:
    """What PostgreSQL can keep and a terminal can show: no secret, no control character, no
    surrogate.
    """
    words = " ".join(masked_beginning(note, 4 * MOST_NOTE, own).split())
    kept = "".join(each for each in words if each.isprintable())
    return kept.encode("utf-8", "replace").decode("utf-8")[: room(MOST_NOTE)]
