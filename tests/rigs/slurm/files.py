"""The configuration of the rig: slurm.conf and what goes with it, accounts, QOS and limits."""

import socket
from pathlib import Path

NAME = "lab"
GPUS = 8
"""Of each node."""

DATABASE = (
    "create database slurm_acct_db; "
    "create user slurm@'127.0.0.1' identified by 'x'; "
    "create user slurm@localhost identified by 'x'; "
    "grant all on slurm_acct_db.* to slurm@'127.0.0.1'; "
    "grant all on slurm_acct_db.* to slurm@localhost"
)

ACCOUNTS = (
    ("add", "account", "research", "cluster=lab", "fairshare=60"),
    ("add", "account", "small", "cluster=lab", "fairshare=10"),
    ("add", "user", "root", "account=research"),
    ("add", "user", "root", "account=small"),
    ("add", "user", "nobody", "account=research"),
    ("add", "qos", "high", "preempt=normal", "priority=100"),
    ("modify", "user", "root", "set", "qos=normal,high"),
)
"""Two accounts; a QOS that preempts."""

GPU_LIMIT = ("modify", "account", "small", "set", "GrpTRES=gres/gpu=1")
KNOWN_LIMIT = "gres/gpu=1("
"""How the controller shows it: the limit, and in brackets what is used of it."""

SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={slurmdbd}
SlurmUser=root
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
"""

SLURM = """
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={slurmctld}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu,shard
Licenses=matlab:1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd}
AccountingStoragePass={folder}/munge/sock
AccountingStorageTRES=gres/gpu,gres/gpu:h100{tracked}
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
PriorityWeightQOS=5000
PreemptType=preempt/qos
PreemptMode=REQUEUE
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1,sched_min_interval=100000,batch_sched_delay=0
MinJobAge=300
KillWait=1
PartitionName=gpu Nodes={all} Default=YES MaxTime=INFINITE MaxNodes=3 State=UP
"""

NODE = (
    "NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 "
    "SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:h100:{gpus} "
    "Feature=rack{rack} State=UNKNOWN\n"
)


PARTS = (
    "NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 "
    "SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 "
    "Gres=gpu:a100:1,gpu:1g.10gb:7,shard:8 Feature=parts State=UNKNOWN\n"
    "PartitionName=parts Nodes=n{n} MaxTime=INFINITE State=UP\n"
)
"""A node with shards of one GPU and the MIG instances of another, in a partition of its own."""
PARTS_GRES = (
    "NodeName=n{n} Name=gpu Type=a100 File={folder}/gpus/nvidia0\n"
    "NodeName=n{n} Name=gpu Type=1g.10gb File={folder}/gpus/nvidia[1-7]\n"
    "NodeName=n{n} Name=shard Count=8 File={folder}/gpus/nvidia0\n"
)


def write(
    folder: Path,
    nodes: int,
    ports: list[int],
    *,
    has_no_cgroup: bool = False,
    has_parts: bool = False,
) -> None:
    """Write all configuration; ``ports``: database, slurmdbd, slurmctld, then one per node.

    ``has_no_cgroup``: newer versions insist on cgroups unless told; 22.05 does not know the word.
    ``has_parts``: the last node is one with parts of GPUs.
    """
    host = socket.gethostname().partition(".")[0]
    names: dict[str, object] = dict(zip(("database", "slurmdbd", "slurmctld"), ports, strict=False))
    (folder / "slurmdbd.conf").write_text(SLURMDBD.format(folder=folder, **names))
    (folder / "slurmdbd.conf").chmod(0o600)
    whole = nodes - has_parts
    lines = [
        NODE.format(n=n, host=host, port=ports[2 + n], gpus=GPUS, rack=(n - 1) // 2)
        for n in range(1, whole + 1)
    ]
    gres = f"NodeName=n[1-{whole}] Name=gpu Type=h100 File={folder}/gpus/nvidia[0-{GPUS - 1}]\n"
    if has_parts:
        lines.append(PARTS.format(n=nodes, host=host, port=ports[2 + nodes]))
        gres += PARTS_GRES.format(n=nodes, folder=folder)
    names |= {"all": f"n[1-{whole}]"}
    tracked = ",gres/gpu:a100,gres/gpu:1g.10gb,gres/shard" if has_parts else ""
    text = SLURM.format(folder=folder, host=host, tracked=tracked, **names) + "".join(lines)
    (folder / "slurm.conf").write_text(text)
    (folder / "gres.conf").write_text(gres)
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if has_no_cgroup else "")
