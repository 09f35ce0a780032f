"""What is wrong with a plan, in words: one sentence per rule of ``reading``."""

from tidemill.engine.check.columns import RULE, WRONG
from tidemill.model.batch import Batch, PieceColumn
from tidemill.model.rows import Role
from tidemill.model.tables import I64
from tidemill.model.world import World

_ABOUT = ("", "job", "node", "contract", "shape")
_OF_ONE_JOB = {
    RULE.NOT_WAITING: "is placed but not waiting",
    RULE.PASSED_ACTIVE: "is passed but does not wait",
    RULE.PASSED_TWICE: "is passed for the first time a second time",
    RULE.PASSED_BY_NOBODY: "is passed by nobody",
    RULE.DELAYED: "is delayed by who passes it",
    RULE.STOPPED_INACTIVE: "is stopped but not active",
    RULE.LEAVING: "is stopped but leaving already",
    RULE.NOT_IDLE: "is cancelled but not idle for as long as it may be",
    RULE.HEIR: "makes room for one that does not wait",
    RULE.NOT_PREEMPTIBLE: "is not preemptible",
    RULE.TOO_SOON: "is stopped within its minimum run time",
    RULE.TOO_OFTEN: "was stopped too often without saving any work",
    RULE.NOT_REORDERED: "is put off, but the order is of waiting jobs only",
    RULE.LOSES_WORK: "is moved and loses work",
    RULE.NO_CLAIM: "yields to another team without a claim",
    RULE.MAY_NOT_PREEMPT: "yields to one that may not preempt",
    RULE.NOT_HIGHER: "yields to one of its team that is not higher",
}
"""What is said of a job that a rule is about, where nothing else is to be said."""


def sentence(world: World, batch: Batch, row: I64) -> str:  # noqa: C901, PLR0912 - one case a rule
    """The sentence for one row of ``Sums.wrong``."""
    rule, _, who, what, how = (int(row[column]) for column in WRONG)
    match RULE(rule):
        case RULE.DATED:
            return f"an action is dated {what}, not now"
        case RULE.UNKNOWN:
            return f"{_ABOUT[who]} number {what} is unknown; there are {how}"
        case RULE.ATTEMPT:
            return f"job `{_job(world, who)}` is placed as attempt {what}"
        case RULE.NO_ROLE:
            return f"job `{_job(world, who)}` has no role number {what}"
        case RULE.KIND:
            return f"job `{_job(world, who)}` gets `{_contract_kind(world, what)}`"
        case RULE.LABELS:
            return f"job `{_job(world, who)}` gets `{_node(world, what)}` against its labels"
        case RULE.DEVICES:
            return f"job `{_job(world, who)}` gets {how} of `{_node(world, what)}`"
        case RULE.SLICES:
            piece = batch.pieces[what].tolist()
            role = _role_of(world, who, piece[PieceColumn.ROLE])
            name, node = _job(world, who), _node(world, piece[PieceColumn.NODE])
            slices = piece[PieceColumn.SLICES]
            return f"job `{name}` gets slices {slices:#b} of `{node}` as `{role.profile}`"
        case RULE.COUNT:
            role = _role_of(world, who, what)
            return f"job `{_job(world, who)}` gets {how} of {role.count} `{role.name}`"
        case RULE.MIXED:
            role = _role_of(world, who, what)
            return f"job `{_job(world, who)}` role `{role.name}` mixes GPU types"
        case RULE.BOND:
            return f"job `{_job(world, who)}` is not inside one `{_tier(world, how)}`"
        case RULE.ROLE_BOND:
            name, role = _job(world, who), _role_of(world, who, what)
            return f"job `{name}` role `{role.name}` is not inside one `{_tier(world, how)}`"
        case RULE.CLOSED:
            return f"node `{_node(world, who)}` takes no new work"
        case RULE.CPU:
            return f"node `{_node(world, who)}` has too little CPU"
        case RULE.MEMORY:
            return f"node `{_node(world, who)}` has too little memory"
        case RULE.DEVICE:
            return f"device {what} of `{_node(world, who)}` is over-committed"
        case RULE.SLICE:
            return f"slice {how} of device {what} of `{_node(world, who)}` is over-committed"
        case RULE.CUT:
            return f"device {what} of `{_node(world, who)}` is cut and shared by the milli"
        case RULE.LIMIT:
            team, kind = world.queue_rows[who].name, world.kinds[what]
            return f"team `{team}` would exceed its limit of `{kind}`"
        case RULE.KEPT:
            return f"{what} milli of `{world.kinds[how]}` are taken that others keep"
        case RULE.JOB_TWICE:
            return f"job `{_job(world, who)}` is named twice"
        case RULE.NODE_TWICE:
            return f"node `{_node(world, who)}` is named twice"
        case RULE.AT_ONCE:
            return f"node `{_node(world, who)}` is given work and taken away at once"
        case RULE.OUT_OF_ORDER:
            name, earlier = _job(world, who), _job(world, what)
            return f"job `{name}` is placed before `{earlier}`, which asks for the same and is next"
        case RULE.HAS_LESS:
            name, first = _job(world, who), _job(world, what)
            return f"job `{name}` is placed before `{first}`, whose team has less"
        case RULE.STOPPED_ATTEMPT:
            return f"job `{_job(world, who)}` is stopped as attempt {what}"
        case RULE.COMES_AFTER:
            return comes_after(world, who, what)
        case RULE.NOT_PROMISED:
            return f"nothing is promised to shape number {who}"
        case of_one_job:
            return f"job `{_job(world, who)}` {_OF_ONE_JOB[of_one_job]}"


def comes_after(world: World, j: int, heir: int) -> str:
    """That a job is put off for one that the order looks at later."""
    return f"job `{_job(world, j)}` is put off for `{_job(world, heir)}`, which comes after it"


def _job(world: World, j: int) -> str:
    return world.job_names[j]


def _node(world: World, n: int) -> str:
    return world.node_rows[n].name


def _contract_kind(world: World, n: int) -> str:
    return world.contract_rows[int(world.nodes.contract[n])].kind


def _role_of(world: World, j: int, role: int) -> Role:
    return world.shape_of(j).roles[role]


def _tier(world: World, t: int) -> str:
    return world.topology.tiers[t].name
