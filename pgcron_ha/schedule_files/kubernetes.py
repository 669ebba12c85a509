"""CronJob manifests (``batch/v1``) as schedules.

The command of the one container becomes a shell template: a node runs programs of its own host, no
images. What only a cluster has (volumes, service accounts, resources) is reported as lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pgcron_ha.schedule_files.documents import Document
from pgcron_ha.schedule_files.imported import LONGEST, Imported, as_argv, with_variables
from pgcron_ha.spec.text import duration_text

_OVERLAPS: Final = {"Allow": "allow", "Forbid": "skip", "Replace": "replace"}
# The default of Kubernetes for the retries of a Job.
_BACKOFF_LIMIT: Final = 6
_STARRED_STEP: Final = re.compile(r"\*/(\d+)")


def import_kubernetes(documents: Iterable[Document], *, timezone: str) -> Imported:
    """The CronJobs of manifests; ``timezone`` is that of jobs that name none."""
    found = Imported()
    for document in documents:
        for manifest in _manifests(document.value):
            where = document.where()
            kind, name = manifest.get("kind"), _mapping(manifest.get("metadata")).get("name")
            if kind != "CronJob" or not isinstance(name, str):
                found.lose(where, f"not carried over: a {str(kind)[:60]} is no CronJob with a name")
            else:
                _cron_job(found, f"{where}, CronJob {name[:100]}", name, manifest, timezone)
    return found


def _manifests(value: Any) -> Iterator[Mapping[str, Any]]:
    items = _mapping(value).get("items")
    if isinstance(items, list):
        for item in items:
            yield from _manifests(item)
    elif isinstance(value, Mapping):
        yield value


def _cron_job(
    found: Imported, where: str, name: str, manifest: Mapping[str, Any], timezone: str
) -> None:
    # What is taken out of them is carried over; the rest is lost.
    spec = _mapping(manifest.get("spec"))
    job = _mapping(_mapping(spec.pop("jobTemplate", None)).get("spec"))
    pod = _mapping(_mapping(job.pop("template", None)).get("spec"))
    retries = job.pop("backoffLimit", _BACKOFF_LIMIT)
    if not isinstance(retries, int) or not 0 <= retries < 100:
        found.lose(where, f"backoffLimit {retries!r}: a run is tried 100 times at most")
        retries = 99
    said: dict[str, Any] = {
        "spec": _spec(found, where, str(spec.pop("schedule", ""))),
        "timezone": spec.pop("timeZone", None) or timezone,
        "dst": "robfig",
        "overlap": _OVERLAPS.get(str(spec.pop("concurrencyPolicy", "Allow")), "skip"),
        "max_attempts": retries + 1,
    }
    if spec.pop("suspend", None) is True:
        said["enabled"] = False
    deadline = spec.pop("startingDeadlineSeconds", None)
    if isinstance(deadline, int) and deadline > 0:
        said["catchup_window"] = said["start_deadline"] = duration_text(deadline)
    elif deadline is not None:
        found.lose(where, f"startingDeadlineSeconds {deadline!r} is not carried over")
    limit = job.pop("activeDeadlineSeconds", None)
    if isinstance(limit, int) and 0 < limit <= 7 * 86400:
        said["timeout"] = duration_text(limit)
    elif limit is not None:
        found.lose(where, f"activeDeadlineSeconds {limit!r}: a run is stopped after {LONGEST}")
    containers = pod.pop("containers", None)
    pod.pop("restartPolicy", None)  # backoffLimit says how often
    _lose_rest(found, where, "spec", spec)
    _lose_rest(found, where, "jobTemplate.spec", job)
    _lose_rest(found, where, "the pod's spec", pod)
    found.add(where, name, "shell", said, _template(found, where, containers))


def _spec(found: Imported, where: str, written: str) -> str:
    """As Kubernetes reads it: there a day field ``*/2`` is no star in the rule of days."""
    if written.startswith("@every "):
        found.lose(where, f"{written}: counted from 1970, not from the start of a controller")
        return written[1:]
    fields = written.split()
    if len(fields) == 5:
        for place, bounds in ((2, "1-31"), (4, "0-6")):
            step = _STARRED_STEP.fullmatch(fields[place])
            if step is not None and int(step[1]) > 1:
                fields[place] = f"{bounds}/{step[1]}"
    return " ".join(fields)


def _template(found: Imported, where: str, containers: Any) -> dict[str, Any] | None:
    if not isinstance(containers, list) or not containers:
        found.lose(where, "there is no container: write the shell template yourself")
        return None
    if len(containers) > 1:
        found.lose(where, f"only the first of {len(containers)} containers is carried over")
    container = _mapping(containers[0])
    container.pop("name", None)
    image = str(container.pop("image", None))[:200]
    program, arguments = container.pop("command", None), container.pop("args", None)
    command = [*_texts(program), *_texts(arguments)]
    listed, folder = container.pop("env", None), container.pop("workingDir", None)
    _lose_rest(found, where, "the container", container)
    if not program:
        found.lose(
            where,
            f"the program of image {image} is not in the manifest: write the shell template"
            f" yourself{f', with {command}' if command else ''}",
        )
        return None
    found.lose(where, f"image {image} is not carried over: the nodes need {command[0][:100]}")
    if any("$(" in item for item in command):
        found.lose(where, "$(NAME) in the command is not replaced here")
    template: dict[str, Any] = {
        "argv": with_variables(as_argv(command), _variables(found, where, listed)),
        "timeout": LONGEST,
    }
    if isinstance(folder, str) and folder.startswith("/"):
        template["working_directory"] = folder
    return template


def _variables(found: Imported, where: str, listed: Any) -> dict[str, str]:
    variables: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else ():
        entry = _mapping(item)
        name = str(entry.get("name"))
        if "valueFrom" in entry:
            found.lose(where, f"variable {name[:100]} comes from the cluster: not carried over")
        else:
            variables[name] = str(entry.get("value", ""))
    return variables


def _lose_rest(found: Imported, where: str, what: str, rest: Mapping[str, Any]) -> None:
    if rest:
        others = sorted(str(key)[:60] for key in rest)
        found.lose(where, f"{what}: {', '.join(others)[:300]} not carried over")


def _mapping(value: Any) -> dict[str, Any]:
    """A copy of a mapping; of anything else an empty one."""
    return dict(value) if isinstance(value, Mapping) else {}


def _texts(value: Any) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []
