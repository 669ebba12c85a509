"""The table of settings, and the frozen value made from it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import get_type_hints

from pgcron_ha.config import values
from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.capability_table import Template
from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.page_settings import AuthSettings, WebSettings
from pgcron_ha.config.secret_references import (
    SecretReference,
    parse_secret_reference,
    secret_references,
)
from pgcron_ha.config.setting import ENVIRONMENT_PREFIX, Setting, optional_setting, setting
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.errors import ConfigError


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:63].strip("-.") or "node"


def _state_directory() -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        base = base if base.is_absolute() else Path.home() / ".local" / "state"
        return base / "pgcron_ha" / "nodes"
    except RuntimeError:  # neither HOME nor an entry for this user: a service's place
        return Path("/var/lib/pgcron_ha")


# The names are those the database allows; its CHECKs say the same.
_QUEUES = values.text_list(
    values.QUEUE_NAME, "a name of 1 to 100 letters, digits and _ . -", may_be_empty=False
)
_SCHEMA = values.text(
    r"(?!pg_)[a-z_][a-z0-9_]{0,39}",
    "1 to 40 lower-case letters, digits and _, not beginning with a digit or pg_",
)
_NODE = values.text(
    r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "a name of 1 to 100 letters, digits and _ . -"
)
_KINDS = values.text_list(
    r"[a-z][a-z0-9_]{0,19}",
    "a kind of handlers: 1 to 20 lower-case letters, digits and _, beginning with a letter",
)
_APPS = values.text_list(
    r"[A-Za-z_][\w.]{0,200}:[A-Za-z_][\w.]{0,100}", "module:attribute, such as shop.jobs:app"
)


@dataclass(frozen=True)
class NodeSettings:
    """The name, offers and limits of one node; durations are seconds."""

    name: str = setting(_NODE, _host_name, "A label for people; the host's name by default.")
    queues: tuple[str, ...] = setting(_QUEUES, ["default"], "The queues this node takes runs from.")
    labels: Mapping[str, str] = setting(
        values.labels, {}, "The node's labels, such as gpu=a100: runs may require them."
    )
    slots: int = setting(values.integer(1, 10_000), 16, "How many runs may execute here at once.")
    lease_ttl: float = setting(
        values.duration("1s", "5m"),
        "15s",
        "How long after its last heartbeat a node is considered dead. Below 5s only in tests; in"
        " production at least 2.5 times the failover time of the database.",
    )
    apps: tuple[str, ...] = setting(
        _APPS, [], "Python applications whose handlers this node offers: module:attribute."
    )
    executors: tuple[str, ...] = setting(
        _KINDS,
        [],
        "Executors of other packages that this node offers without a table for them in the file.",
    )
    prefetch: int = setting(
        values.integer(0, 100_000),
        1000,
        "How many runs may be claimed ahead of a free slot, where that is safe.",
    )
    grace: float = setting(
        values.duration("0s", "1h"), "30s", "How long a node that stops waits for its runs to end."
    )
    state_directory: Path = setting(
        values.directory,
        _state_directory,
        "Where a node keeps its lock and private files; every name has its own folder in it.",
    )
    horizon: float = setting(
        values.duration("1s", "1h"), "60s", "How far ahead of its time a fire becomes a run."
    )
    poll_interval: float = setting(
        values.duration("50ms", "1m"),
        "1s",
        "How long a missed wake-up can go unnoticed; three times that where notifications arrive.",
    )
    transactions: int = setting(
        values.integer(1, 1000),
        4,
        "How many handlers may have a transaction open at once (delivery transactional).",
    )
    on_unresponsive_handler: str = setting(
        values.choice(("keep", "exit")),
        "keep",
        "What a node does about a handler that does not stop when it should and can't be"
        " killed: keep goes on without its slot, exit drains and ends the process (status 72).",
    )
    unresponsive_after: float = setting(
        values.duration("1s", "1h"),
        "30s",
        "How long after its grace a handler that does not stop counts as unresponsive.",
    )


@dataclass(frozen=True)
class LogSettings:
    """How a process logs."""

    format: str = setting(
        values.choice(("text", "json")), "text", "How a process logs on stderr: text or json."
    )
    level: str = setting(
        values.choice(("debug", "info", "warning", "error")),
        "info",
        "From which level on a process logs: debug, info, warning or error.",
    )


@dataclass(frozen=True)
class OpsSettings:
    """Where machines ask how a process is."""

    listen: values.Address | None = optional_setting(
        values.address,
        "Where a node or `pgcron-ha web` serves probes and metrics, and nothing else; any address.",
    )


@dataclass(frozen=True)
class AuditSettings:
    """Where the audit is sent."""

    webhook: str | None = optional_setting(
        values.base_url,
        "Where nodes send the rows of the audit, as JSON lines: https://log.example.com/audit.",
    )
    secret: SecretReference | None = optional_setting(
        parse_secret_reference,
        "Where the key is that signs what is sent (HMAC-SHA-256, header Pgcron-Signature):"
        " file:/path, env:NAME, credential:NAME or command:PROGRAM.",
    )
    allow_private: bool = setting(
        values.flag, False, "The webhook is in a private network, and may be http."
    )


@dataclass(frozen=True)
class SecretSettings:
    """Where the keys are that the database does not have."""

    keys: tuple[SecretReference, ...] = setting(
        secret_references,
        [],
        "Where the keys are that encrypt secret args and results: the first one encrypts, all"
        " decrypt. 32 random bytes each, in base64.",
    )


@dataclass(frozen=True)
class Settings:
    """Every setting, typed and checked, and what the tables of the file let a node run."""

    node: NodeSettings
    log: LogSettings
    web: WebSettings
    audit: AuditSettings
    ops: OpsSettings
    secrets: SecretSettings
    auth: AuthSettings
    shell: Mapping[str, ShellTemplate]
    http: Mapping[str, HttpDestination]
    sql: Mapping[str, SqlProfile]
    plugins: Mapping[str, Mapping[str, Mapping[str, object]]]
    """Tables of executors of other packages, by kind and name."""
    dsn: str | None = optional_setting(
        values.database_url, "The database. The one setting production needs."
    )
    password_from: SecretReference | None = optional_setting(
        parse_secret_reference,
        "Where the password of now is, for a DSN without one: file:/path, env:NAME,"
        " credential:NAME, or command:PROGRAM that prints it (IAM tokens).",
    )
    listen_dsn: str | None = optional_setting(
        values.database_url,
        "Where to LISTEN, past a pooler that passes no notifications: the same database's server.",
    )
    pooler: str = setting(
        values.choice(("auto", "session", "transaction", "prepared")),
        "auto",
        "The pooler between the DSN and its server: session for none or a session for each"
        " client, transaction, prepared for one that keeps track of prepared statements.",
    )
    schema: str = setting(_SCHEMA, "pgcron", "The schema of the tables and functions.")

    def dsns(self) -> Mapping[str, str]:
        """Every DSN that is given, by its setting."""
        keys = [each.key for each in SETTINGS if each.read is values.database_url]
        return {key: dsn for key in keys if (dsn := attrgetter(key)(self)) is not None}

    def pages_dsn(self) -> str:
        """The DSN that pages read; raises as `required_dsn`."""
        return self.web.dsn or self.required_dsn()

    def verbs_dsn(self) -> str:
        """The DSN for what pages change and callbacks report; raises as `required_dsn`."""
        return self.web.write_dsn or self.pages_dsn()

    def required_dsn(self) -> str:
        """The DSN; raises `ConfigError` that says where to give one."""
        if self.dsn is None:
            raise ConfigError(
                "no database is given",
                "It is a database of yours; `demo` and `dev` bring their own.",
                f"Set {ENVIRONMENT_PREFIX}DSN=postgresql://user@host/database, or give --dsn; that"
                " of `dev`, while it runs, is what `pgcron-ha config --print-dsn` prints."
                " `pgcron-ha docs settings` has all.",
            )
        return self.dsn


# The kinds of handlers that are built in and made from tables [KIND.NAME] of the file.
CAPABILITIES: Mapping[str, type[Template]] = {
    "shell": ShellTemplate,
    "http": HttpDestination,
    "sql": SqlProfile,
}
SECTIONS: Mapping[str, type] = {
    name: hint
    for name, hint in get_type_hints(Settings).items()
    if isinstance(hint, type) and is_dataclass(hint)
}


def _settings_in(section: type, prefix: str = "") -> list[Setting]:
    return [
        Setting(prefix + each.name, *each.metadata["setting"])
        for each in fields(section)
        if "setting" in each.metadata
    ]


SETTINGS: tuple[Setting, ...] = (
    *_settings_in(Settings),
    *(each for name, section in SECTIONS.items() for each in _settings_in(section, f"{name}.")),
)
BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}
