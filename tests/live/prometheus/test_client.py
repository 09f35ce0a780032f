"""Asking a server in trouble: patience, bounds, secrets, and words that help."""

import time
from pathlib import Path

import pytest

from tests.cli.shell import tidemill
from tests.rigs.prometheus.lying import GOOD, Asked, Told, lying
from tidemill.live.prometheus import answers, fetching
from tidemill.live.prometheus import client as asking
from tidemill.live.prometheus.client import Access, Client, TooLarge
from tidemill.model.errors import BackendError, SpecError

SECRET = "s3cr3t-t0ken"
MATRIX = b'{"status":"success","data":{"resultType":"matrix","result":[%s]}}'


def test_a_server_that_fails_is_asked_again():
    """Twice unavailable, once cut off within its JSON, once within its length: then the answer."""
    answers = [
        Told(503, b"starting"), Told(429, b"", headers=(("Retry-After", "0"),)),
        Told(200, GOOD[:40]), Told(200, GOOD[:40], length=len(GOOD)), Told(),
    ]  # fmt: skip
    with lying(lambda n, _: answers[n]) as (url, asked), Client(url, patience_s=10) as client:
        assert client.clock_ahead_ms() != 0
    assert len(asked) == len(answers)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (Told(503, b"starting"), "status 503: starting"),
        (Told(200, GOOD[:40]), "the answer is cut off or no JSON (40 bytes)"),
        (Told(200, GOOD, length=1000), "the answer ended 914 bytes early"),
        (Told(after_s=5), "no answer in time"),
        (Told(trickle_s=0.05), "no answer in time"),
    ],
)
def test_patience_ends(told: Told, words: str):
    """What was asked, what was found, how often, and what to do."""
    timeout_s = 0.2 if told.after_s or told.trickle_s else 20  # others may take their time to come
    with (
        lying(lambda *_: told) as (url, _),
        Client(url, patience_s=0.3, timeout_s=timeout_s) as client,
        pytest.raises(BackendError) as caught,
    ):
        client.clock_ahead_ms()
    assert caught.value.message.startswith(f"asked {url} for `time()`, ")
    assert words in caught.value.message
    assert "goes on from there" in caught.value.hint


def test_all_questions_together_have_an_end():
    """Each is answered in time, and slowly: after so many seconds no other is asked."""
    with lying(lambda *_: Told(after_s=0.3)) as (url, asked), Client(url, within_s=2) as client:
        client.clock_ahead_ms()
        with pytest.raises(BackendError, match="it answers too slowly, and 2 s for all"):
            [client.clock_ahead_ms() for _ in range(20)]
    assert len(asked) < 9


def test_an_import_ends_with_an_answer_that_never_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A byte now and then: an import gives up as an observer does, and says after how long."""
    monkeypatch.setattr(fetching, "ANSWER_S", 0.4)
    (tmp_path / "jobs.csv").write_text("job,gpus,node,start,end\na,1,n1,1700000000,1700000600\n")
    begun_s = time.monotonic()
    with lying(lambda *_: Told(trickle_s=0.1)) as (url, _):
        made = tidemill("import", "csv", str(tmp_path / "jobs.csv"), "--prometheus", url,
                        "--patience", "1s", "-j", str(tmp_path / "j.sqlite"))  # fmt: skip
    assert time.monotonic() - begun_s < 10
    assert made.code == 6
    assert "no answer in time (within 0.4 s it was not whole)" in " ".join(made.err.split())
    assert not (tmp_path / "j.sqlite").exists()


def test_nobody_answers():
    """A port that nothing listens on."""
    with (
        Client("http://127.0.0.1:1", patience_s=0) as client,
        pytest.raises(BackendError) as caught,
    ):
        client.clock_ahead_ms()
    assert "Connection refused" in caught.value.message


@pytest.mark.parametrize(
    ("told", "words", "hint"),
    [
        (Told(401, b"no"), "status 401, no", asking.TOKEN),
        (Told(404, b"<html>not here"), "status 404, <html>not here", "before /api/v1"),
        (Told(302, b"", headers=(("Location", "https://login.example"),)), "status 302", "address"),
        (Told(400, b'{"status":"error","error":"parse error: x"}'), "parse error: x", "address"),
        (Told(200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
         "found ", "report it"),
    ],
)  # fmt: skip
def test_what_asking_again_does_not_mend_is_said_at_once(told: Told, words: str, hint: str):
    """Each with one question only."""
    with (
        lying(lambda *_: told) as (url, asked),
        Client(url) as client,
        pytest.raises(BackendError) as caught,
    ):
        client.clock_ahead_ms()
    assert words in caught.value.message
    assert hint in caught.value.hint
    assert len(asked) == 1


def test_an_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch):
    """What is larger is not kept in memory: the caller is to ask for less."""
    monkeypatch.setattr(asking, "MOST_BYTES", 1000)
    body = MATRIX % (b'{"metric":{},"values":[[1,"1"]]}' + b" " * 2000)
    with (
        lying(lambda *_: Told(body=body)) as (url, _),
        Client(url) as client,
        pytest.raises(TooLarge),
    ):
        client.samples("up", 0, 1000)


@pytest.mark.parametrize(
    ("variables", "sent"),
    [
        ({asking.TOKEN: SECRET}, f"Bearer {SECRET}"),
        ({asking.USER: "ann", asking.PASSWORD: "pw"}, "Basic YW5uOnB3"),
        ({}, ""),
    ],
)
def test_who_asks(variables: dict[str, str], sent: str, monkeypatch: pytest.MonkeyPatch):
    """From the environment; no message tells it."""
    for name in (asking.TOKEN, asking.USER, asking.PASSWORD):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with (
        lying(lambda *_: Told(403, b"no")) as (url, asked),
        Client(url, Access.told()) as client,
        pytest.raises(BackendError) as caught,
    ):
        client.clock_ahead_ms()
    assert asked[0].authorization == sent
    assert SECRET not in str(caught.value)


def test_a_token_in_a_file(tmp_path: Path):
    """One line; an empty file is refused, and so is a password in an address."""
    (tmp_path / "token").write_text(f"{SECRET}\n")
    assert Access.told(tmp_path / "token").authorization == f"Bearer {SECRET}"
    (tmp_path / "empty").write_text("")
    with pytest.raises(SpecError):
        Access.told(tmp_path / "empty")
    with pytest.raises(SpecError) as caught:
        Client(f"http://ann:{SECRET}@127.0.0.1")
    assert SECRET not in str(caught.value)


def test_long_questions_are_posted():
    """A list of machines may be longer than an address may be."""
    with lying(lambda *_: Told(body=MATRIX % b"")) as (url, asked), Client(f"{url}/p/") as client:
        client.samples("x" * 5000, 0, 1000)
        client.samples("x", 0, 1000)
    first, second = asked
    assert (first.method, first.path.partition("?")[0]) == ("POST", "/p/api/v1/query")
    assert second == Asked("GET", "/p/api/v1/query?query=x%5B1000ms%5D&time=0.999", "")


def test_warnings_are_kept():
    """A part of a federation that did not answer is said beside the rest."""
    body = b'{"warnings":["store down"],' + (MATRIX % b"")[1:]
    with lying(lambda *_: Told(body=body)) as (url, _), Client(url) as client:
        client.samples("x", 0, 1000)
        assert client.warnings == {"store down"}


def test_json_with_blanks_is_json():
    """A proxy may write an answer anew."""
    told = b'{"metric": {"gpu": "0"}, "values": [ [0, "1.5"],\n [1.5,\t"NaN"] ]}'
    with lying(lambda *_: Told(200, MATRIX % told)) as (url, _), Client(url) as client:
        found = answers.samples(client.samples("up", 0, 2000), 0, 2000)
    assert (found.counts.tolist(), found.at_ms.tolist()) == ([2], [0, 1500])
    assert found.values[0] == 1.5
