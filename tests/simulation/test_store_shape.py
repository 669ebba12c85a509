"""The stand-in knows what the engine sends, by the same names and parameters."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.house.checkout import files
from tests.product.db import load
from tests.simulation.store import Store

_SENT = re.compile(r"\b(?:rows|_take)\(\s*(?:\"[a-z ]+\",\s*)?\"(\w+)\"")
_ENGINE = "\n".join(path.read_text() for path in files(".py", under=("pgcron_ha/engine",)))
_NAMED_ELSEWHERE = (
    *("append_lines", "append_lines_again", "unpark_served", "unpark_mended"),
    *("replan", "apply_edit", "resume_overdue"),
)
SENT = sorted({*_SENT.findall(_ENGINE), *_NAMED_ELSEWHERE})


def test_the_engine_sends_what_is_looked_at_here() -> None:
    assert {
        "beat",
        "claim_runs",
        "claim_overlapping",
        "finish_runs",
        "materialize",
        "reap_runs",
    } <= set(SENT)


@pytest.mark.parametrize("name", SENT)
def test_a_statement_of_the_engine_is_a_method_of_the_stand_in(name: str) -> None:
    method = getattr(Store, name)
    known = inspect.signature(method).parameters
    needed = {key for key, one in known.items() if one.default is inspect.Parameter.empty}

    assert needed - {"self", "parameters"} <= set(load()[name].parameters)
    assert "parameters" in known or set(load()[name].parameters) <= set(known)
