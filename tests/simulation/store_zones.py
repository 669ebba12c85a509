"""The stand-in of ``zones.sql``: all nodes here have the same time zones."""

from __future__ import annotations

from typing import Any

from tests.simulation.tables import Row


class ZoneStatements:
    def cluster_zones(self) -> list[Row]:
        return [Row(tzdata=None, now=None, is_changing=False)]

    def rules_that_differ(self, **parameters: Any) -> list[Row]:
        return []

    def take_zones(self, **parameters: Any) -> list[Row]:
        return [Row(is_taken=False)]

    def zone_changes_under_way(self) -> list[Row]:
        return []

    def schedules_to_sweep(self, **parameters: Any) -> list[Row]:
        return []

    def postponed_schedules(self, **parameters: Any) -> list[Row]:
        return []

    def take_rules(self, **parameters: Any) -> list[Row]:
        return [Row(remade=None)]
