"""Which version this is."""

from __future__ import annotations

import importlib.metadata


def installed_version() -> str:
    """As the package says; ``0`` when it is not installed."""
    try:
        return importlib.metadata.version("pgcron-ha")
    except importlib.metadata.PackageNotFoundError:
        return "0"
