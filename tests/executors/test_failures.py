from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from pgcron_ha import Cancel, Discard, Retry, Snooze
from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.base import Failed, Interrupted, StopReason
from pgcron_ha.executors.contract.failures import (
    MAX_MESSAGE_CHARACTERS,
    bounded_text,
    causes_of,
    outcome_of_error,
    refused,
)
from tests.executors.running import context
from tests.product.executors import (
    MASK,
    fingerprint_of,
    mask,
    masking,
    normalized,
    remember_password,
    remember_secret,
)


class PaymentRefused(ConnectionError):
    pass


def failure_of(call: Callable[[], object]) -> Failed:
    try:
        call()
    except BaseException as error:
        outcome = outcome_of_error(error, context(1, "py:x"))
        assert isinstance(outcome, Failed)
        return outcome
    raise AssertionError("it did not fail")


def without_name() -> BaseException:
    class Nameless(type):
        @property
        def __name__(cls) -> str:  # type: ignore[override]
            raise KeyboardInterrupt

    class Without(Exception, metaclass=Nameless):
        pass

    return Without()


def without_text() -> BaseException:
    class Without(BaseException):
        def __str__(self) -> str:
            raise SystemExit(3)

    return Without()


def without_cause() -> BaseException:
    class Without(Exception):
        @property
        def __cause__(self) -> BaseException | None:  # type: ignore[override]
            raise GeneratorExit

    return Without()


def test_a_stop_is_found_below_many_errors() -> None:
    error: BaseException = asyncio.CancelledError()
    for number in range(40):
        above = ValueError(number)
        above.__cause__ = above.__context__ = error  # as `raise … from error` below `except`
        error = above
    run = context(1, "py:work")
    run.stop_reason = StopReason.CANCELLED
    assert isinstance(outcome_of_error(error, run), Interrupted)


@pytest.mark.parametrize("make", [without_name, without_text, without_cause])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_an_error_that_can_not_be_read_is_a_failure_all_the_same(
    make: Callable[[], BaseException], is_stopped: bool
) -> None:
    run = context(1, "py:x")
    if is_stopped:
        run.stop_reason = StopReason.CANCELLED

    outcome = outcome_of_error(make(), run)

    assert isinstance(outcome, Failed)
    assert outcome.error_class == "Without"
    assert "read" in outcome.message


def test_what_is_raised_from_an_error_without_text_is_still_what_it_asks_for() -> None:
    error = Discard("not again")
    error.__cause__ = without_text()

    outcome = outcome_of_error(error, context(1, "py:x"))

    assert isinstance(outcome, Failed)
    assert (outcome.message, outcome.retry) == ("not again", False)
    assert outcome.traceback is not None
    assert outcome.fingerprint is not None


def test_an_error_is_known_by_its_class_and_those_it_is_derived_from() -> None:
    def refused() -> None:
        raise PaymentRefused("no")

    failure = failure_of(refused)

    assert causes_of(failure).split()[:4] == [
        "PaymentRefused",
        f"{__name__}.PaymentRefused",
        "ConnectionError",
        "OSError",
    ]


def test_the_message_of_a_missing_key_says_what_it_is() -> None:
    variables: dict[str, str] = {}

    assert failure_of(lambda: variables["DSN"]).message == "KeyError: 'DSN'"


@pytest.mark.parametrize(
    ("failure", "causes"),
    [
        (Failed("ExitStatus", "", exit_status=75), "ExitStatus exit:75"),
        (Failed("KilledBySignal", "", exit_status=-9), "KilledBySignal signal:9"),
        (Failed("HttpStatus", "", causes=("http:503",)), "HttpStatus http:503"),
        (Failed("no name at all", ""), ""),
    ],
)
def test_a_failure_s_causes_are_words(failure: Failed, causes: str) -> None:
    assert causes_of(failure) == causes


def test_what_a_handler_asks_for_is_told() -> None:
    cause = ValueError("the real one")

    def retries() -> None:
        raise Retry(30, "not yet") from cause

    def snoozes() -> None:
        raise Snooze(timedelta(minutes=5))

    retry, snooze = failure_of(retries), failure_of(snoozes)
    cancelled = outcome_of_error(Cancel("nobody wants it"), context(1, "py:x"))

    assert (retry.after, retry.retry, retry.snooze) == (timedelta(seconds=30), True, False)
    assert retry.traceback is not None
    assert "the real one" in retry.traceback
    assert "pgcron_ha.Retry" in retry.causes
    assert (snooze.after, snooze.snooze) == (timedelta(minutes=5), True)
    assert cancelled == Interrupted(StopReason.CANCELLED, "nobody wants it")


@pytest.mark.parametrize("asked", [1e300, float("inf"), timedelta.max])
def test_no_delay_is_longer_than_a_year(asked: timedelta | float) -> None:
    assert Snooze(asked).after == timedelta(days=366)


def test_a_delay_is_a_number_of_seconds_or_says_its_unit() -> None:
    assert Retry(-5).after == timedelta(0)
    assert Snooze("1m30s").after == Retry(90).after == timedelta(seconds=90)
    for wrong in (float("nan"), "90", "soon", None):
        with pytest.raises(InvalidInput, match="a delay is "):
            Snooze(wrong)  # type: ignore[arg-type]


def lookup(number: int) -> None:
    raise LookupError(f"customer {number} of 550e8400-e29b-41d4-a716-44665544{number:04d}")


def other_lookup(number: int) -> None:
    raise LookupError(f"customer {number}")


def test_a_fingerprint_is_the_same_for_what_fails_in_the_same_way() -> None:
    first, second = failure_of(lambda: lookup(1)), failure_of(lambda: lookup(77))
    elsewhere = failure_of(lambda: other_lookup(1))

    assert first.fingerprint is not None
    assert first.fingerprint == second.fingerprint
    assert len({first.fingerprint, elsewhere.fingerprint}) == 2


def test_an_error_without_a_readable_text_has_the_fingerprint_of_one_without_text() -> None:
    class Silent(Exception):
        text: str | None = None

        def __str__(self) -> str:
            if self.text is None:
                raise ValueError("there is none")
            return self.text

    unreadable, empty = Silent(), Silent()
    empty.text = ""

    outcomes = [outcome_of_error(each, context(1, "py:x")) for each in (unreadable, empty)]

    assert [each.message for each in outcomes if isinstance(each, Failed)] == [
        "Silent (its text could not be read)",
        "Silent",
    ]
    assert len({each.fingerprint for each in outcomes if isinstance(each, Failed)}) == 1


def test_what_is_raised_in_a_library_is_known_by_the_code_that_called_it() -> None:
    import json

    def reads_orders() -> None:
        json.loads("{")

    def reads_customers() -> None:
        json.loads("{")

    orders, again = failure_of(reads_orders), failure_of(reads_orders)
    customers = failure_of(reads_customers)

    assert orders.fingerprint == again.fingerprint
    assert orders.fingerprint != customers.fingerprint


def test_a_failure_without_a_traceback_is_known_by_its_handler() -> None:
    failed = Failed("ExitStatus", "exited with status 1")

    assert fingerprint_of(failed, "shell:a") == fingerprint_of(failed, "shell:a")
    assert fingerprint_of(failed, "shell:a") != fingerprint_of(failed, "shell:b")


def test_exit_statuses_of_one_template_are_different_failures() -> None:
    first, second = (Failed("ExitStatus", f"exited with status {n}", exit_status=n) for n in (1, 2))

    assert fingerprint_of(first, "shell:a") == fingerprint_of(replace(first), "shell:a")
    assert fingerprint_of(first, "shell:a") != fingerprint_of(second, "shell:a")


def test_a_refusal_keeps_the_rule_and_what_to_do() -> None:
    failed = refused(InvalidInput("the arg 'x' is missing", "It takes x.", "Give it."))

    assert (failed.message, failed.retry) == ("the arg 'x' is missing", False)
    assert failed.traceback == "It takes x.\nhint: Give it."
    assert refused(InvalidInput("no")).traceback is None


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("row 17 of 3,000", "row <n> of <n>"),
        ("at 0x7f3a2b1c9d00", "at <hex>"),
        ("commit 3f2a9b8c7d6e gone", "commit <hex> gone"),
        ("id 550E8400-e29b-41d4-a716-446655440000", "id <uuid>"),
        ("defaced facade", "defaced facade"),
        ("2026-11-21 17:03:22.5", "<n>-<n>-<n> <n>"),
        ("first line\nsecond 5", "first line"),
        ("no user 'bob' at bob@example.org", "no user <text> at <address>"),
        ("it can't and won't", "it can't and won't"),
        ("", ""),
    ],
)
def test_a_message_is_normalized(message: str, expected: str) -> None:
    assert normalized(message) == expected


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("connect to postgresql://app:S3cr-et!@db:5432/x failed", "S3cr-et!"),
        ("password=hunter22 host=db", "hunter22"),
        ("DB_PASSWORD='two words' next", "two words"),
        ('{"api_key": "abc123def", "a": 1}', "abc123def"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("Authorization: Bearer eyJhbGciOi.x.y", "eyJhbGciOi"),
        ("got bearer abcdefgh12345", "abcdefgh12345"),
        ("https://x/?access_key=qwertz&page=2", "qwertz"),
        ("access_token=qwertz123", "qwertz123"),
        ("pwd: tiger9", "tiger9"),
        ("password='open", "open"),
        ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEowcut", "MIIEow"),
    ],
)
def test_what_is_written_as_a_secret_is_masked(text: str, hidden: str) -> None:
    masked = mask(text)

    assert hidden not in masked
    assert MASK in masked


@pytest.mark.parametrize(
    "text",
    [
        "unexpected token: ')'",
        "the passenger is gone",
        "https://host:8080/path",
        "no password given",
        "ValueError: author Bob",
        "basic authentication failed",
    ],
)
def test_plain_sentences_stay_as_they_are(text: str) -> None:
    assert mask(text) == text


@pytest.fixture
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_secrets", set())
    monkeypatch.setattr(masking, "_known", masking.Masker(()))


@pytest.mark.usefixtures("own_secrets")
def test_a_known_secret_is_masked_wherever_it_stands() -> None:
    for secret in ("tr0ub4dor", "tr0ub4dor&3", None, "abc"):
        remember_secret(secret)

    assert mask("it said tr0ub4dor&3 and tr0ub4dor, abc") == f"it said {MASK} and {MASK}, abc"


@pytest.mark.usefixtures("own_secrets")
@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("postgresql://app:p%40ss-word@db:5432/shop", "it said p@ss-word or p%40ss-word"),
        ("postgresql://app@db/shop?password=p%40ss-word", "it said p@ss-word"),
    ],
)
def test_the_password_of_the_node_s_own_database_is_a_secret(dsn: str, said: str) -> None:
    remember_password(dsn)

    assert "ss" not in mask(said)


@pytest.mark.usefixtures("own_secrets")
@pytest.mark.parametrize("dsn", ["postgresql://postgres:postgres@db/x", "dbname=shop", "/run/x"])
def test_what_is_a_name_too_is_no_secret(dsn: str) -> None:
    remember_password(dsn)

    assert mask("postgres of shop") == "postgres of shop"


@pytest.mark.usefixtures("own_secrets")
@pytest.mark.parametrize("length", [100, 5000, 40_000, 300_000])
def test_a_secret_is_masked_before_a_text_is_cut(length: int) -> None:
    """Wherever it stands around the cuts, no half of it is left."""
    secret = "Zq" * 20
    remember_secret(secret)
    half = MAX_MESSAGE_CHARACTERS // 2
    for place in (0, half - 20, half + 4096 - 20, length - half - 20, length - half - 4096 - 20):
        if 0 <= place < length:
            text = bounded_text("." * place + secret + "." * (length - place))
            assert "ZqZq" not in text


def test_a_huge_text_is_masked_in_no_time() -> None:
    for huge in ("password=" * 400_000, "a" * 3_000_000, "token '" * 400_000, "://x:" * 600_000):
        began = time.process_time()
        assert len(bounded_text(huge)) < 2 * MAX_MESSAGE_CHARACTERS
        assert time.process_time() - began < 0.5


def test_a_secret_in_a_traceback_is_masked() -> None:
    def connects() -> None:
        raise ConnectionError("postgresql://me:hunter22@db/x")

    failure = failure_of(connects)

    assert failure.traceback is not None
    assert "hunter22" not in failure.traceback + failure.message
    assert isinstance(Discard(), Exception)
