"""``tidemill schedule kubernetes --shadow``: what our scheduler would do, beside what is done.

It only reads. The cluster's books are kept as ``observe kubernetes`` keeps them; the history that
they tell is played again by the policy into a second journal. How long jobs work is known when they
have ended, so the shadow is played anew with each look, with all that is known by then.
"""

import time
from typing import TYPE_CHECKING, NamedTuple

from tidemill.cli import observers, replay, screen
from tidemill.cli.policy_file import PolicyFile
from tidemill.model.errors import TidemillError

if TYPE_CHECKING:
    from tidemill.api import Replay
    from tidemill.live.kubernetes.api.kubeconfig import ClusterAccess
    from tidemill.live.observing.observer import AnswerTaken, ObserverTerms

PAUSE = 20
"""After so many times as long as the last play took, the next may begin: 5 % of a core."""


class ShadowTerms(NamedTuple):
    """What a shadow was told by whoever started it."""

    journal: str
    into: str
    shadow_of: str
    team_by: str
    autoscaler_namespace: str
    observing: "ObserverTerms"
    pace: observers.AskingPace


def run(access: "ClusterAccess", rules: PolicyFile, terms: ShadowTerms) -> None:
    """Watch, and play what was seen, until a signal comes, or once; the report is the last word."""
    from tidemill.live.kubernetes.watching.source import KubernetesSource

    plays = ShadowPlays(rules, terms)
    with KubernetesSource(
        access, team_by=terms.team_by, autoscaler_namespace=terms.autoscaler_namespace
    ) as source:
        observers.watch(
            source, terms.journal, terms.observing, [], None,
            terms.pace._replace(as_json=False), plays.look,
        )  # fmt: skip
    plays.end()


class ShadowPlays:
    """The plays of one shadow."""

    def __init__(self, rules: PolicyFile, terms: ShadowTerms) -> None:
        self._rules, self._terms = rules, terms
        self._next_s = 0.0

    def look(self, taken: "AnswerTaken") -> None:
        """After an answer: play again, if there is something to play, and say what it comes to."""
        if self._terms.pace.once or not taken.jobs or time.monotonic() < self._next_s:
            return
        from tidemill.cli import shadow_tables

        begun = time.monotonic()
        try:
            done = self._play()
        except TidemillError as error:
            screen.complain(error)
        else:
            for line in shadow_tables.headline((done.seen, done.shadow.statement), done.report):
                screen.note(line)
        self._next_s = time.monotonic() + PAUSE * (time.monotonic() - begun)

    def end(self) -> None:
        """The whole report."""
        names = (self._terms.journal, self._terms.into)
        replay.show(self._play(), names, as_json=self._terms.pace.as_json)

    def _play(self) -> "Replay":
        terms = self._terms
        return replay.play(
            terms.journal, terms.into, self._rules, terms.shadow_of, force=True, is_quiet=True
        )
