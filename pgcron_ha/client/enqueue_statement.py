"""What a program without an event loop executes itself, in its own transaction."""

from __future__ import annotations

from typing import NamedTuple

from pgcron_ha.db.driver.callers import Parameters


class EnqueueStatement(NamedTuple):
    """``cursor.execute(*statement)``; its one row has the run's id (of many runs an array of ids).

    What only the database can refuse comes as the driver's own error, with an SQLSTATE of class
    ``PC``, message, detail and hint.
    """

    sql: str
    parameters: Parameters
