"""The plan checker: does this plan keep every promise? It shares no code with the layers.

It adds up what a plan takes and names each promise that would be broken: nothing over-committed,
gangs whole, constraints and limits kept, evictions within their rights, nothing asked twice. It
runs before every act, in tests, in the twin and in production; its cost grows with the plan, not
with the fleet. Reservations are the exception: whether somebody is delayed by who passes it depends
on all nodes and all that runs. What is free and who ends when is kept from plan to plan, by what
changed; but after some changes all is read again, so it is asked of every plan on a fleet of up to
``READ_AT_ONCE`` nodes and running jobs, and on larger ones of one plan in so many that its cost
stays as small.

A plan is read in columns (``reading``, compiled); rare kinds of actions in Python (``rare``).
"""

import numpy as np

from tidemill.engine.check import endings, order, reading, reservations, words
from tidemill.engine.check.book import Book
from tidemill.engine.check.columns import RULE, SUM, Rows
from tidemill.engine.check.rare import Rare
from tidemill.engine.check.telling import PLACE
from tidemill.model.batch import Batch, EventColumn
from tidemill.model.batch.convert import to_event
from tidemill.model.batch.sheet import rows_of
from tidemill.model.columns import AT
from tidemill.model.errors import PlanRefused
from tidemill.model.events import Plan
from tidemill.model.orders import BY_SHAPE
from tidemill.model.policy import Policy
from tidemill.model.world import World

LINE_READ_AT_ONCE = 64
"""Waiting jobs; an order in Python takes as long to rank so many as a plan takes to be made."""


class Checker:
    """Reads the plans for one cluster state; remembers what it read of nodes, shapes and queues."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._book = Book(world)
        self._policy: Policy | None = None

    def check(self, plan: Plan, policy: Policy) -> None:
        """Refuse a plan that would break a promise."""
        batch = rows_of(plan)
        if not len(batch.events):
            return
        world = self.world
        is_turn = reservations.is_turn(world.seq, world.node_count, len(world.placements))
        in_line = 1 + world.matrices.at.item(AT.WAITING) // LINE_READ_AT_ONCE
        found = self.violations(
            plan, policy, reads_fleet=is_turn, reads_lines=world.seq % in_line == 0
        )
        if found:
            now_ms = world.now_ms
            raise PlanRefused(
                f"a plan at {now_ms} ms would break {len(found)} promises: " + "; ".join(found),
                hint="nothing was carried out; this is a bug, please report it with the journal",
            )

    def violations(
        self, plan: Plan, policy: Policy, *, reads_fleet: bool = True, reads_lines: bool = True
    ) -> list[str]:
        """Everything that is wrong with a plan, in words; empty when it is right.

        Whether somebody is delayed by who passes it can only be said by reading all that runs; who
        is next in an order that kernels do not know, by asking the order about all that wait.
        """
        batch = rows_of(plan)
        wrong, lost = self._read(batch, policy)
        if lost:
            self._book.make_wrongs(len(wrong) + lost)
            wrong, _ = self._read(batch, policy)
        if reads_lines and not wrong and self._is_asked(policy):
            wrong += self._out_of_order(batch, policy)
        at, reg = self.world.matrices.at, self._book.sums.reg
        if reads_fleet and not wrong and reservations.is_judged(at, reg):
            self._read_passing(batch)
            wrong += self._told(batch)
        return wrong

    def _read(self, batch: Batch, policy: Policy) -> tuple[list[str], int]:
        """What is wrong with a plan by itself, and how much of it there was no room to say."""
        lost = 0
        book, rows = self._book, Rows(batch.events, batch.pieces)
        book.read()
        self.take(policy)
        book.sums.reg[SUM.ROWS] = len(batch.events)
        view, sums, e, rare = book.view, book.sums, 0, None
        wrong: list[str] = []
        while True:
            e = reading.read(view, sums, book.facts, rows, e)
            lost += max(0, sums.reg.item(SUM.WRONGS) - len(sums.wrong))
            wrong += self._told(batch)
            if e >= len(batch.events):
                return wrong, lost
            rare = rare or Rare(book, policy, rows)
            rare.read(to_event(batch, e), e)
            wrong += rare.wrong
            rare.wrong = []
            e += 1

    def laid_out(self, policy: Policy, jobs: int) -> Book:
        """The columns as kernels take them, for so many jobs."""
        self._book.read()
        self._book.make_names(jobs)
        self.take(policy)
        return self._book

    def take(self, policy: Policy) -> None:
        """Write into the registers what a policy says, and when the mix was looked at."""
        reg = self._book.sums.reg
        reg[SUM.MIX_POINT] = self.world.mix_point
        if policy is not self._policy:
            self._policy = policy
            order.write(policy, reg)

    def _is_asked(self, policy: Policy) -> bool:
        """Whether the order is one that kernels do not know, and nobody makes room."""
        if policy.order in BY_SHAPE or policy.may_reorder or self.world.promised:
            return False
        if self._book.sums.reg[SUM.ORDER]:
            return False
        return bool(self._book.sums.reg[SUM.PLACES_ONLY])

    def _out_of_order(self, batch: Batch, policy: Policy) -> list[str]:
        """Who is placed before one that asks for the same and goes first, in words."""
        world, events = self.world, batch.events
        rows = events[events[:, EventColumn.KIND] == PLACE, EventColumn.WHO].tolist()
        found = order.left_waiting(world, policy, dict.fromkeys(rows))
        return [
            words.sentence(world, batch, np.array((RULE.OUT_OF_ORDER, 0, j, other, 0)))
            for j, other in found.items()
        ]

    def _read_passing(self, batch: Batch) -> None:
        """Look for somebody whom those who pass it delay."""
        book, moving = self._book, list(self.world.moving)
        sums = book.sums
        sums.named[moving] += endings.MOVING
        rows = Rows(batch.events, batch.pieces)
        reservations.read_passing(book.view, sums, book.facts, rows, book.yard())
        sums.named[moving] -= endings.MOVING

    def _told(self, batch: Batch) -> list[str]:
        """What kernels found, in words; and forget it."""
        sums = self._book.sums
        count = sums.reg.item(SUM.WRONGS)
        sums.reg[SUM.WRONGS] = 0
        return [words.sentence(self.world, batch, row) for row in sums.wrong[:count]]


def check(world: World, plan: Plan, policy: Policy) -> None:
    """Refuse a plan that would break a promise."""
    Checker(world).check(plan, policy)


def violations(world: World, plan: Plan, policy: Policy) -> list[str]:
    """Everything that is wrong with a plan, in words; empty when it is right."""
    return Checker(world).violations(plan, policy)
