"""Who a process is, by what schedulers and launchers say."""

import os
import socket

import pytest

from tidemill.track.identity import identify

KUBERNETES = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("env", "job", "named_by"),
    [
        ({"TIDEMILL_JOB": "mine", "SLURM_JOB_ID": "7"}, "mine", "TIDEMILL_JOB"),
        ({"SLURM_JOB_ID": "4711"}, "4711", "SLURM_JOB_ID"),
        (
            {"SLURM_JOB_ID": "4713", "SLURM_ARRAY_JOB_ID": "4711", "SLURM_ARRAY_TASK_ID": "2"},
            "4711_2",
            "SLURM_ARRAY_JOB_ID",
        ),
        (KUBERNETES | {"JOB_NAME": "pre", "POD_NAME": "pre-0-x"}, "pre", "JOB_NAME"),
        (KUBERNETES | {"POD_NAME": "p", "POD_NAMESPACE": "ml"}, "ml/p", "POD_NAME"),
        (KUBERNETES | {"HOSTNAME": "pre-0-abcde"}, "pre-0-abcde", "HOSTNAME"),
        ({"JOB_NAME": "of Jenkins"}, "HOST-PID", "host"),
    ],
)
def test_the_name_of_a_job(env: dict[str, str], job: str, named_by: str):
    """What was said, then Slurm with its arrays, then Kubernetes, then the machine."""
    who = identify(env=env)
    here = f"{socket.gethostname()}-{os.getpid()}"
    assert (who.job, who.named_by) == (job.replace("HOST-PID", here), named_by)
    assert identify("given", env=env)[:2] == ("given", "given")


@pytest.mark.parametrize(
    ("env", "rank", "world"),
    [
        ({}, 0, None),
        ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, 3, 8),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}, 5, 16),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, 1, 2),
        ({"JOB_COMPLETION_INDEX": "4"}, 4, None),
        ({"RANK": "none", "SLURM_PROCID": "-1", "PMI_RANK": "9" * 30}, 0, None),
    ],
)
def test_rank_and_world(env: dict[str, str], rank: int, world: int | None):
    """The nearest launcher knows; what is no number is nobody's word."""
    who = identify(env=env)
    assert (who.rank, who.world) == (rank, world)
    assert identify(rank=7, world=9, env=env)[2:4] == (7, 9)


def test_what_else_names_a_process():
    """Restarts, team and user, and the ids that join it with what others saw."""
    env = {
        "SLURM_JOB_ID": "1", "SLURM_RESTART_COUNT": "2", "SLURM_JOB_USER": "ada",
        "TIDEMILL_TEAM": "lab", "CUDA_VISIBLE_DEVICES": "GPU-1," * 100, "LOCAL_RANK": "6",
    }  # fmt: skip
    who = identify(env=env)
    assert (who.restarts, who.user, who.team, who.local_rank) == (2, "ada", "lab", 6)
    assert who.ids["slurm_job"] == "1"
    assert len(who.ids["gpus_visible"]) == 100
    assert identify(user="bob", team="ops", env=env)[6:8] == ("ops", "bob")
