"""Parts of ``pgcron_ha.testing`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.testing.conformance import ExecutorConformance, Sample
from pgcron_ha.testing.running import SchemaUnderTest

__all__ = [
    "ExecutorConformance",
    "Sample",
    "SchemaUnderTest",
]
