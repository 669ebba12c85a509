"""Parts of ``pgcron_ha.demo`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.demo.app import app

__all__ = ["app"]
