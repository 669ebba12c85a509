"""``pgcron-ha config``: the settings in force, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, print_json
from pgcron_ha.config.loading import SourcedSettings, load_settings, shown
from pgcron_ha.config.settings import BY_KEY, SETTINGS, Setting


@click.command("config")
@click.option("--explain", is_flag=True, help="Also the default, the variable and the meaning.")
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
def config_command(explain: bool, as_json: bool) -> None:
    """Show the settings and where each comes from."""
    sources = command_context().read()
    if as_json:
        for description in _descriptions(sources):
            print_json(description)
    elif explain:
        echo("\n\n".join(_paragraph(setting, sources) for setting in SETTINGS))
    else:
        for key, value in sources.values.items():
            echo(f"{key} = {_toml(BY_KEY[key], value.raw)}  # {value.origin}")
    # Shown first and judged last: whoever has a wrong value sees where it stands.
    settings = load_settings(sources)
    if not as_json:
        for kind, tables in (*sources.tables.items(), *settings.plugins.items()):
            for name in tables:
                echo(f"[{kind}.{name}]  # {sources.file}")


def _descriptions(sources: SourcedSettings) -> Iterator[dict[str, object]]:
    for setting in SETTINGS:
        value = sources.values[setting.key]
        yield {
            "key": setting.key,
            "value": _visible(setting, value.raw),
            "origin": value.origin,
            "default": _visible(setting, setting.raw_default()),
            "variable": setting.variable,
            "help": setting.help,
        }


def _paragraph(setting: Setting, sources: SourcedSettings) -> str:
    value = sources.values[setting.key]
    return (
        f"{setting.key} = {_toml(setting, value.raw)}  # {value.origin}\n"
        f"    {setting.help}\n"
        f"    default {_toml(setting, setting.raw_default())}, variable {setting.variable}"
    )


def _toml(setting: Setting, raw: object) -> str:
    visible = _visible(setting, raw)
    return "(none)" if visible is None else json.dumps(visible, ensure_ascii=False)


def _visible(setting: Setting, raw: object) -> object:
    """The value itself where JSON and TOML have it, its text otherwise, never a password."""
    if raw is None or isinstance(raw, bool | int | float | list | dict):
        return raw
    return shown(setting, str(raw))
