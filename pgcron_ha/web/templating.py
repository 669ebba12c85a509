"""Templates and static files: loaded once, escaped always, addressed by their content."""

from __future__ import annotations

import hashlib
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pgcron_ha import assets
from pgcron_ha.harmless import left_out
from pgcron_ha.web import formats
from pgcron_ha.web.viewing import NAVIGATION

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_CHARACTERS: Final = 12


class StaticFiles:
    """All of ``web/static``, read once; a hash in each name lets browsers keep it for ever."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        """``app.css`` is ``app.0123456789ab.css`` in addresses."""
        self.files: dict[str, tuple[bytes, str]] = {}
        """Content and type by the name with the hash."""
        for path in assets.STATIC.iterdir():
            if path.suffix in _TYPES:
                content = path.read_bytes()
                digest = hashlib.sha256(content).hexdigest()[:_HASH_CHARACTERS]
                name = f"{path.stem}.{digest}{path.suffix}"
                self.names[path.name] = name
                self.files[name] = content, _TYPES[path.suffix]


def load_templates(static: StaticFiles) -> Environment:
    """``web/templates``, compiled: everything is escaped, nothing undefined is let through."""
    environment = Environment(
        loader=FileSystemLoader(assets.TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        duration=formats.duration,
        exact=formats.exact,
        harmless=left_out,
        local=formats.local,
        mark=formats.mark_of,
        clock=formats.clock,
        number=formats.number,
        plain=formats.plain,
        plural=formats.plural,
        relative=formats.relative,
        rfc=formats.rfc,
        short=formats.short,
        size=formats.size,
    )
    environment.globals.update(static=static.names.__getitem__, navigation=NAVIGATION)
    for name in environment.list_templates(extensions=["html"]):
        environment.get_template(name)
    return environment
