"""``pgcron-ha`` with failpoints, and with one guard taken away when a mutant is tried.

``python -m tests.chaos.node_program node --name n1 …``
"""

from __future__ import annotations

import json
import os
import sys

from tests.chaos import failpoints, mutants, record
from tests.product.cli import main


def begin() -> int:
    """What the environment asks for, then the product's own program."""
    points = failpoints.Failpoints(**json.loads(os.environ[failpoints.VARIABLE]))
    failpoints.install(points)
    mutant = os.environ.get(mutants.VARIABLE)
    if mutant:
        mutants.BY_NAME[mutant].change_node()
    skew = points.skew_seconds
    record.write("node", name=os.environ["CHAOS_NODE"], mutant=mutant, skew=skew)
    return main()


if __name__ == "__main__":
    sys.exit(begin())
