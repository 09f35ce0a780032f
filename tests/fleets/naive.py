"""A naive reading of an exported journal, to check what the commands say.

It reads JSON lines with plain dicts and loops, and imports nothing of the package: who waits, who
holds which GPUs, which nodes take work, what is paid. Slow and short on purpose.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

HOUR_MS = 3_600_000
READY, GONE = 2, 7
LAUNCHED, KEEPS_WORK = {1, 2, 3, 4, 5, 6}, {2, 4, 5}
Line = dict[str, Any]


@dataclass
class Job:
    """What is known of one job."""

    name: str
    team: str
    user: str
    roles: list[Line]
    submitted_ms: int
    state: str = "waiting"
    pieces: list[list[int]] = field(default_factory=list)
    leaving: list[list[int]] = field(default_factory=list)
    busy_milli_ms: int = 0
    first_placed_ms: int | None = None
    first_started_ms: int | None = None
    ended_ms: int | None = None
    attempts: int = 0
    stops: list[str] = field(default_factory=list)
    evicted: int = 0

    @property
    def held_milli(self) -> int:
        """Thousandths of GPUs that it holds now, with what it has yet to leave."""
        return sum(
            piece[2] * self.roles[piece[0]]["accelerators"] * self.roles[piece[0]]["milli"]
            for piece in self.pieces
        )

    def wait_ms(self, now_ms: int) -> int:
        """From submission to the first placement; so far, or until it ended, if there was none."""
        until_ms = self.first_placed_ms if self.first_placed_ms is not None else self.ended_ms
        return (now_ms if until_ms is None else until_ms) - self.submitted_ms


@dataclass
class Node:
    """What is known of one node."""

    name: str
    contract: int
    is_spare: bool
    state: int = 0
    failed: set[int] = field(default_factory=set)


class Fleet:
    """The cluster as the lines up to a moment (inclusive) leave it."""

    def __init__(self, lines: Iterable[str], at_ms: int | None = None) -> None:
        self.jobs: list[Job] = []
        self.nodes: list[Node] = []
        self.contracts: list[Line] = []
        self.is_paying: list[bool] = []
        self.queues: dict[str, Line] = {}
        self.why: dict[int, str] = {}
        self.paid_milli_ms: list[int] = []
        self.now_ms = 0
        for text in lines:
            line = json.loads(text)
            if "is" not in line:
                continue
            if at_ms is not None and line["at_ms"] > at_ms:
                break
            self._pass(line["at_ms"])
            self._take(line)
        if at_ms is not None:
            self._pass(max(at_ms, self.now_ms))

    # What the commands should say ---------------------------------------------------------------

    def waiting(self) -> list[Job]:
        """The jobs that hold nothing and are not over."""
        return [job for job in self.jobs if job.state == "waiting"]

    def holding(self) -> list[Job]:
        """The jobs that hold GPUs."""
        return [job for job in self.jobs if job.state in ("starting", "running")]

    def count(self, state: str) -> int:
        """How many jobs are in a state."""
        return sum(job.state == state for job in self.jobs)

    @property
    def busy_milli_ms(self) -> int:
        """GPU time that jobs held, in thousandths of a GPU times milliseconds."""
        return sum(job.busy_milli_ms for job in self.jobs)

    def busy_by(self, whose: str) -> dict[str, int]:
        """The same by `team` or `user`; those who held nothing are left out."""
        sums: dict[str, int] = {}
        for job in self.jobs:
            name = getattr(job, whose)
            sums[name] = sums.get(name, 0) + job.busy_milli_ms
        return {name: held for name, held in sums.items() if held}

    def jobs_by(self, whose: str) -> dict[str, list[Job]]:
        """Jobs by `team` or `user`."""
        groups: dict[str, list[Job]] = {}
        for job in self.jobs:
            groups.setdefault(getattr(job, whose), []).append(job)
        return groups

    def waits(self, jobs: list[Job]) -> dict[str, int]:
        """Queue waits: the mean to the nearest millisecond, quantiles by nearest rank."""
        found = sorted(job.wait_ms(self.now_ms) for job in jobs)
        ranks = {f"p{q}": found[-(-q * len(found) // 100) - 1] for q in (50, 90, 99)}
        return {
            "mean": (2 * sum(found) + len(found)) // (2 * len(found)),
            **ranks,
            "max": found[-1],
        }

    def busy_devices(self) -> set[tuple[int, int]]:
        """Every (node, device) on which somebody sits."""
        return {
            (node, d)
            for job in self.holding()
            for _role, node, _replicas, mask, *_slices in job.pieces
            for d in range(mask.bit_length())
            if mask >> d & 1
        }

    def usd_micro_paid(self) -> int:
        """What was paid so far, each contract rounded down by itself."""
        return sum(
            milli_ms * row["usd_micro_per_hour"] // (1_000 * HOUR_MS)
            for milli_ms, row in zip(self.paid_milli_ms, self.contracts, strict=True)
        )

    # Reading ------------------------------------------------------------------------------------

    def _pass(self, at_ms: int) -> None:
        step_ms, self.now_ms = at_ms - self.now_ms, at_ms
        assert step_ms >= 0, "time goes back"
        if not step_ms:
            return
        for c, row in enumerate(self.contracts):
            self.paid_milli_ms[c] += self._paid_now(c, row) * 1_000 * step_ms
        for job in self.holding():
            job.busy_milli_ms += job.held_milli * step_ms

    def _paid_now(self, c: int, row: Line) -> int:
        if not self.is_paying[c]:
            return 0
        if row["terms"] == "reserved":
            return int(row["count"])
        up = sum(n.contract == c and n.state in LAUNCHED for n in self.nodes)
        return up * int(row["node"]["devices"])

    def _take(self, line: Line) -> None:
        handler = getattr(self, "_" + line["is"], None)
        if handler is not None:
            handler(line)

    def _contract_signed(self, line: Line) -> None:
        self.contracts.append(line["contract"])
        self.is_paying.append(False)
        self.paid_milli_ms.append(0)

    def _contract_started(self, line: Line) -> None:
        self.is_paying[line["contract"]] = True

    def _contract_ended(self, line: Line) -> None:
        c = line["contract"]
        self.is_paying[c] = False
        for number, node in enumerate(self.nodes):
            if node.contract == c:
                node.state = GONE
                self._lose(number, "contract end")

    def _queue_set(self, line: Line) -> None:
        self.queues[line["queue"]["name"]] = line["queue"]

    def _node_added(self, line: Line) -> None:
        row = line["node"]
        names = [contract["name"] for contract in self.contracts]
        self.nodes.append(Node(row["name"], names.index(row["contract"]), row["is_spare"]))

    def _node_moved(self, line: Line) -> None:
        self.nodes[line["node"]].state = line["to"]
        if line["to"] not in KEEPS_WORK:
            self._lose(line["node"], line["why"])

    def _device_failed(self, line: Line) -> None:
        self.nodes[line["node"]].failed.add(line["device"])
        self._lose(line["node"], "device lost", 1 << line["device"])

    def _asked_spare(self, line: Line) -> None:
        self.nodes[line["node"]].is_spare = line["is_spare"]

    def _job_submitted(self, line: Line) -> None:
        row = line["job"]
        shape, user = row["shape"], row.get("user", "")
        self.jobs.append(Job(row["name"], shape["team"], user, shape["roles"], line["at_ms"]))

    def _asked_place(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        job.state, job.pieces = "starting", line["pieces"]
        job.attempts = line["attempt"]
        if job.first_placed_ms is None:
            job.first_placed_ms = line["at_ms"]

    def _job_started(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        job.state = "running"
        if job.first_started_ms is None:
            job.first_started_ms = line["at_ms"]

    def _asked_move(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        job.pieces, job.leaving = [*job.pieces, *line["gained"]], line["lost"]

    def _job_moved(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        for role, node, replicas, mask, *slices in job.leaving:
            kept = []
            for piece in job.pieces:
                if piece[:2] == [role, node] and piece[3] & mask:
                    left = [role, node, piece[2] - replicas, piece[3] & ~mask, *slices]
                    kept += [left] if left[2] else []
                else:
                    kept.append(piece)
            job.pieces = kept
        job.leaving, job.state = [], "starting"

    def _job_finished(self, line: Line) -> None:
        self._end(self.jobs[line["job"]], "done")

    def _job_cancelled(self, line: Line) -> None:
        self._end(self.jobs[line["job"]], "cancelled")

    def _asked_cancel(self, line: Line) -> None:
        self._end(self.jobs[line["job"]], "cancelled")

    def _job_failed(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        if line["is_final"]:
            self._end(job, "failed")
        else:
            self._stop(job, line["why"])

    def _job_evicted(self, line: Line) -> None:
        job = self.jobs[line["job"]]
        job.evicted += 1
        self._stop(job, "evicted")

    def _lose(self, number: int, why: str, devices: int = -1) -> None:
        """Gangs on these devices of a node are lost; they wait again."""
        for job in self.holding():
            if any(piece[1] == number and piece[3] & devices for piece in job.pieces):
                self._stop(job, why)

    def _stop(self, job: Job, why: str) -> None:
        job.state, job.pieces, job.leaving = "waiting", [], []
        job.stops.append(why)

    def _end(self, job: Job, state: str) -> None:
        job.state, job.pieces, job.leaving = state, [], []
        job.ended_ms = self.now_ms
