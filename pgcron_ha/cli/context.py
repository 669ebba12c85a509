"""What the group hands to its commands: the settings, read when a command asks for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click

from pgcron_ha.config import Settings, SourcedSettings, load_settings, read_sources
from pgcron_ha.db.passwords import use_command
from pgcron_ha.db.pooling import assume

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True)
class CommandContext:
    """The global options of one invocation."""

    config_file: Path | None = None
    flags: Mapping[str, object] = field(default_factory=dict)

    def load(self, flags: Mapping[str, object] | None = None) -> Settings:
        """The settings, with a command's own flags on top; raises `ConfigError`.

        `flags` maps setting keys to values, such as ``{"node.slots": 4}``; None means "not given".
        """
        settings = load_settings(self.read(flags))
        use_command(settings.password_command)
        if settings.dsn is not None:
            assume(settings.dsn, settings.pooler)
        return settings

    def read(self, flags: Mapping[str, object] | None = None) -> SourcedSettings:
        """Every raw value and where it comes from; raises `ConfigError` for the file."""
        own = {key: value for key, value in (flags or {}).items() if value is not None}
        given = {**self.flags, **own}
        return read_sources(file=self.config_file, environment=os.environ, flags=given)


def pass_settings(
    command: Callable[Concatenate[Settings, Parameters], Result],
) -> Callable[Parameters, Result]:
    """Give the loaded settings to a click command as its first argument."""

    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        return command(command_context().load(), *arguments, **options)

    call.__name__, call.__doc__ = command.__name__, command.__doc__
    # Options declared above this decorator are kept by click on the function it gets.
    declared = getattr(command, "__click_params__", None)
    if declared is not None:
        call.__click_params__ = declared  # type: ignore[attr-defined]
    return call


def command_context() -> CommandContext:
    """The context of the running command; the default one when a command is run by itself."""
    found = click.get_current_context().find_object(CommandContext)
    return found if found is not None else CommandContext()
