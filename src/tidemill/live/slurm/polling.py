"""A Slurm cluster asked again and again: one answer of all its commands together.

Times are the controller's: its clock is asked first, so that nothing is told that may still change
by more than the stated lateness, whatever the clock of this machine says.
"""

import re
import time
from collections.abc import Mapping

import polars as pl

from tidemill.journal.cluster_kinds import SLURM
from tidemill.live.history.advance import SourceAnswer
from tidemill.live.slurm import commands
from tidemill.live.slurm.commands import SlurmCommand
from tidemill.live.slurm.evidence import LimitRules
from tidemill.live.slurm.json_records import CUT_HINT
from tidemill.live.slurm.reading import SlurmReading, open_output
from tidemill.live.slurm.reservations import SeenReservations
from tidemill.live.slurm.seen_outages import SeenOutages
from tidemill.live.slurm.translate import Gathering
from tidemill.model.errors import BackendError, SpecError

OVERLAP_S = 600
"""So long before the watermark the accounting is asked, to find what came late."""
LIMITS_MS = 600_000
"""So often limits are asked for: people change them by hand."""
LIMITS = (commands.ASSOCIATIONS, commands.QOS, commands.PARTITIONS)
SKEW_SAID_S = 5
NEEDED = frozenset({"JobIDRaw", "State", "Submit", "Start", "End", "ReqTRES", "AllocTRES"})
"""Columns of sacct without which a job cannot be told."""
NO_RESERVATIONS = b"No reservations"
"""How Slurm says that there are none."""
ATTEMPT = ("job", "start_ms")
"""What tells an attempt from others."""
_CLOCK = re.compile(rb"sdiag output at .*\((\d+)\)")


class SlurmSource:
    """The commands of one cluster; ``environment``: for them (SLURM_CONF), else this process's."""

    name = SLURM

    def __init__(
        self,
        *,
        timeout_s: float = commands.TIMEOUT_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout_s, self._environment = timeout_s, environment
        self._limits = LimitRules()
        self._limits_ms: int | None = None
        """When limits were last asked for; None: not yet."""
        self._reservations, self._outages = SeenReservations(), SeenOutages()
        self._devices: pl.DataFrame | None = None
        """The GPUs of attempts, as they were told last: ``ATTEMPT`` and ``told``."""

    def now_ms(self) -> int:
        """The controller's clock."""
        with commands.run(
            commands.CLOCK, timeout_s=self._timeout_s, environment=self._environment
        ).output as output:
            found = _CLOCK.search(output.read(4096))
        if found is None:
            raise BackendError(
                "asked Slurm for the controller's clock (`sdiag`); found no time in its answer",
                hint="run sdiag by hand: its first lines say when it was printed",
            )
        return int(found[1]) * 1000

    def poll(self, since_ms: int) -> SourceAnswer:
        """All that the cluster shows now of the time since then; ``BackendError`` if it is down."""
        now_ms = self.now_ms()
        skew_s = round(time.time()) - now_ms // 1000
        gathering, refused, complaints = Gathering(goes_on=True), 0, list[str]()
        gathering.take_limits(self._limits)
        begin = f"uts{max(0, since_ms // 1000 - OVERLAP_S)}"
        asks = [
            commands.QUEUE,
            commands.history(begin),
            commands.downtime(begin),
            commands.NODES,
        ]
        is_due = self._limits_ms is None or now_ms - self._limits_ms >= LIMITS_MS
        if is_due:
            gathering.take_limits(LimitRules())
            asks += LIMITS
        for command in asks:
            with self._opened(command) as opened:
                self._refuse_missing(command, opened)
                gathering.add(command.arguments[0], opened)
                self._refuse_cut_off(command, opened)
                commands.refuse_known(command, opened.errors)
                refused += opened.refusals.total + len(opened.errors)
                complaints += [f"{command.arguments[0]}: {text}" for text in opened.errors[:3]]
        self._add_reservations(gathering)
        shown = gathering.rules.reservations
        gathering.add_reservations(self._reservations.over(shown, now_ms, since_ms))
        gathering.look(self._outages, now_ms, since_ms)
        if is_due:
            self._limits, self._limits_ms = gathering.rules, now_ms
        past = gathering.past(since_ms)
        notes = complaints + [
            f"{name}: {kept.words()}"
            for name, refusals in past.refused.items()
            for kept in refusals.kept[:3]
        ]
        if abs(skew_s) > SKEW_SAID_S:
            where = "behind" if skew_s > 0 else "ahead of"
            notes.append(
                f"the controller's clock is {abs(skew_s)} s {where} this machine's; it counts"
            )
        there = [node for node in past.nodes if not node.is_off]
        return SourceAnswer(
            # one cluster is asked; its nodes do not say theirs
            self._with_devices(past.attempts).with_columns(cluster=None),
            there,
            now_ms,
            not refused,
            (*notes, *past.unread),
            shapes=past.shapes,
            queues=past.queues,
            numbers=past.numbers,
            pauses=past.pauses,
            deciders=past.deciders,
            kinds={"": SLURM},
            site=past.site,
        )

    def _with_devices(self, attempts: pl.DataFrame) -> pl.DataFrame:
        """Attempts with the GPUs that the queue told while they ran: it forgets them at their end,
        and what those measured until then is asked for later.
        """
        if self._devices is not None:
            attempts = attempts.join(self._devices, on=ATTEMPT, how="left", maintain_order="left")
            attempts = attempts.with_columns(devices=pl.coalesce("devices", "told")).drop("told")
        known = attempts.filter(pl.col("devices").is_not_null())
        self._devices = known.select(*ATTEMPT, told="devices").unique(ATTEMPT)
        return attempts

    def _add_reservations(self, gathering: Gathering) -> None:
        """Reservations, of which those for maintenance close nodes; most clusters have none."""
        command = commands.RESERVATIONS
        output, _ = commands.run(command, timeout_s=self._timeout_s, environment=self._environment)
        if output.read(len(NO_RESERVATIONS)) == NO_RESERVATIONS:
            output.close()
            return
        output.seek(0)
        try:
            with open_output(output) as opened:
                gathering.add(command.arguments[0], opened)
        except SpecError as error:
            raise _lie(command, error.message) from error

    def _opened(self, command: SlurmCommand) -> SlurmReading:
        try:
            return commands.read(command, timeout_s=self._timeout_s, environment=self._environment)
        except SpecError as error:
            raise _lie(command, error.message) from error

    def _refuse_missing(self, command: SlurmCommand, opened: SlurmReading) -> None:
        if command.arguments[0] == "sacct" and (missing := NEEDED - {*opened.columns}):
            raise _lie(command, f"no column {', '.join(sorted(missing))}")

    def _refuse_cut_off(self, command: SlurmCommand, opened: SlurmReading) -> None:
        for refusal in opened.refusals.kept:
            if refusal.hint == CUT_HINT:
                raise _lie(command, refusal.words())


def _lie(command: SlurmCommand, found: str) -> BackendError:
    return BackendError(
        f"asked Slurm for {command.about} (`{command.words()}`); found {found}",
        hint="nothing of this answer was taken; run the command by hand to see more",
    )
