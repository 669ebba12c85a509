"""Jobs of other schedulers as schedules, with what is lost on the way."""

from __future__ import annotations

import json
import subprocess
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.product.config import ShellTemplate, SqlProfile, read_tables
from tests.product.schedule_files import (
    Document,
    Imported,
    as_argv,
    import_crontab,
    import_kubernetes,
    import_pg_cron,
    read_yaml,
)
from tests.waiting import COMMAND_SECONDS


def crontab(text: str, **options: Any) -> Imported:
    found = import_crontab(text, "crontab", timezone="UTC", **options)
    assert_usable(found)
    return found


def kubernetes(text: str) -> Imported:
    found = import_kubernetes(read_yaml(text, "k.yaml"), timezone="UTC")
    assert_usable(found)
    return found


def assert_usable(found: Imported) -> None:
    """What is printed is what `schedules apply` and a node read."""
    (document,) = read_yaml(found.schedules_text(), "x")
    assert list(document.value["schedules"]) == list(found.definitions)
    fragment = tomllib.loads(found.templates_text())
    assert read_tables("shell", fragment.get("shell", {}), ShellTemplate)[1] == []
    assert read_tables("sql", fragment.get("sql", {}), SqlProfile)[1] == []


def losses(found: Imported) -> list[str]:
    return [f"{where}: {what}" for where, what in found.losses]


def output_of(found: Imported, name: str) -> str:
    argv = found.templates["shell"][name]["argv"]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
    ).stdout


def test_a_crontab_is_carried_over_as_cron_runs_it() -> None:
    found = crontab(
        "# nightly\n\nPATH=/opt/jobs:/usr/bin:/bin\nNAME = 'two words'\n"
        '*/5 * * * * /opt/jobs/tidy.sh --deep\n0 3 * * Mon-Fri cd /tmp && echo "$NAME"\n'
        "CRON_TZ=Europe/Berlin\n@daily echo x"
    )
    assert losses(found) == []
    assert found.definitions["tidy"] == {
        "spec": "*/5 * * * *",
        "handler": "shell:tidy",
        "timezone": "UTC",
        "overlap": "allow",
        "catchup": "none",
        "timeout": "7d",
        "max_attempts": 1,
    }
    assert found.templates["shell"]["tidy"]["argv"] == [
        *("/usr/bin/env", "PATH=/opt/jobs:/usr/bin:/bin", "NAME=two words"),
        *("/bin/sh", "-c", "/opt/jobs/tidy.sh --deep"),
    ]
    assert found.definitions["echo"]["spec"] == "0 3 * * Mon-Fri"
    assert output_of(found, "echo") == "two words\n"
    last = found.definitions["echo-2"]
    assert (last["spec"], last["timezone"]) == ("@daily", "Europe/Berlin")


@pytest.mark.parametrize(
    ("command", "name", "overlap"),
    [
        ("flock -n /run/report.lock /opt/report.sh --day", "report", "skip"),
        ("flock -w 5 /run/report.lock /opt/report.sh -n", "report", "skip"),
        ("/usr/bin/nice -n 10 ionice -c3 /usr/local/bin/backup", "backup", "allow"),
        ("env A=1 timeout -k 5 10m sudo -u bob chronic reindex.py", "reindex", "allow"),
        ("curl -fsS --retry 3 https://shop.example/cron?job=1", "shop.example", "allow"),
        ("cd /srv/shop && php artisan", "artisan", "allow"),
        ("/usr/bin/python3 /opt/sync.py --all", "sync", "allow"),
        ("curl", "curl", "allow"),
        ("nice -n", "job", "allow"),
    ],
)
def test_a_schedule_has_the_name_of_the_program_that_does_the_work(
    command: str, name: str, overlap: str
) -> None:
    found = import_crontab(f"0 3 * * * {command}", "crontab", timezone="UTC")

    [(given, values)] = found.definitions.items()
    assert (given, values["overlap"]) == (name, overlap)


def test_percent_signs_are_lines_of_input_unless_escaped() -> None:
    found = crontab("0 3 * * * cat -%Dear 'all',%50\\% ${done} of {day}%\n0 4 * * * echo 5\\%")
    assert output_of(found, "cat") == "Dear 'all',\n50% ${done} of {day}\n"
    assert output_of(found, "echo") == "5%\n"


def test_a_system_crontab_names_a_user() -> None:
    found = crontab("17 * * * *  root\tcd / && run-parts /etc/cron.hourly\n", is_system=True)
    template = found.templates["shell"]["run-parts"]
    assert template["user"] == "root"
    assert template["argv"][-1] == "cd / && run-parts /etc/cron.hourly"


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        ("@reboot start-up", "not carried over: @reboot is no time but an event of one host:"),
        ("MAILTO=ops@example.com", "MAILTO: nobody is mailed; what a run prints is its log"),
        ("~ * * * * x", 'not carried over: the minute field does not allow "~"'),
        ("61 * * * * x", 'not carried over: the minute field does not allow "61"; its numbers'),
        ("0 0 30 2 * x", 'not carried over: "0 0 30 2 *" never fires'),
        ("0 5 * * *", "not carried over: there is no command after '0 5 * * *'"),
        ("nonsense", "not carried over: there is no command after 'nonsense'"),
        ("CRON_TZ=Mars/Olympus\n0 5 * * * x", 'not carried over: "Mars/Olympus" is not a time'),
    ],
)
def test_what_a_crontab_loses_is_told_with_its_line(line: str, lost: str) -> None:
    reported = losses(crontab(f"# first\n{line}\n"))
    number = line.count("\n") + 2
    assert len(reported) == 1
    assert reported[0].startswith(f"crontab, line {number}: {lost}")


@pytest.mark.parametrize(
    "command",
    ["rm -rf $HOME/cache/*", "rm ${HOME}/x", "tar c ~/x", "bin/tidy", "./tidy", "cd jobs && x"],
)
def test_a_command_that_depends_on_home_is_reported(command: str) -> None:
    reported = "crontab, line 1: HOME and the working directory are the node's"

    assert losses(crontab(f"@daily {command}")) == [
        f"{reported}: write HOME=/… above the line for others"
    ]
    assert losses(crontab(f"HOME=/home/anna\n@daily {command}")) == []


def test_without_home_in_the_crontab_it_is_that_of_the_node_or_not_there() -> None:
    known = crontab("HOME=/srv\n@daily echo")
    unknown = crontab("@daily echo 'a/~b' && cd  /tmp && ls ../x && cd $DIR")
    of_a_user = crontab("@daily anna echo", is_system=True)

    assert known.templates["shell"]["echo"]["working_directory"] == "/srv"
    assert unknown.templates["shell"]["echo"]["environment"] == ["HOME", "LOGNAME", "USER"]
    assert losses(known) == losses(unknown) == []
    assert "environment" not in of_a_user.templates["shell"]["echo"]
    assert losses(of_a_user) == [
        "crontab, line 1: anna's HOME and working directory are not carried over: write HOME=/… "
        "above the line for others"
    ]


def test_what_looks_like_a_placeholder_reaches_the_program() -> None:
    for items in (["echo", "{day}", "a {b}{c} $d"], ["printf", "%s|", "${x}", "{{y}}", "plain"]):
        plain = subprocess.run(
            items, capture_output=True, timeout=COMMAND_SECONDS, check=True
        ).stdout
        assert (
            subprocess.run(as_argv(items), capture_output=True, timeout=COMMAND_SECONDS).stdout
            == plain
        )


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
            st.tuples(
                st.sampled_from(["* * * * *", "0 3 * * 1-5", "@daily", "@reboot", "1 2 3", "TZ ="]),
                st.text("ab {}$%\\'\"\t;|&=", max_size=15),
            ).map(" ".join),
        ),
        max_size=6,
    )
)
def test_any_text_is_imported_or_told(lines: list[str]) -> None:
    found = import_crontab("\n".join(lines), "crontab", timezone="UTC")
    assert_usable(found)


CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report, namespace: shop}
spec:
  schedule: 0 3 */2 * 1-5
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  suspend: true
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 5400
      template:
        spec:
          restartPolicy: Never
          serviceAccountName: reporter
          containers:
          - name: main
            image: shop/report:1
            command: [/bin/report]
            args: ["--day", "{day}"]
            workingDir: /srv
            env:
            - {name: LEVEL, value: "1"}
            - {name: SECRET, valueFrom: {secretKeyRef: {name: s, key: k}}}
            resources: {limits: {cpu: 1}}
"""


def test_a_cron_job_of_kubernetes_is_carried_over() -> None:
    found = kubernetes(CRON_JOB)
    assert found.definitions["report"] == {
        "spec": "0 3 1-31/2 * 1-5",  # day or weekday, as Kubernetes reads it
        "handler": "shell:report",
        "timezone": "Europe/Berlin",
        "dst": "robfig",
        "overlap": "skip",
        "timeout": "1h30m",
        "max_attempts": 3,
        "enabled": False,
        "catchup_window": "10m",
        "start_deadline": "10m",
    }
    template = found.templates["shell"]["report"]
    assert template["argv"][:2] == ["/usr/bin/env", "LEVEL=1"]
    assert template["argv"][-3:] == ["--day", "{", "day}"]
    assert template["working_directory"] == "/srv"
    where = "k.yaml, line 2, CronJob report"
    assert losses(found) == [
        f"{where}: spec: successfulJobsHistoryLimit not carried over",
        f"{where}: the pod's spec: serviceAccountName not carried over",
        f"{where}: the container: resources not carried over",
        f"{where}: image shop/report:1 is not carried over: the nodes need /bin/report",
        f"{where}: variable SECRET comes from the cluster: not carried over",
    ]


def test_long_deadlines_of_a_cron_job() -> None:
    longest = CRON_JOB.replace("5400", "1000000").replace(": 600", ": 3000000")
    found = kubernetes(longest)

    report = found.definitions["report"]
    assert (report["start_deadline"], report["catchup_window"]) == ("34d17h20m", "34d17h20m")
    assert report["timeout"] == "7d"
    assert any(
        loss.endswith("activeDeadlineSeconds 1000000: a run is stopped after 7d")
        for loss in losses(found)
    )


def test_lists_other_kinds_and_what_is_left_out_are_understood() -> None:
    jobs = [
        {"kind": "CronJob", "metadata": {"name": "a"}, "spec": {"schedule": "@every 1h30m"}},
        {"kind": "CronJob", "metadata": {"name": "b"},
         "spec": {"schedule": "0 9 * * *", "timeZone": "Asia/Tokyo"}},
        {"kind": "CronJob", "metadata": {"name": "b"}, "spec": {"schedule": "0 25 * * *"}},
        {"kind": "Service", "metadata": {"name": "c"}},
        {"kind": "CronJob"},
    ]  # fmt: skip
    found = kubernetes(json.dumps({"kind": "List", "items": jobs}))
    assert found.definitions["a"]["spec"] == "every 1h30m"
    assert found.definitions["a"]["max_attempts"] == 7
    assert found.definitions["b"]["timezone"] == "Asia/Tokyo"
    reported = "\n".join(losses(found))
    assert "@every 1h30m: counted from 1970" in reported
    assert 'CronJob b: not carried over: the hour field does not allow "25"' in reported
    assert reported.count("is no CronJob with a name") == 2
    assert "there is no container: write the shell template yourself" in reported
    assert found.templates == {}


ROWS = [
    {"jobid": 1, "schedule": "0 3 $ * *", "command": "VACUUM", "nodename": "localhost",
     "nodeport": 5432, "database": "shop", "username": "anna", "active": True,
     "jobname": "clean up"},
    {"jobid": 2, "schedule": "30 seconds", "command": "SELECT a[1 :b] FROM t; SELECT 2",
     "nodename": "db", "nodeport": 5433, "database": "d", "username": "u", "active": False},
    {"jobid": 3, "schedule": "x", "command": "SELECT 1"},
]  # fmt: skip


def test_the_jobs_of_pg_cron_are_carried_over() -> None:
    found = import_pg_cron(ROWS, "cron.job", timezone="UTC", server="db.internal")
    assert_usable(found)
    assert found.definitions["clean-up"]["spec"] == "0 3 L * *"
    assert found.definitions["job-2"] == {
        "spec": "every 30s", "handler": "sql:job-2", "timezone": "UTC", "overlap": "queue",
        "catchup": "none", "timeout": "7d", "max_attempts": 1, "enabled": False,
    }  # fmt: skip
    assert found.templates["sql"]["clean-up"] == {
        "dsn": "postgresql://anna@db.internal:5432/shop",
        "statement": "VACUUM",
        "timeout": "7d",
        "atomic": False,
    }
    reported = "\n".join(losses(found))
    assert "job job-2: every 30 s: counted from 1970" in reported
    assert "the profile would take :b for a parameter" in reported
    assert 'job job-3: not carried over: the cron expression "x" has 1 fields' in reported


_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 10**7), st.text("ab {}$\x00é", max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["name", "image", "command", "args", "env", "value", "containers", "spec", "items"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


def _some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.fixed_dictionaries({}, optional=keys), _values)


_pods = _some(
    containers=st.lists(
        _some(name=_values, image=_values, command=st.lists(_values), args=_values, env=_values),
        max_size=2,
    )
)
_cron_jobs = st.fixed_dictionaries(
    {"kind": st.sampled_from(["CronJob", 5])},
    optional={
        "metadata": _some(name=st.text(max_size=5)),
        "spec": _some(
            schedule=st.sampled_from(
                ["@daily", "*/2 * */2 * */3", "@every 1h", 5, "TZ=UTC @daily"]
            ),
            timeZone=_values,
            concurrencyPolicy=_values,
            startingDeadlineSeconds=_values,
            suspend=_values,
            jobTemplate=_some(
                spec=_some(
                    backoffLimit=_values, activeDeadlineSeconds=_values, template=_some(spec=_pods)
                )
            ),
        ),
    },
)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.lists(_cron_jobs, max_size=3))
def test_any_manifest_is_imported_or_told(manifests: list[Any]) -> None:
    documents = [Document("k.yaml", {"items": manifests})]
    found = import_kubernetes(documents, timezone="UTC")
    assert_usable(found)
    jobs = sum(isinstance(manifest, dict) for manifest in manifests)
    assert len(found.definitions) + len({where for where, _ in found.losses}) >= min(jobs, 1)


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "schedule": st.sampled_from(["@daily", "5 seconds", "0 0 $ * *", "x", ""]),
                "command": st.text("select 1;'\"$:ab\x00", max_size=12),
            },
            optional=dict.fromkeys(
                ("jobname", "jobid", "nodename", "nodeport", "database", "active"), _values
            ),
        ),
        max_size=3,
    )
)
def test_any_row_of_pg_cron_is_imported_or_told(rows: list[Any]) -> None:
    assert_usable(import_pg_cron(rows, "cron.job", timezone="UTC", server="db"))
