from __future__ import annotations

import ipaddress
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.errors import ConfigError
from tests.product.config import (
    DEFAULT_RETRY,
    AnswerCheck,
    HttpAuthorization,
    HttpDestination,
    SecretReference,
    parse_secret_reference,
    read_tables,
)

WHOLE = """
[billing]
url = "https://billing.example.com:8443/invoices/{month}?copy={copy}"
placeholders = { month = "[0-9]{4}-[0-9]{2}", copy = true }
method = "put"
headers = { Accept = "application/json" }
body = { month = "{month}", fixed = [1, true] }
auth = { scheme = "basic", user = "ann", secret = "env:BILLING_PASSWORD" }
timeout = "10m"
request_timeout = "5s"
expect = [200, 404]
retry = ["5xx"]
discard = [501]
check = { path = "invoice.state", value = "sent" }
poll = "2s"
connections = 3
allow_private = ["10.0.0.0/8", "fd00::/8"]
ca_file = "/etc/ssl/ours.pem"
"""
URL = "url = 'https://example.com/'\n"


def problems_of(toml: str) -> str:
    destinations, problems = read_tables("http", tomllib.loads(toml), HttpDestination)
    assert destinations == {}
    return "\n".join(problems)


def test_a_whole_destination_is_read() -> None:
    destinations, problems = read_tables("http", tomllib.loads(WHOLE), HttpDestination)

    assert problems == []
    found = destinations["billing"]
    assert found.url == "https://billing.example.com:8443/invoices/{month}?copy={copy}"
    assert set(found.placeholders) == {"month", "copy"}
    assert (found.method, found.headers) == ("PUT", {"Accept": "application/json"})
    assert found.body == {"month": "{month}", "fixed": [1, True]}
    secret = SecretReference("env", "BILLING_PASSWORD")
    assert found.auth == HttpAuthorization("basic", secret, "ann", "X")
    assert (found.timeout, found.request_timeout, found.poll) == (600.0, 5.0, 2.0)
    assert found.expect == (range(200, 201), range(404, 405))
    assert (found.retry, found.discard) == ((range(500, 600),), (range(501, 502),))
    assert found.check == AnswerCheck(("invoice", "state"), "sent")
    assert found.connections == 3
    assert found.allow_private == (
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("fd00::/8"),
    )
    assert found.ca_file == "/etc/ssl/ours.pem"


def test_only_the_url_must_be_given() -> None:
    destinations, problems = read_tables(
        "http", {"a": {"url": "http://example.com"}}, HttpDestination
    )

    assert problems == []
    assert destinations["a"] == HttpDestination(name="a", url="http://example.com")
    assert destinations["a"].retry == DEFAULT_RETRY
    assert destinations["a"].allow_private == ()


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[a]", "http.a.url: expected a URL such as https://"),
        ("[a]\nurl = 5", "http.a.url: '5': expected a URL"),
        ("[a]\nurl = 'ftp://x/'", "expected http://HOST… or https://HOST…"),
        ("[a]\nurl = 'HTTPS://x/'", "expected http://HOST… or https://HOST…"),
        ("[a]\nurl = 'https:///x'", "expected http://HOST… or https://HOST…"),
        ("[a]\nurl = 'https://[::/'", "is no URL"),
        ("[a]\nurl = 'https://x:99999/'", "is no URL"),
        ("[a]\nurl = 'https://u:p@x/'", "user and password have no place in it"),
        ("[a]\nurl = 'https://x/#a'", "has a fragment"),
        ("[a]\nurl = 'https://x/a b'", "no blanks"),
        ("[a]\nurl = 'https://{h}/'\nplaceholders = {h = '.'}", "can't come from a run"),
        ("[a]\nurl = 'https://x:{p}/'\nplaceholders = {p = '.'}", "is no URL"),
        ("[a]\nurl = '{s}://x/'\nplaceholders = {s = '.'}", "expected http://HOST"),
        ("[a]\nurl = 'https://x/{p}'", "'{p}' is not declared in placeholders"),
        ("[a]\nurl = 'https://x/{P}'", "braces are only for the names"),
        (f"[a]\n{URL}method = 'TRACE'", "'TRACE': expected one of GET, HEAD, POST"),
        (f"[a]\n{URL}headers = 5", "expected a table such as"),
        (f"[a]\n{URL}headers = {{Host = 'x'}}", "http.a.headers.Host: is no header, or one"),
        (f"[a]\n{URL}headers = {{authorization = 'x'}}", "is no header, or one"),
        (f"[a]\n{URL}headers = {{Pgcron-Fence = '9'}}", "is no header, or one"),
        (f"[a]\n{URL}headers = {{'A B' = '9'}}", "is no header, or one"),
        (f'[a]\n{URL}headers = {{A = "x\\r\\nB: y"}}', "expected a string of printable ASCII"),
        (f"[a]\n{URL}body = true", "expected a string, a table or list"),
        (f"[a]\n{URL}body = {{a = ['{{x}}']}}", "'{x}' is not declared in placeholders"),
        (f"[a]\n{URL}body = {{a = 2026-01-01}}", "JSON has no dates"),
        (f"[a]\n{URL}body = [nan]", "JSON has no dates, times, infinities and NaN"),
        (f"[a]\n{URL}auth = 'token'", "expected a table such as"),
        (f"[a]\n{URL}auth = {{scheme = 'magic', secret = 'env:A'}}", "expected a table such as"),
        (f"[a]\n{URL}auth = {{scheme = 'basic', secret = 'env:A'}}", "scheme, secret, user"),
        (f"[a]\n{URL}auth = {{scheme = 'bearer', secret = 'hunter2'}}", "expected env:NAME"),
        (
            f"[a]\n{URL}auth = {{scheme = 'header', header = 'Host', secret = 'env:A'}}",
            "expected the name of a header",
        ),
        (
            "[a]\nurl = 'http://x/'\nauth = {scheme = 'bearer', secret = 'env:A'}",
            "a secret is not sent in the clear",
        ),
        (f"[a]\n{URL}expect = 200", "expected a list of statuses such as"),
        (f"[a]\n{URL}retry = ['6xx']", "expected a list of statuses such as"),
        (f"[a]\n{URL}discard = [102]", "expected a list of statuses such as"),
        (f"[a]\n{URL}check = {{path = 'a'}}", "expected a table such as"),
        (f"[a]\n{URL}check = {{path = '', value = 1}}", "expected a table such as"),
        (f"[a]\n{URL}method = 'HEAD'\ncheck = {{path = 'a', value = 1}}", "HEAD has no body"),
        (f"[a]\n{URL}poll = '2h'", "'2h': expected a duration from 1ms to 1h"),
        (f"[a]\n{URL}connections = 0", "'0': expected a whole number from 1 to 1,000"),
        (f"[a]\n{URL}allow_private = ['10.0.0.1/8']", "has host bits set"),
        (f"[a]\n{URL}allow_private = 'yes'", "expected true or networks"),
        (f"[a]\n{URL}ca_file = 'ca.pem'", "expected an absolute path"),
        (f"[a]\n{URL}timeuot = '5s'", "unknown key; did you mean 'timeout'?"),
        ("a = 5", "http.a: expected a table [http.a]"),
    ],
)
def test_a_wrong_destination_is_refused_with_a_sentence(toml: str, sentence: str) -> None:
    assert sentence in problems_of(toml)


def test_a_secret_that_stands_in_the_file_is_not_told_again() -> None:
    for toml in (
        f"[a]\n{URL}auth = {{scheme = 'bearer', secret = 'hunter2'}}",
        f"[a]\n{URL}auth = 'hunter2'",
        f"[a]\n{URL}headers = 'Authorization: hunter2'",
        "[a]\nurl = 'ftp://u:hunter2@x/'",
        "[a]\nurl = 'https://u:hunter2@x/a b'",
    ):
        assert "hunter2" not in problems_of(toml)


@pytest.mark.parametrize("raw", ["", "env:", "env:A B", "file:x", "file:", "s3cret", 5, None])
def test_what_is_no_reference_to_a_secret_is_refused(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"env:NAME \(a variable"):
        parse_secret_reference(raw)


def test_a_secret_is_one_line_of_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    reference = parse_secret_reference(f"file:{file}")
    file.write_bytes("gëheim\r\n".encode())
    assert reference.read() == "gëheim"
    monkeypatch.setenv("A", "x y")
    assert parse_secret_reference("env:A").read() == "x y"

    for content in (b"", b"\n", b"a\nb", b"\xff", b"\0", b"x" * 70_000):
        file.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            reference.read()
        assert str(file) in caught.value.message
    monkeypatch.setenv("A", "")
    with pytest.raises(ConfigError, match="'env:A' is empty or not set"):
        parse_secret_reference("env:A").read()


CALLED_BACK = "[x]\n" + URL + "completion = 'callback'\n"


def test_a_body_may_name_where_the_service_calls_back() -> None:
    body = 'body = { to = "{callback_url}", with = "Bearer {callback_token}" }\n'

    destinations, problems = read_tables("http", tomllib.loads(CALLED_BACK + body), HttpDestination)

    assert problems == []
    assert destinations["x"].completion == "callback"
    assert "'{callback_token}' is not declared" in problems_of("[x]\n" + URL + body)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("completion = 'later'", "'later': expected one of answer, poll, callback"),
        ("completion = 3", "'3': expected one of"),
        ("completion = ['poll']", "expected one of"),
        ("completion = 'poll'", "'poll' needs poll"),
        ("completion = 'callback'\npoll = '1s'", "'callback' does not go with poll"),
        ("completion = 'answer'\npoll = '1s'", "'answer' does not go with poll"),
        (
            "completion = 'callback'\nplaceholders = { callback_token = true }",
            "placeholders.callback_token: is made for each run",
        ),
    ],
)
def test_a_completion_that_can_not_be_is_refused(more: str, expected: str) -> None:
    assert expected in problems_of("[x]\n" + URL + more)


def test_no_token_of_a_callback_goes_to_a_service_in_the_clear() -> None:
    callback = 'completion = "callback"\n'

    assert "completion: a token is not sent in the clear" in problems_of(
        f"[a]\nurl = 'http://x/'\n{callback}"
    ).replace("http.a.", "")
    for fine in ("url = 'https://x/'", "url = 'http://x/'\nallow_private = ['10.0.0.0/8']"):
        _, problems = read_tables(
            "http", tomllib.loads(f"[a]\n{fine}\n{callback}"), HttpDestination
        )
        assert problems == []
