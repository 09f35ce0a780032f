"""Which limit a reason of Slurm names: the column of `sacctmgr` that holds it, and of which row.

`QOSMaxGRESPerUser` is the column MaxTRESPU of a QOS, its part about `gres/`; `AssocGrpJobsLimit`
the column GrpJobs of an association.
"""

from typing import NamedTuple

_TRES = {
    "GRES": "gres/", "Cpu": "cpu", "CPU": "cpu", "Mem": "mem", "Memory": "mem", "Node": "node",
    "License": "license/", "Billing": "billing", "Energy": "energy", "BB": "bb/", "Unknown": "",
}  # fmt: skip
"""With which the name of a TRES begins, by the word in the reason."""
_COLUMNS = {
    ("Grp", "TRES", ""): ("GrpTRES", "grp_tres"),
    ("Grp", "TRESMins", ""): ("GrpTRESMins", "grp_tres_mins"),
    ("Grp", "TRESRunMins", ""): ("GrpTRESRunMins", "grp_tres_run_mins"),
    ("Grp", "Jobs", ""): ("GrpJobs", "grp_jobs"),
    ("Grp", "Submit", ""): ("GrpSubmit", "grp_submit_jobs"),
    ("Grp", "Wall", ""): ("GrpWall", "grp_wall_ms"),
    ("Max", "TRES", "PerJob"): ("MaxTRES", "max_tres_per_job"),
    ("Max", "TRES", "PerNode"): ("MaxTRESPerNode", "max_tres_per_node"),
    ("Max", "TRES", "PerUser"): ("MaxTRESPU", "max_tres_per_user"),
    ("Max", "TRES", "PerAccount"): ("MaxTRESPA", "max_tres_per_account"),
    ("Max", "TRESMins", "PerJob"): ("MaxTRESMins", ""),
    ("Max", "TRESRunMins", "PerUser"): ("MaxTRESRunMinsPU", "max_tres_run_mins_per_user"),
    ("Max", "TRESRunMins", "PerAccount"): ("MaxTRESRunMinsPA", "max_tres_run_mins_per_account"),
    ("Max", "Jobs", ""): ("MaxJobs", "max_jobs"),
    ("Max", "Jobs", "PerUser"): ("MaxJobsPU", "max_jobs_per_user"),
    ("Max", "Jobs", "PerAccount"): ("MaxJobsPA", "max_jobs_per_account"),
    ("Max", "Submit", ""): ("MaxSubmit", "max_submit_jobs"),
    ("Max", "Submit", "PerUser"): ("MaxSubmitPU", "max_submit_per_user"),
    ("Max", "Submit", "PerAccount"): ("MaxSubmitPA", "max_submit_per_account"),
    ("Max", "Wall", "PerJob"): ("MaxWall", "max_wall_ms"),
    ("Min", "TRES", ""): ("MinTRES", "min_tres"),
}
"""By what a limit is over, and for whom: its column of `sacctmgr`, and the field of our rows."""
_COUNTED = {
    "Jobs": "Jobs", "SubmitJobs": "Submit", "SubmitJob": "Submit",
    "Wall": "Wall", "WallDuration": "Wall",
}  # fmt: skip

_MINUTES = {"": "TRES", "RunMinutes": "TRESRunMins", "RunMins": "TRESRunMins"}
"""Of what is counted over time; 24.05 and newer shorten the word for users and accounts."""


class LimitNamed(NamedTuple):
    """A limit: of a QOS or of associations, its column, our field, and which TRES of it."""

    is_of_qos: bool
    column: str
    field: str
    """Empty: it is not read here."""
    tres: str | None
    """With which the TRES begin that it is about; None: it is no limit over TRES."""


def named(whose: str, over: str, what: str, *, minutes: str, per: str) -> LimitNamed | None:
    """The limit that a reason names by its parts; None for parts that no column has."""
    tres = None if what in _COUNTED else _TRES.get(what)
    kind = _COUNTED.get(what) or _MINUTES.get(minutes, "TRESMins")
    for scope in (per, "PerJob"):  # `QOSMaxWallDuration` is of one job without saying so
        if (found := _COLUMNS.get((over, kind, scope))) is not None:
            return LimitNamed(whose != "Assoc", *found, tres)
    return None


def look(limit: LimitNamed) -> str:
    """The command that shows a limit; names of the job are in curly brackets."""
    if limit.is_of_qos:
        return f"sacctmgr show qos {{qos}} format=Name,{limit.column}"
    return f"sacctmgr show assoc account={{account}} format=Account,User,{limit.column}"
