from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pgcron_ha import App
from pgcron_ha.errors import ConfigError, InvalidInput, InvalidSpec
from tests.product.client import load_app

Write = Callable[[str, str], None]


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module into the working directory; it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(name: str, text: str) -> None:
        path = tmp_path / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delitem(sys.modules, name.partition(".")[0], raising=False)

    return write


def test_an_app_is_found_by_module_and_attribute(write_module: Write) -> None:
    write_module("shop_of_a_test.jobs", "from pgcron_ha import App\nclass all: app = App()\n")

    assert isinstance(load_app("shop_of_a_test.jobs:all.app"), App)


@pytest.mark.parametrize("place", ["", "jobs", ":app", "jobs:"])
def test_a_place_has_two_halves(place: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        load_app(place)
    assert "module:attribute" in str(refusal.value.hint)


def test_a_missing_module_is_told_apart_from_one_that_misses_something(write_module: Write) -> None:
    with pytest.raises(ConfigError, match=r"module 'no_such_shop\.jobs' is not found"):
        load_app("no_such_shop.jobs:app")

    write_module("file_of_jobs", "")
    with pytest.raises(ConfigError, match=r"module 'file_of_jobs\.py' is not found") as refusal:
        load_app("file_of_jobs.py:app")
    assert refusal.value.hint == "A module is named without .py: write file_of_jobs:app."

    write_module("importing_jobs", "import no_such_thing\n")
    with pytest.raises(ConfigError, match="can't be imported") as refusal:
        load_app("importing_jobs:app")
    assert "no_such_thing" in str(refusal.value.detail)


def test_a_wrong_attribute_is_answered_with_the_apps_there_are(write_module: Write) -> None:
    write_module("attribute_jobs", "from pgcron_ha import App\nmain = App()\nother = 5\n")

    with pytest.raises(ConfigError, match="no attribute 'app'") as refusal:
        load_app("attribute_jobs:app")
    assert "main" in str(refusal.value.detail)
    with pytest.raises(ConfigError, match="is a number, not an App"):
        load_app("attribute_jobs:other")


def test_a_module_that_fails_says_how(write_module: Write) -> None:
    write_module("failing_jobs", "1 / 0\n")

    with pytest.raises(ConfigError) as refusal:
        load_app("failing_jobs:app")
    assert "ZeroDivisionError" in str(refusal.value.detail)


def test_a_bad_spec_in_a_module_comes_with_its_own_sentences(write_module: Write) -> None:
    write_module(
        "badly_timed_jobs",
        "from pgcron_ha import App\napp = App()\n@app.schedule('0 25 * * *')\n@app.handler()\n"
        "def tidy(): ...\n",
    )

    with pytest.raises(InvalidSpec) as refusal:
        load_app("badly_timed_jobs:app")
    assert "25" in refusal.value.message
    assert refusal.value.hint


def test_all_mistakes_in_the_decorators_of_a_module_are_named(write_module: Write) -> None:
    write_module(
        "mistaken_jobs",
        "from pgcron_ha import App\napp = App()\n"
        "@app.schedule('0 25 * * *', overlap='maybe')\n@app.handler(priority=12, memory='1GB')\n"
        "def tidy(context): ...\n"
        "@app.schedule('61 * * * *')\n@app.handler('sweep')\ndef second(context): ...\n"
        "@app.handler('sweep')\ndef third(context): ...\n",
    )

    with pytest.raises(InvalidInput) as refusal:
        load_app("mistaken_jobs:app")
    facts = [part.message for part in refusal.value.parts]
    assert [fact.partition(": ")[0] for fact in facts] == [
        *["handler 'tidy'"] * 2,
        *["schedule 'tidy'"] * 2,
        "schedule 'sweep'",
        "handler 'sweep'",
    ]
    assert str(refusal.value) == "6 mistakes"
