from __future__ import annotations

import json
import re

import pytest

from pgcron_ha import App
from tests.cli.conftest import Cli, Execute
from tests.house.checkout import ROOT
from tests.product.config import load_settings, read_sources

README = (ROOT / "README.md").read_text()


def block(language: str) -> str:
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)
    assert len(found) == 1
    return found[0]


def test_the_examples_of_the_readme_fit_together(
    cli: Cli, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope: dict[str, object] = {"__name__": "jobs"}
    exec(block("python"), scope)
    app = scope["app"]
    assert isinstance(app, App)
    assert list(app.schedules) == ["report"]

    for statement in filter(str.strip, block("sql").split(";\n")):
        execute(statement)
    asked = {row["handler"] for row in cli("runs", "list", "--json").rows}
    assert asked == {"py:report"} == set(app.handlers)


def test_the_nightly_backup_of_the_readme_has_the_args_of_its_template(
    cli: Cli, execute: Execute, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("readme") / "pgcron-ha.toml"
    file.write_text(block("toml"))
    template = load_settings(read_sources(file, {})).shell["backup"]

    execute(block("sql").partition(";\n")[0])
    (row,) = cli("schedules", "show", "nightly", "--json").rows[:1]
    assert row["handler"] == "shell:backup"
    args = row["args"] if isinstance(row["args"], dict) else json.loads(row["args"])
    assert set(args) == set(template.placeholders)
    assert all(re.fullmatch(template.placeholders[name], args[name]) for name in args)
