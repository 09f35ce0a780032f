"""One row per thing that Slurm tells of: job attempt, node, partition, reservation, limits.

All fields are plain (an integer, a text, a truth value, or ``None`` where it was not told), so a
row is also a row of columns (``frames``). Times are milliseconds since 1970 in UTC. Texts with a
grammar of their own stay as Slurm prints them and are read by ``tres``, ``gres`` and ``hostlists``.
"""

from msgspec import Struct


class SlurmJob(Struct, frozen=True, kw_only=True):
    """One attempt of a job. A requeued job has several rows with one ``job_id``; ``submit_ms``
    tells them apart.

    ``start_ms`` and ``end_ms`` are what happened. What squeue and scontrol print there for a job
    that pends or still runs is its plan, and not kept.
    """

    job_id: int | None = None
    """Slurm's own number; also of a member of an array. None where only `123_4` was printed."""
    array_job_id: int | None = None
    array_task_id: int | None = None
    array_tasks: str | None = None
    """Members of an array that still pend together: `5-9%2`."""
    het_job_id: int | None = None
    het_offset: int | None = None
    cluster: str | None = None
    name: str | None = None
    user: str | None = None
    uid: int | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    state: str | None = None
    state_flags: str | None = None
    """Flags beside the state, joined by `+`: `COMPLETING`."""
    reason: str | None = None
    """Why it pends, or why it ended, in Slurm's word; see ``reasons``."""
    reason_text: str | None = None
    """The sentence that some versions print beside or instead of the word."""
    dependency: str | None = None
    submit_ms: int | None = None
    eligible_ms: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    time_limit_ms: int | None = None
    suspended_ms: int | None = None
    """For how long it was suspended, in all."""
    changed_ms: int | None = None
    """When it was last suspended or resumed."""
    ran_ms: int | None = None
    """For how long it ran before it was last suspended."""
    node_list: str | None = None
    node_count: int | None = None
    """Nodes allocated; of a pending job: requested."""
    nodes_requested: int | None = None
    required_nodes: str | None = None
    """Nodes that it requests by name."""
    excluded_nodes: str | None = None
    features: str | None = None
    """Its `--constraint`: see ``constraints``."""
    cpus: int | None = None
    """CPUs allocated; of a pending job: requested."""
    req_tres: str | None = None
    alloc_tres: str | None = None
    tres_per_node: str | None = None
    tasks: int | None = None
    """Processes that it starts; one is on one node."""
    is_exclusive: bool | None = None
    """Whether it has its nodes, with all that they have, to itself."""
    gres_detail: str | None = None
    """GPU indices on each node, joined by `;`: `n1=gpu:h100:2(IDX:0-1);n2=…`."""
    cpu_used_ms: int | None = None
    """CPU time of all its steps."""
    peak_bytes: int | None = None
    """The most memory that one of its steps used, all its tasks together."""
    gpus_requested: int | None = None
    gpus_allocated: int | None = None
    gpu_type: str | None = None


class SlurmNode(Struct, frozen=True, kw_only=True):
    """One node as it is now."""

    name: str
    state: str | None = None
    state_flags: str | None = None
    """`DRAIN`, `NOT_RESPONDING`, `PLANNED`, `MAINTENANCE` …, joined by `+`."""
    reason: str | None = None
    reason_ms: int | None = None
    gres: str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    cpus: int | None = None
    memory_mib: int | None = None
    cpus_allocated: int | None = None
    """To all jobs, also those without GPUs."""
    memory_allocated_mib: int | None = None
    boot_ms: int | None = None
    instance_type: str | None = None
    partitions: str | None = None
    """The partitions that it is in, joined by `,`."""
    features: str | None = None
    """Those that it has now, joined by `,`."""


class SlurmPartition(Struct, frozen=True, kw_only=True):
    """One partition: which nodes, who may, how long."""

    name: str
    state: str | None = None
    nodes: str | None = None
    node_count: int | None = None
    max_time_ms: int | None = None
    max_nodes: int | None = None
    """None: no limit, or not told."""
    qos: str | None = None


class SlurmReservation(Struct, frozen=True, kw_only=True):
    """One reservation: nodes that are kept for some users or for maintenance, from when to when."""

    name: str
    state: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    node_list: str | None = None
    flags: str | None = None


class SlurmAssociation(Struct, frozen=True, kw_only=True):
    """What one account, or one user in it, may use. Without ``user``: the account's own row.

    Limits over TRES are texts for ``tres.parse``; a limit that is not set is ``None``.
    """

    account: str | None = None
    cluster: str | None = None
    user: str | None = None
    partition: str | None = None
    parent: str | None = None
    shares: str | None = None
    qos: str | None = None
    grp_tres: str | None = None
    grp_tres_mins: str | None = None
    grp_tres_run_mins: str | None = None
    grp_jobs: int | None = None
    grp_submit_jobs: int | None = None
    grp_wall_ms: int | None = None
    max_tres_per_job: str | None = None
    max_tres_per_node: str | None = None
    max_jobs: int | None = None
    max_submit_jobs: int | None = None
    max_wall_ms: int | None = None


class SlurmQos(Struct, frozen=True, kw_only=True):
    """One quality of service: its priority, whom it may preempt, and its limits."""

    name: str
    priority: int | None = None
    preempt: str | None = None
    grp_tres: str | None = None
    grp_tres_mins: str | None = None
    grp_tres_run_mins: str | None = None
    grp_jobs: int | None = None
    grp_submit_jobs: int | None = None
    grp_wall_ms: int | None = None
    max_tres_per_job: str | None = None
    max_tres_per_node: str | None = None
    max_tres_per_user: str | None = None
    max_tres_per_account: str | None = None
    max_tres_run_mins_per_user: str | None = None
    max_tres_run_mins_per_account: str | None = None
    max_jobs_per_user: int | None = None
    max_submit_per_user: int | None = None
    max_jobs_per_account: int | None = None
    max_submit_per_account: int | None = None
    max_wall_ms: int | None = None
    min_tres: str | None = None


class SlurmNodeEvent(Struct, frozen=True, kw_only=True):
    """A stretch of time in which a node was down or drained (`sacctmgr show event`).

    Without ``node``: the cluster itself changed (its TRES, or its controller stopped).
    """

    node: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    state: str | None = None
    state_flags: str | None = None
