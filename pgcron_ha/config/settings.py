"""The table of settings, and the frozen value made from it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.config.values import (
    QUEUE_NAME,
    Address,
    Choice,
    Command,
    Duration,
    Integer,
    Labels,
    Reader,
    Text,
    TextList,
    address,
    directory,
    flag,
    optional_address,
    optional_base_url,
)
from pgcron_ha.errors import ConfigError

ENVIRONMENT_PREFIX = "PGCRON_HA_"


@dataclass(frozen=True)
class NodeSettings:
    """What one node is called, offers and keeps to; durations are seconds."""

    name: str
    queues: tuple[str, ...]
    labels: Mapping[str, str]
    slots: int
    lease_ttl: float
    apps: tuple[str, ...]
    executors: tuple[str, ...]
    prefetch: int
    grace: float
    state_directory: Path
    horizon: float
    poll_interval: float
    transactions: int
    on_unresponsive_handler: str
    unresponsive_after: float


@dataclass(frozen=True)
class LogSettings:
    """How a process of ours logs about itself."""

    format: str
    level: str


@dataclass(frozen=True)
class WebSettings:
    """Where the pages are served, and where services that were called call back."""

    listen: Address
    callbacks: Address | None = None
    public_url: str | None = None
    allow_private: bool = False


@dataclass(frozen=True)
class Settings:
    """Every setting, typed and checked: a field for each line of `SETTINGS`, grouped by table."""

    dsn: str | None = field(repr=False)  # it may hold a password
    schema: str
    node: NodeSettings
    log: LogSettings
    web: WebSettings
    shell: Mapping[str, ShellTemplate]
    http: Mapping[str, HttpDestination]
    sql: Mapping[str, SqlProfile]
    plugins: Mapping[str, Mapping[str, Mapping[str, object]]]
    """Tables of executors that are not ours, by kind and name."""
    password_command: tuple[str, ...] = ()
    listen_dsn: str | None = field(default=None, repr=False)
    pooler: str = "auto"

    def required_dsn(self) -> str:
        """The DSN; raises `ConfigError` that says where to give one."""
        if self.dsn is None:
            raise ConfigError(
                "no database is given",
                "This command works on a database of yours; `demo` and `dev` bring their own.",
                f"set {ENVIRONMENT_PREFIX}DSN=postgresql://user@host/database, or give --dsn",
            )
        return self.dsn


@dataclass(frozen=True)
class Setting:
    """One setting. `default` is a raw value, read like any other, or a function that finds one."""

    key: str
    read: Reader
    default: object | Callable[[], object]
    help: str
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable: ``node.slots`` is ``PGCRON_HA_NODE_SLOTS``."""
        return ENVIRONMENT_PREFIX + self.key.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """How the command line calls it, where it can be given there: ``--lease-ttl``.

        The flag of a list is given once for each of its values, so its name is singular.
        """
        name = self.key.rpartition(".")[2].replace("_", "-")
        return "--" + (name.removesuffix("s") if isinstance(self.read, TextList | Labels) else name)

    def raw_default(self) -> object:
        """The default on this machine."""
        return self.default() if callable(self.default) else self.default


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:63].strip("-.") or "node"


def _state_directory() -> Path:
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    try:
        base = base if base.is_absolute() else Path.home() / ".local" / "state"
        return base / "pgcron_ha" / "nodes"
    except RuntimeError:  # neither HOME nor an entry for this user: a service's place
        return Path("/var/lib/pgcron_ha")


def _optional_dsn(raw: object) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str) or not re.match(r"postgres(ql)?://\S", raw):
        raise ValueError("a URL such as postgresql://user@host:5432/database")
    return raw


# The names are those the database allows; its CHECKs say the same.
_QUEUE = Text(QUEUE_NAME, "a name of 1 to 100 letters, digits and _ . -")
_SCHEMA = Text(
    r"(?!pg_)[a-z_][a-z0-9_]{0,39}",
    "1 to 40 lower-case letters, digits and _, not beginning with a digit or pg_",
)
_NODE = Text(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "a name of 1 to 100 letters, digits and _ . -")
_KIND = Text(
    r"[a-z][a-z0-9_]{0,19}",
    "a kind of handlers: 1 to 20 lower-case letters, digits and _, beginning with a letter",
)
_APP = Text(
    r"[A-Za-z_][\w.]{0,200}:[A-Za-z_][\w.]{0,100}", "module:attribute, such as shop.jobs:app"
)

SETTINGS: tuple[Setting, ...] = (
    Setting("dsn", _optional_dsn, None, "The database. The one setting production needs.", True),
    Setting(
        "password_command",
        Command(),
        [],
        "A program that prints the password of now, for a DSN without one (IAM tokens).",
    ),
    Setting(
        "listen_dsn",
        _optional_dsn,
        None,
        "Where to LISTEN, past a pooler that passes no notifications: the same database's server.",
        True,
    ),
    Setting(
        "pooler",
        Choice(("auto", "session", "transaction", "prepared")),
        "auto",
        "What stands between the DSN and its server: session for nothing or a session for each"
        " client, transaction, prepared for one that keeps track of prepared statements.",
    ),
    Setting("schema", _SCHEMA, "pgcron", "The schema the tables and functions stand in."),
    Setting("node.name", _NODE, _host_name, "A label for people; the host's name by default."),
    Setting(
        "node.queues", TextList(_QUEUE, False), ["default"], "The queues this node takes runs from."
    ),
    Setting(
        "node.labels",
        Labels(),
        {},
        "What the node says of itself, such as gpu=a100: runs may require it.",
    ),
    Setting("node.slots", Integer(1, 10_000), 16, "How many runs may execute here at once."),
    Setting(
        "node.lease_ttl",
        Duration("1s", "5m"),
        "15s",
        "How long after its last heartbeat a node is taken for dead. Below 5s only in tests;"
        " above the failover time of the database in production.",
    ),
    Setting(
        "node.apps",
        TextList(_APP, True),
        [],
        "Python applications whose handlers this node offers: module:attribute.",
    ),
    Setting(
        "node.executors",
        TextList(_KIND, True),
        [],
        "Executors of other packages that this node offers without a table for them in the file.",
    ),
    Setting(
        "node.prefetch",
        Integer(0, 100_000),
        1000,
        "How many runs may be claimed ahead of a free slot, where that is safe.",
    ),
    Setting(
        "node.grace",
        Duration("0s", "1h"),
        "30s",
        "How long a node that is asked to stop lets its runs end.",
    ),
    Setting(
        "node.state_directory",
        directory,
        _state_directory,
        "Where a node keeps its lock and private files; every name has its own folder in it.",
    ),
    Setting(
        "node.horizon",
        Duration("1s", "1h"),
        "60s",
        "How far ahead of its time a fire becomes a run.",
    ),
    Setting(
        "node.poll_interval",
        Duration("50ms", "1m"),
        "1s",
        "How long a missed wake-up can go unnoticed; three times that where notifications arrive.",
    ),
    Setting(
        "node.transactions",
        Integer(1, 1000),
        4,
        "How many handlers may have a transaction open at once (delivery transactional).",
    ),
    Setting(
        "node.on_unresponsive_handler",
        Choice(("keep", "exit")),
        "keep",
        "What a node does about a handler that does not stop though asked to and can't be"
        " killed: keep goes on without its slot, exit drains and ends the process (status 72).",
    ),
    Setting(
        "node.unresponsive_after",
        Duration("1s", "1h"),
        "30s",
        "How long after its grace a handler that does not stop counts as unresponsive.",
    ),
    Setting(
        "log.format",
        Choice(("text", "json")),
        "text",
        "How a process logs on stderr: text or json.",
    ),
    Setting(
        "log.level",
        Choice(("debug", "info", "warning", "error")),
        "info",
        "From which level on a process logs: debug, info, warning or error.",
    ),
    Setting(
        "web.listen",
        address,
        "127.0.0.1:8420",
        "Where `pgcron-ha web` serves its pages; only this machine's own addresses, as there is"
        " no login.",
    ),
    Setting(
        "web.callbacks",
        optional_address,
        None,
        "Where `pgcron-ha web` takes callbacks of called services, and nothing else; any address"
        " behind an https web.public_url, as each of them brings its token.",
    ),
    Setting(
        "web.public_url",
        optional_base_url,
        None,
        "How services reach web.callbacks, through whatever stands before it:"
        " https://jobs.example.com.",
    ),
    Setting(
        "web.allow_private",
        flag,
        False,
        "Callbacks come over a private network: their tokens may be sent in the clear (http).",
    ),
)

BY_KEY: Mapping[str, Setting] = {setting.key: setting for setting in SETTINGS}
