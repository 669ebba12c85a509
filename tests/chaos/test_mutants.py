"""The mutants fit the product as it is: what each takes away is still there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.mutants import MUTANTS
from tests.chaos.nemeses import ways_of
from tests.chaos.taking_away import Mutant, StaleMutant
from tests.e2e.ledger import Connection
from tests.e2e.nodes import CHECKOUT
from tests.product.db import load
from tests.waiting import COMMAND_SECONDS

_EACH_IN_A_PROCESS = """
import os
from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.driver.revision import NEWEST
from tests.chaos.mutants import MUTANTS
before = {name: one.sql for name, one in Link("", "pgcron", revision=NEWEST)._statements.items()}
for mutant in MUTANTS:
    child = os.fork()
    if child == 0:
        mutant.change_node()
        sent = Link("", "pgcron", revision=NEWEST)._statements
        changed = {name for name, sql in before.items() if sent[name].sql != sql}
        os._exit(changed != set(mutant.texts))
    if os.waitpid(child, 0)[1]:
        raise SystemExit(f"{mutant.name} does not fit")
"""


def test_each_mutant_fits_the_node() -> None:
    process = subprocess.run(
        [sys.executable, "-c", _EACH_IN_A_PROCESS],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        timeout=COMMAND_SECONDS,
        check=False,
    )

    assert (process.returncode, process.stderr) == (0, "")


async def test_each_mutant_fits_the_database(connection: Connection) -> None:
    for mutant in MUTANTS:
        transaction = connection.transaction()
        await transaction.start()
        await mutant.change_database(connection)
        for statement in mutant.statements(load("pgcron")):
            prepared = await connection.prepare(statement.sql)
            assert len(prepared.get_parameters()) == len(statement.parameters), mutant.name
        await transaction.rollback()


async def test_a_mutant_that_fits_nothing_says_so(connection: Connection) -> None:
    stale = Mutant("stale", "", functions={"enqueue": (("no such words", ""),)})

    with pytest.raises(StaleMutant, match="no such words"):
        await stale.change_database(connection)
    with pytest.raises(StaleMutant, match="no such words"):
        Mutant("stale", "", texts={"beat": (("no such words", ""),)}).change_node()


def test_mutants_have_names_of_their_own_and_nemeses_that_there_are() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    assert all(ways_of(need) for mutant in MUTANTS for need in mutant.needs)
    assert not ways_of("N19.nothing")
    assert not ways_of("N0")
    assert all(mutant.texts or mutant.functions or mutant.in_node for mutant in MUTANTS)
