"""Parts of ``pgcron_ha.schedule_files`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.schedule_files.crontab import import_crontab
from pgcron_ha.schedule_files.definitions import (
    KEYS,
    POLICIES,
    as_yaml,
    definition_of,
    judged_schedule,
    read_definitions,
    workflow_of,
)
from pgcron_ha.schedule_files.documents import MOST_VALUES, Document, read_yaml
from pgcron_ha.schedule_files.imported import Imported, as_argv
from pgcron_ha.schedule_files.json_schema import json_schema
from pgcron_ha.schedule_files.kubernetes import import_kubernetes
from pgcron_ha.schedule_files.pg_cron import import_pg_cron

__all__ = [
    "KEYS",
    "MOST_VALUES",
    "POLICIES",
    "Document",
    "Imported",
    "as_argv",
    "as_yaml",
    "definition_of",
    "import_crontab",
    "import_kubernetes",
    "import_pg_cron",
    "json_schema",
    "judged_schedule",
    "read_definitions",
    "read_yaml",
    "workflow_of",
]
