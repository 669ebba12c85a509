"""``shop.jobs:app`` to the `App` it names."""

from __future__ import annotations

import importlib
import os
import sys
from operator import attrgetter
from types import ModuleType

from pgcron_ha.client.app import App
from pgcron_ha.client.mistakes import all_of_them
from pgcron_ha.errors import ConfigError, PgcronError
from pgcron_ha.spec.text import type_words

_EXAMPLE = "Write module:attribute, for example shop.jobs:app."


def load_app(place: str) -> App:
    """The App at ``module:attribute``; the working directory is searched, too.

    Raises ConfigError when the module can't be imported, has no such attribute, or the attribute
    is no App. Errors of `pgcron_ha.errors` that the module raises, for a bad spec say, are passed
    on; of several mistakes in decorators one error names all.
    """
    module_name, colon, attribute = place.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"'{place}' is not the place of an App", None, _EXAMPLE)
    with all_of_them():
        module = _import(module_name, place)
    try:
        found = attrgetter(attribute)(module)
    except AttributeError:
        apps = sorted(name for name, value in vars(module).items() if isinstance(value, App))
        raise ConfigError(
            f"module '{module_name}' has no attribute '{attribute}'",
            f"Apps in it: {', '.join(apps) or 'none'}.",
            _EXAMPLE,
        ) from None
    if not isinstance(found, App):
        raise ConfigError(
            f"'{place}' is {type_words(found)}, not an App",
            "A node takes its Python handlers from instances of pgcron_ha.App.",
            _EXAMPLE,
        )
    return found


def _import(name: str, place: str) -> ModuleType:
    # A console script does not look where `python -m` would.
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except PgcronError:
        raise
    except Exception as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{name}.".startswith(f"{missing}."):
            raise ConfigError(
                f"module '{name}' is not found",
                f"Python looked for '{missing}' in the working directory, PYTHONPATH and the "
                "installed packages.",
                f"A module is named without .py: write {place.replace('.py:', ':')}."
                if name.endswith(".py")
                else "Install the package, or start the node where the module is.",
            ) from None
        raise ConfigError(
            f"module '{name}' can't be imported",
            f"{type(error).__name__}: {error}",
            f"`python -c 'import {name}'` shows where.",
        ) from error
