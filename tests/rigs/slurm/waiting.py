"""Jobs that wait for every rule of Slurm that the rig can hold against them.

One row per job: what keeps it out is set first, the word is written by hand from Slurm's manual,
and so are the layer that owns it and what must stand in the output of the command that is named.
"""

from dataclasses import dataclass

from tests.rigs.slurm.cluster import Cluster, RigError
from tests.rigs.slurm.story import Told, submit


@dataclass(frozen=True)
class Waits:
    """A job that waits: by which word of Slurm's, and whose matter that is."""

    word: str
    options: str
    layer: int
    shows: str
    """What the command that explains it must print."""
    name: str = ""
    """Where one word is produced twice."""


RULES = """
add qos peruser MaxTRESPerUser=gres/gpu=1
add qos pool GrpTRES=gres/gpu=1
add qos perjob MaxTRESPerJob=gres/gpu=1
add qos peraccount MaxTRESPerAccount=gres/gpu=1
add qos atleast MinTRESPerJob=gres/gpu=4
add qos pernode MaxTRESPerNode=gres/gpu=1
add qos nojobs GrpJobs=0
add qos nojobsuser MaxJobsPerUser=0
add qos noaccount MaxJobsPerAccount=0
add qos briefly MaxWall=10
add qos nocpus MaxTRESPerUser=cpu=0
add qos runmins GrpTRESRunMins=gres/gpu=1
add qos onenode GrpTRES=node=1
add account capped cluster=lab GrpJobs=0
add account short cluster=lab MaxWall=10
add account thin cluster=lab MaxTRES=gres/gpu=1
add account tired cluster=lab GrpTRESRunMins=cpu=1
add account onejob cluster=lab MaxJobs=0
add account left cluster=lab
add user root account=capped,short,thin,tired,onejob,left
modify user root set qos+=peruser,pool,perjob,peraccount,atleast,pernode,nojobs,nojobsuser
modify user root set qos+=noaccount,briefly,nocpus,runmins,onenode
"""
# In a partition with others, a job that comes later waits for `Priority` first; in one of the same
# tier, for nodes that they may take.
PARTITIONS = """
create partitionname=brief nodes=n2,n3 prioritytier=9 maxtime=10
create partitionname=closed nodes=n2,n3 prioritytier=9 state=down
create partitionname=inactive nodes=n4 prioritytier=9
create partitionname=theirs nodes=n2,n3 prioritytier=9 allowaccounts=small
create partitionname=highonly nodes=n2,n3 prioritytier=9 allowqos=high
create partitionname=pooled nodes=n2,n3 prioritytier=9 qos=pool
create partitionname=licensed nodes=n2,n3 prioritytier=9
create partitionname=broken nodes=n4 prioritytier=9
create reservation reservationname=away starttime=now+1hour duration=60 nodes=n2 user=nobody
create reservation reservationname=licences starttime=now duration=60 licenses=matlab:1 user=root \
flags=LICENSE_ONLY
"""
AFTERWARDS = """
update partitionname=inactive state=inactive
hold {JobHeldAdmin}
"""

LEFT = "InvalidAccount"
"""Of a user who is deleted after he submitted; Slurm forbids that once the accounting knows."""
ONE, TWO = "--gres=gpu:1", "--gres=gpu:2"
WAITING = (
    Waits("QOSMaxGRESPerUser", f"--qos=peruser {TWO}", 4, "peruser gres/gpu=1"),
    Waits("QOSGrpGRES", f"--qos=pool {TWO}", 4, "pool gres/gpu=1"),
    Waits("QOSGrpGRES", f"-p pooled {TWO}", 4, "pool gres/gpu=1", "by partition"),
    Waits("QOSMaxGRESPerJob", f"--qos=perjob {TWO}", 4, "perjob gres/gpu=1"),
    Waits("MaxGRESPerAccount", f"--qos=peraccount {TWO}", 4, "peraccount gres/gpu=1"),
    Waits("QOSMinGRES", f"--qos=atleast {TWO}", 4, "atleast gres/gpu=4"),
    Waits("QOSMaxGRESPerNode", f"--qos=pernode {TWO}", 4, "pernode gres/gpu=1"),
    Waits("QOSGrpJobsLimit", f"--qos=nojobs {ONE}", 3, "nojobs 0"),
    Waits("QOSMaxJobsPerUserLimit", f"--qos=nojobsuser {ONE}", 3, "nojobsuser 0"),
    Waits("MaxJobsPerAccount", f"--qos=noaccount {ONE}", 3, "noaccount 0"),
    Waits("QOSMaxWallDurationPerJobLimit", f"--qos=briefly {ONE}", 4, "briefly 00:10:00"),
    Waits("QOSMaxCpuPerUserLimit", f"--qos=nocpus {ONE}", 3, "nocpus cpu=0"),
    Waits("QOSGrpGRESRunMinutes", f"--qos=runmins {ONE}", 3, "runmins gres/gpu=1"),
    Waits("QOSGrpNodeLimit", f"--qos=onenode -N2 {ONE}", 3, "onenode node=1"),
    Waits("AssocGrpGRES", f"-A small {TWO}", 4, "small gres/gpu=1"),
    Waits("AssocGrpJobsLimit", f"-A capped {ONE}", 3, "capped 0"),
    Waits("AssocMaxWallDurationPerJobLimit", f"-A short {ONE}", 4, "short root 00:10:00"),
    Waits("AssocMaxGRESPerJob", f"-A thin {TWO}", 4, "thin root gres/gpu=1"),
    Waits("AssocGrpCPURunMinutesLimit", f"-A tired {ONE}", 3, "tired cpu=1"),
    Waits("AssocMaxJobsLimit", f"-A onejob {ONE}", 3, "onejob root 0"),
    Waits("PartitionTimeLimit", f"-p brief {ONE}", 4, "MaxTime=00:10:00"),
    Waits("PartitionDown", f"-p closed {ONE}", 2, "State=DOWN"),
    Waits("PartitionInactive", f"-p inactive {ONE}", 2, "State=INACTIVE"),
    Waits("AccountNotAllowed", f"-p theirs {ONE}", 4, "AllowAccounts=small"),
    Waits("QOSNotAllowed", f"-p highonly {ONE}", 4, "AllowQos=high"),
    Waits("Licenses", f"-p licensed -L matlab:1 {ONE}", 3, "LicenseName=matlab"),
    Waits("ReqNodeNotAvail", f"-w n2 -t 300 {ONE}", 1, "ReservationName=away", "reaches into"),
    Waits("ReqNodeNotAvail", f"-w n3 -t 300 {ONE}", 2, "ReservationName=maint", "maintenance"),
    Waits(LEFT, f"-A left --hold {ONE}", 4, "research root"),
    Waits("Resources", f"-p broken {ONE}", 2, "ECC errors", "nodes are drained"),
    Waits("JobHeldAdmin", f"-b now+1hour {ONE}", 3, "Reason=JobHeldAdmin"),
    Waits("DependencyNeverSatisfied", f"-d afterok:{{doomed}} {ONE}", 4, "afterok"),
)


SENTENCES = {
    "AccountNotAllowed": "Job's account not permitted",
    "QOSNotAllowed": "Job's QOS not permitted",
    "nodes are drained": "Nodes required for job are DOWN",
}
"""What squeue prints instead of the word."""


def play(rig: Cluster, ids: dict[str, int]) -> dict[str, int]:
    """Set the rules, submit the jobs, and wait until each waits by its word; their ids."""
    rig.tell("sacctmgr", RULES, "-i", "-Q")
    rig.tell("scontrol", PARTITIONS)
    found = dict[str, int]()
    # One that failed before may be forgotten by now, and whoever depends on it would begin.
    doomed = submit(rig, Told("doomed", f"--hold {ONE}"), ids)
    ids = {**ids, "doomed": doomed}
    for job in sorted(WAITING, key=lambda job: job.word == LEFT):
        told = Told((job.name or job.word).replace(" ", "-"), job.options)
        found[job.name or job.word] = submit(rig, told, ids)
    for _ in range(20):
        try:
            rig.run("sacctmgr", "-i", "-Q", "delete", "user", "root", "account=left")
            break
        except RigError:  # another, of which the accounting has not heard yet
            rig.run("scancel", str(found[LEFT]))
            found[LEFT] = submit(rig, told, ids)
    else:  # 24.11 tells the accounting of a job at once
        rig.run("scancel", str(found.pop(LEFT)))
    rig.run("scancel", str(doomed))
    rig.tell("scontrol", AFTERWARDS.format(**found))
    if LEFT in found:
        rig.run("scontrol", "release", str(found[LEFT]))
    rig.wait_for("each waits by its word", lambda: _are_said(rig, found))
    return found


def _are_said(rig: Cluster, ids: dict[str, int]) -> bool:
    lines = rig.run("squeue", "-a", "-h", "-t", "PD", "-O", "JobID:9,Reason:80").splitlines()
    said = {int(line[:9]): line[9:].strip() for line in lines}
    names = {job.name or job.word: job.word for job in WAITING}
    return all(
        said.get(ids[name], "").startswith(SENTENCES.get(name, word))
        for name, word in names.items()
        if name in ids
    )
