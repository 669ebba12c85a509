"""Templates and static files: loaded once, escaped always, addressed by their content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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


@dataclass(frozen=True)
class StaticFile:
    """One file of ``web/static``; `name` carries a hash, so that browsers may keep it for ever."""

    name: str
    content: bytes
    content_type: str


class StaticFiles:
    """All of ``web/static``, read once. A folder inside it is not served."""

    def __init__(self, folder: Path = assets.STATIC) -> None:
        found = [path for path in sorted(folder.iterdir()) if path.suffix in _TYPES]
        self._by_plain_name = {path.name: _static_file(path) for path in found}
        self._by_name = {file.name: file for file in self._by_plain_name.values()}

    def named(self, plain_name: str) -> str:
        """``app.css`` as addresses have it: ``app.0123456789ab.css``."""
        return self._by_plain_name[plain_name].name

    def find(self, name: str) -> StaticFile | None:
        """The file of such a name, or None."""
        return self._by_name.get(name)


class Templates:
    """Renders ``web/templates``: everything is escaped, nothing undefined is let through."""

    def __init__(self, static: StaticFiles) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(assets.TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        self._environment.filters.update(
            {
                "duration": formats.duration,
                "exact": formats.exact,
                "harmless": left_out,
                "local": formats.local,
                "mark": formats.mark_of,
                "clock": formats.clock,
                "number": formats.number,
                "plain": formats.plain,
                "plural": formats.plural,
                "relative": formats.relative,
                "rfc": formats.rfc,
                "short": formats.short,
                "size": formats.size,
            }
        )
        self._environment.globals.update(static=static.named, navigation=NAVIGATION)

    def load_all(self) -> None:
        """Compiles every template, so that a broken one is found at the start."""
        for name in self._environment.list_templates(extensions=["html"]):
            self._environment.get_template(name)

    def render(self, template: str, **values: Any) -> str:
        """The text of a template with these values."""
        return self._environment.get_template(template).render(**values)


def _static_file(path: Path) -> StaticFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:_HASH_CHARACTERS]
    return StaticFile(f"{path.stem}.{digest}{path.suffix}", content, _TYPES[path.suffix])
