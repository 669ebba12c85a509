from __future__ import annotations

from pgcron_ha.errors import PgcronError, Refused
from tests.product.engine import reported


def test_a_node_that_lacks_a_right_says_where_its_rights_come_from() -> None:
    said = reported(Refused("permission denied for table run", "SQLSTATE 42501"))

    assert said.startswith("permission denied for table run; ")
    assert "the role that migrated" in said
    assert reported(PgcronError("a deadlock", "SQLSTATE 40P01")) == "a deadlock"
