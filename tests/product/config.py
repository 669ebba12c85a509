"""Parts of ``pgcron_ha.config`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.config.breaker import declare
from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.capability_table import DEFAULT_PATTERN, _keys, compile_pattern, read_tables
from pgcron_ha.config.http_destinations import (
    DEFAULT_RETRY,
    AnswerCheck,
    HttpAuthorization,
    HttpDestination,
)
from pgcron_ha.config.key_ring import use_keys
from pgcron_ha.config.loading import _require_own, load_settings, read_sources, shown
from pgcron_ha.config.page_settings import AuthSettings
from pgcron_ha.config.secret_references import (
    SecretReference,
    parse_secret_reference,
    secret_references,
)
from pgcron_ha.config.settings import (
    BY_KEY,
    CAPABILITIES,
    SETTINGS,
    AuditSettings,
    NodeSettings,
    Settings,
)
from pgcron_ha.config.sql_profiles import SqlProfile, SqlStatement, parse_script
from pgcron_ha.config.values import (
    Address,
    SocketPath,
    address,
    choice,
    directory,
    duration,
    integer,
    parse_duration,
    text_list,
)

__all__ = [
    "BY_KEY",
    "CAPABILITIES",
    "DEFAULT_PATTERN",
    "DEFAULT_RETRY",
    "SETTINGS",
    "Address",
    "AnswerCheck",
    "AuditSettings",
    "AuthSettings",
    "HttpAuthorization",
    "HttpDestination",
    "NodeSettings",
    "SecretReference",
    "Settings",
    "ShellTemplate",
    "SocketPath",
    "SqlProfile",
    "SqlStatement",
    "_keys",
    "_require_own",
    "address",
    "choice",
    "compile_pattern",
    "declare",
    "directory",
    "duration",
    "integer",
    "load_settings",
    "parse_duration",
    "parse_script",
    "parse_secret_reference",
    "read_sources",
    "read_tables",
    "secret_references",
    "shown",
    "text_list",
    "use_keys",
]
