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

from pgcron_ha.executors.context import Context, Discard, Retry, Stopped
from pgcron_ha.executors.outcome import MAX_RESULT_BYTES, Failed, Interrupted, Outcome, Succeeded

MAX_MESSAGE_CHARACTERS = 4 * 1024
"""An error's message is read in lists; what is longer belongs into the log."""

MAX_TRACEBACK_CHARACTERS = 16 * 1024
"""Head and tail are kept: where it began and where it broke."""

_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_FRAMES_OF_OURS = frozenset(
    str(Path(__file__).with_name(name))
    for name in ("python.py", "python_handler.py", "coroutines.py")
)
"""What stands above the handler in a traceback and says nothing about it."""

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
        bound = f"a result may have {MAX_RESULT_BYTES} bytes"
        message = f"the handler returned {size} bytes of JSON; {bound}"
        return Failed("TooLarge", message, retry=False)
    if _ESCAPED_NUL.search(text):
        return _bad_result("the handler returned text with a NUL character")
    return Succeeded(result, text)


def outcome_of_error(error: BaseException, context: Context) -> Outcome:
    """`Interrupted` when a stop ended the handler, else `Failed`."""
    reason = context.stop_reason
    if isinstance(error, Stopped):
        return Interrupted(reason or error.reason, bounded_text(str(error)))
    if reason is not None and any(_is_stop(each) for each in _chain(error)):
        return Interrupted(reason, f"stopped: {reason}")
    if isinstance(error, Retry):
        return Failed("Retry", _message(error), after=error.after)
    if isinstance(error, Discard):
        return Failed("Discard", _message(error), retry=False)
    return Failed(type(error).__name__, _message(error), _traceback(error))


def bounded_text(text: str, limit: int = MAX_MESSAGE_CHARACTERS) -> str:
    """Text PostgreSQL can keep, with its middle cut out if it is longer than ``limit``."""
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n… [{len(text) - 2 * half} characters cut] …\n{text[-half:]}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _bad_result(message: str) -> Failed:
    hint = "return None or a JSON value (object, array, text, finite number, true, false)"
    return Failed("InvalidResult", bounded_text(f"{message}; {hint}"), retry=False)


def _message(error: BaseException) -> str:
    try:
        return bounded_text(str(error)) or type(error).__name__
    except Exception:  # a __str__ of the user's that raises
        return f"{type(error).__name__} (its text could not be read)"


def _traceback(error: BaseException) -> str:
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename in _FRAMES_OF_OURS:
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
