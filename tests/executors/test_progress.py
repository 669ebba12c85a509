"""What a handler says of how far it is."""

from __future__ import annotations

import math
import uuid

import pytest

from tests.executors.running import Record, context
from tests.product.executors import MOST_NOTE, Progress, RunServices, read_line

LINES = {
    "::progress 3/10": Progress(3, 10, None),
    "::progress 3/10 copying orders": Progress(3, 10, "copying orders"),
    "::progress 12.5%": Progress(12.5, 100, None),
    "::progress 40%  up loading ": Progress(40, 100, "up loading"),
    "::progress 12000 rows": Progress(12000, None, "rows"),
    "::progress 0/0": Progress(0, None, None),
    "::progress": None,
    "::progress soon": None,
    "::progress 3/": None,
    "::progress -1/3": None,
    "::progress 1e400": None,
    "::progress 3of10": None,
    " ::progress 3/10": None,
    f"::progress {'9' * 16}": None,
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_output_reports_or_is_an_ordinary_line(line: str) -> None:
    assert read_line(line) == LINES[line]


def reported(*arguments: object) -> list[Progress]:
    record = Record()
    run = context(1, "py:any")
    run._services = RunServices(record)
    run.progress(*arguments)  # type: ignore[arg-type]
    return record.reports


def test_a_report_that_makes_no_sense_is_not_told() -> None:
    assert reported(math.nan) == reported(math.inf, 3) == reported(-1, 3) == []
    assert reported(10**400) == []
    assert reported(3, 0) == reported(3, math.nan) == [Progress(3, None, None)]


def test_a_note_is_one_line_that_harms_no_terminal() -> None:
    (told,) = reported(1, 2, "two\nlines \x1b[31m\u202e\0\ud800" + "x" * 1000)

    assert told.note is not None
    assert told.note.startswith("two lines [31mxx")
    assert len(told.note) == MOST_NOTE


def test_a_run_without_an_executor_reports_to_nobody() -> None:
    context(uuid.uuid4().int & 0xFFFF, "py:any").progress(1, 2)
