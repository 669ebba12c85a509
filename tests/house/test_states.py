"""The table of transitions, the comments of the SQL that makes them, and the picture are one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from tests.house.checkout import ROOT, files
from tests.model.moves import TABLE
from tests.product.db import load
from tests.product.model import RunOutcome

Arrows = frozenset[tuple[str, str]]

_ARROW = re.compile(r"^(?:-- )?(\w+) -> (\w+(?:, \w+)*)$")
# A function and the comment lines right above it.
_FUNCTION = re.compile(r"((?:^--[^\n]*\n)*)^CREATE FUNCTION pgcron\.(\w+)\(", re.MULTILINE)
_STATEMENT = re.compile(r"^-- name: (\w+)\n((?:--[^\n]*\n)*)", re.MULTILINE)
_NEW_STATE = re.compile(r"\bSET state = '(\w+)'")
_MIGRATIONS = "\n".join(path.read_text() for path in files(".sql", under=("migrations/sql",)))
_NAMED = "\n".join(path.read_text() for path in files(".sql", under=("pgcron_ha/db/sql",)))

PAGE = (ROOT / "docs" / "reference" / "states.md").read_text()

LIVE = {"blocked", "ready", "running"}
OUTCOMES = {outcome.value for outcome in RunOutcome}


def arrows(lines: Iterable[str]) -> Arrows:
    found = (match for line in lines if (match := _ARROW.match(line)))
    return frozenset((match[1], target) for match in found for target in match[2].split(", "))


STATEMENTS = {name: arrows(text.splitlines()) for name, text in _STATEMENT.findall(_NAMED)}
STATEMENTS["finish_runs_overflow"] = STATEMENTS["finish_runs"]
FUNCTIONS = {name: arrows(text.splitlines()) for text, name in _FUNCTION.findall(_MIGRATIONS)}


def check_list(rule: str) -> set[str]:
    """The values that a CHECK, or a rule of `pgcron.judge_run`, allows."""
    match = re.search(
        rf"CONSTRAINT {rule}\s+CHECK \(\w+ IN \(([^)]+)\)\)"
        rf"|WHEN \([\w.]+ IN \(([^)]+)\)\) IS NOT TRUE\s+THEN '{rule}'",
        _MIGRATIONS,
    )
    assert match is not None
    return set(re.findall(r"'(\w+)'", match[1] or match[2]))


def test_the_statements_make_the_transitions_of_the_table() -> None:
    assert frozenset().union(*STATEMENTS.values()) == TABLE


def test_the_functions_make_no_other_transition() -> None:
    assert frozenset().union(*FUNCTIONS.values()) == TABLE


@pytest.mark.parametrize("name", [name for name, made in FUNCTIONS.items() if made])
def test_a_statement_says_what_the_function_it_calls_does(name: str) -> None:
    called = re.compile(rf"\bpgcron\.{name}\(")
    callers = {one.name for one in load().values() if called.search(one.sql)}

    assert all(STATEMENTS[caller] == FUNCTIONS[name] for caller in callers)


def test_a_statement_that_sets_a_state_says_so() -> None:
    for name, statement in load().items():
        states = {state for state in _NEW_STATE.findall(statement.sql) if state in LIVE}
        assert states <= {end for _, end in STATEMENTS[name]}, name


def test_a_statement_that_ends_runs_says_how() -> None:
    for name, statement in load().items():
        if "DELETE FROM pgcron.run " in statement.sql:
            assert {end for _, end in STATEMENTS[name]} & OUTCOMES, name


def test_the_picture_of_the_documents_shows_the_table() -> None:
    drawn = re.findall(r"^(\w+) *→ (.+)$", PAGE, re.M)

    assert sorted((begin, end) for begin, ends in drawn for end in ends.split(", ")) == sorted(
        TABLE
    )


def test_the_documents_explain_each_state_and_each_outcome() -> None:
    explained = PAGE.partition("```\n")[2].partition("Pages and commands")[0]

    assert set(re.findall(r"^\| `(\w+)` \|", explained, re.M)) == LIVE | OUTCOMES


def test_the_documents_have_the_reasons_that_pgcron_why_gives() -> None:
    values = _MIGRATIONS.partition("INSERT INTO pgcron.reason ")[2].partition(";\n")[0]
    texts = r"\('(\w+)', '([\w ]+)', (?:NULL|'[^']*'),\s+'((?:[^']|'')*)'\)"
    given = {
        (code, decision, words.replace("''", "'"))
        for code, decision, words in re.findall(texts, values)
    }
    of_fires = PAGE.partition("## Why a fire did not run")[2]
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| ([^|]+) \|$", of_fires, re.M)

    assert len(given) == values.count("('")
    assert set(rows) == given


def test_the_documents_have_each_word_for_what_a_run_waits_for() -> None:
    said = re.findall(r"waits_for := ([^;]+);", _MIGRATIONS)
    table = PAGE.partition("## Why a run waits")[2].partition("```sql")[0]

    words = set(re.findall(r"'(\w+)'", " ".join(said)))
    first_column = "".join(re.findall(r"^\| (`.*?) \|", table, re.M))
    assert words == set(re.findall(r"`(\w+)`", first_column)) - {"waits_for"}


def test_nothing_leaves_an_outcome_and_only_workflows_are_blocked_while_they_run() -> None:
    assert {start for start, _ in TABLE} <= LIVE
    makers = {name for name, made in FUNCTIONS.items() if ("running", "blocked") in made}
    assert makers == {"start_claimed_workflows"}
    assert ("blocked", "running") not in TABLE


def test_the_checks_of_the_schema_know_the_same_words() -> None:
    assert check_list("a_live_run_is_blocked_ready_or_running") == LIVE
    assert check_list("an_outcome_is_known") == OUTCOMES
