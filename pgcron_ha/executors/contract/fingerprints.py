"""A fingerprint of a failure: the same when it fails in the same way, on any node, in any run.

Made of the handler, the class of the error, its message without what differs from run to run
(numbers, uuids, hexadecimal words, addresses, quoted text), the exit status of a program, and the
innermost functions of the user's own code. It has no line numbers and no paths, so that an edit
above the function or another installation is not another error.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from collections.abc import Iterator
from types import FrameType
from typing import Final

from pgcron_ha.executors.contract.outcome import Failed

CHARACTERS: Final = 16
"""64 bits: two of a million kinds of errors get the same one with a chance of 1 in 37 million."""

# What a message begins with says which error it is; the rest of a long one is data.
_MESSAGE_CHARACTERS: Final = 300
_FRAMES: Final = 3
_MAX_FRAMES: Final = 1000  # of a traceback, innermost ones; recursion has as many

_UUID: Final = re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b")
_HEXADECIMAL: Final = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,})\b")
_QUOTED: Final = re.compile(r"""(?<!\w)(?:'[^'\n]{0,300}'|"[^"\n]{0,300}")(?!\w)""")
_ADDRESS: Final = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})*")
_NUMBER: Final = re.compile(r"[0-9]+(?:[.,:][0-9]+)*")
_LIBRARIES: Final = tuple(
    f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_OWN: Final = "pgcron_ha."


def fingerprint_of(failure: Failed, handler: str) -> str:
    """Of a failure without a traceback: by its handler, class, message and exit status."""
    status = () if failure.exit_status is None else (f"status {failure.exit_status}",)
    return _digest(failure.error_class, normalized(failure.message), handler, *status)


def fingerprint_of_error(error: BaseException, handler: str) -> str:
    """Of an exception, also by where in the user's code it was raised."""
    try:
        message = str(error)
    except Exception:  # a __str__ of the user's that raises
        message = ""
    frames = list(_functions(error))[-_MAX_FRAMES:]
    own = [name for name, is_own in frames if is_own]
    places = (own or [name for name, _ in frames])[-_FRAMES:]
    kind = type(error)
    return _digest(f"{kind.__module__}.{kind.__qualname__}", normalized(message), handler, *places)


def normalized(message: str) -> str:
    """The first line of a message, with what differs from run to run replaced by what it is."""
    first = message[: 4 * _MESSAGE_CHARACTERS].strip().partition("\n")[0]
    first = _UUID.sub("<uuid>", first)
    first = _ADDRESS.sub("<address>", _QUOTED.sub("<text>", first))
    first = _HEXADECIMAL.sub("<hex>", first)
    return _NUMBER.sub("<n>", first)[:_MESSAGE_CHARACTERS]


def _functions(error: BaseException) -> Iterator[tuple[str, bool]]:
    """``module.function`` of each frame, outermost first, and whether it is the user's."""
    step = error.__traceback__
    while step is not None:
        frame = step.tb_frame
        module = str(frame.f_globals.get("__name__", ""))
        yield f"{module}.{frame.f_code.co_qualname}", not _is_library(frame, module)
        step = step.tb_next


def _is_library(frame: FrameType, module: str) -> bool:
    path = frame.f_code.co_filename
    is_frozen = path.startswith("<") and path != "<string>"
    return is_frozen or module.startswith(_OWN) or path.startswith(_LIBRARIES)


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:CHARACTERS]
