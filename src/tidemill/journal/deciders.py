"""Who decides for jobs, where that is not the cluster's default scheduler: a fact of a journal.

Events tell where jobs sit, not who put them there. Whoever plays the history again with another
policy (``advise.shadow``) leaves these jobs where they were.
"""

from collections.abc import Iterable, Mapping

from tidemill.journal import kept_facts

FACT = "decided_by"
DEFAULT = "default-scheduler"
"""What Kubernetes calls its own, which this fact does not name."""
UNKEPT = "constraints that are not kept: "
"""Before rules of a job's place that our own scheduler does not know, whoever decides."""
MOST = 100_000
"""Jobs of which it is kept; the last that came."""


def facts(known: Mapping[str, str], names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What is kept, after these jobs too, with who decides for them; nothing if it is no news."""
    return kept_facts.with_names(FACT, known, names, MOST)


def by_job(kept: Mapping[str, str], where: str) -> dict[str, str]:
    """By job: who decides for it."""
    return kept_facts.by_name(kept, FACT, where)
