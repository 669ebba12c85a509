"""The program of a child process: it imports a node's Apps and executes isolated handlers."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any, Final

from pgcron_ha.client.loading import load_app
from pgcron_ha.config.secret_references import SecretReference
from pgcron_ha.db.driver.passwords import password_in_use, use_password
from pgcron_ha.executors.python.child_pool import ChildProgram
from pgcron_ha.executors.python.child_serving import serve
from pgcron_ha.executors.python.handler import PythonHandler

_CODE: Final = "import sys; sys.path[:] = {path}; from {module} import main; main()"


def child_program(places: Sequence[str], dsn: str, schema: str) -> ChildProgram | None:
    """How the children of a node with the Apps at these places (``shop.jobs:app``) are started;
    None without a place.
    """
    if not places:
        return None
    code = _CODE.format(path=repr(sys.path), module=__name__)
    changing = password_in_use()
    password = None if changing is None else astuple(changing.reference)
    opening = {"apps": list(places), "dsn": dsn, "schema": schema, "password_from": password}
    return ChildProgram(code, opening)


def main() -> None:
    """Serve the node that started this process."""
    serve(_offer)


def _offer(opening: dict[str, Any]) -> Mapping[str, PythonHandler]:
    if opening["password_from"] is not None:
        use_password(SecretReference(*opening["password_from"]))
    found: dict[str, PythonHandler] = {}
    for place in opening["apps"]:
        app = load_app(place)
        app.attach(opening["dsn"], opening["schema"])
        found |= app.handlers
    return found
