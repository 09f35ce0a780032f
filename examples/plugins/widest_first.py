"""A queueing order: whoever requests most accelerators goes first, the oldest among equals.

In a spec file: ``[policy]`` with ``order = "widest"``.
"""

from tidemill.extend import JobFacts, Policy, add_order


def widest(job: JobFacts, policy: Policy) -> int:  # noqa: ARG001 - an order may read the policy too
    """The smaller, the earlier."""
    return -job.accelerator_milli


add_order("widest", widest)
