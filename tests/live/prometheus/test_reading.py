"""Hours of a real Prometheus: in parts where it allows no more, behind TLS, kept in a folder."""

import shutil
import subprocess
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import polars as pl
import pytest

from tests.live.prometheus.story import BEGIN_MS, END_MS
from tests.rigs.prometheus import series, server
from tests.rigs.prometheus.lying import Asked, Told, lying
from tests.rigs.prometheus.series import Recorded, dcgm, steady
from tidemill.live.prometheus import fetching
from tidemill.live.prometheus.client import PASSWORD, USER, Access, Client
from tidemill.live.prometheus.minutes import HOUR_MS
from tidemill.live.prometheus.reading import PrometheusReader, hours
from tidemill.live.prometheus.store import HourFolder
from tidemill.model.errors import BackendError, SpecError

METRIC = "DCGM_FI_DEV_GPU_UTIL"
GPUS = 16
HASHED = "$2a$04$abcdefghijklmnopqrstuuyvPXIbu7xe6/CED2DzX8z6Si09MlzlW"
"""`pw`, by bcrypt with its least cost."""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A Prometheus behind TLS and a password that loads at most 20 samples for one question."""
    if reason := server.missing():
        pytest.skip(f"this test starts a real Prometheus, and cannot: {reason}")
    if not shutil.which("openssl"):
        pytest.skip("this test makes a certificate, and there is no openssl here")
    folder = tmp_path_factory.mktemp("strict")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", folder / "key.pem", "-out", folder / "cert.pem"],
        check=True, capture_output=True, timeout=20,
    )  # fmt: skip
    (folder / "web.yml").write_text(
        "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"
        f"basic_auth_users: {{ann: {HASHED}}}\n"
    )
    told = [
        Recorded(METRIC, dcgm(f"n{gpu // 4}", gpu % 4), steady(5.0 * gpu, 0, 3600))
        for gpu in range(GPUS)
    ]
    options = (f"--web.config.file={folder / 'web.yml'}", "--query.max-samples=20")
    with server.running(folder, series.lines(told), *options) as url:
        yield url.replace("http:", "https:"), folder / "cert.pem"


def test_a_question_that_is_too_large_is_divided(
    strict: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
):
    """By time, then by machines: all of the hour comes, each sample once."""
    url, certificate = strict
    monkeypatch.setenv(USER, "ann")
    monkeypatch.setenv(PASSWORD, "pw")
    with Client(url, Access.told(ca_file=certificate)) as client:
        names = fetching.names_of(client, BEGIN_MS, BEGIN_MS + HOUR_MS)
        hour = PrometheusReader(client).hour(BEGIN_MS, names)
    assert hour.samples == GPUS * 120
    assert len(hour.gpus) == GPUS * 60
    assert hour.gpus["samples"].unique().to_list() == [2]
    busy = hour.gpus.group_by("node", "minor").agg(pl.col("busy").mean().round(6)).sort("busy")
    assert busy["busy"].to_list() == [round(0.05 * gpu, 6) for gpu in range(GPUS)]


def test_who_is_not_known_is_not_answered(strict: tuple[str, Path]):
    """Without a password, and without the certificate: each says what to give."""
    url, certificate = strict
    with (
        Client(url, Access(ca_file=certificate), patience_s=0) as client,
        pytest.raises(BackendError) as caught,
    ):
        client.clock_ahead_ms()
    assert USER in caught.value.hint
    with Client(url, patience_s=0) as client, pytest.raises(BackendError) as caught:
        client.clock_ahead_ms()
    assert caught.value.hint.endswith("--ca-file")


def test_a_fetch_goes_on_where_it_was_stopped(prometheus: str, tmp_path: Path):
    """A server that dies in the second hour: the first is kept, the next call brings the rest.

    Both together are what one call reads.
    """
    target, dead = prometheus.removeprefix("http://"), list[bool]()

    def through(_: int, asked: Asked) -> Told:
        is_second = "5B" in asked.path and f"time={END_MS // 1000 - 1}" in asked.path
        if (is_second or dead) and not done:
            dead.append(True)
            return Told(502, b"gone")
        connection = HTTPConnection(target, timeout=10)
        connection.request("GET", asked.path)
        answer = connection.getresponse()
        told = Told(answer.status, answer.read())
        connection.close()
        return told

    done = list[bool]()
    with lying(through) as (url, _):
        folder = HourFolder(tmp_path / "kept")
        with Client(url, patience_s=0) as client, pytest.raises(BackendError):
            fetching.fetch(client, folder, BEGIN_MS, END_MS)
        assert HourFolder(tmp_path / "kept").starts() == [BEGIN_MS]
        (tmp_path / "kept" / f"gpus-{(BEGIN_MS + HOUR_MS) // 1000}.new").write_bytes(b"half a file")
        done.append(True)
        with Client(url, patience_s=0) as client:
            assert fetching.fetch(client, HourFolder(tmp_path / "kept"), BEGIN_MS, END_MS) == 1
            assert fetching.fetch(client, HourFolder(tmp_path / "kept"), BEGIN_MS, END_MS) == 0
    with Client(prometheus) as client:
        at_once = [*fetching.read(client, BEGIN_MS, END_MS)]
    kept = HourFolder.to_read(tmp_path / "kept")
    for hour in at_once:
        again = kept.hour(hour.start_ms)
        order = ["node", "uuid", "pod", "at_ms"]
        assert again.gpus.sort(order).equals(hour.gpus.sort(order))
        assert again.pods.equals(hour.pods)
        assert again.nodes.equals(hour.nodes)


def test_a_folder_is_of_one_server(prometheus: str, tmp_path: Path):
    """Another server's hours are refused; so is a folder that is none, and a damaged file."""
    folder = HourFolder(tmp_path / "kept")
    with Client(prometheus) as client:
        fetching.fetch(client, folder, BEGIN_MS, BEGIN_MS + 1)
    with pytest.raises(SpecError) as caught:
        folder.begin("http://elsewhere:9090", 0)
    assert "http://elsewhere:9090" in caught.value.message
    with pytest.raises(SpecError):
        HourFolder.to_read(tmp_path)
    (tmp_path / "kept" / f"gpus-{BEGIN_MS // 1000}.parquet").write_bytes(b"PAR1")
    with pytest.raises(SpecError) as caught:
        folder.hour(BEGIN_MS)
    assert "fetch again" in caught.value.hint
    with Client(prometheus) as client:
        (tmp_path / "kept" / f"gpus-{BEGIN_MS // 1000}.parquet").unlink()
        assert fetching.fetch(client, folder, BEGIN_MS, BEGIN_MS + 1) == 1


def test_a_time_without_gpus_is_said(prometheus: str):
    """A year before the first sample: nothing is known, and nothing is made up."""
    with Client(prometheus) as client, pytest.raises(SpecError) as caught:
        [*fetching.read(client, BEGIN_MS - 365 * 24 * HOUR_MS, BEGIN_MS - 364 * 24 * HOUR_MS)]
    assert "it has none that are known" in caught.value.message
    assert [*hours(BEGIN_MS + 1, BEGIN_MS + HOUR_MS + 1)] == [BEGIN_MS, BEGIN_MS + HOUR_MS]


def test_series_of_ones_own_may_have_their_last_line(tmp_path: Path):
    """A whole file in OpenMetrics' format ends with it; the rig takes it with and without."""
    if reason := server.missing():
        pytest.skip(f"this test needs promtool: {reason}")
    told = [*series.lines([Recorded("up", {"job": "a"}, steady(1.0, 0, 60))])]
    for lines in (told, [*told, "# EOF"]):
        server.load(tmp_path, lines)
    assert [*(tmp_path / "data").iterdir()]
