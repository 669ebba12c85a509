"""Paths in the document of a workflow, written as Python: they become jsonpath."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import partialmethod
from typing import Any, Final, NoReturn

from pgcron_ha.errors import InvalidInput
from pgcron_ha.spec.text import type_words

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# The first member of a path, plain or in quotes; what else is in quotes is a text.
_ROOT: Final = re.compile(
    r'\$\s*\.\s*(?:([^\W\d]\w*)(?!\w|\s*\()|("(?:[^"\\]|\\.)*"))|"(?:[^"\\]|\\.)*"'
)


class _Written:
    """What is known only when the workflow runs."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text
        """As jsonpath."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text}>"

    def _asked(self, *_: object) -> NoReturn:
        raise InvalidInput(
            f"the value of {self.text} is asked for before the workflow runs",
            "It is known only then: no text, sum or loop is made of it now, and `and`, `or`, `not`,"
            " `if` and a < b < c ask for it, too.",
            "Give it alone, as one arg: the handler makes the rest of it. Write a condition as"
            " (a > 0) & (b > 0), with | and ~, and give it as `when`.",
        )

    __bool__ = __str__ = __format__ = __int__ = __float__ = __iter__ = __contains__ = _asked
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _asked
    __truediv__ = __rtruediv__ = _asked


class Condition(_Written):
    """``extract.result["rows"] > 0``; conditions are joined by ``&``, ``|`` and ``~``."""

    __slots__ = ()

    def __invert__(self) -> Condition:
        return Condition(f"!({self.text})")

    def _joined(self, operator: str, other: object) -> Condition:
        if not isinstance(other, Condition):
            self._asked()
        return Condition(f"({self.text}) {operator} ({other.text})")

    __and__ = partialmethod(_joined, "&&")
    __or__ = partialmethod(_joined, "||")


class Path(_Written):
    """``flow.args["day"]``, ``extract.result["files"][0]``; compared, it is a `Condition`."""

    __slots__ = ()
    __and__ = __rand__ = __or__ = __ror__ = __invert__ = _Written._asked

    def __getitem__(self, key: str | int) -> Path:
        if isinstance(key, int):
            place = key if key >= 0 else f"last{key + 1 or ''}"
            return Path(f"{self.text}[{place}]")
        return Path(self.text + member(key))

    def _compared(self, operator: str, other: object) -> Condition:
        if other is not None and not isinstance(other, Path | str | int | float):
            raise InvalidInput(
                f"{self.text} {operator} {type_words(other)}",
                "A path is compared with a text, a number, true, false, None or another path.",
                "Let the step's handler decide it, and return true or false.",
            )
        written = other.text if isinstance(other, Path) else json.dumps(other)
        return Condition(f"{self.text} {operator} {written}")

    __hash__ = object.__hash__
    __eq__ = partialmethod(_compared, "==")  # type: ignore[assignment]
    __ne__ = partialmethod(_compared, "!=")  # type: ignore[assignment]
    __lt__ = partialmethod(_compared, "<")
    __le__ = partialmethod(_compared, "<=")
    __gt__ = partialmethod(_compared, ">")
    __ge__ = partialmethod(_compared, ">=")


def member(key: str) -> str:
    """``.rows``, or ``."my rows"``."""
    return f".{key}" if _PLAIN.fullmatch(key) else f".{json.dumps(key)}"


def references(path: str) -> list[str]:
    """The members of the document that a jsonpath reads, each once, in their order."""
    found: dict[Any, None] = {}
    for plain, quoted in _ROOT.findall(path):
        with suppress(ValueError):  # an escape of jsonpath alone; the database reads it
            if plain or quoted:
                found[plain or json.loads(quoted)] = None
    return list(found)
