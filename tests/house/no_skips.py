"""A pytest plugin (``-p tests.house.no_skips``): a skipped or expected failure fails the session.

What a test needs its ``make`` target installs; a test that can't run there proves nothing.
"""

from __future__ import annotations

import pytest

_skipped: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped:
        _skipped[report.nodeid] = _reason(report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped[report.nodeid] = _reason(report.longrepr)


# Last of all, so that nothing sets the exit status back.
@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _skipped and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _skipped:
        terminalreporter.section("skipped tests fail this run", red=True)
        for test, reason in sorted(_skipped.items()):
            terminalreporter.line(f"{test}: {reason}")


def _reason(longrepr: object) -> str:
    return str(longrepr[2]) if isinstance(longrepr, tuple) else "expected to fail"
