"""The version after this one, as it may be: a copy of this package that brings one revision more.

Its nodes write a column that the revision adds, and its `count_beats` reads it: so the tests have
two versions that are neighbours, whatever was released.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from tests.house.checkout import ROOT
from tests.product.db import NEWEST

VERSION: Final = "9999"
REVISION: Final = f"pgcron_{int(NEWEST[-4:]) + 1:04}"

_STEP: Final = f'''
"""Expands: counts the beats of a node."""

from pgcron_ha.db.schema.steps import begin_step, run_script

revision = "{REVISION}"
down_revision = "{NEWEST}"


def upgrade() -> None:
    if begin_step(revision):
        run_script("beats")
'''
_ADDED: Final = "ALTER TABLE pgcron.node ADD beats bigint NOT NULL DEFAULT 0;\n"
_COUNTED: Final = f"""
-- name: count_beats
-- since: {REVISION}
SELECT sum(n.beats)::bigint AS beats FROM pgcron.node n;
"""


def make(folder: Path) -> Path:
    """Makes it a folder for PYTHONPATH: what an installation without dependencies would be."""
    shutil.copytree(ROOT / "pgcron_ha", folder / "pgcron_ha")
    shutil.copytree(ROOT / "migrations", folder / "migrations")
    (folder / "web").symlink_to(ROOT / "web")
    about = folder / f"pgcron_ha-{VERSION}.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text(f"Metadata-Version: 2.1\nName: pgcron_ha\nVersion: {VERSION}\n")

    revision = folder / "pgcron_ha/db/driver/revision.py"
    revision.write_text(_changed(revision.read_text(), f'NEWEST: Final = "{NEWEST}"', REVISION))
    (folder / "migrations/versions/expand_beats.py").write_text(_STEP)
    (folder / "migrations/sql/beats.sql").write_text(_ADDED)
    nodes = folder / "pgcron_ha/db/sql/nodes.sql"
    nodes.write_text(nodes.read_text() + _COUNTED + _beat(nodes.read_text()))
    return folder


def _changed(text: str, line: str, revision: str) -> str:
    assert line in text
    return text.replace(line, line.replace(NEWEST, revision))


def _beat(statements: str) -> str:
    """The variant of `beat` that counts."""
    head = "-- name: beat\n"
    [older] = [text for text in statements.split("\n\n") if text.lstrip().startswith(head)]
    counts = "beat_sequence = beat_sequence + 1"
    assert counts in older
    newer = older.replace(counts, f"{counts}, beats = beats + 1")
    return "\n" + newer.replace(head, f"{head}-- since: {REVISION}\n") + "\n"
