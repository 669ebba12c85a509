"""From what a handler returned or raised to an outcome with bounded, storable text."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.attempt import Attempt, Stopped, StopReason
from pgcron_ha.executors.contract.fingerprints import fingerprint_of_error
from pgcron_ha.executors.contract.masking import mask, mask_document, room
from pgcron_ha.executors.contract.outcome import (
    MAX_RESULT_BYTES,
    Cancel,
    Discard,
    Failed,
    Interrupted,
    Outcome,
    Retry,
    Snooze,
    Succeeded,
)
from pgcron_ha.model.nesting import MOST_LEVELS, levels_of

MAX_MESSAGE_CHARACTERS = 4 * 1024
"""An error's message is shown in lists; a longer text belongs in the log."""

MAX_TRACEBACK_CHARACTERS = 16 * 1024
"""Head and tail are kept: where it began and where it broke."""

MAX_NAME_CHARACTERS = 200
"""Of an error's class, and of a fingerprint."""

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_FRAMES_OF_OWN = frozenset(
    str(Path(__file__).parents[1] / name)
    for name in ("python/executor.py", "python/handler.py", "contract/coroutines.py")
)
"""Frames above the handler in a traceback, which say nothing about it."""

ASKED_TO_RETRY = "pgcron_ha.Retry"
"""The cause that overrides a policy's rules about causes: the handler has asked for a retry."""

_CAUSE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:]{0,199}")
_MAX_KINDS = 16  # base classes of an exception that are reported
_MAX_CHAIN = 100  # a bound for exceptions that are each other's cause


def outcome_of_result(result: Any) -> Outcome:
    """`Succeeded`, or `Failed` without retry (the effects have happened) if it can't be kept."""
    try:
        text = json.dumps(result, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        if inspect.iscoroutine(result):
            result.close()
        return _bad_result(f"the handler returned {type(result).__name__!r}: {error}")
    if size > MAX_RESULT_BYTES:
        return _too_large(f"{size} bytes of JSON", f"may have {MAX_RESULT_BYTES} bytes")
    if (levels := levels_of(text)) > MOST_LEVELS:
        bound = f"may be nested {MOST_LEVELS} levels deep"
        return _too_large(f"JSON nested {levels} levels deep", bound)
    if _ESCAPED_NUL.search(text):
        return _bad_result("the handler returned text with a NUL character")
    return success(result, text)


def success(result: Any, text: str) -> Succeeded:
    """Of a result and its JSON text: without the secrets that the configuration knows."""
    masked = mask_document(text)
    return Succeeded(result if masked is text else json.loads(masked), masked)


def outcome_of_error(error: BaseException, context: Attempt) -> Outcome:
    """`Interrupted` when a stop ended the handler or it cancels its run, else `Failed`."""
    reason = context.stop_reason
    if isinstance(error, Stopped):
        return Interrupted(reason or error.reason, bounded_text(str(error)))
    if reason is not None and any(_is_stop(each) for each in _chain(error)):
        return Interrupted(reason, f"stopped: {reason}")
    if isinstance(error, Cancel):
        return Interrupted(StopReason.CANCELLED, _message(error))
    try:
        return _failure(error, context.handler)
    except Exception as unreadable:  # whatever an exception of the user's does when it is read
        kind, problem = type(error).__name__[:MAX_NAME_CHARACTERS], type(unreadable).__name__
        return Failed(kind, f"{kind} ({problem} when it was read)")


def refused(error: PgcronError) -> Failed:
    """The failure for invalid args: no retry helps. Detail and hint replace the traceback."""
    parts = [error.detail, None if error.hint is None else f"hint: {error.hint}"]
    reported = "\n".join(part for part in parts if part is not None)
    return Failed(
        "InvalidInput",
        bounded_text(error.message),
        bounded_text(reported, MAX_TRACEBACK_CHARACTERS) or None,
        retry=False,
    )


def bounded_text(text: str, limit: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Text PostgreSQL can keep, secrets masked, its middle cut out if it is longer than ``limit``.

    It is masked before it is cut, so that no half of a secret is left.
    """
    limit = room(limit)
    text = mask(text, limit)
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… [{len(text) - 2 * half} characters cut] …\n{text[-half:]}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _failure(error: BaseException, handler: str) -> Failed:
    name, message, causes = type(error).__name__, _message(error), names_of(error)
    # An exception that a handler raises in place of another is reported with that one.
    traceback = _traceback(error) if error.__cause__ is not None else None
    fingerprint = fingerprint_of_error(error.__cause__ or error, handler)
    if isinstance(error, Retry):
        causes = (ASKED_TO_RETRY, *causes)
        return Failed(
            name, message, traceback, after=error.after, causes=causes, fingerprint=fingerprint
        )
    if isinstance(error, Snooze):
        return Failed(name, message, traceback, after=error.after, snooze=True)
    if isinstance(error, Discard):
        return Failed(name, message, traceback, retry=False, causes=causes, fingerprint=fingerprint)
    fingerprint = fingerprint_of_error(error, handler)
    return Failed(name, message, _traceback(error), causes=causes, fingerprint=fingerprint)


def names_of(error: BaseException) -> tuple[str, ...]:
    """The names of an error's class and of those it is derived from, as retry policies write them:
    each without its module, and with it where it is not a builtin one.
    """
    names: list[str] = []
    for kind in type(error).__mro__[:-1][:_MAX_KINDS]:
        names.append(kind.__name__)
        if kind.__module__ != "builtins":
            names.append(f"{kind.__module__}.{kind.__qualname__}")
    return tuple(name for name in dict.fromkeys(names) if _CAUSE.fullmatch(name))


def causes_of(failure: Failed) -> str:
    """All names of a failure that a retry policy may know, with a space between them."""
    names = [failure.error_class, *failure.causes]
    if failure.exit_status is not None:
        status = failure.exit_status
        names.append(f"exit:{status}" if status >= 0 else f"signal:{-status}")
    return " ".join(name for name in dict.fromkeys(names) if _CAUSE.fullmatch(name))


def _bad_result(message: str) -> Failed:
    hint = "return None or a JSON value (object, array, text, finite number, true, false)"
    return Failed("InvalidResult", bounded_text(f"{message}; {hint}"), retry=False)


def _too_large(returned: str, bound: str) -> Failed:
    message = f"the handler returned {returned}; a result {bound}"
    return Failed("TooLarge", message, retry=False)


def _message(error: BaseException) -> str:
    try:
        return bounded_text(str(error)) or type(error).__name__
    except Exception:  # a __str__ of the user's that raises
        return f"{type(error).__name__} (its text could not be read)"


def _traceback(error: BaseException) -> str:
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename in _FRAMES_OF_OWN:
        own = own.tb_next
    try:
        lines = traceback.format_exception(type(error), error, own)
        return bounded_text("".join(lines), MAX_TRACEBACK_CHARACTERS)
    except Exception:
        return f"{type(error).__name__} (its traceback could not be read)"


def _is_stop(error: BaseException) -> bool:
    return isinstance(error, (Stopped, asyncio.CancelledError, GeneratorExit))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from or during, and the members of groups."""
    pending = [error]
    for _ in range(_MAX_CHAIN):
        if not pending:
            return
        each = pending.pop()
        yield each
        if isinstance(each, BaseExceptionGroup):
            pending.extend(each.exceptions)
        pending.extend(cause for cause in (each.__cause__, each.__context__) if cause is not None)
