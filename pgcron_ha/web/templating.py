"""Templates and static files: loaded once, escaped always, addressed by their content."""

from __future__ import annotations

import hashlib
from functools import cache
from inspect import getmembers, isfunction
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pgcron_ha import assets
from pgcron_ha.harmless import left_out
from pgcron_ha.web import formats
from pgcron_ha.web.viewing import DOCUMENTS, NAVIGATION

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_CHARACTERS: Final = 12


@cache
def static_files() -> dict[str, tuple[str, bytes, str]]:
    """All of ``web/static``, read once: of ``app.css`` its name in addresses, content and type.

    That name, ``app.0123456789ab.css``, has a hash, so browsers keep the file for ever.
    """
    found = {}
    for path in assets.STATIC.iterdir():
        if path.suffix in _TYPES:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:_HASH_CHARACTERS]
            name = f"{path.stem}.{digest}{path.suffix}"
            found[path.name] = name, content, _TYPES[path.suffix]
    return found


@cache
def templates() -> Environment:
    """``web/templates``, compiled: everything is escaped, nothing undefined is let through.

    It takes half a second, once for each process.
    """
    environment = Environment(
        loader=FileSystemLoader(assets.TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    # Each function that words a value is a filter of its name.
    environment.filters.update(
        getmembers(formats, isfunction), harmless=left_out, mark=formats.mark_of
    )
    environment.globals.update(
        static=lambda name: static_files()[name][0], navigation=NAVIGATION, documents=DOCUMENTS
    )
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    return environment
