"""What a node knows to be a secret is in nothing that is kept of a run."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import Context, Failed
from pgcron_ha.executors.contract.failures import outcome_of_result
from tests.executors.isolated_handlers import app
from tests.executors.running import NOWHERE, Record, context, no_link, template
from tests.product.client import child_program
from tests.product.executors import (
    MAX_LINE_BYTES,
    ChildPool,
    RunLog,
    ShellExecutor,
    Succeeded,
    masking,
    remember_password,
    remember_secret,
)

SECRET = 'Zk4"Q/tr7 ö+Xw9'
PIECE = 5  # so many characters of it in a row are not seen by chance


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_secrets", set())
    monkeypatch.setattr(masking, "_known", masking.Masker(()))
    remember_secret(SECRET)


def is_in(text: str) -> bool:
    """Whether a piece of the secret is."""
    text = text.replace('\\"', '"').replace("\\u00f6", "ö")
    return any(SECRET[i : i + PIECE] in text for i in range(len(SECRET) - PIECE + 1))


def lines_of(feed: list[str], reads_progress: bool = False) -> tuple[list[str], Record]:
    record = Record()
    log = RunLog(context(1, "py:t"), record, reads_progress)
    for text in feed:
        log.feed("stdout", text)
    log.finish()
    return [line for _, _, line in record.lines], record


def test_a_line_is_without_it_at_any_offset_of_any_chunk() -> None:
    whole = f"before {SECRET} and after\n"
    for cut in range(len(whole)):
        lines, _ = lines_of([whole[:cut], whole[cut:]])
        assert lines == ["before *** and after"]
    lines, _ = lines_of(list(whole))
    assert lines == ["before *** and after"]


@pytest.mark.parametrize("after", ["", "\n", "x" * 9000, f" {SECRET}" * 800])
def test_no_part_of_it_stands_before_the_cut_of_a_long_line(after: str) -> None:
    for before in range(MAX_LINE_BYTES - 40, MAX_LINE_BYTES + 5):
        lines, _ = lines_of(["x" * before, SECRET + after])
        assert not is_in("".join(lines))
        assert all(len(line.encode()) <= MAX_LINE_BYTES for line in lines)


def test_a_line_of_many_is_without_it_and_without_a_part_of_it() -> None:
    for number in range(700, 1000, 7):
        lines, _ = lines_of([f"{SECRET} " * number])
        assert not is_in("".join(lines))


def test_what_looks_like_one_is_masked_in_lines_as_in_errors() -> None:
    said = 'postgresql://me:hunter22@host/db\n{"password": "hunter22"}\n'
    lines, _ = lines_of([f"{said}Authorization: Basic aHVudGVy\n"])
    assert lines == ["postgresql://me:***@host/db", '{"password": ***}', "Authorization: ***"]


def test_a_note_of_progress_is_without_it() -> None:
    for before in range(0, 900, 3):
        _, record = lines_of([f"::progress 1/2 {'n' * before}{SECRET}\n"], reads_progress=True)
        [report] = record.reports
        assert not is_in(report.note or "")


@pytest.mark.parametrize("value", [SECRET, [SECRET], {"a": {SECRET: f"x{SECRET}y"}}])
def test_a_result_is_without_it(value: Any) -> None:
    outcome = outcome_of_result({"value": value, "other": 'a "b" ö'})
    assert isinstance(outcome, Succeeded)
    assert not is_in(outcome.text or "")
    assert json.loads(outcome.text or "") == outcome.result
    assert outcome.result["other"] == 'a "b" ö'


def test_the_password_of_a_dsn_is_known_in_each_of_its_forms() -> None:
    remember_password("postgresql://me:p%40ss%2Fw0rd-9@host/db")
    for form in ("p@ss/w0rd-9", "p%40ss%2Fw0rd-9", "cEBzcy93MHJkLTk"):
        lines, _ = lines_of([f"it is {form}!\n"])
        assert lines in (["it is ***!"], ["it is ***=!"])


def test_each_line_of_a_secret_of_several_is_one() -> None:
    key = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQ", "EFAASCBKcwggSjAgEAAoIBAQC7"])
    remember_secret(key)
    lines, _ = lines_of([f"{key}\n"])
    assert lines == ["***", "***"]


@pytest.mark.parametrize("before", [3, 180, 191, 4090, 8185, 8190])
async def test_an_isolated_handler_leaves_none_of_it(before: int) -> None:
    record = Record()
    program = child_program(["tests.executors.isolated_handlers:app"], NOWHERE, "pgcron")
    running = ChildPool(app.handlers, program, record.services(1))
    try:
        for more in (0, 1):
            run = context(more, "py:leaks", {"secret": SECRET, "before": before + more})
            running.start([run])
            outcome = await asyncio.to_thread(record.outcome, run)
            assert not is_in(_kept_of(run, outcome, record))
    finally:
        await running.close(5)


async def test_a_program_leaves_none_of_it_also_in_the_end_of_its_stderr() -> None:
    record = Record()
    script = (
        f"import sys; print({SECRET!r}); [sys.stderr.write('-' * n + {SECRET!r}) for n in {{}}]"
    )
    offered = {
        f"t{n}": template(
            *(sys.executable, "-I", "-c", script.format([5000, n]) + "; sys.exit(3)"), name=f"t{n}"
        )
        for n in range(2020, 2056, 3)
    }
    running = ShellExecutor(offered, record.services(), no_link())
    try:
        runs = [context(number, f"shell:{name}") for number, name in enumerate(offered)]
        running.start(runs)
        for run in runs:
            outcome = await asyncio.to_thread(record.outcome, run)
            assert isinstance(outcome, Failed)
            assert not is_in(_kept_of(run, outcome, record))
    finally:
        await running.close(5)


def _kept_of(run: Context, outcome: Any, record: Record) -> str:
    return repr([outcome, record.lines_of(run), record.reports])
