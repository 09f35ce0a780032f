"""The policy file of a live cluster: how work is placed, and who may use how much."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemill.cli import screen
from tidemill.model.errors import EventRefused, SpecError, TidemillError

if TYPE_CHECKING:
    from tidemill.live.kubernetes.scheduling.running import SchedulerRules
    from tidemill.twin.spec.tables import Spec

Option = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        help="How work is placed, and who may use how much: the tables policy, team and"
        " tier of a fleet file. Read again when it changes.",
        metavar="FILE",
    ),
]


REST_S = 0.5
"""A file that was written so lately may not be whole: half of one may be rules without quotas."""


class PolicyFile:
    """Rules in a file, or the default ones."""

    def __init__(self, path: Path | None) -> None:
        self._path, self._stamp = path, self._found(path)
        self._last, self._since = self._stamp, 0.0
        self.place: Mapping[str, str] = {"file": self.shown} if path is not None else {}

    @property
    def shown(self) -> str:
        """Where it is; "": nobody named one."""
        return str(self._path) if self._path is not None else ""

    @staticmethod
    def _found(path: Path | None) -> tuple[int, int, int]:
        if path is None:
            return (0, 0, 0)
        try:
            found = path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def has_changed(self) -> bool:
        """Whether the file is another than the one that was read, and has rested since."""
        found, now = self._found(self._path), time.monotonic()
        if found != self._last:
            self._last, self._since = found, now
        return found != self._stamp and now - self._since >= REST_S

    def read(self) -> "SchedulerRules":
        """The rules of the file as it is now."""
        from tidemill.live.kubernetes.scheduling.running import SchedulerRules
        from tidemill.twin.spec import read

        self._stamp = self._found(self._path)
        if self._path is None:
            return SchedulerRules()
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise SpecError(
                f"the policy file `{self._path}` cannot be read: {why}",
                hint="check the path and who may read it",
            ) from None
        spec = read.read(text, self._path.name)
        for note in spec.notes:
            screen.note(f"note: {note}")
        return rules_of(spec)

    def settled(self, refused: TidemillError | None) -> None:
        """Whether the rules were taken is said in the log alone."""


def rules_of(spec: "Spec") -> "SchedulerRules":
    """The rules that a spec has; one that describes a fleet is refused."""
    from tidemill.live.kubernetes.scheduling.differ import FleetRules
    from tidemill.live.kubernetes.scheduling.refused_rules import refuse_unless_folds
    from tidemill.live.kubernetes.scheduling.running import SchedulerRules
    from tidemill.twin import fleet
    from tidemill.twin.spec import check

    for table, rows in (("contract", spec.contracts), ("workload", spec.workloads),
                        ("job", spec.jobs)):  # fmt: skip
        if rows:
            raise SpecError(
                f"`{spec.source}` has [[{table}]], which a live cluster shows itself",
                hint="a policy has [policy], [[team]] and [[tier]]",
            )
    check.check_tree(spec)
    found = FleetRules(tuple(fleet.queues(spec)), fleet.topology(spec))
    try:
        refuse_unless_folds(found)
    except EventRefused as error:
        raise SpecError(f"`{spec.source}`: {error.message}", hint=error.hint) from None
    return SchedulerRules(spec.policy, found)
