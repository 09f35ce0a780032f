"""What a loop may do with a run, and what is written then."""

import copy
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.track.played import kinds, steps, stretches, whole
from tidemill import track
from tidemill.live.track.records import (
    BeganRecord,
    CheckpointBegunRecord,
    CheckpointFailedRecord,
    CheckpointSavedRecord,
    EfficiencyRecord,
    EndedRecord,
    RestartedRecord,
    RestoredRecord,
)


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run of the tests is told where to write, or who it is."""
    for name in ("TIDEMILL_TRACK", "TIDEMILL_JOB", "SLURM_JOB_ID", "RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)


def test_a_loop_is_told_from_beginning_to_end(tmp_path: Path):
    """Steps, parts, a checkpoint and the end; the stretches of time leave no gap."""
    with track.job("train", to=f"file:{tmp_path}", team="lab", gpus=8) as run:
        run.restored(step=40)
        for batch in run.batches([3, 4]):
            with run.step(tokens=batch, flops=2.5e9), run.communication():
                pass
        with run.checkpoint(size=77):
            pass
    records = whole(tmp_path).records
    assert kinds(records) == [
        "job_began", "restored", "checkpoint_begun", "checkpoint_saved", "job_ended",
    ]  # fmt: skip
    began = next(one for one in records if isinstance(one, BeganRecord))
    assert (began.job, began.team, began.gpus, began.rank, began.world) == (
        "train", "lab", 8, 0, None,
    )  # fmt: skip
    told = stretches(records)
    assert [one.from_us for one in told[1:]] == [one.until_us for one in told[:-1]]
    done = [one for one in told if one.steps]
    assert (done[0].first_step, done[-1].last_step) == (41, 42)
    assert sum(one.tokens or 0 for one in done) == 7
    assert sum(one.mflop or 0 for one in done) == 5000
    assert all(one.samples is None for one in told)
    assert told[-1].communication_us is not None
    saved = next(one for one in records if isinstance(one, CheckpointSavedRecord))
    assert (saved.step, saved.bytes, saved.checkpoint) == (42, 77, 1)
    assert [one.outcome for one in records if isinstance(one, EndedRecord)] == ["finished"]


def test_parts_that_a_loop_does_not_tell_apart_are_unknown(tmp_path: Path):
    """No `data_us` of 0 where nobody measured the waiting for data."""
    with track.job("train", to=f"file:{tmp_path}") as run, run.step():
        pass
    last = stretches(whole(tmp_path).records)[-1]
    assert (last.data_us, last.communication_us, last.checkpoint_us) == (None, None, None)
    assert last.compute_us is not None


def test_a_step_within_a_step_is_part_of_it(tmp_path: Path):
    """A callback and a hand-written block around it count one step together."""
    with track.job("train", to=f"file:{tmp_path}") as run:
        with run.step(tokens=3), run.step(tokens=5):
            pass
        assert run.last_step == 1
    records = whole(tmp_path).records
    assert steps(records) == 1
    assert [one.tokens for one in stretches(records) if one.steps] == [3]


def test_exceptions_pass_untouched(tmp_path: Path):
    """The loop sees its own exception; the step does not count, the run is told as failed."""
    own = KeyError("mine")
    made = track.job("train", to=f"file:{tmp_path}")
    with pytest.raises(KeyError) as caught, made as run, run.step(), run.data():
        raise own
    assert caught.value is own
    records = whole(tmp_path).records
    assert steps(records) == 0
    ended = records[-1]
    assert isinstance(ended, EndedRecord)
    assert (ended.outcome, ended.error) == ("failed", "KeyError")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(SystemExit(0), "finished"), (SystemExit(3), "failed"), (KeyboardInterrupt(), "interrupted")],
)
def test_how_a_run_ended(tmp_path: Path, error: BaseException, outcome: str):
    """Leaving with code 0 is no failure, and an interruption is one of its own."""
    with pytest.raises(type(error)), track.job("train", to=f"file:{tmp_path}"):
        raise error
    ended = whole(tmp_path).records[-1]
    assert isinstance(ended, EndedRecord)
    assert ended.outcome == outcome


def test_the_end_is_the_last_word(tmp_path: Path):
    """A second thread that collects while the run is closed tells no stretch after the end."""
    run = track.job("train", to=f"file:{tmp_path}")
    with run.step():
        pass
    told = run.tell

    def tell(kind: str, **fields: object) -> None:
        told(kind, **fields)
        run._fold(is_cut=True)  # as the second thread does

    run.tell = tell  # type: ignore[method-assign]
    run.close("finished")
    assert isinstance(whole(tmp_path).records[-1], EndedRecord)


def test_a_checkpoint_that_fails_is_told(tmp_path: Path):
    """Begun and failed, never saved; also where the loop catches the exception and goes on."""
    made = track.job("train", to=f"file:{tmp_path}")
    with made as run, pytest.raises(OSError, match="full"), run.checkpoint(step=9):
        raise OSError("full")
    records = whole(tmp_path).records
    assert kinds(records)[1:3] == ["checkpoint_begun", "checkpoint_failed"]
    failed = next(one for one in records if isinstance(one, CheckpointFailedRecord))
    assert (failed.step, failed.error) == (9, "OSError")


def test_saving_beside_the_loop(tmp_path: Path):
    """Saved is told by another thread; the loop stood still for the copy alone."""
    with track.job("train", to=f"file:{tmp_path}") as run:
        with run.step():
            pass
        saving = run.checkpoint_begun()
        with saving.stall():
            pass
        with run.step():
            pass
        writer = threading.Thread(target=saving.saved, args=(512,))
        writer.start()
        writer.join()
        saving.failed("too late")  # it is saved
    records = whole(tmp_path).records
    (begun,) = (one for one in records if isinstance(one, CheckpointBegunRecord))
    (saved,) = (one for one in records if isinstance(one, CheckpointSavedRecord))
    assert begun.is_async
    assert (begun.step, saved.step, saved.bytes) == (1, 1, 512)
    assert sum(one.checkpoint_us or 0 for one in stretches(records)) < 1_000_000


def test_steps_of_another_thread_are_not_counted_and_that_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The times of a run are those of one thread; a loop elsewhere goes on, and learns why."""

    def loop() -> None:
        for _ in range(3):
            with run.step():
                pass

    with track.job("train", to=f"file:{tmp_path}") as run:
        worker = threading.Thread(target=loop)
        worker.start()
        worker.join()
    assert sum(one.steps for one in stretches(whole(tmp_path).records)) == 0
    assert caplog.text.count("steps of another thread than the one that called `track.job`") == 1


def test_a_loop_says_when_it_works_and_works_again(tmp_path: Path):
    """What was before a restart is told apart from what came after it."""
    with track.job("a", to=f"file:{tmp_path}", every_s=60) as run:
        with run.step():
            pass
        run.restart(step=0)
        with run.step():
            pass
    records = whole(tmp_path).records
    first, second = (one for one in stretches(records) if one.steps)
    (back,) = (one for one in records if isinstance(one, RestartedRecord))
    assert first.up_us is not None
    assert second.up_us is not None
    assert first.up_us < first.until_us == second.from_us == back.at_us < second.up_us


def test_restarts_and_efficiency(tmp_path: Path):
    """A loop that begins again counts from its checkpoint; figures keep their source."""
    with track.job("train", to=f"file:{tmp_path}") as run:
        run.restart(step=12, why="loss spike")
        with run.step():
            pass
        run.efficiency(mfu=0.415, flops_per_s=4.1e14, peak_flops_per_s=989e12, source="profiler")
    records = whole(tmp_path).records
    (restart,) = (one for one in records if isinstance(one, RestartedRecord))
    assert (restart.step, restart.why) == (12, "loss spike")
    (told,) = (one for one in records if isinstance(one, EfficiencyRecord))
    assert (told.mfu_ppm, told.mflop_per_s, told.peak_mflop_per_s, told.source) == (
        415_000, 410_000_000, 989_000_000, "profiler",
    )  # fmt: skip
    assert [one.last_step for one in stretches(records) if one.steps] == [13]


class Bad:
    """Whatever is done to it raises."""

    def __mul__(self, other: object) -> object:
        raise RuntimeError("CUDA error")


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf"), "many", 2**80, Bad(), [1]])
def test_what_is_no_amount_is_unknown(
    tmp_path: Path, amount: object, caplog: pytest.LogCaptureFixture
):
    """A loop that gives nonsense goes on; the step counts, its amount is unknown, and told so."""
    with track.job("train", to=f"file:{tmp_path}") as run:
        with run.step(tokens=amount, flops=amount):  # type: ignore[arg-type]
            pass
        run.restored(amount)  # type: ignore[arg-type]
        run.efficiency(mfu=amount)  # type: ignore[arg-type]
    records = whole(tmp_path).records
    assert steps(records) == 1
    assert all(one.tokens is None and one.mflop is None for one in stretches(records))
    assert [one.step for one in records if isinstance(one, RestoredRecord)] == [None]
    assert "has to be a number from 0 to" in caplog.text


def test_the_device_is_waited_for_only_where_asked(tmp_path: Path):
    """`sync` is called around the blocks that ask for it, and not when they fail."""
    calls: list[str] = []
    with track.job("train", to=f"file:{tmp_path}", sync=lambda: calls.append("sync")) as run:
        with run.step(), run.data():
            pass
        assert calls == []
        with run.step(sync=True):
            pass
        assert calls == ["sync"]
        with run.communication(sync=True):
            calls.append("inside")
        assert calls == ["sync", "sync", "inside", "sync"]
        with pytest.raises(ValueError, match="x"), run.step(sync=True):
            raise ValueError("x")
        assert len(calls) == 4


def test_a_loader_stays_what_it_is(tmp_path: Path):
    """Its length, its attributes, and its own exception; it can be gone through again."""

    class Loader(list[int]):
        """A loader with an attribute."""

        batch_size = 16

    with track.job("train", to=f"file:{tmp_path}") as run:
        wrapped = run.batches(Loader([1, 2]))
        assert (len(wrapped), wrapped.batch_size, list(wrapped), list(wrapped)) == (
            2, 16, [1, 2], [1, 2],
        )  # fmt: skip
        assert list(copy.copy(wrapped)) == [1, 2]
        with pytest.raises(ZeroDivisionError):
            list(run.batches(_broken()))


def _broken() -> Iterator[int]:
    yield 1
    yield 1 // 0


def test_other_threads_do_not_count_as_the_loop(tmp_path: Path):
    """A prefetching thread that enters `data` does not change the part that the loop is in."""
    with track.job("train", to=f"file:{tmp_path}") as run:

        def prefetch() -> None:
            with run.data(), run.step():
                pass

        with run.step():
            thread = threading.Thread(target=prefetch)
            thread.start()
            thread.join()
    records = whole(tmp_path).records
    assert steps(records) == 1
    assert all(one.data_us is None for one in stretches(records))


def test_without_an_address_nothing_happens(caplog: pytest.LogCaptureFixture):
    """No thread, no file, no word; the loop is the same."""
    before = threading.active_count()
    with track.job("train") as run:
        for _ in run.batches([1]):
            with run.step(tokens=1):
                pass
        with run.checkpoint():
            pass
        assert run.flush()
        assert threading.active_count() == before
        assert run.last_step == 1  # loops count by it, tracked or not
        run.restored(7)
        assert run.last_step == 7
    assert caplog.text == ""


@pytest.mark.parametrize("to", ["file:", "ftp://there", "http://", "/a/path", "http://a:b"])
def test_an_address_that_is_none_is_told_and_passed_over(to: str, caplog: pytest.LogCaptureFixture):
    """The job runs without being tracked."""
    with caplog.at_level(logging.WARNING), track.job("train", to=to) as run, run.step():
        pass
    assert "goes on without being tracked" in caplog.text


@pytest.mark.parametrize("every_s", ["often", object(), float("nan"), -1])
def test_a_rhythm_that_is_none_is_a_second(
    every_s: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The run is tracked all the same; `to` may be whatever prints as an address."""
    to = tmp_path / "track"
    with track.job("train", to=f"file:{to}", every_s=every_s) as run, run.step():  # type: ignore[arg-type]
        pass
    assert steps(whole(to).records) == 1
    assert "cannot be" in caplog.text


def test_a_process_that_can_have_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Where the system gives no more threads, the job runs without being tracked."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with track.job("train", to=f"file:{tmp_path}") as run, run.step():
        pass
    assert run.last_step == 1
    assert "can't start new thread; the job goes on" in caplog.text


def test_many_quick_steps_make_several_stretches(tmp_path: Path):
    """A stretch is cut after a thousand steps, so what is kept stays small."""
    with track.job("train", to=f"file:{tmp_path}") as run:
        for _ in range(2500):
            with run.step(tokens=1):
                pass
    records = whole(tmp_path).records
    assert steps(records) == 2500
    assert max(one.steps for one in stretches(records)) <= 1000
    assert sum(one.tokens or 0 for one in stretches(records)) == 2500


def test_names_with_anything_in_them(tmp_path: Path):
    """Slashes, line breaks and other scripts stay in the record and out of the file's name."""
    with track.job("../очередь\n/a b\udcff" + "x" * 500, to=f"file:{tmp_path / 'deep' / 'er'}"):
        pass
    (file,) = (tmp_path / "deep" / "er").iterdir()
    assert file.name.isascii()
    began = whole(file).records[0]
    assert began.job.startswith("../очередь /a b?xxx")
    assert len(began.job) == 200
