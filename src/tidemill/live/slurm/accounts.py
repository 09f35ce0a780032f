"""Accounts of Slurm as teams: who is above whom, what they may use together, and their shares.

A limit of an account (`GrpTRES=gres/gpu=64`) holds for it and all accounts below it. Jobs may be of
any account, and here only of teams with nothing below them: an account with others below it is two
teams, one of which (``A and below``) has the limit, and the other the account's own jobs.

A QOS is beside the accounts: its limits are those of an account only where all jobs of that account
are of this QOS. Others, and limits of single users, are told as evidence (``evidence``).
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from tidemill.live.history.attempts import kind_of
from tidemill.live.slurm import amounts
from tidemill.live.slurm.evidence import LimitRules
from tidemill.live.slurm.rows import SlurmAssociation, SlurmQos
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import BELOW, MAX_COUNT, Queue, Share
from tidemill.model.tree import MAX_DEPTH

ROOT = "root"
_GPU = "gres/gpu"


def queues_of(
    rules: LimitRules,
    teams: Collection[str],
    kinds: Collection[str],
    clusters: Collection[str],
    notes: list[str],
) -> list[Queue]:
    """The accounts that have jobs (``teams``) or limits of GPUs, and those above them; they first.

    ``kinds``: GPU types of the cluster. ``clusters``: those that jobs are of, by name; the accounts
    of others, which share the accounting, are left out.
    """
    told = [row for row in rules.associations if not clusters or row.cluster in (None, *clusters)]
    if len({row.cluster for row in told}) > 1:
        notes.append("accounts of several clusters: their limits are not read as quotas")
        return []
    own = {row.account: row for row in told if row.account and not (row.user or row.partition)}
    limits = {name: _limit(row.grp_tres, kinds) for name, row in own.items()}
    read = set[str]()
    for name, qos, text in _limits_of_qos(told, rules.qos):
        if name in own and (more := _limit(text, kinds)):
            limits[name] = _least(limits[name] or (), more)
            read.add(qos)
    _say_unread(told, limits, kinds, notes)
    _say_unread_qos(rules.qos, read, notes)
    paths = {name: _path(name, own) for name in sorted(own) if name in teams or limits[name]}
    wanted = {name for path in paths.values() for name in path}
    has_below = {name for path in paths.values() for name in path[:-1]}
    found = list[Queue]()
    for name in sorted(wanted, key=lambda name: (len(_path(name, own)), name)):
        *above, _ = _path(name, own)
        parent, weight = (above[-1] + BELOW if above else ""), _weight(own[name].shares)
        shares = limits[name] or ()
        if name in has_below:
            found.append(Queue(name + BELOW, shares, parent, weight))
            if name in teams:
                found.append(Queue(name, (), name + BELOW))
        else:
            found.append(Queue(name, shares, parent, weight))
    return found


def _path(name: str, own: Mapping[str, SlurmAssociation]) -> list[str]:
    """An account and those above it, from the top, without the root of all."""
    found = [name]
    while len(found) < MAX_DEPTH - 1:
        above = own[found[0]].parent
        if not above or above == ROOT or above not in own or above in found:
            break
        found.insert(0, above)
    return found


def _limit(text: str | None, kinds: Collection[str]) -> tuple[Share, ...] | None:
    """Maximum quotas by GPU type; (): none is set; None: one that cannot be told by type."""
    told = dict(amounts.tres(text or "") or ())
    typed = {
        kind_of(name[len(_GPU) + 1 :]): number
        for name, number in told.items()
        if name.startswith(f"{_GPU}:")
    }
    if not typed and _GPU in told:
        if len(kinds) != 1:
            return None
        typed = {next(iter(kinds)): told[_GPU]}
    return tuple(
        Share(kind, 0, min(number * WHOLE_MILLI, FOREVER_MS))
        for kind, number in sorted(typed.items())
    )


def _least(one: Sequence[Share], other: Sequence[Share]) -> tuple[Share, ...]:
    """Maximum quotas of both: the smaller one of each GPU type."""
    found = {share.kind: share for share in one}
    for share in other:
        known = found.get(share.kind, share)
        found[share.kind] = min(known, share, key=lambda share: share.limit_milli)
    return tuple(found[kind] for kind in sorted(found))


def _limits_of_qos(
    told: Sequence[SlurmAssociation], rows: Sequence[SlurmQos]
) -> Iterator[tuple[str, str, str]]:
    """Account, QOS and limit, for each account all of whose jobs are of one QOS.

    What that QOS gives to each account (MaxTRESPA) is then a limit of the account; what it gives
    to all its jobs together (GrpTRES) as well, where no other account may use it.
    """
    users, by_qos = defaultdict[str, set[str]](set), {row.name: row for row in rows}
    parents = {row.parent for row in told}  # a limit of such is of all accounts below it as well
    for row in told:
        if row.account and row.user and row.account not in parents:
            users[row.account].update(_listed(row.qos))
    for account, names in sorted(users.items()):
        qos = by_qos.get(next(iter(names))) if len(names) == 1 else None
        if qos is None:
            continue
        is_alone = not any(qos.name in names for other, names in users.items() if other != account)
        for text in (qos.max_tres_per_account, qos.grp_tres if is_alone else None):
            if _GPU in (text or ""):
                yield account, qos.name, text or ""


def _listed(names: str | None) -> list[str]:
    """QOS of an association; `+name` and `-name` stand where it is changed from the one above."""
    return [name.lstrip("+") for name in (names or "").split(",") if name and name[0] != "-"]


def _weight(shares: str | None) -> int:
    """Its share beside its siblings, as Slurm's fair share has it; 1 where it has none."""
    text = shares or ""
    return min(max(1, int(text)), MAX_COUNT) if text.isdecimal() else 1


def _say_unread(
    told: Sequence[SlurmAssociation],
    limits: Mapping[str, tuple[Share, ...] | None],
    kinds: Collection[str],
    notes: list[str],
) -> None:
    """Limits that are none of a team here, in words."""
    if mixed := sorted(name for name, limit in limits.items() if limit is None):
        notes.append(
            f"{_some(mixed, 'account')} may use so many GPUs of all types together: not read, since"
            f" quotas here are by GPU type ({', '.join(sorted(kinds)) or 'no node is listed'})"
        )
    users = sorted({row.user for row in told if row.user and _GPU in (row.grp_tres or "")})
    if users:
        notes.append(
            f"{_some(users, 'user')} may use so many GPUs: not read as quotas, which are of teams;"
            " `why` names the limit of jobs that wait for it"
        )


def _say_unread_qos(rows: Sequence[SlurmQos], read: Collection[str], notes: list[str]) -> None:
    """QOS with limits of GPUs that are no quotas of an account, in words."""
    names = sorted({row.name for row in rows if row.name not in read and _limits_gpus(row)})
    if names:
        notes.append(
            f"{_some(names, 'QOS')} may use so many GPUs: not read as quotas, which are of teams;"
            " `why` names the limit of jobs that wait for it"
        )


def _limits_gpus(row: SlurmQos) -> bool:
    told = (row.grp_tres, row.max_tres_per_user, row.max_tres_per_account, row.max_tres_per_job)
    return any(_GPU in (text or "") for text in told)


def _some(names: Sequence[str], what: str) -> str:
    more = " …" if len(names) > 3 else ""
    plural = what if what.endswith("S") else f"{what}s"
    count = f"1 {what}" if len(names) == 1 else f"{len(names):,} {plural}"
    return f"{count} ({', '.join(names[:3])}{more})"
