"""Packages with an entry point, as pip leaves them in a folder."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

import pgcron_ha.executors
from tests.product.executors import GROUP


def install(folder: Path, name: str, kind: str, target: str, source: str = "") -> None:
    """A package with one module of its own name; ``target`` is what its entry point names."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source)
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{GROUP}]\n{kind} = {target}\n")


def install_the_documented_one(folder: Path) -> None:
    """The example of the docstring, word for word."""
    text = inspect.cleandoc(pgcron_ha.executors.__doc__ or "")
    source = text.partition("# pgcron_touch.py\n")[2].partition("    # pgcron-ha.toml\n")[0]
    entry = text.partition('[project.entry-points."pgcron_ha.executors"]\n')[2].splitlines()[0]
    kind, _, target = entry.strip().partition(" = ")
    install(
        folder, "pgcron-touch", kind, target.strip('"'), textwrap.dedent("    " + source.lstrip())
    )
