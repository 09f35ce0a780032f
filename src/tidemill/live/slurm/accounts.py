"""Accounts of Slurm as teams: who is above whom, what they may use together, and their shares.

A limit of an account (`GrpTRES=gres/gpu=64`) holds for it and all accounts below it. Jobs may be of
any account, and here only of teams with nothing below them: an account with others below it is two
teams, one of which (``A and below``) has the limit, and the other the account's own jobs.
"""

from collections.abc import Collection, Mapping, Sequence

from tidemill.live.history.attempts import kind_of
from tidemill.live.slurm import amounts
from tidemill.live.slurm.rows import SlurmAssociation
from tidemill.model.measures import FOREVER_MS, WHOLE_MILLI
from tidemill.model.rows import MAX_COUNT, Queue, Share
from tidemill.model.tree import MAX_DEPTH

BELOW = " and below"
ROOT = "root"
_GPU = "gres/gpu"


def queues_of(
    told: Sequence[SlurmAssociation],
    teams: Collection[str],
    kinds: Collection[str],
    clusters: Collection[str],
    notes: list[str],
) -> list[Queue]:
    """The accounts that have jobs (``teams``) or limits of GPUs, and those above them; they first.

    ``kinds``: GPU types of the cluster. ``clusters``: those that jobs are of, by name; the accounts
    of others, which share the accounting, are left out.
    """
    told = [row for row in told if not clusters or row.cluster in (None, *clusters)]
    if len({row.cluster for row in told}) > 1:
        notes.append("accounts of several clusters: their limits are not read as quotas")
        return []
    own = {row.account: row for row in told if row.account and not (row.user or row.partition)}
    limits = {name: _limit(row.grp_tres, kinds) for name, row in own.items()}
    _say_unread(told, limits, kinds, notes)
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
            " `why` says what Slurm says of their jobs"
        )


def _some(names: Sequence[str], what: str) -> str:
    more = " …" if len(names) > 3 else ""
    count = f"1 {what}" if len(names) == 1 else f"{len(names):,} {what}s"
    return f"{count} ({', '.join(names[:3])}{more})"
