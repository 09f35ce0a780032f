"""Rules of a file that say of which team a job is, and what it is for.

Of the rules that hold of a job the first with a team says its team, the first with a class its
class. What no rule says is as it is without the file.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tidemill.model import decoding
from tidemill.model.errors import SpecError
from tidemill.model.states import JobClass

FILE = "file"
"""How `--team-by` begins where a file says it: `file:PATH`."""
KindAndName = tuple[str, str]
EXAMPLE = 'a [[rule]] with namespace = "ml-*" and team = "vision" or class = "inference"'


class JobRule(Struct, frozen=True, forbid_unknown_fields=True):
    """What has to hold of a job, all of it (`*` stands for anything), and what it is then."""

    namespace: str = "*"
    kind: str = "*"
    """Of its pods, or of what owns them, directly or not: `Job`, `Deployment`, …"""
    name: str = "*"
    label: str = ""
    """Of a pod or its owner: `KEY`, or `KEY=VALUE`."""
    team: str = ""
    job_class: Literal["training", "inference", "interactive", ""] = msgspec.field(
        default="", name="class"
    )

    def holds(
        self, namespace: str, owners: Iterable[KindAndName], labels: Iterable[Mapping[str, str]]
    ) -> bool:
        """Whether a job is so; ``labels``: of its owner and its pods."""
        key, has_value, value = self.label.partition("=")
        return (
            fnmatchcase(namespace, self.namespace)
            and any(fnmatchcase(k, self.kind) and fnmatchcase(n, self.name) for k, n in owners)
            and (not key or any(
                key in one and (not has_value or fnmatchcase(one[key], value)) for one in labels))
        )  # fmt: skip


class JobRules(Struct, frozen=True, forbid_unknown_fields=True):
    """A file: its rules, and what a team is where none of them says it."""

    rule: tuple[JobRule, ...] = ()
    team_by: str = "namespace"

    def find(
        self, namespace: str, owners: Sequence[KindAndName], labels: Sequence[Mapping[str, str]]
    ) -> tuple[str, JobClass | None]:
        """The team and the class that the rules give a job; "" and None: they say none."""
        mine = [one for one in self.rule if one.holds(namespace, owners, labels)]
        team = next((one.team for one in mine if one.team), "")
        job_class = next((JobClass(one.job_class) for one in mine if one.job_class), None)
        return team, job_class


@cache
def read(path: str) -> JobRules:
    """The rules of a file; read once."""
    try:
        told = decoding.toml(Path(path).read_bytes(), path, EXAMPLE)
        found = msgspec.convert(told, JobRules)
    except OSError as error:
        why = error.strerror or "it cannot be read"
        raise SpecError(f"--team-by names `{path}`: {why}", hint="check the path") from None
    except msgspec.ValidationError as error:
        said = decoding.mismatch(error, JobRules, told)
        raise SpecError(f"`{path}`: {said}", hint=EXAMPLE) from None
    for i, one in enumerate(found.rule, start=1):
        if not one.team and not one.job_class:
            raise SpecError(f"`{path}`, [[rule]] {i} says neither team nor class", hint=EXAMPLE)
    if found.team_by.startswith(FILE):
        raise SpecError(f"`{path}`: team_by is `{found.team_by}`", hint="no second file")
    return found
