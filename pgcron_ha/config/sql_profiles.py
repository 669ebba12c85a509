"""What a node may execute in databases: profiles of its file, offered as ``sql:NAME``.

The statements stand in the file. A run gives values for ``:name`` parameters, which PostgreSQL
types and which never become SQL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from pgcron_ha.config.breaker import Breaker
from pgcron_ha.config.capability_table import CapabilityTable
from pgcron_ha.config.secret_reference import SecretReference, parse_secret_reference
from pgcron_ha.config.sql_script import SqlStatement, parse_script

RESERVED: Final = (
    *("pgcron_run_id", "pgcron_attempt", "pgcron_token", "pgcron_fence"),
    *("pgcron_idempotency_key", "pgcron_schedule", "pgcron_fire_time"),
    "pgcron_origin",
)
"""Parameters that the run itself gives."""

DEFAULT_GRACE_SECONDS: Final = 5.0
DEFAULT_CONNECTIONS: Final = 2
MAX_CONNECTIONS: Final = 100
DEFAULT_ROWS: Final = 1000
MAX_ROWS: Final = 10_000
MAX_STATEMENT_CHARACTERS: Final = 100_000

_DSN_FORMS: Final = "expected postgresql://ROLE@HOST/DATABASE, env:NAME or file:/…"
_DSN: Final = re.compile(r"postgres(ql)?://\S+")


@dataclass(frozen=True, slots=True)
class SqlProfile:
    """One statement, or several, in one database by one login role.

    `dsn` is a URL, or says where it is kept; None (only with `transactional`) is the node's own.
    `timeout` and `grace` (between a cancel and the end of the connection) are seconds. `rows`:
    rows become the run's result, at most `max_rows`. `atomic`: all statements are one transaction.
    `transactional`: the run's completion is a part of it.
    """

    name: str
    dsn: str | SecretReference | None = field(repr=False)
    password: SecretReference | None
    statements: tuple[SqlStatement, ...]
    timeout: float | None = None
    grace: float = DEFAULT_GRACE_SECONDS
    rows: bool = False
    max_rows: int = DEFAULT_ROWS
    atomic: bool = True
    transactional: bool = False
    connections: int = DEFAULT_CONNECTIONS
    breaker: Breaker | str | None = None

    @property
    def parameters(self) -> frozenset[str]:
        """The args that a run must give."""
        return frozenset(name for each in self.statements for name in each.parameters) - {*RESERVED}


KEYS = tuple("statement" if f.name == "statements" else f.name for f in fields(SqlProfile))[1:]


def read_sql_profiles(
    tables: Mapping[str, object],
) -> tuple[dict[str, SqlProfile], list[str]]:
    """The profiles of the tables ``[sql.NAME]``, and a sentence for each thing wrong in them."""
    profiles: dict[str, SqlProfile] = {}
    problems: list[str] = []
    for name, table in tables.items():
        reader = _SqlTable("sql", name, table, KEYS)
        profile = reader.read()
        if reader.problems:
            problems.extend(reader.problems)
        else:
            profiles[name] = profile
    return profiles, problems


class _SqlTable(CapabilityTable):
    def read(self) -> SqlProfile:
        is_transactional = self.flag("transactional")
        is_atomic = self.flag("atomic") if "atomic" in self.table else True
        if is_transactional and not is_atomic:
            self.refuse("atomic", "a transactional profile is one transaction")
        return SqlProfile(
            name=self.name,
            dsn=self._dsn(is_transactional),
            password=self._secret("password"),
            statements=self._statements(),
            timeout=self.seconds("timeout"),
            grace=self.seconds("grace") or DEFAULT_GRACE_SECONDS,
            rows=self.flag("rows"),
            max_rows=self.integer("max_rows", DEFAULT_ROWS, 1, MAX_ROWS),
            atomic=is_atomic,
            transactional=is_transactional,
            connections=self.integer("connections", DEFAULT_CONNECTIONS, 1, MAX_CONNECTIONS),
            breaker=self.breaker(),
        )

    def _dsn(self, is_transactional: bool) -> str | SecretReference | None:
        text = self.text("dsn")
        if text is None:
            if not is_transactional and "dsn" not in self.table:
                self.refuse("dsn", f"{_DSN_FORMS}; only a transactional profile goes without")
            return None
        if _DSN.fullmatch(text):
            return text
        return self._secret("dsn")

    def _secret(self, key: str) -> SecretReference | None:
        raw = self.table.get(key)
        if raw is None:
            return None
        try:
            return parse_secret_reference(raw)
        except ValueError as error:
            self.refuse(key, f"expected {error}")
            return None

    def _statements(self) -> tuple[SqlStatement, ...]:
        text = self.text("statement")
        if text is None:
            if "statement" not in self.table:
                self.refuse("statement", "expected SQL, with :name for an arg of the run")
            return ()
        if len(text) > MAX_STATEMENT_CHARACTERS or "\0" in text:
            bound = f"expected at most {MAX_STATEMENT_CHARACTERS:,} characters without NUL"
            self.refuse("statement", bound)
            return ()
        try:
            statements = parse_script(text)
        except ValueError as error:
            self.refuse("statement", str(error))
            return ()
        for each in statements:
            for name in each.parameters:
                if name.startswith("pgcron_") and name not in RESERVED:
                    self.refuse("statement", f"':{name}': there are {', '.join(RESERVED)}")
        return statements
