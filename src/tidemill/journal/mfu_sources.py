"""Who says how efficient a job is, in their own words: a fact that is kept beside the events.

An event says that an efficiency was measured, not how. A loop that states its MFU may say where it
has it from (``run.efficiency(mfu=…, source="nsys, step 100")``); the last word of a job counts.
"""

from collections.abc import Iterable, Mapping

from tidemill.journal import kept_facts

FACT = "mfu_sources"
MOST = 10_000
"""Jobs of which it is kept; the last that came."""
LONGEST = 200


def facts(known: Mapping[str, str], told: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What is kept after these jobs too; nothing if it is no news."""
    return kept_facts.with_names(FACT, known, ((job, who[:LONGEST]) for job, who in told), MOST)


def by_job(kept: Mapping[str, str], where: str) -> dict[str, str]:
    """By job: who says its efficiency."""
    return kept_facts.by_name(kept, FACT, where)
