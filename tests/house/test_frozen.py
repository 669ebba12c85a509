"""What databases have had run is never changed: a change is a revision of its own."""

from __future__ import annotations

import hashlib

from tests.house.checkout import ROOT

MIGRATIONS = ROOT / "migrations"
# In the form of `sha256sum`; `cd migrations && sha256sum -c sql/0001.sha256` says the same.
FROZEN = {
    name: digest
    for listed in sorted((MIGRATIONS / "sql").glob("*.sha256"))
    for digest, name in (line.split() for line in listed.read_text().splitlines())
}


def test_released_revisions_are_as_they_were_released() -> None:
    found = {
        name: hashlib.sha256((MIGRATIONS / name).read_bytes()).hexdigest()
        for name in FROZEN
        if (MIGRATIONS / name).exists()
    }

    changed = [name for name, digest in FROZEN.items() if found.get(name) != digest]
    assert changed == [], "databases have this already: put them back, and write 0002 instead"


def test_a_released_revision_gets_no_more_files() -> None:
    released = {listed.stem for listed in (MIGRATIONS / "sql").glob("*.sha256")}
    files = [
        path.relative_to(MIGRATIONS).as_posix()
        for folder, suffix in (("sql", ".sql"), ("versions", ".py"))
        for path in (MIGRATIONS / folder).glob(f"*{suffix}")
        if path.name.partition("_")[0] in released
    ]

    assert released == {"0001"}
    assert set(files) == set(FROZEN), "databases lack what is added here: write 0002 instead"
