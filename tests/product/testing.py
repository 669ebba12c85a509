"""Parts of ``pgcron_ha.testing`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.testing.conformance import ExecutorConformance, Sample, Trial
from pgcron_ha.testing.running import SchemaUnderTest
from pgcron_ha.testing.workflows import statuses, with_outcomes

__all__ = ["ExecutorConformance", "Sample", "SchemaUnderTest", "Trial", "statuses", "with_outcomes"]
