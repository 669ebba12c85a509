"""The configuration: one table of settings, four sources, one frozen value.

`settings.SETTINGS` is the table: the loader, ``pgcron-ha config --explain``, README and tests all
read it. Sources, each over the one before: default < ``pgcron-ha.toml`` < environment < flags.
They are merged as raw values that remember where they came from (`sources`); types are applied
once, at the end, and every problem is reported together (`loading`). `capabilities` is what the
same file lets this node run.
"""

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.loading import load_settings
from pgcron_ha.config.settings import (
    SETTINGS,
    LogSettings,
    NodeSettings,
    Setting,
    Settings,
    WebSettings,
)
from pgcron_ha.config.sources import SourcedSettings, SourcedValue, may_others, read_sources
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.config.values import (
    LABEL_NAME,
    LABEL_VALUE,
    LOOPBACK,
    QUEUE_NAME,
    Address,
    format_duration,
    parse_duration,
    seconds_of,
)

__all__ = [
    "LABEL_NAME",
    "LABEL_VALUE",
    "LOOPBACK",
    "QUEUE_NAME",
    "SETTINGS",
    "Address",
    "HttpDestination",
    "LogSettings",
    "NodeSettings",
    "Setting",
    "Settings",
    "ShellTemplate",
    "SourcedSettings",
    "SourcedValue",
    "SqlProfile",
    "WebSettings",
    "format_duration",
    "load_settings",
    "may_others",
    "parse_duration",
    "read_sources",
    "seconds_of",
]
