"""``fleet.toml``: the sources of a fleet, prices, teams and assumptions, in one file.

Read strictly: what is not known is refused with the word that was probably meant. Paths in it are
relative to its folder.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from tidemill.cli import activity, given, observers
from tidemill.model.decoding import nearest, shown, toml
from tidemill.model.errors import BackendError, SpecError
from tidemill.twin.spec.errors import SpecPlace, explain

if TYPE_CHECKING:
    from contextlib import ExitStack

    from tidemill.live.observing.measuring import Measuring
    from tidemill.live.observing.several import SeveralClusters, WatchedCluster

USUAL_NAME = "fleet.toml"
MOST_BYTES = 1 << 20


class SlurmTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One Slurm cluster, asked by its own commands."""

    name: str = "slurm"
    conf: str = ""
    """Its ``slurm.conf`` (SLURM_CONF), where commands of this machine know several clusters."""
    team_by: str = "account"
    """``account`` or ``user``."""
    timeout: str = "1m"
    lateness: str = ""
    ahead: str = "0s"


class KubernetesTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One Kubernetes cluster, read by list and watch."""

    name: str = "kubernetes"
    kubeconfig: str = ""
    context: str = ""
    team_by: str = "namespace"
    """``namespace``, ``queue`` or ``label:KEY``."""
    autoscaler_namespace: str = ""
    """Where cluster-autoscaler keeps its status; "": where it does by default."""
    timeout: str = "30s"
    lateness: str = ""
    ahead: str = "0s"


class PrometheusTable(Struct, frozen=True, forbid_unknown_fields=True):
    """One Prometheus with metrics of GPUs."""

    url: str
    cluster: str = ""
    """Whose GPUs it knows; "": those of all clusters."""
    resolution: str = "5m"
    ahead: str = "0s"


class TrackTable(Struct, frozen=True, forbid_unknown_fields=True):
    """Where the records of training loops are, or come in."""

    folder: str = ""
    listen: str = ""
    token_file: str = ""
    ahead: str = "0s"
    """How far the clocks of the loops' machines are ahead of the cluster's."""


class PricesTable(Struct, frozen=True, forbid_unknown_fields=True):
    """What GPUs cost."""

    usd_per_hour: float | dict[str, float] = {}
    """Of one GPU: for all, or by GPU type."""
    files: list[str] = []
    list_prices: bool = False


class FleetTable(Struct, frozen=True, forbid_unknown_fields=True):
    """How the fleet is watched."""

    journal: str = "fleet.sqlite"
    every: str = "30s"
    lateness: str = "1m"
    gap: str = "10m"
    keep: str = ""
    """How long events are kept before they become books by the hour; "": for good."""
    zone: str = "UTC"
    since: str = ""
    spares: list[str] = []
    """Nodes that are kept free by design, as ``--spares`` takes them."""
    maintenance: list[str] = []
    """Nodes that are closed, and when, as ``--maintenance`` takes them."""


_KNOWN = ("assume", "fleet", "kubernetes", "prices", "prometheus", "slurm", "teams", "track")
_OF_SPECS = ("contract", "team", "workload", "policy")
"""Tables of the other file that people call fleet.toml."""
_Table = TypeVar("_Table", bound=Struct)


class FleetFile(NamedTuple):
    """All that a file says."""

    path: Path
    fleet: FleetTable
    slurm: Sequence[SlurmTable]
    kubernetes: Sequence[KubernetesTable]
    prometheus: Sequence[PrometheusTable]
    track: TrackTable
    prices: PricesTable
    teams: dict[str, str]
    """What the books call a team, by what clusters call it."""
    assume: list[str]
    """As ``--assume`` takes them."""

    def place(self, told: str) -> Path:
        """A path of the file; relative ones are beside it."""
        return self.path.parent / Path(told).expanduser()

    @property
    def journal(self) -> str:
        """The journal: a path, or the address of a server."""
        told = self.fleet.journal
        return told if "://" in told else str(self.place(told))

    @property
    def names(self) -> list[str]:
        """Of the clusters."""
        return [*(one.name for one in self.slurm), *(one.name for one in self.kubernetes)]

    @property
    def beside(self) -> observers.Beside:
        """Where loops' records are, or come in."""
        folder, token = self.track.folder, self.track.token_file
        return observers.Beside(
            self.place(folder) if folder else None, self.track.listen or None,
            self.place(token) if token else None, track_ahead=self.track.ahead,
        )  # fmt: skip

    @property
    def given(self) -> given.Given:
        """Prices and assumptions."""
        usd = self.prices.usd_per_hour
        rates = usd.items() if isinstance(usd, dict) else [("", usd)]
        told = [f"{kind}={rate}" if kind else str(rate) for kind, rate in rates]
        files = [self.place(path) for path in self.prices.files]
        return given.Given(
            told, files, self.prices.list_prices, self.assume,
            spares=self.fleet.spares, maintenance=self.fleet.maintenance,
        )  # fmt: skip

    def clusters(self, stack: "ExitStack") -> "SeveralClusters":
        """The clusters, ready to be asked; the stack ends their connections."""
        from tidemill.live.kubernetes.api import kubeconfig as kubeconfigs
        from tidemill.live.kubernetes.watching.source import KubernetesSource
        from tidemill.live.observing.several import SeveralClusters
        from tidemill.live.slurm.polling import SlurmSource

        found: list[WatchedCluster] = []
        for one in self.slurm:
            if one.conf and not self.place(one.conf).exists():  # commands would wait for it
                raise SpecError(
                    f"`conf` of [[slurm]] is `{self.place(one.conf)}`: no such file",
                    hint="check the path, run it on a machine of the cluster, or leave `conf` out",
                )
            conf = {"SLURM_CONF": str(self.place(one.conf))} if one.conf else {}
            environment = {**os.environ, **conf} if conf else None
            asked = SlurmSource(timeout_s=_s(one.timeout, "--timeout"), environment=environment)
            found.append(self._cluster(one, asked)._replace(is_team_user=one.team_by == "user"))
        for row in self.kubernetes:
            config = self.place(row.kubeconfig) if row.kubeconfig else None
            access = kubeconfigs.find(config, row.context or None)
            wait_s = _s(row.timeout, "--timeout")
            source = KubernetesSource(
                access, team_by=row.team_by, timeout_s=wait_s,
                autoscaler_namespace=row.autoscaler_namespace,
            )  # fmt: skip
            found.append(self._cluster(row, stack.enter_context(source)))
        return SeveralClusters(found, self.teams)

    def _cluster(self, told: SlurmTable | KubernetesTable, source: Any) -> "WatchedCluster":  # noqa: ANN401 - whatever can be watched
        from tidemill.live.observing.several import WatchedCluster

        late_ms = observers.span_ms(told.lateness or self.fleet.lateness, "--lateness")
        gap_ms = observers.span_ms(self.fleet.gap, "--gap")
        return WatchedCluster(
            told.name, source, late_ms, gap_ms, activity.signed_ms(told.ahead, "ahead")
        )

    def measuring(self, folder: Path | None, clusters: "SeveralClusters") -> "list[Measuring]":
        """Who measures beside the clusters."""
        prefixes = ["", *(clusters.prefix_of(name) for name in self.names)]
        found = observers.measuring_of(folder, self.beside, prefixes)
        for one in self.prometheus:
            own = [one.cluster] if one.cluster else self.names
            found.append(self.measured_by(one, [clusters.prefix_of(name) for name in own]))
        return found

    def measured_by(self, one: PrometheusTable, prefixes: list[str]) -> "Measuring":
        """One Prometheus, for clusters whose names begin so."""
        from tidemill.live.observing.measuring import PrometheusMeasuring

        width_ms = observers.span_ms(one.resolution, "--resolution")
        ahead_ms = activity.signed_ms(one.ahead, "ahead")
        return PrometheusMeasuring(one.url, width_ms, ahead_ms, prefixes=prefixes)


_KEYS = {
    "--usd-per-hour": "`usd_per_hour` of [prices]", "--prices": "`files` of [prices]",
    "--list-prices": "`list_prices` of [prices]", "--assume": "[assume]",
    "--every": "`every` of [fleet]", "--lateness": "`lateness`", "--gap": "`gap` of [fleet]",
    "--keep": "`keep` of [fleet]",
    "--since": "`since` of [fleet]", "--zone": "`zone` of [fleet]",
    "--spares": "`spares` of [fleet]", "--maintenance": "`maintenance` of [fleet]",
    "--track": "`folder` of [track]", "--listen": "`listen` of [track]",
    "--token-file": "`token_file` of [track]", "--prometheus": "`url` of [[prometheus]]",
    "--resolution": "`resolution` of [[prometheus]]", "--timeout": "`timeout`",
    "--context": "`context` of [[kubernetes]]", "--kubeconfig": "`kubeconfig` of [[kubernetes]]",
    "--autoscaler-namespace": "`autoscaler_namespace` of [[kubernetes]]",
    "--team-by": "`team_by`", "--prometheus-ahead": "`ahead` of [[prometheus]]",
    "--track-ahead": "`ahead` of [track]",
}  # fmt: skip
"""Where a file says what an option of `observe slurm` or `observe kubernetes` does."""
_OPTION = re.compile(r"--[a-z][a-z-]*")


def in_keys(text: str) -> str:
    """A message that names options, by the keys of a file instead."""
    return _OPTION.sub(lambda found: _KEYS.get(found[0], found[0]), text)


@contextmanager
def by_its_keys(path: Path) -> Iterator[None]:
    """Whatever of a file is refused meanwhile is named by the keys of that file."""
    try:
        yield
    except SpecError as error:
        told = f"`{path.name}`: {in_keys(error.message)}"
        raise SpecError(told, hint=in_keys(error.hint)) from error
    except BackendError as error:
        raise BackendError(in_keys(error.message), hint=in_keys(error.hint)) from error


def find(told: Path | None) -> Path:
    """The file that was named, or the one of the working directory."""
    path = told or Path(USUAL_NAME)
    if path.is_file():
        return path
    if told is not None:
        raise SpecError(f"`{told}` does not exist", hint="give the path of a fleet.toml")
    raise SpecError(
        f"nothing says what to watch: there is no `{USUAL_NAME}` here",
        hint="write one (examples/observe/fleet.toml shows how), name one with --config, or watch"
        " one cluster with `tidemill observe slurm` or `tidemill observe kubernetes`",
    )


def load(path: Path) -> FleetFile:
    """Read a file, and refuse what it cannot mean."""
    raw = _parsed(path)
    source = path.name
    for name in raw:
        if name not in _KNOWN:
            hint = nearest(name, _KNOWN)
            if name in msgspec.structs.asdict(FleetTable()):
                hint = "write it under [fleet]"
            if name in _OF_SPECS:
                hint = (
                    "this is a spec for `tidemill twin run`; name the file of your sources with"
                    " --config"
                )
            raise SpecError(f"`{source}`: unknown table or key `{name}`", hint=hint)
    found = FleetFile(
        path, _table(raw, SpecPlace(source, "fleet"), FleetTable),
        _rows(raw, source, "slurm", SlurmTable),
        _rows(raw, source, "kubernetes", KubernetesTable),
        _rows(raw, source, "prometheus", PrometheusTable),
        _table(raw, SpecPlace(source, "track"), TrackTable),
        _prices(raw, source),
        _teams(raw, source), _assume(raw, source),
    )  # fmt: skip
    _refuse_unclear(found, source)
    return found


def _parsed(path: Path) -> dict[str, Any]:
    if path.stat().st_size > MOST_BYTES:
        raise SpecError(f"`{path}` is larger than {MOST_BYTES:,} bytes", hint="give a fleet.toml")
    hint = "text needs quotes, tables are [fleet] or [[slurm]]; see examples/observe/fleet.toml"
    return toml(path.read_bytes(), path.name, hint)


def _table(raw: dict[str, Any], place: SpecPlace, kind: type[_Table]) -> _Table:
    return _converted(raw.get(place.table, {}), place, kind)


def _rows(raw: dict[str, Any], source: str, name: str, kind: type[_Table]) -> list[_Table]:
    told = raw.get(name, [])
    if isinstance(told, dict):
        told = [told]
    if not isinstance(told, list):
        raise SpecError(f"`{source}`: `{name}` is no table", hint=f"write [[{name}]]")
    return [_converted(row, SpecPlace(source, name, i), kind) for i, row in enumerate(told, 1)]


def _converted(told: Any, place: SpecPlace, kind: type[_Table]) -> _Table:  # noqa: ANN401 - as TOML has it
    if not isinstance(told, dict):
        raise SpecError(f"{place} is no table", hint=f"write [{place.table}] on a line of its own")
    try:
        return msgspec.convert(told, kind)
    except msgspec.ValidationError as error:
        explain(place, error, kind, told)


def _prices(raw: dict[str, Any], source: str) -> PricesTable:
    """``usd_per_hour = 2.50``, or a number for each GPU type; any other is named by its type."""
    place, told = SpecPlace(source, "prices"), raw.get("prices", {})
    usd = told.get("usd_per_hour") if isinstance(told, dict) else None
    by_type = usd if isinstance(usd, dict) else {"": usd} if usd is not None else {}
    for kind, one in by_type.items():
        if not isinstance(one, int | float) or isinstance(one, bool):
            key = f"usd_per_hour.{kind}" if kind else "usd_per_hour"
            hint = "usd_per_hour = 2.50 for all, or { H100 = 2.80, A100 = 1.60 }"
            place.refuse(key, f"expected a number (USD an hour); found {shown(one)}", hint=hint)
    return _table(raw, place, PricesTable)


def _teams(raw: dict[str, Any], source: str) -> dict[str, str]:
    """``research = ["ml", "ml-dev"]``: the books' name by each of the clusters'."""
    place, found = SpecPlace(source, "teams"), dict[str, str]()
    for team, names in _converted_free(raw, place).items():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            hint = f'{team} = ["ml", "ml-dev"]'
            place.refuse(team, "expected a list of what clusters call this team", hint=hint)
        for name in names:
            if found.setdefault(name, team) != team:
                hint = f"leave `{name}` with one of them"
                place.refuse(team, f"`{name}` is also `{found[name]}`", hint=hint)
    return found


def _assume(raw: dict[str, Any], source: str) -> list[str]:
    """``[assume.training]`` with ``mfu = 0.35``, as ``training.mfu=0.35``."""
    place, found = SpecPlace(source, "assume"), list[str]()
    for name, value in _converted_free(raw, place).items():
        inside = value.items() if isinstance(value, dict) else ()
        if not inside:
            place.refuse(name, "expected a table", hint="write [assume.training]")
        found += [f"{name}.{key}={told}" for key, told in inside]
    return found


def _converted_free(raw: dict[str, Any], place: SpecPlace) -> dict[str, Any]:
    told = raw.get(place.table, {})
    if not isinstance(told, dict):
        raise SpecError(f"{place} is no table", hint=f"write [{place.table}] on a line of its own")
    return told


def _refuse_unclear(found: FleetFile, source: str) -> None:
    """Refuse what each table may say, and all of them together may not."""
    names = found.names
    if not names:
        raise SpecError(f"`{source}` names no cluster", hint="add [[slurm]] or [[kubernetes]]")
    for name in names:
        if names.count(name) > 1:
            hint = 'give each a name of its own: name = "prod"'
            raise SpecError(f"`{source}`: two clusters are called `{name}`", hint=hint)
        if not name or "/" in name or len(name) > 60:
            hint = "such as prod: at most 60 characters, and no slash"
            raise SpecError(f"`{source}`: a cluster is called `{name}`", hint=hint)
    for i, one in enumerate(found.slurm, 1):
        if one.team_by not in ("account", "user"):
            place = SpecPlace(source, "slurm", i, one.name)
            place.refuse("team_by", f"found `{one.team_by}`", hint="account or user")
    for i, row in enumerate(found.prometheus, 1):
        if row.cluster and row.cluster not in names:
            place = SpecPlace(source, "prometheus", i)
            place.refuse("cluster", f"no cluster is called `{row.cluster}`",
                         hint=nearest(row.cluster, names))  # fmt: skip


def _s(text: str, option: str) -> float:
    return observers.span_ms(text, option) / 1000
