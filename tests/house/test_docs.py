from __future__ import annotations

import re

from tests.house.checkout import ROOT
from tests.product.config import SETTINGS

README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "reference" / "settings.md").read_text()


def test_every_setting_is_explained_with_its_default() -> None:
    missing = [
        s.key for s in SETTINGS if not re.search(rf"^\| `{re.escape(s.key)}` \|", PAGE, re.M)
    ]

    assert missing == []


def test_the_table_names_no_setting_that_does_not_exist() -> None:
    tables = PAGE.partition("## The database")[2].partition("## Connections")[0]

    assert set(re.findall(r"^\| `([\w.]+)` \|", tables, re.M)) - {s.key for s in SETTINGS} == set()


def test_the_default_in_the_table_is_the_real_one() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| ([^|]*) \|", PAGE, re.M))
    for setting in SETTINGS:
        if isinstance(setting.default, str | int | float):
            default = str(setting.default)
            shown = default.lower() if isinstance(setting.default, bool) else default
            assert f"`{shown}`" in rows[setting.key], setting.key


def test_the_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z]+)", README))

    assert [t for t in targets if not re.search(rf"^{t}:", makefile, re.M)] == []
