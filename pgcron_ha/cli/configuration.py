"""``pgcron-ha config``: the settings in force, and where each comes from."""

from __future__ import annotations

import json

import click

from pgcron_ha.cli.arguments import JsonCommand, flag
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, print_result
from pgcron_ha.config.loading import SourcedValue, load_settings, shown
from pgcron_ha.config.setting import Setting
from pgcron_ha.config.settings import SETTINGS


@click.command("config", cls=JsonCommand)
@flag("--explain", "Also the default, the variable and the meaning.")
@flag("--print-dsn", "Only the DSN with its password, for psql.")
def config_command(explain: bool, print_dsn: bool) -> None:
    """Show the settings and where each comes from."""
    sources = command_context().read()
    if print_dsn:
        dsn = load_settings(sources).required_dsn()
        print_result({"dsn": dsn}, dsn)
        return
    for setting in SETTINGS:
        description = _description(setting, sources.values[setting.key])
        print_result(description, _words(description, explain))
    # Shown first and checked last, so that the origin of a wrong value is printed, too.
    settings = load_settings(sources)
    for kind, tables in (*sources.tables.items(), *settings.plugins.items()):
        for name in tables:
            echo(f"[{kind}.{name}]  # {sources.file}")


def _description(setting: Setting, value: SourcedValue) -> dict[str, object]:
    return {
        "key": setting.key,
        "value": _visible(setting, value.raw),
        "origin": value.origin,
        "default": _visible(setting, setting.raw_default()),
        "variable": setting.variable,
        "help": setting.help,
    }


def _words(each: dict[str, object], explain: bool) -> str:
    line = f"{each['key']} = {_toml(each['value'])}  # {each['origin']}"
    if not explain:
        return line
    default = f"default {_toml(each['default'])}, variable {each['variable']}"
    return f"{line}\n    {each['help']}\n    {default}\n"


def _toml(visible: object) -> str:
    return "(none)" if visible is None else json.dumps(visible, ensure_ascii=False)


def _visible(setting: Setting, raw: object) -> object:
    """The value itself where JSON and TOML have it, its text otherwise, never a password."""
    if not raw or (not setting.is_secret and isinstance(raw, bool | int | float | list | dict)):
        return raw
    return shown(setting, str(raw))
