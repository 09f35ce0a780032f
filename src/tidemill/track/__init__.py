"""Track a training job or a service: what its time goes into, or what it is asked for.

    from tidemill import track

    with track.job("pretrain") as run:
        for batch in run.batches(loader):
            with run.step(tokens=batch.tokens):
                train(batch)

    with track.service("chat") as served:
        with served.request(tokens_in=len(prompt)) as one:
            for token in generate(prompt):
                one.token()

The Python standard library is all that this package needs. It writes to where ``TIDEMILL_TRACK``
says (``file:/a/folder`` or ``http://host:port``); without it, nothing is measured. It never raises,
never waits for a disk or a server, and never ends a job. ``tidemill.live.track`` reads what it
writes.

**What the times mean.** They are those of the host. Devices work asynchronously: a step that only
queues kernels ends before they do. In steady state that evens out, as the queue is bounded and each
step waits for an earlier one: the time *between the ends* of two steps, which is what is recorded
as the time of a step, is right, but the division into parts is that of the host's waiting. Where
the parts are to be those of the device, give ``sync=torch.cuda.synchronize`` to ``job`` and
``sync=True`` to the blocks that should wait for the device; that costs what it costs.
"""

import os
from collections.abc import Callable

from tidemill import __version__
from tidemill.track.identity import ProcessIdentity, host, identify
from tidemill.track.outlets import Outlet, open_outlet
from tidemill.track.run import TrackedRun
from tidemill.track.sender import LOG
from tidemill.track.serving import TrackedService

__all__ = ["TrackedRun", "TrackedService", "job", "service"]

EVERY_S = 1.0
SHORTEST_S, LONGEST_S = 0.02, 3600.0


def job(  # noqa: PLR0913 - everything but the name is by keyword, and rare
    name: str | None = None,
    *,
    team: str | None = None,
    user: str | None = None,
    rank: int | None = None,
    world: int | None = None,
    gpus: int | None = None,
    role: str | None = None,
    to: str | None = None,
    every_s: float | None = None,
    sync: Callable[[], object] | None = None,
    flush_on_sigterm: bool = False,
) -> TrackedRun:
    """Begin to track this process; use it in a ``with`` statement, or call ``close`` at the end.

    ``name`` defaults to ``TIDEMILL_JOB``, the number of the Slurm job, or the name of the
    Kubernetes job or pod; rank and world to what the launcher says. ``gpus``: how many this process
    uses. ``role`` (or ``TIDEMILL_ROLE``): what it does where ranks differ, such as a pipeline
    stage. ``to`` defaults to ``TIDEMILL_TRACK``, and ``every_s``, the seconds that one record
    covers and the most that is lost when the process is killed, to ``TIDEMILL_TRACK_EVERY_S`` or 1.
    ``flush_on_sigterm`` handles SIGTERM where nobody else does; the process then ends as it would
    have, but not before the Python code of its main thread runs again.
    """
    run, who, outlet = _opened(name, (team, user), (rank, world), to)
    made = TrackedRun(who, run, outlet, _every_s(every_s), sync)
    made.begin(_facts(made, gpus, role), flush_on_sigterm)
    return made


def service(
    name: str | None = None,
    *,
    team: str | None = None,
    user: str | None = None,
    gpus: int | None = None,
    to: str | None = None,
    every_s: float | None = None,
) -> TrackedService:
    """Begin to count what this process is asked for; as ``job``, for one that answers requests.

    Call ``ready`` when it can be asked, and put each request into a block of ``request``. With
    several processes to a service, call it in the one that sees the requests.
    """
    run, who, outlet = _opened(name, (team, user), (None, None), to)
    made = TrackedService(who, run, outlet, _every_s(every_s), None)
    made.begin(_facts(made, gpus, None), False)
    return made


def _opened(
    name: str | None,
    whose: tuple[str | None, str | None],
    place: tuple[int | None, int | None],
    to: str | None,
) -> tuple[str, ProcessIdentity, Outlet | None]:
    """The id of a run, who it is, and where its records go; None: nowhere."""
    who, run = identify(name, *whose, *place), os.urandom(8).hex()
    try:
        asked = str(os.environ.get("TIDEMILL_TRACK", "") if to is None else to)
        return run, who, open_outlet(asked, who, run) if asked else None
    except ValueError as error:
        LOG.warning("tracking: %s; the job goes on without being tracked", error)
    return run, who, None


def _facts(made: TrackedRun, gpus: int | None, role: str | None) -> dict[str, object]:
    """What is told of a process when it begins."""
    who = made.who
    return {
        "named_by": who.named_by,
        "world": who.world,
        "local_rank": who.local_rank,
        "restarts": who.restarts,
        "gpus": made.whole("gpus", gpus),
        "role": made.text(role or os.environ.get("TIDEMILL_ROLE")),
        "team": who.team,
        "user": who.user,
        "host": host(),
        "pid": os.getpid(),
        "library": __version__,
        "ids": who.ids or None,
    }


def _every_s(given: float | None) -> float:
    """The seconds that one record covers; what is no number is passed over."""
    asked = given or os.environ.get("TIDEMILL_TRACK_EVERY_S") or EVERY_S
    try:
        wanted_s = float(asked)
    except (TypeError, ValueError):
        wanted_s = -1
    if not wanted_s > 0:  # also where it is no number
        LOG.warning("tracking: a record every %r seconds cannot be; it is every second", asked)
        return EVERY_S
    return min(max(wanted_s, SHORTEST_S), LONGEST_S)
