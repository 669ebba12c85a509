"""The settings of a command, read when it needs them."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click

from pgcron_ha.cli.output import warn
from pgcron_ha.config import loading
from pgcron_ha.config.key_ring import use_keys
from pgcron_ha.config.settings import SETTINGS, Settings
from pgcron_ha.db.driver.dsn import without_password
from pgcron_ha.db.driver.passwords import use_password
from pgcron_ha.db.driver.pooling import assume
from pgcron_ha.errors import ConfigError


@dataclass(frozen=True)
class CommandContext:
    """The global options of one invocation."""

    config_file: Path | None = None
    flags: Mapping[str, object] = field(default_factory=dict)

    def load(
        self,
        flags: Mapping[str, object] | None = None,
        *,
        named: tuple[str, ...] = (),
        finds_server: bool = True,
    ) -> Settings:
        """The settings, with a command's own flags on top; raises `ConfigError`. Those in `named`
        execute something: a file that was found, and not named with --config, may not set them.

        `flags` maps setting keys to values, such as ``{"node.slots": 4}``; None means "not given".
        """
        sources = self.read(flags, finds_server=finds_server)
        _warn_of_readers(sources)
        settings = loading.load_obeyed(sources, named, loading.REFERENCES)
        use_password(settings.password_from)
        use_keys(settings.secrets.keys)
        for key, dsn in settings.dsns().items():
            if key != "listen_dsn":  # it leads past the pooler
                assume(dsn, settings.pooler)
        return settings

    def read(
        self, flags: Mapping[str, object] | None = None, *, finds_server: bool = True
    ) -> loading.SourcedSettings:
        """Every raw value and where it comes from; raises `ConfigError` for the file.

        Without a DSN the database is that of this user's `dev` or `demo`, if one runs.
        """
        own = {key: value for key, value in (flags or {}).items() if value is not None}
        given = {**self.flags, **own}
        sources = loading.read_sources(file=self.config_file, flags=given)
        if finds_server and sources.values["dsn"].raw is None:
            sources.values["dsn"] = _of_running_server(sources.values["dsn"])
        return sources


def _of_running_server(value: loading.SourcedValue) -> loading.SourcedValue:
    from pgcron_ha.embedded import EmbeddedPostgres, default_data_directory

    with suppress(ConfigError):  # no home, or a folder that this user can't read: there is none
        dev = default_data_directory()
        for command, folder in (("dev", dev), ("demo", dev.with_name("demo") / "server")):
            if (dsn := EmbeddedPostgres(folder).running_dsn()) is not None:
                return loading.SourcedValue(dsn, f"the running pgcron-ha {command}", value.name)
    return value


def _warn_of_readers(sources: loading.SourcedSettings) -> None:
    """Of a file with a password that other users may read."""
    given = (sources.values[each.key] for each in SETTINGS if each.is_secret)
    in_file = [str(each.raw) for each in given if each.origin == str(sources.file)]
    if any(without_password(dsn) != dsn for dsn in in_file):
        assert sources.file is not None
        if loading.may_others(sources.file.stat(), stat.S_IRGRP, stat.S_IROTH):
            found = f"'{sources.file}' holds a password, and others may read it"
            warn(found, f"chmod 600 {sources.file}")


def refuse_password(option: str, dsn: str, hint: str) -> None:
    """Raises ConfigError if a DSN of the command line has a password."""
    if without_password(dsn) != dsn:
        raise ConfigError(
            f"{option} has a password",
            "Every user of this machine can read it in the list of processes.",
            hint,
        )


def command_context() -> CommandContext:
    """The context of the running command; the default one when a command is run by itself."""
    return click.get_current_context().find_object(CommandContext) or CommandContext()
