"""Which job is this, and which of its processes? From what was said, or from the environment.

Schedulers and launchers tell a process who it is in variables of the environment: Slurm and MPI by
themselves, torchrun to its workers, Kubernetes where the pod's spec says so (downward API).
"""

import os
import re
import socket
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidemill.track.amounts import whole
from tidemill.track.format import LONGEST_TEXT, MOST

RANKS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Lightning, DeepSpeed, accelerate
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", ""),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("JOB_COMPLETION_INDEX", ""),  # Indexed Jobs of Kubernetes; JobSet
)
"""Pairs of variables, the nearest launcher first: within an srun, torchrun knows better."""

LOCAL_RANKS = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
IDS = {
    "slurm_job": "SLURM_JOB_ID",
    "slurm_array_job": "SLURM_ARRAY_JOB_ID",
    "slurm_array_task": "SLURM_ARRAY_TASK_ID",
    "slurm_het_job": "SLURM_HET_JOB_ID",
    "slurm_step": "SLURM_STEP_ID",
    "slurm_account": "SLURM_JOB_ACCOUNT",
    "slurm_cluster": "SLURM_CLUSTER_NAME",
    "namespace": "POD_NAMESPACE",
    "pod": "POD_NAME",
    "pod_uid": "POD_UID",
    "kubernetes_job": "JOB_NAME",
    "node": "NODE_NAME",
    "elastic_run": "TORCHELASTIC_RUN_ID",
    "gpus_visible": "CUDA_VISIBLE_DEVICES",
}
"""What else a record of a beginning tells, so that it can be joined with what others saw."""


class ProcessIdentity(NamedTuple):
    """A process of a job. ``world`` and ``restarts`` are None where nobody said."""

    job: str
    named_by: str
    """``given``, the variable that the name comes from, or ``host`` where there was none."""
    rank: int
    world: int | None
    local_rank: int | None
    restarts: int | None
    team: str | None
    user: str | None
    ids: dict[str, str]


def identify(
    job: str | None = None,
    team: str | None = None,
    user: str | None = None,
    rank: object = None,
    world: object = None,
    env: Mapping[str, str] = os.environ,
) -> ProcessIdentity:
    """Who this process is; what is given goes before what the environment says."""
    name, named_by = (job, "given") if job else _name(env)
    told_rank, told_world = _rank(env)
    given_rank, given_world = whole(rank), whole(world)
    return ProcessIdentity(
        job=clipped(name),
        named_by=named_by,
        rank=told_rank if given_rank is None else given_rank,
        world=told_world if given_world is None else given_world,
        local_rank=_number(env, LOCAL_RANKS),
        restarts=_number(env, RESTARTS),
        team=_text(team, env, "TIDEMILL_TEAM"),
        user=_text(user, env, "TIDEMILL_USER", "SLURM_JOB_USER"),
        ids={key: clipped(env[name], 100) for key, name in IDS.items() if env.get(name)},
    )


def clipped(text: object, longest: int = LONGEST_TEXT) -> str:
    """A text as records carry it: of a bounded length, on one line, and UTF-8 whatever it was."""
    one_line = re.sub(r"[\x00-\x1f\x7f]", " ", str(text))[:longest]
    return one_line.encode("utf-8", "replace").decode("utf-8")


def _name(env: Mapping[str, str]) -> tuple[str, str]:
    """The name of the job, and the variable that it is from."""
    if name := env.get("TIDEMILL_JOB"):
        return name, "TIDEMILL_JOB"
    if (array := env.get("SLURM_ARRAY_JOB_ID")) and (task := env.get("SLURM_ARRAY_TASK_ID")):
        return f"{array}_{task}", "SLURM_ARRAY_JOB_ID"
    if name := env.get("SLURM_JOB_ID"):
        return name, "SLURM_JOB_ID"
    if env.get("KUBERNETES_SERVICE_HOST"):
        for variable in ("JOB_NAME", "POD_NAME", "HOSTNAME"):
            if name := env.get(variable):
                space = env.get("POD_NAMESPACE")
                return f"{space}/{name}" if space else name, variable
    return f"{host()}-{os.getpid()}", "host"


def host() -> str:
    """The name of this machine."""
    return clipped(socket.gethostname())


def _rank(env: Mapping[str, str]) -> tuple[int, int | None]:
    """Rank and world; alone (0, and nobody knows of how many) where nobody said."""
    for rank_name, world_name in RANKS:
        rank = _number(env, (rank_name,))
        if rank is not None:
            return rank, _number(env, (world_name,))
    return 0, None


def _number(env: Mapping[str, str], names: Iterable[str]) -> int | None:
    for name in names:
        text = env.get(name, "")
        if text.isdecimal() and int(text) <= MOST:
            return int(text)
    return None


def _text(given: str | None, env: Mapping[str, str], *names: str) -> str | None:
    found = given or next((env[name] for name in names if env.get(name)), None)
    return clipped(found) if found else None
