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
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
Licenses=matlab:1
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd}
AccountingStoragePass={folder}/munge/sock
AccountingStorageTRES=gres/gpu,gres/gpu:h100
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
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE MaxNodes=3 State=UP
"""

NODE = (
    "NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=64 Boards=1 "
    "SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=512000 Gres=gpu:h100:{gpus} "
    "Feature=rack{rack} State=UNKNOWN\n"
)


def write(folder: Path, nodes: int, ports: list[int], *, has_no_cgroup: bool = False) -> None:
    """Write all configuration; ``ports``: database, slurmdbd, slurmctld, then one per node.

    ``has_no_cgroup``: newer versions insist on cgroups unless told; 22.05 does not know the word.
    """
    host = socket.gethostname().partition(".")[0]
    names = dict(zip(("database", "slurmdbd", "slurmctld"), ports, strict=False))
    (folder / "slurmdbd.conf").write_text(SLURMDBD.format(folder=folder, **names))
    (folder / "slurmdbd.conf").chmod(0o600)
    lines = [
        NODE.format(n=n, host=host, port=ports[2 + n], gpus=GPUS, rack=(n - 1) // 2)
        for n in range(1, nodes + 1)
    ]
    text = SLURM.format(folder=folder, host=host, **names) + "".join(lines)
    (folder / "slurm.conf").write_text(text)
    devices = f"{folder}/gpus/nvidia[0-{GPUS - 1}]"
    (folder / "gres.conf").write_text(f"Name=gpu Type=h100 File={devices}\n")
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n" if has_no_cgroup else "")
