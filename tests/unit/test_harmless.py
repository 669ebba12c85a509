"""What text from outside becomes before it reaches a terminal or a log."""

from __future__ import annotations

import io
import json
import logging

import pytest

from pgcron_ha.harmless import harmless, harmless_json, has_controls, one_line
from tests.product.telemetry import log

EVIL = "\x1b]0;mine\x07 \x9b2J \u202egnp\u2066 \r\b \x7f \U000e0041"


def test_controls_and_format_characters_are_escapes() -> None:
    assert harmless("\x1b[2J\x9b\u202e\U000e0041\ud800\r") == (
        "\\x1b[2J\\x9b\\u202e\\U000e0041\\ud800\\r"
    )
    assert harmless("zwei\n\tZeilen 👩\u200d👩 דוח\xa0") == "zwei\n\tZeilen 👩\u200d👩 דוח\xa0"
    assert one_line("one\ntwo") == "one\\ntwo"


def test_json_stays_the_same_document() -> None:
    document = {"error": EVIL, "name": "דוח"}

    text = harmless_json(json.dumps(document, ensure_ascii=False))

    assert json.loads(text) == document
    assert text.isprintable()


def test_names_have_no_controls() -> None:
    assert [has_controls(name) for name in ("a\x1bb", "a\nb", "a\u202eb", "a\x00", "\ud800")] == (
        [True] * 5
    )
    assert not any(map(has_controls, ("report ü 👩\u200d👩", "דוח", "日報", "a\xa0b")))


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.mark.parametrize("style", ["text", "json"])
def test_nothing_from_outside_begins_a_line_of_the_log(written: io.StringIO, style: str) -> None:
    logger = logging.getLogger(log.LOGGER)
    before = logger.handlers[:], logger.level, logger.propagate
    forged = "boom\n2026-01-01T00:00:00+0000 INFO    node 'n1' joined"
    try:
        log.set_up(style, "info", written)
        logger.error("it failed: %s", forged + EVIL)
        try:
            raise ValueError(forged + EVIL)
        except ValueError:
            logger.exception("request failed")
    finally:
        logger.handlers[:], logger.level, logger.propagate = before

    lines = written.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("2026-01-01")] == []
    assert sum(line.startswith(("2", "{")) for line in lines) == 2
