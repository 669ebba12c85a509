"""Parts of ``pgcron_ha.model`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.model import formats
from pgcron_ha.model.backfill import MOST_INSTANTS, count, following
from pgcron_ha.model.formats import MARKS, plain, size
from pgcron_ha.model.health import judge
from pgcron_ha.model.permissions import (
    LOCAL,
    OF_THE_CLUSTER,
    OWN_ACCOUNT,
    ROLE_OF,
    ROLES,
    Grant,
    Person,
)
from pgcron_ha.model.plan import (
    COUNTED_EXACTLY,
    MOST_STEPS_OF_PLAN,
    Missed,
    MissedReason,
    Plan,
    catchup_policy,
    delay_of,
    plan,
)
from pgcron_ha.model.run import RunOutcome
from pgcron_ha.model.storage import tables_of
from pgcron_ha.model.verdicts import reason_words, step_sentence
from pgcron_ha.model.workflow_graph import DEEPEST, mermaid, text_lines

__all__ = [
    "COUNTED_EXACTLY",
    "DEEPEST",
    "LOCAL",
    "MARKS",
    "MOST_INSTANTS",
    "MOST_STEPS_OF_PLAN",
    "OF_THE_CLUSTER",
    "OWN_ACCOUNT",
    "ROLES",
    "ROLE_OF",
    "Grant",
    "Missed",
    "MissedReason",
    "Person",
    "Plan",
    "RunOutcome",
    "catchup_policy",
    "count",
    "delay_of",
    "following",
    "formats",
    "judge",
    "mermaid",
    "plain",
    "plan",
    "reason_words",
    "size",
    "step_sentence",
    "tables_of",
    "text_lines",
]
