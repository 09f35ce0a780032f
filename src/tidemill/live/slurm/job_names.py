"""What the jobs of a Slurm cluster are called: members of arrays, and parts of larger jobs."""

import polars as pl

from tidemill.live.slurm import het

MOST_TASKS = 10_000
"""Members of one array that pend together and are told one by one."""
NUMBERS = (
    "job_id", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset", "cluster"
)  # fmt: skip
"""What the name of a job is made of."""


def name(*, are_several: bool) -> pl.Expr:
    """What a job is called: as Slurm prints it, with its cluster where there are several."""
    is_array = pl.col("array_task_id").is_not_null()
    is_part = pl.col("het_offset").is_not_null()
    prefix = pl.coalesce(pl.col("cluster") + "/", pl.lit("")) if are_several else pl.lit("")
    return prefix + pl.when(is_array).then(
        pl.format("{}_{}", "array_job_id", "array_task_id")
    ).when(is_part).then(pl.format("{}+{}", "het_job_id", "het_offset")).otherwise(
        pl.col("job_id").cast(pl.String)
    )


def other_numbers(told: pl.DataFrame, *, are_several: bool) -> pl.DataFrame:
    """Jobs that have run by their own number and by their name, where that is another."""
    is_other = pl.col("array_task_id").is_not_null() | pl.col("het_offset").is_not_null()
    is_other |= pl.lit(are_several)
    is_wanted = is_other & pl.col("start_ms").is_not_null() & pl.col("array_tasks").is_null()
    ran = told.select(*NUMBERS, "start_ms").filter(is_wanted)
    called = name(are_several=are_several).str.replace(het.PART_NUMBER, "")  # parts have one name
    named = ran.select(number=pl.col("job_id").cast(pl.String), name=called)
    return named.filter(pl.col("number") != pl.col("name"))


def each_task(told: pl.DataFrame) -> pl.DataFrame:
    """Members of arrays that pend together, one by one; at most so many of each."""
    together = told.filter(pl.col("array_tasks").is_not_null())
    if not len(together):
        return told
    tasks = [_tasks(text) for text in together["array_tasks"].to_list()]
    each = together.with_columns(array_task_id=pl.Series(tasks, dtype=pl.List(pl.Int64)))
    each = each.explode("array_task_id")
    return pl.concat([told.filter(pl.col("array_tasks").is_null()), each])


def _tasks(text: str) -> list[int]:
    """`5-9,12%2`: members 5 to 9 and 12, of which two may run at once. `0-8:4` is 0, 4 and 8."""
    found = list[int]()
    for part in text.strip("[]").partition("%")[0].split(","):
        bounds, _, step = part.partition(":")
        first, _, last = bounds.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and (step or "1").isdecimal():
            members = range(int(first), int(last or first) + 1, max(1, int(step or 1)))
            found += members[: MOST_TASKS - len(found)]
    return found
