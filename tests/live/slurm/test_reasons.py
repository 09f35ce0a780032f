"""Slurm's reasons: every word that it has gets a layer, a cause in plain words and what to do."""

from itertools import product

import pytest

from tidemill.live.slurm import reasons
from tidemill.live.slurm.rows import SlurmNode
from tidemill.model.reasons import LAYER_OF, Cause, Layer

RESOURCES = ("Unknown", "Mem", "Memory", "Node", "Energy", "GRES", "License", "BB", "Billing")
LIMITS = [
    *(f"{whose}Grp{what}" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *(f"{whose}Grp{what}Minutes" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *(f"{whose}Grp{what}RunMinutes" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *(f"QOSMax{what}PerUser" for what in RESOURCES),
    *(f"Max{what}PerAccount" for what in RESOURCES),
    *(f"Max{what}RunMinsPer{who}" for what, who in product(RESOURCES, ("User", "Account"))),
    *("MaxCpuPerAccount", "MaxJobsPerAccount", "MaxSubmitJobsPerAccount"),
    *("QOSGrpCpuLimit", "QOSGrpCPUMinutesLimit", "QOSGrpCPURunMinutesLimit", "QOSGrpJobsLimit"),
    *("QOSGrpMemLimit", "QOSGrpNodeLimit", "QOSGrpSubmitJobsLimit", "QOSGrpWallLimit"),
    *("AssocGrpCpuLimit", "AssocGrpCPUMinutesLimit", "AssocGrpJobsLimit", "AssocGrpWallLimit"),
    *("QOSMaxCpuPerUserLimit", "QOSMaxJobsPerUserLimit", "QOSMaxNodePerUserLimit"),
    *("QOSMaxSubmitJobPerUserLimit", "AssocMaxJobsLimit", "AssocMaxSubmitJobLimit"),
    *("AssociationJobLimit", "AssociationResourceLimit", "QOSJobLimit", "QOSResourceLimit"),
]
LIMITS_OF_ONE_JOB = [
    *(f"{whose}Max{what}PerJob" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *(f"{whose}Max{what}PerNode" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *(f"{whose}Max{what}MinutesPerJob" for whose, what in product(("Assoc", "QOS"), RESOURCES)),
    *("QOSMaxCpuPerJobLimit", "QOSMaxCpuMinutesPerJobLimit", "QOSMaxNodePerJobLimit"),
    *("AssocMaxWallDurationPerJobLimit", "QOSMaxWallDurationPerJobLimit", "AssociationTimeLimit"),
]


def test_a_reached_limit_is_owned_by_scheduling():
    """Others of the same account or QOS hold what it may use; waiting cures that."""
    for word in LIMITS:
        found = reasons.meaning(word)
        assert (found.layer, found.cause) == (Layer.SCHEDULING, Cause.OVER_LIMIT), word
        assert "is reached" in found.words


def test_a_limit_on_one_job_is_owned_by_the_workload():
    """No wait cures a request above what one job may have."""
    for word in LIMITS_OF_ONE_JOB:
        found = reasons.meaning(word)
        assert (found.layer, found.cause) == (Layer.WORKLOAD, Cause.OVER_LIMIT_ALWAYS), word
    for word in ("QOSMinGRES", "QOSMinCpuNotSatisfied", "QOSMinNode"):
        assert reasons.meaning(word).layer is Layer.WORKLOAD


@pytest.mark.parametrize(
    ("word", "layer"),
    [
        ("Resources", 3),
        ("Priority", 3),
        ("Dependency", 4),
        ("JobHeldUser", 4),
        ("JobHeldAdmin", 3),
        ("BeginTime", 4),
        ("ReqNodeNotAvail", 2),
        ("PartitionNodeLimit", 4),
        ("PartitionTimeLimit", 4),
        ("PartitionDown", 2),
        ("PartitionInactive", 2),
        ("BadConstraints", 4),
        ("Licenses", 3),
        ("Reservation", 1),
        ("InvalidQOS", 4),
        ("InvalidAccount", 4),
        ("NodeDown", 2),
        ("Cleaning", 3),
        ("JobArrayTaskLimit", 4),
        ("launch failed requeued held", 2),
    ],
)
def test_layers(word, layer):
    """Who has to do something about it."""
    assert reasons.meaning(word).layer == layer


def test_the_layer_of_a_cause_is_ours():
    """A reason that names one of our causes is in that cause's layer."""
    other = {w for w, k in reasons.KNOWN.items() if k.cause and LAYER_OF[k.cause] != k.layer}
    assert other == set()
    assert all(known.words for known in reasons.KNOWN.values())


def test_nodes_that_are_not_available_are_named():
    """squeue prints blanks, scontrol prints underscores."""
    for said in (
        "ReqNodeNotAvail, UnavailableNodes:n[3-4]",
        "ReqNodeNotAvail,_UnavailableNodes:n[3-4]",
    ):
        found = reasons.meaning(said)
        assert (found.layer, found.nodes) == (Layer.PROVISIONING, "n[3-4]")
    maintenance = reasons.meaning("ReqNodeNotAvail, Reserved for maintenance")
    assert "maintenance" in maintenance.words
    assert (
        reasons.meaning("ReqNodeNotAvail, May be reserved for other job").layer == Layer.SCHEDULING
    )


def test_a_node_that_is_only_busy_is_no_matter_of_provisioning():
    """22.05 says UnavailableNodes:n1 of a node that a job with a higher priority fills."""
    said = "ReqNodeNotAvail, UnavailableNodes:n[1-2]"
    assert reasons.meaning(said, out=frozenset({"n2", "n9"})).layer == Layer.PROVISIONING
    assert reasons.meaning(said, out=frozenset({"n9"})).cause == Cause.BUSY
    assert reasons.meaning(said).layer == Layer.PROVISIONING


def test_a_drained_node_is_a_matter_of_provisioning_whatever_the_sentence():
    """24.11 says of a drained node that it may be reserved for another job."""
    said = "ReqNodeNotAvail, May be reserved for other job"
    nodes = [SlurmNode(name="n1", state="MIXED"), SlurmNode(name="n4", state_flags="DRAIN")]
    out = reasons.nodes_out(nodes)
    assert out == {"n4"}
    found = reasons.meaning("ReqNodeNotAvail", said, required="n4", out=out)
    assert (found.layer, found.nodes) == (Layer.PROVISIONING, "n4")
    assert reasons.meaning("ReqNodeNotAvail", said, required="n1", out=out).cause == Cause.BUSY


def test_the_sentence_says_more_than_the_word():
    """22.05's JSON prints Resources and, beside it, that nodes are down."""
    assert reasons.meaning("Resources").layer == Layer.SCHEDULING
    assert reasons.meaning("Resources", reasons.NODES_DOWN).layer == Layer.PROVISIONING
    assert reasons.meaning(reasons.NODES_DOWN.replace(" ", "_")).layer == Layer.PROVISIONING


def test_a_word_that_is_not_known_has_no_layer():
    """Nothing is guessed."""
    found = reasons.meaning("SomethingNew")
    assert found.layer is None
    assert "SomethingNew" in found.words
