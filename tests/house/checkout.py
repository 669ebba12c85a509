"""The files of the checkout, as the house's tests look at them."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files(*suffixes: str, under: tuple[str, ...]) -> list[Path]:
    """The files with one of these suffixes below these folders, without what tools leave behind."""
    return [
        path
        for folder in under
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
    ]


def name(path: Path) -> str:
    """The path as people write it, from the top of the checkout."""
    return path.relative_to(ROOT).as_posix()
