"""The table of settings, and the frozen value made from it."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pgcron_ha.config import values
from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.capability_table import Template
from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.errors import ConfigError

ENVIRONMENT_PREFIX = "PGCRON_HA_"


@dataclass(frozen=True)
class Setting:
    """One setting. `default` is a raw value, read like any other, or a function that finds one."""

    key: str
    read: values.Reader
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
        name = "--" + self.key.rpartition(".")[2].replace("_", "-")
        return name.removesuffix("s") if self.is_list else name

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return isinstance(self.default, list | dict)

    def raw_default(self) -> object:
        """The default on this machine."""
        return self.default() if callable(self.default) else self.default


def setting(
    read: values.Reader,
    default: object | Callable[[], object],
    help: str,
    *,
    is_secret: bool = False,
) -> Any:
    """A field of a section that is a setting, and what `Setting` says of it."""
    return field(repr=not is_secret, metadata={"setting": (read, default, help, is_secret)})


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
_DSN = values.optional(values.database_url)
_HOSTS = values.text_list(
    r"[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:]{2,45}\]", "the name or address of a host, without a port"
)
_CLAIM = values.text(r"[!-~]{1,100}", "the name of a claim")
_HEADER = values.text(r"[A-Za-z0-9-]{1,100}", "the name of a header")
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
        "How long after its last heartbeat a node is considered dead. Below 5s only in tests;"
        " above the failover time of the database in production.",
    )
    apps: tuple[str, ...] = setting(
        _APPS,
        [],
        "Python applications whose handlers this node offers: module:attribute.",
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
class WebSettings:
    """Where the pages are served, and where called services send callbacks."""

    listen: values.Address | values.SocketPath = setting(
        values.place_to_listen,
        "127.0.0.1:8420",
        "Where `pgcron-ha web` serves its pages: HOST:PORT or unix:/path. Without login only this"
        " machine's own addresses.",
    )
    hosts: tuple[str, ...] = setting(
        _HOSTS,
        [],
        "Names that browsers use for the pages, beside the one of web.public_url and those of"
        " this machine's loopback.",
    )
    tls_certificate: str | None = setting(
        values.optional(values.absolute_path),
        None,
        "A file with the certificate of the pages and its chain (PEM), for https.",
    )
    tls_key: str | None = setting(
        values.optional(values.absolute_path), None, "The file with its private key (PEM)."
    )
    callbacks: values.Address | None = setting(
        values.optional(values.address),
        None,
        "Where `pgcron-ha web` takes callbacks of called services, and nothing else; any address"
        " behind an https web.public_url, as each of them brings its token.",
    )
    public_url: str | None = setting(
        values.optional(values.base_url),
        None,
        "How browsers reach the pages, and services web.callbacks, through any proxies before"
        " them: https://jobs.example.com.",
    )
    allow_private: bool = setting(
        values.flag,
        False,
        "Callbacks come over a private network: their tokens may be sent in the clear (http).",
    )


@dataclass(frozen=True)
class AuthSettings:
    """Who is let in to the pages, and for how long."""

    local: bool = setting(
        values.flag, False, "Users with passwords log in; `pgcron-ha users add` makes them."
    )
    oidc_issuer: str | None = setting(
        values.optional(values.text(r"https?://\S{1,200}", "the URL of an issuer")),
        None,
        "Users of this OpenID Connect provider log in, as its discovery document names it.",
    )
    oidc_client_id: str | None = setting(
        values.optional(values.text(r"[!-~]{1,200}", "the id of a client")),
        None,
        "What the provider calls the pages.",
    )
    oidc_client_secret: str | None = setting(
        values.optional(values.text(r"[!-~]{1,500}", "a secret of visible characters")),
        None,
        "The client's secret; a public client has none.",
        is_secret=True,
    )
    oidc_scopes: tuple[str, ...] = setting(
        values.text_list(r"[!-~]{1,100}", "a scope", may_be_empty=False),
        ["openid", "profile"],
        "What is asked for; the provider says which scope gives the groups.",
    )
    oidc_groups_claim: str = setting(_CLAIM, "groups", "The claim of the ID token with groups.")
    oidc_name_claim: str = setting(
        _CLAIM, "preferred_username", "The claim with the name that is shown."
    )
    proxy_addresses: tuple[values.Network, ...] = setting(
        values.networks,
        [],
        "Addresses of proxies, such as 10.0.0.5 or 10.1.0.0/16, that say who sends a request."
        " Nobody else is believed.",
    )
    proxy_user_header: str = setting(_HEADER, "X-Forwarded-User", "The header with the user.")
    proxy_groups_header: str = setting(
        _HEADER, "X-Forwarded-Groups", "The header with the user's groups, with commas."
    )
    session_idle: float = setting(
        values.duration("1m", "30d"), "8h", "A session that is not used for this long is over."
    )
    session_life: float = setting(
        values.duration("1m", "90d"), "24h", "How long a session lasts at most."
    )

    @property
    def has_login(self) -> bool:
        """Whether somebody can log in, in one of three ways."""
        return self.local or self.oidc_issuer is not None or bool(self.proxy_addresses)


@dataclass(frozen=True)
class Settings:
    """Every setting, typed and checked, and what the tables of the file let a node run."""

    node: NodeSettings
    log: LogSettings
    web: WebSettings
    auth: AuthSettings
    shell: Mapping[str, ShellTemplate]
    http: Mapping[str, HttpDestination]
    sql: Mapping[str, SqlProfile]
    plugins: Mapping[str, Mapping[str, Mapping[str, object]]]
    """Tables of executors of other packages, by kind and name."""
    dsn: str | None = setting(
        _DSN, None, "The database. The one setting production needs.", is_secret=True
    )
    password_command: tuple[str, ...] = setting(
        values.command,
        [],
        "A program that prints the password of now, for a DSN without one (IAM tokens).",
    )
    listen_dsn: str | None = setting(
        _DSN,
        None,
        "Where to LISTEN, past a pooler that passes no notifications: the same database's server.",
        is_secret=True,
    )
    pooler: str = setting(
        values.choice(("auto", "session", "transaction", "prepared")),
        "auto",
        "The pooler between the DSN and its server: session for none or a session for each"
        " client, transaction, prepared for one that keeps track of prepared statements.",
    )
    schema: str = setting(_SCHEMA, "pgcron", "The schema of the tables and functions.")

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
    "node": NodeSettings,
    "log": LogSettings,
    "web": WebSettings,
    "auth": AuthSettings,
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
