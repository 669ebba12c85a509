"""How long records are kept, as people see and set it: ``sql/storage.sql``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

retention: Final = Rows("list_retention", limit=DEFAULT_LIMIT)
"""Tables (`relation`) first, then rules (`queue`, `outcome`; None: every), the most specific first:
`keep` is what was set, `in_force` is shorter where history as a whole is.
"""

set_retention: Final = Call[None]("set_retention", "keep")
"""Keeps such runs (`queue`, `outcome`) for a shorter time than history, after their end.
InvalidInput.
"""

delete_retention: Final = Call[None]("delete_retention")
"""Deletes the rule for just these (`queue`, `outcome`); what is left holds. NotFound."""

set_table_retention: Final = Call[None]("set_table_retention", "relation", "keep")
"""How long a table's partitions are kept: occurrence, history, attempt or log. InvalidInput,
NotFound.
"""


def scope_words(row: Mapping[str, Any]) -> str:
    """What a row of `retention` is about: ``succeeded runs of queue 'mail'``."""
    if row["relation"] is not None:
        return str(row["relation"])
    outcome = "ended" if row["outcome"] is None else row["outcome"].replace("_", " ")
    return f"{outcome} runs" + ("" if row["queue"] is None else f" of queue '{row['queue']}'")
