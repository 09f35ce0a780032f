"""Builders that read as sentences: ``contract(count=16)``, ``job("a", gpus=8)``."""

from tidemill.model.rows import Checkpointing, Contract, Job, Queue, Role, Shape, Template
from tidemill.model.states import JobClass, Terms

TEAM = Queue("team")


def contract(
    name: str = "c",
    *,
    count: int = 16,
    per_node: int = 8,
    terms: Terms = Terms.RESERVED,
    start_ms: int = 0,
    end_ms: int = 2**62,
    spares: int = 0,
) -> Contract:
    return Contract(
        name,
        "pool",
        "H100",
        count,
        2_000_000,
        Template(per_node, 0, 0),
        terms,
        start_ms,
        end_ms,
        spares,
    )


def job(
    name: str = "j",
    *,
    gpus: int = 1,
    replicas: int = 1,
    milli: int = 1000,
    kind: JobClass = JobClass.TRAINING,
    startup_ms: int = 0,
    restart_ms: int = 0,
    every_ms: int = 0,
    cost_ms: int = 0,
) -> Job:
    shape = Shape("team", (Role(count=replicas, accelerators=gpus, milli=milli),), kind)
    return Job(name, shape, 0, startup_ms, restart_ms, Checkpointing(every_ms, cost_ms))
