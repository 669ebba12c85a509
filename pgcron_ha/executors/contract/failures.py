"""From what a handler returned or raised to an outcome with bounded, storable text.

A failure has a fingerprint: the same when it fails in the same way, on any node, in any run. It is
made of the handler, the class of the error, its message without what differs from run to run
(numbers, uuids, hexadecimal words, addresses, quoted text), the exit status of a program, and the
innermost functions of the user's own code. It has no line numbers and no paths, so that an edit
above the function or another installation is not another error.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import replace
from types import FrameType
from typing import Any, Final

from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.attempt import Attempt, Stopped, StopReason
from pgcron_ha.executors.contract.masking import Masker, mask, mask_document, room
from pgcron_ha.executors.contract.outcome import (
    MAX_RESULT_BYTES,
    SUCCEEDED,
    Cancel,
    Discard,
    Failed,
    Interrupted,
    Outcome,
    Retry,
    Snooze,
    Succeeded,
)
from pgcron_ha.harmless import storable
from pgcron_ha.model.json_values import MOST_LEVELS, compact, levels_of

MAX_MESSAGE_CHARACTERS = 4 * 1024
"""An error's message is shown in lists; a longer text belongs in the log."""

MAX_TRACEBACK_CHARACTERS = 16 * 1024
"""Head and tail are kept: where it began and where it broke."""

MAX_NAME_CHARACTERS = 200
"""Of an error's class, and of a fingerprint."""

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_ABOVE_HANDLERS = ("pgcron_ha.executors.python.", "pgcron_ha.executors.contract.coroutines")
"""Modules of frames above the handler in a traceback, which say nothing about it."""

_STOPS = (Stopped, asyncio.CancelledError, GeneratorExit)

_JSON = "return None or what can be written as JSON, also dates, decimals and models"

ASKED_TO_RETRY = "pgcron_ha.Retry"
"""The cause that overrides a policy's rules about causes: the handler has asked for a retry."""

_CAUSE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:]{0,199}")
_MAX_KINDS = 16  # base classes of an exception that are reported
_MAX_CHAIN = 100  # a bound for exceptions that are each other's cause


_DIGEST_CHARACTERS: Final = 16
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


def outcome_of_result(result: Any, own: Masker | None = None) -> Succeeded | Failed:
    """`Succeeded`, or `Failed` without retry (the effects have happened) if it can't be kept."""
    if result is None:
        return SUCCEEDED
    try:
        if inspect.isgenerator(result):  # nothing of the handler has been executed
            raise TypeError("a handler can't be a generator")
        text = compact(result)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        if inspect.iscoroutine(result):
            result.close()
        return _bad_result("InvalidResult", f"{type(result).__name__!r}: {error}; {_JSON}")
    if size > MAX_RESULT_BYTES:
        bound = f"a result may have {MAX_RESULT_BYTES} bytes"
        return _bad_result("TooLarge", f"{size} bytes of JSON; {bound}")
    if (levels := levels_of(text)) > MOST_LEVELS:
        bound = f"a result may be nested {MOST_LEVELS} levels deep"
        return _bad_result("TooLarge", f"JSON nested {levels} levels deep; {bound}")
    if _ESCAPED_NUL.search(text):
        return _bad_result("InvalidResult", f"text with a NUL character; {_JSON}")
    masked = mask_document(text, own)
    return Succeeded(result if masked is text else json.loads(masked), masked)


def outcome_of_error(error: BaseException, context: Attempt) -> Outcome:
    """`Interrupted` when a stop ended the handler or it cancels its run, else `Failed`."""
    try:
        return _interruption(error, context) or _failure(error, context)
    except BaseException as unreadable:  # whatever an exception of the user's does when it is read
        kind, problem = _class_of(error), _class_of(unreadable)
        return Failed(kind, f"{kind} ({problem} when it was read)")


def _interruption(error: BaseException, context: Attempt) -> Interrupted | None:
    reason = context.stop_reason
    if isinstance(error, Stopped):
        return Interrupted(reason or error.reason, bounded_text(str(error)))
    if reason is not None and is_stop(error):
        return Interrupted(reason, f"stopped: {reason}")
    if isinstance(error, Cancel):
        return Interrupted(StopReason.CANCELLED, _message(error, context._masker))
    return None


def is_stop(error: BaseException) -> bool:
    """Whether a stop ended the handler, however it was passed on."""
    return any(isinstance(each, _STOPS) for each in _chain(error))


def _class_of(error: BaseException) -> str:
    """The name of its class, whatever a metaclass says instead."""
    name: str = type.__dict__["__name__"].__get__(type(error))
    return name[:MAX_NAME_CHARACTERS]


def refused(error: PgcronError, own: Masker | None = None) -> Failed:
    """The failure for invalid args: no retry helps. Detail and hint replace the traceback."""
    parts = [error.detail, None if error.hint is None else f"hint: {error.hint}"]
    reported = "\n".join(part for part in parts if part is not None)
    return Failed(
        "InvalidInput",
        bounded_text(error.message, own=own),
        bounded_text(reported, MAX_TRACEBACK_CHARACTERS, own) or None,
        retry=False,
    )


def bounded_text(text: str, limit: int = MAX_MESSAGE_CHARACTERS, own: Masker | None = None) -> str:
    """Text PostgreSQL can keep, secrets masked, its middle cut out if it is longer than ``limit``.

    It is masked before it is cut, so that no half of a secret is left.
    """
    limit = room(limit)
    text = mask(text, limit, own)
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… [{len(text) - 2 * half} characters cut] …\n{text[-half:]}"
    return storable(text)


def _failure(error: BaseException, context: Attempt) -> Failed:
    handler, own = context.handler, context._masker
    name, message, causes = type(error).__name__, _message(error, own), names_of(error)
    if not isinstance(error, Retry | Snooze | Discard):
        fingerprint = fingerprint_of_error(error, handler, own)
        return Failed(name, message, _traceback(error, own), causes=causes, fingerprint=fingerprint)
    # An exception that a handler raises in place of another is reported with that one.
    traceback = None if error.__cause__ is None else _traceback(error, own)
    if isinstance(error, Snooze):
        return Failed(name, message, traceback, after=error.after, snooze=True)
    fingerprint = fingerprint_of_error(error.__cause__ or error, handler, own)
    failure = Failed(name, message, traceback, False, causes=causes, fingerprint=fingerprint)
    if isinstance(error, Discard):
        return failure
    causes = (ASKED_TO_RETRY, *causes)
    return replace(failure, retry=True, after=error.after, causes=causes)


def names_of(error: BaseException) -> tuple[str, ...]:
    """The names of an error's class and of those it is derived from, as retry policies write them:
    each without its module, and with it where it is not a builtin one.
    """
    names: list[str] = []
    for kind in type(error).__mro__[:-1][:_MAX_KINDS]:
        whole = f"{kind.__module__}.{kind.__qualname__}"
        names += [kind.__name__, whole.removeprefix("builtins.")]
    return tuple(name for name in dict.fromkeys(names) if _CAUSE.fullmatch(name))


def causes_of(failure: Failed) -> str:
    """All names of a failure that a retry policy may know, with a space between them."""
    names = [failure.error_class, *failure.causes]
    if failure.exit_status is not None:
        status = failure.exit_status
        names.append(f"exit:{status}" if status >= 0 else f"signal:{-status}")
    return " ".join(name for name in dict.fromkeys(names) if _CAUSE.fullmatch(name))


def _bad_result(kind: str, returned: str) -> Failed:
    return Failed(kind, bounded_text(f"the handler returned {returned}"), retry=False)


def _message(error: BaseException, own: Masker | None) -> str:
    # Of a KeyError the text is the key alone.
    name, text = type(error).__name__, _text(error)
    if text is None:
        return f"{name} (its text could not be read)"
    kind = f"{name}: " if isinstance(error, KeyError) else ""
    return bounded_text(f"{kind}{text}", own=own) or name


def _text(error: BaseException) -> str | None:
    """None for a `__str__` of the user's that raises."""
    try:
        return str(error)
    except BaseException:
        return None


def _traceback(error: BaseException, own: Masker | None) -> str:
    first = error.__traceback__
    while first is not None and _module_of(first.tb_frame).startswith(_ABOVE_HANDLERS):
        first = first.tb_next
    lines = traceback.format_exception(type(error), error, first)
    return bounded_text("".join(lines), MAX_TRACEBACK_CHARACTERS, own)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from or during, and the members of groups."""
    pending = [error]
    for _ in range(_MAX_CHAIN):
        if not pending:
            return
        # Depth first: most errors are found twice, as cause and as context. Breadth first these
        # double at each level, and the bound ends the search near the beginning of a long chain.
        each = pending.pop()
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        pending.extend(cause for cause in (each.__cause__, each.__context__) if cause is not None)


def fingerprint_of(failure: Failed, handler: str) -> str:
    """Of a failure without a traceback: by its handler, class, message and exit status."""
    status = () if failure.exit_status is None else (f"status {failure.exit_status}",)
    return _digest(failure.error_class, normalized(failure.message), handler, *status)


def fingerprint_of_error(error: BaseException, handler: str, own: Masker | None = None) -> str:
    """Of an exception, also by where in the user's code it was raised."""
    message = normalized(mask(_text(error) or "", MAX_MESSAGE_CHARACTERS, own))
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-_MAX_FRAMES:]
    users = [frame for frame in frames if not _is_library(frame)]
    places = [
        f"{_module_of(frame)}.{frame.f_code.co_qualname}" for frame in (users or frames)[-_FRAMES:]
    ]
    kind = type(error)
    return _digest(f"{kind.__module__}.{kind.__qualname__}", message, handler, *places)


def normalized(message: str) -> str:
    """The first line of a message, with what differs from run to run replaced by what it is."""
    first = message[: 4 * _MESSAGE_CHARACTERS].strip().partition("\n")[0]
    first = _UUID.sub("<uuid>", first)
    first = _ADDRESS.sub("<address>", _QUOTED.sub("<text>", first))
    first = _HEXADECIMAL.sub("<hex>", first)
    return _NUMBER.sub("<n>", first)[:_MESSAGE_CHARACTERS]


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_library(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    is_frozen = path.startswith("<") and path != "<string>"
    return is_frozen or _module_of(frame).startswith(_OWN) or path.startswith(_LIBRARIES)


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:_DIGEST_CHARACTERS]
