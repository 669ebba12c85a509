from __future__ import annotations

import dataclasses
import io
import json
import logging
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest

from tests.product.telemetry import (
    LOGGER,
    Event,
    NodeJoined,
    PeerDied,
    RunFailed,
    RunIsStuck,
    RunsReaped,
    ServiceFailed,
    emit,
    events,
    set_up,
)

KINDS = [
    kind
    for kind in vars(events).values()
    if isinstance(kind, type) and issubclass(kind, Event) and dataclasses.fields(kind)
]
EXAMPLES: dict[Any, Any] = {
    str: "word",
    str | None: "word",
    int: 3,
    float: 1.5,
    bool: True,
    dict[str, int]: {"retry": 2},
}


def example(kind: type[Event]) -> Event:
    """One with some value in each field."""
    hints = get_type_hints(kind)
    return kind(**{each.name: EXAMPLES[hints[each.name]] for each in dataclasses.fields(kind)})


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    """The process's own logger, put back as it was."""
    logger = logging.getLogger(LOGGER)
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)
    logger.propagate = propagate


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_has_a_sentence_a_level_and_facts(kind: type[Event]) -> None:
    event = example(kind)

    assert event.sentence().strip()
    assert "\n" not in event.sentence()
    assert event.level in (logging.INFO, logging.WARNING, logging.ERROR)
    assert set(event.fields()) == {each.name for each in dataclasses.fields(kind)}
    json.dumps(event.fields())


def test_one_handler_is_one_handler() -> None:
    assert NodeJoined("n1", "abc", 1, 0).sentence().endswith("with 1 handler")
    assert NodeJoined("n1", "abc", 2, 0).sentence().endswith("with 2 handlers")


def test_what_is_not_tried_again_is_not_said_to_be() -> None:
    assert ServiceFailed("reaper", "no", 2.04).sentence() == "reaper: no; trying again in 2.0 s"
    assert ServiceFailed("session", "no sign-off", 0.0).sentence() == "session: no sign-off"


@pytest.mark.parametrize("kind", KINDS)
def test_no_event_can_be_changed(kind: type[Event]) -> None:
    event = example(kind)
    name = dataclasses.fields(kind)[0].name

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(event, name, None)


def test_an_event_without_a_sentence_is_a_bug() -> None:
    with pytest.raises(AttributeError, match="text"):
        Event().sentence()


def test_a_line_for_people_has_an_instant_a_level_and_the_sentence(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("text", "info", stream)

    emit(PeerDied("abc"))

    instant, level, sentence = stream.getvalue().rstrip("\n").split(maxsplit=2)
    assert instant[10] == "T"
    assert level == "WARNING"
    assert sentence == PeerDied("abc").sentence()


def test_a_line_for_machines_is_one_object_with_the_facts(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("json", "info", stream)

    emit(NodeJoined("n1", "abc", 4, 2))
    emit(RunsReaped({"retry": 3}))

    joined, reaped = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (joined["event"], joined["level"]) == ("NodeJoined", "info")
    assert (joined["node"], joined["handlers"], joined["predecessors"]) == ("n1", 4, 2)
    assert joined["message"] == NodeJoined("n1", "abc", 4, 2).sentence()
    assert reaped["verdicts"] == {"retry": 3}


def test_what_is_below_the_level_is_not_written(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("text", "error", stream)

    emit(PeerDied("abc"))
    assert stream.getvalue() == ""
    emit(RunIsStuck(1, "py:x", "timed_out"))

    assert "py:x" in stream.getvalue()


def test_setting_up_twice_writes_each_line_once(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("text", "info", stream)
    set_up("text", "info", stream)

    emit(PeerDied("abc"))

    assert len(stream.getvalue().splitlines()) == 1


def test_records_of_others_and_errors_are_lines_too(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("json", "info", stream)

    try:
        raise ValueError("strange")
    except ValueError:
        logger.exception("a bug: %s", "here")

    line = json.loads(stream.getvalue())
    assert line["message"] == "a bug: here"
    assert "ValueError: strange" in line["traceback"]
    assert "event" not in line


def test_half_of_a_surrogate_pair_in_a_sentence_is_escaped(logger: logging.Logger) -> None:
    stream = io.StringIO()
    set_up("text", "info", stream)

    emit(RunFailed(1, "py:a", 1, "dead", "half \ud800 of a pair"))

    assert "half \\ud800 of a pair" in stream.getvalue()
    assert logger.handlers
