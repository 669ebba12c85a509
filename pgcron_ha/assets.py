"""Where the files that are not imported are: beside the package, or inside a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).parent
# A checkout keeps the folders beside the package; a wheel carries them inside.
_HOME = _PACKAGE if (_PACKAGE / "migrations").is_dir() else _PACKAGE.parent

MIGRATIONS = _HOME / "migrations"
TEMPLATES = _HOME / "web" / "templates"
STATIC = _HOME / "web" / "static"
DOCS = _HOME / "docs"
