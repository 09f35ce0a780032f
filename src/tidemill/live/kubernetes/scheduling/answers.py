"""What the API server refused, taken back into the state: who is held for it, and who goes on."""

from collections.abc import Callable

from tidemill.live.kubernetes.jobs import UnitKey
from tidemill.live.kubernetes.scheduling.barring import RULE, Barring
from tidemill.live.kubernetes.scheduling.differ import Differ
from tidemill.live.kubernetes.scheduling.sending import PutOff, Sender

Log = Callable[..., None]
"""Says something to whoever runs it: an event in words, and fields by name."""


class ServerRefusals:
    """Binds and evictions that the server did not take; looked at before each plan."""

    def __init__(self, differ: Differ, sender: Sender, log: Log) -> None:
        self._differ, self._sender, self._log = differ, sender, log
        self.barring = Barring(sender, differ.view.vacations)

    def take(self) -> set[int]:
        """Take all that came since; the jobs whose preemption was called off."""
        self.barring.free(self._unbar)
        self._hold_refused()
        put_off, self._sender.put_off = self._sender.put_off, []
        for one in put_off:
            self._give_back(one)
        return {j for one in put_off for j in one.jobs}

    def _hold_refused(self) -> None:
        """Jobs that the server does not let us bind are held until it does."""
        refusals, self._sender.refusals = self._sender.refusals, []
        differ = self._differ
        for one in refusals:
            j = one.seat.job  # below zero: a pod without GPUs that is in no books
            unit = differ.unit_of.get(j) if j >= 0 else differ.view.unit_of(one.seat.key)
            if unit is None:
                continue
            if one.lack is not None and not differ.view.is_on_nodes(unit):
                differ.tight.refused(unit, one.lack)
                differ.view.dirty_units[unit] = None
                continue
            if not self.barring.note(unit, one):
                continue
            why = differ.barred[unit] = self.barring.why(unit)
            told = {"missing_rule": RULE} if one.is_forbidden else {}
            name = differ.lives.name(unit)
            self._log("bind refused", job=name, reason=why.reason, said=one.said, **told)
            differ.view.dirty_units[unit] = None

    def _unbar(self, unit: UnitKey) -> None:
        """The server would bind this job now."""
        del self._differ.barred[unit]
        self._log("bind allowed again", job=self._differ.lives.name(unit))
        self._differ.view.dirty_units[unit] = None

    def _give_back(self, one: PutOff) -> None:
        """Victims that were not let go go on; those who were refused are spared for a while."""
        differ = self._differ
        names = [differ.world.job_names[j] for j in one.jobs]
        self._log("preemption called off", victims=names, said=one.said)
        differ.give_back += one.jobs
        for j in one.kept or one.jobs:
            if j in differ.unit_of:
                differ.spared.refused(differ.unit_of[j], one.by)
        for j in one.jobs:
            if j in differ.unit_of:
                differ.view.dirty_units[differ.unit_of[j]] = None
