"""``make sbom``: the locked packages as CycloneDX, the format that scanners read.

``python -m tests.house.sbom`` prints it. It is made from the locked requirement files alone, so two
builds of one commit print the same.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.house.checkout import ROOT

# Of the product and its image; of what builds it; of what tests and checks it.
LOCKS: Final = {"runtime": "required", "build": "excluded", "dev": "excluded"}


def locked(lock: str) -> Iterator[tuple[Requirement, list[str]]]:
    """The requirements of a locked file with their hashes."""
    text = (ROOT / ".requirements" / f"{lock}.txt").read_text()
    for line in re.sub(r"\\\n", " ", text).splitlines():
        requirement, *hashes = line.split("--hash=sha256:")
        yield Requirement(requirement.strip()), [each.strip() for each in hashes]


def document() -> dict[str, Any]:
    """The bill of materials. A package of the product is "required", of tools "excluded"."""
    components: dict[str, dict[str, Any]] = {}
    for lock, scope in LOCKS.items():
        for requirement, hashes in locked(lock):
            (pin,) = requirement.specifier
            name = canonicalize_name(requirement.name)
            purl = f"pkg:pypi/{name}@{pin.version}"
            component = {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "version": pin.version,
                "scope": scope,
                "purl": purl,
                "hashes": [{"alg": "SHA-256", "content": each} for each in hashes],
            }
            components.setdefault(purl, component)  # the first lock says what it is for
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "version": project["version"],
            }
        },
        "components": [components[purl] for purl in sorted(components)],
    }


if __name__ == "__main__":
    print(json.dumps(document(), indent=2))
