"""The handlers that a node claims runs of: those it offers, without those whose breaker is open."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import overload


class OfferedHandlers(Sequence[str]):
    """A list that changes under its readers; `everything` never does."""

    def __init__(self, handlers: Sequence[str]) -> None:
        self.everything = tuple(handlers)
        self._names = self.everything

    def leave_out(self, broken: Container[str]) -> None:
        """All but these from now on."""
        self._names = tuple(name for name in self.everything if name not in broken)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int, /) -> str: ...

    @overload
    def __getitem__(self, index: slice, /) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice, /) -> str | Sequence[str]:
        return self._names[index]
