"""Fixes: for each bucket what to do, who does it, what to type, what it wins and what it costs.

Some fixes are edits of a spec with a win that the books can predict (``reckoning``); others are
edits worth trying, whose win only a replay tells; the rest is advice that names who could follow
it, what would have to be measured first, and with which command. Every bucket has at least one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidemill.ledger import mig_stranding, missing, prices, touched
from tidemill.ledger.buckets import ABOUT, ALLOCATED, Bucket
from tidemill.ledger.fix import MOST_TOLD, Edit, Fix
from tidemill.ledger.statement import Statement
from tidemill.model.states import NodeState

_Rule = Callable[[Statement, int], list[Fix]]


def fixes(statement: Statement, bucket: int) -> tuple[Fix, ...]:
    """The fixes of a bucket: those that win most by prediction first, advice last; never none."""
    if statement.world.is_observed:
        return _of_observed(statement, bucket)
    return tuple(_best_first(statement, bucket, _FIXES.get(bucket, _OF_A_PLUG_IN)))


def edits(statement: Statement, bucket: int) -> list[Fix]:
    """The fixes of a bucket that edit a spec; what advice rests on is not looked for."""
    rules = () if statement.world.is_observed else _FIXES.get(bucket, ())
    proposing = [rule for rule in rules if not isinstance(rule, _Advice)]
    return [fix for fix in _best_first(statement, bucket, proposing) if fix.edits]


def _best_first(statement: Statement, bucket: int, rules: Sequence[_Rule]) -> list[Fix]:
    found = [fix for rule in rules for fix in rule(statement, bucket)]
    return sorted(found, key=lambda fix: -(prices.wins_usd_micro(statement, fix) or 0))


def _of_observed(statement: Statement, bucket: int) -> tuple[Fix, ...]:
    """What people can do on a cluster that has a scheduler of its own, and no spec to edit."""
    rules = (_OBSERVED[bucket],) if bucket in _OBSERVED else _FIXES.get(bucket, _OF_A_PLUG_IN)
    found = [fix for rule in rules for fix in rule(statement, bucket)]
    return tuple(fix for fix in found if not fix.edits)


@dataclass(frozen=True)
class _Advice:
    """What only people can do, or only they know the price of; said to whose leak it is."""

    words: str
    rule: str
    costs: str
    measure: str = ""

    def __call__(self, statement: Statement, bucket: int) -> list[Fix]:
        theirs = _theirs(statement, bucket)
        return [
            Fix(
                self.words,
                self.rule,
                tuple(part.words for part in theirs[:MOST_TOLD]),
                touched.words(theirs),
                touched.known_usd(theirs),
                who_count=len(theirs),
                costs=self.costs,
                measure=self.measure
                or f"tidemill ledger --bucket {ABOUT[bucket].key} --by {_by(bucket)}",
            )
        ]


def _try(edits: tuple[Edit, ...], words: str, rule: str, costs: str) -> _Rule:
    """A setting of the scheduler whose win only a replay tells."""

    def rule_(statement: Statement, bucket: int) -> list[Fix]:
        wanted = {edit.field: edit.value for edit in edits}
        if all(getattr(statement.policy, field) == value for field, value in wanted.items()):
            return []
        theirs = touched.by_team(statement, bucket)
        return [
            Fix(
                words,
                rule,
                tuple(part.words for part in theirs),
                f"their jobs waited beside what was free: {touched.words(theirs)}",
                touched.known_usd(theirs),
                edits,
                costs=costs,
            )
        ]

    return rule_


def _theirs(statement: Statement, bucket: int) -> touched.LeakParts:
    """Whose the leak is: jobs where they hold it, teams where they wait for it, else contracts."""
    if bucket in ALLOCATED:
        return touched.by_group(statement, bucket)
    waiting = touched.by_team(statement, bucket)
    return waiting if len(waiting) else touched.by_contract_of_then(statement, bucket)


def _by(bucket: int) -> str:
    return "job" if bucket in ALLOCATED else "contract"


def _rule(found: Callable[[Statement], list[Fix]]) -> _Rule:
    return lambda statement, _bucket: found(statement)


_TIME = "people's time; the win is not known before it is measured"

_CAUSE_UNTOLD = _Advice(
    "tell when jobs were submitted: whether anybody waited for these accelerators is unknown",
    "free accelerators of a fleet of which nobody knows who waited",
    "an export with the times of submission",
    "tidemill doctor",
)
_CAUSE_UNKNOWN = _Advice(
    "find out why these jobs waited: no cause of it is recorded",
    "free accelerators beside waiting jobs; whether anything kept them out is unknown",
    "people's time",
    "tidemill pending",
)
_CAUSE_SAID = _Advice(
    "do what the cluster's own scheduler asks for of jobs that wait (`tidemill pending` has its"
    " reasons): accelerators stood free beside them",
    "free accelerators beside waiting jobs; why that scheduler did not give them is its own to say",
    "people's time",
    "tidemill pending",
)


def _cause_unknown(statement: Statement, bucket: int) -> list[Fix]:
    world = statement.world
    if not statement.tells_submissions:
        return _CAUSE_UNTOLD(statement, bucket)
    is_said = any(world.reason_of(j) is not None for j in world.reasons)
    return (_CAUSE_SAID if is_said else _CAUSE_UNKNOWN)(statement, bucket)


_UNCORDON = _Advice(
    "give every cordon an owner and an end, and uncordon what nobody repairs",
    "nodes that are well and take no work",
    "people's time",
    "tidemill fleet",
)
_MEND_TAINTED = _Advice(
    "mend what Kubernetes has tainted nodes for (`tidemill fleet --nodes` names it): nobody"
    " cordoned them, and the taint goes when its condition does",
    "nodes that take no work because of a taint of their own cluster",
    "people's time",
    "tidemill fleet --nodes",
)


def _cordoned(statement: Statement, bucket: int) -> list[Fix]:
    """Nodes that are closed now say whose doing it is; where none is, it was a cordon."""
    world = statement.world
    closed = np.flatnonzero(world.nodes.state[: world.node_count] == NodeState.CORDONED).tolist()
    tainted = sum(world.is_tainted(n) for n in closed)
    found = _MEND_TAINTED(statement, bucket) if tainted else []
    return found if tainted and tainted == len(closed) else [*found, *_UNCORDON(statement, bucket)]


_FIXES: dict[int, tuple[_Rule, ...]] = {
    Bucket.NOT_LAUNCHED: (
        _Advice(
            "launch the nodes that are paid for, or claim the money back from the provider",
            "the contract runs, its nodes do not exist",
            "nothing more than is paid already",
        ),
    ),
    Bucket.NOT_READY: (
        _Advice(
            "keep images on the nodes and boot in parallel",
            "time between launch and Ready",
            "disk space for images, and people's time",
        ),
    ),
    Bucket.UNHEALTHY: (
        _Advice(
            "agree on faster repairs with the provider, or ask for replacement nodes",
            "time from a failure until the node is Ready again",
            "what the provider asks for it: unknown here",
            "tidemill fleet",
        ),
    ),
    Bucket.CORDONED: (_cordoned,),
    Bucket.DRAINING: (
        _Advice(
            "drain for a shorter time: take nodes back, or repair them, sooner (`policy.drain`)",
            "accelerators of draining nodes that are free already but take no work",
            "work that has not ended by then is stopped sooner",
        ),
    ),
    Bucket.NO_DEMAND: (
        _rule(prices.release_contracts),
        _rule(prices.return_sooner),
        _Advice(
            "give the idle hours work that can wait (evaluations, sweeps, data preparation), or"
            " renew less when the contract ends",
            "free accelerators with nothing waiting for them; some busy hour needs them all, or a"
            " guaranteed quota or a gang does",
            "what is not renewed is missing in busy hours",
            "tidemill ledger --bucket no_demand --by time",
        ),
    ),
    Bucket.FRAGMENTED: (
        _try(
            (Edit("policy", "", "may_move", True, False),),
            "let running work move together so that larger jobs fit",
            "free accelerators that no waiting job could use as they lie",
            "what moves loses the work since its last checkpoint, and starts again",
        ),
        _Advice(
            "ask for sizes that divide a node, and for no more CPU and memory than come with the"
            " accelerators",
            "free accelerators that no waiting job could use as they lie",
            _TIME,
            "tidemill fleet",
        ),
    ),
    Bucket.TOPOLOGY: (
        _Advice(
            "prefer the topology level (`near`) instead of requiring it (`within`)",
            "free accelerators that are too far apart for the jobs that wait",
            "a job that is spread out runs slower",
            "tidemill pending",
        ),
    ),
    Bucket.QUOTA: (
        _rule(prices.raise_limits),
        _Advice(
            "raise the maximum quota of the teams that wait, or the borrowing limit above them",
            "free accelerators that only a quota keeps a waiting job from",
            "other teams find less free to borrow",
            "tidemill pending",
        ),
    ),
    Bucket.HELD: (
        _try(
            (Edit("policy", "", "estimates", "history", "given"),),
            "learn run times from past jobs instead of taking the owners' word, so that more may"
            " pass a waiting gang in time",
            "free accelerators kept for, or too few for, a gang that cannot start yet",
            "a job that runs longer than its like delays the gang",
        ),
        _Advice(
            "say how long jobs run (`estimate`), and ask for smaller gangs where the model allows",
            "free accelerators kept for, or too few for, a gang that cannot start yet",
            _TIME,
            "tidemill pending",
        ),
    ),
    Bucket.CAUSE_UNKNOWN: (_cause_unknown,),
    Bucket.BY_DESIGN: (
        _rule(prices.fewer_spares),
        _Advice(
            "keep fewer hot spares (`spares`), if failures allow it",
            "spares while they were not needed",
            "a gang that loses a node waits until another comes free",
            "tidemill fleet",
        ),
    ),
    Bucket.STARTING: (
        _Advice(
            "keep images and data on the nodes; find the member of the gang that comes up last",
            "time between getting the accelerators and the first step",
            _TIME,
        ),
    ),
    Bucket.IDLE: (
        _rule(prices.cull),
        _Advice(
            "services: run fewer replicas at night, or let small ones share a GPU (`fraction`, MIG)"
            "; notebooks: end what nobody uses",
            "accelerators that a job holds and does not use",
            "a replica that is stopped must start again before the next peak",
        ),
    ),
    Bucket.REWORK: (
        prices.save_better,
        _Advice(
            "save before a planned stop (a drain, a preemption, a spot notice); begin to save where"
            " a job never does, once the cost of a save is measured",
            "work that was done again after a stop",
            "each save stalls the job; its cost must be measured first",
        ),
    ),
    Bucket.RESTART: (
        _Advice(
            "restart in place, and load checkpoints in parallel",
            "time from being placed again to working again",
            _TIME,
        ),
    ),
    Bucket.CHECKPOINT: (
        prices.save_better,
        _Advice(
            "write checkpoints asynchronously, to local disk first",
            "the accelerators wait while a checkpoint is written",
            "host memory for a copy of the state, and people's time",
        ),
    ),
    Bucket.STRAGGLER: (
        _Advice(
            "swap the slow node",
            "all other ranks wait in every step until the slow one is done",
            _TIME,
            "tidemill stragglers --help",
        ),
    ),
    Bucket.HOST: (
        _Advice(
            "more data-loader workers, or more CPU per accelerator",
            "share of the step in which the accelerator waits for its host",
            _TIME,
        ),
    ),
    Bucket.LINKS: (
        _Advice(
            "overlap communication with compute; keep tensor parallelism inside a node",
            "share of the step spent in collectives, and what a worse place adds",
            _TIME,
        ),
    ),
    Bucket.INTERFERENCE: (
        _Advice(
            "put jobs that fill the same axis on GPUs of their own, or into MIG instances",
            "what neighbours on the same GPU cost each job",
            "more GPUs for the same jobs; try it before",
            "tidemill unit share --help",
        ),
    ),
    Bucket.STRANDED: (mig_stranding.lay_out,),
    Bucket.MEMORY_BOUND: (
        _Advice(
            "larger batches, or fewer bytes per weight: more FLOPs for each byte that is read",
            "between peak FLOP/s and what memory bandwidth allows at the job's intensity",
            "latency of the service, or quality of the model: measure both",
            "tidemill unit roofline --help",
        ),
    ),
    Bucket.BELOW_ROOF: (
        _Advice(
            "fused kernels, fewer pipeline bubbles, less recomputation",
            "between the attainable roof and model FLOPs; nobody reaches all of it",
            _TIME,
        ),
    ),
    Bucket.BELOW_PEAK: (
        _Advice(
            "say what these jobs compute (`computes` in the spec), so that `tidemill unit step"
            " --spec FILE --job NAME` tells where a step goes; then larger batches or better"
            " kernels",
            "between peak FLOP/s and model FLOPs; whether memory bandwidth binds, nobody said",
            _TIME,
        ),
    ),
    Bucket.UNKNOWN: (
        _Advice(
            "report step times (MFU): this time worked, but nobody knows how well",
            "unknown is not a loss, and not useful either",
            "people's time",
        ),
    ),
    Bucket.UNSAVED: (
        _Advice(
            "nothing: the next checkpoint saves it", "still running", "nothing: nothing is done"
        ),
    ),
}


def _efficiency_unknown(statement: Statement, bucket: int) -> list[Fix]:
    """What to tell, and who can, so that it is known how well this time worked."""
    return _Advice(
        f"tell how well this time worked (MFU): {missing.words(statement)}",
        "unknown is not a loss, and not useful either",
        "people's time",
    )(statement, bucket)


_OBSERVED: dict[int, _Rule] = {
    Bucket.NOT_OBSERVED: _Advice(
        "export more often, or keep `tidemill observe` running: nobody saw what was done then",
        "time between two exports, or without an observer, in which jobs may have run unseen",
        "people's time",
        "tidemill doctor",
    ),
    Bucket.UNHEALTHY: _Advice(
        "have broken nodes repaired or replaced sooner, by whoever keeps them",
        "time from a failure until the node is Ready again",
        "what repairs or spare parts cost: unknown here",
        "tidemill fleet",
    ),
    Bucket.UNKNOWN: _efficiency_unknown,
    Bucket.STARTING: _Advice(
        "find what of a job comes up last, or is not placed at all (partial gangs); keep images and"
        " data on the nodes",
        "time from a placement until all of a job works",
        _TIME,
        "tidemill ledger --bucket starting --by job",
    ),
    Bucket.DRAINING: _Advice(
        "bring drained nodes back sooner: give every drain a reason, an owner and an end",
        "accelerators of drained nodes: free already, and taking no work",
        "people's time",
        "tidemill fleet",
    ),
    Bucket.NO_DEMAND: _Advice(
        "give the idle hours work that can wait (evaluations, sweeps, data preparation), or pay for"
        " fewer machines when their contract ends",
        "free accelerators with nothing waiting for them; some busy hour may need them all",
        "what is given back is missing in busy hours",
        "tidemill ledger --bucket no_demand --by time",
    ),
    Bucket.TOPOLOGY: _Advice(
        "let jobs prefer to be placed together instead of requiring it, where they can",
        "free accelerators that are too far apart for the jobs that wait",
        "a job that is spread out runs slower",
        "tidemill pending",
    ),
    Bucket.HELD: _Advice(
        "give jobs honest time limits, so that the scheduler can fill gaps, and request smaller"
        " gangs where the model allows",
        "free accelerators kept for, or too few for, a gang that cannot start yet",
        _TIME,
        "tidemill pending",
    ),
    Bucket.BY_DESIGN: _Advice(
        "keep fewer hot spares, if failures allow it",
        "spares while they were not needed",
        "a gang that loses a node waits until another comes free",
        "tidemill fleet",
    ),
    Bucket.IDLE: _Advice(
        "ask who holds them what for: end what nobody uses, and let sessions and services give back"
        " what they do not need",
        "accelerators that a job holds and does not use",
        "what is stopped must start again when it is needed",
    ),
    Bucket.BELOW_PEAK: _Advice(
        "find with a profiler which kernels take the time of a step (waits are counted apart where"
        " the loop tells them with `tidemill.track`); then larger batches or better kernels",
        "between peak FLOP/s and model FLOPs; whether memory bandwidth binds, nobody said",
        _TIME,
    ),
}
"""Instead of advice that names settings of a spec, or terms that only its owner can change."""

_OF_A_PLUG_IN: tuple[_Rule, ...] = (
    _Advice(
        "see whose it is; the plug-in that adds this part of the ledger proposes no change",
        "as the plug-in divides it off",
        _TIME,
    ),
)
