"""Rows of Python written into the columns: roles of shapes, tiers, pieces handed to a kernel."""

import numpy as np

from tidemill.model.batch.sheet import columns_of
from tidemill.model.columns import AT, IN_A_LINE, PIECE, SHAPE
from tidemill.model.rows import Piece
from tidemill.model.states import JobClass
from tidemill.model.world import World

Pieces = tuple[Piece, ...]
PIECES_AT_LEAST = 256


def write_roles(world: World, s: int) -> None:
    """What the replicas of a shape ask for, as numbers; the rows of shapes are in their order."""
    shape, before = world.shape_rows[s], world.ink.w.shapes[s - 1]
    first = int(before[SHAPE.FIRST_ROLE] + before[SHAPE.ROLES]) if s else 0
    if first + len(shape.roles) > len(world.ink.w.roles):
        world.grow(roles=first + len(shape.roles))
    row = world.ink.w.shapes[s]
    row[SHAPE.FIRST_ROLE], row[SHAPE.ROLES] = first, len(shape.roles)
    row[SHAPE.IS_LASTING] = shape.kind is JobClass.INFERENCE
    row[SHAPE.IS_TRAINING] = shape.kind is JobClass.TRAINING
    row[SHAPE.IS_INTERACTIVE] = shape.kind is JobClass.INTERACTIVE
    row[SHAPE.IS_ELASTIC] = 0
    if shape.elastic_role is not None:
        row[SHAPE.IS_ELASTIC] = 1 if shape.speedup else IN_A_LINE
    row[SHAPE.IS_PREEMPTIBLE] = shape.is_preemptible
    row[SHAPE.MAY_PREEMPT] = shape.may_preempt
    row[SHAPE.WIDEST] = max(role.accelerators for role in shape.roles)
    for r, role in enumerate(shape.roles):
        world.ink.w.roles[first + r] = (
            role.accelerators, role.milli, role.cpu_milli, role.memory_mib, role.count, role.least,
            bool(role.profile),
        )  # fmt: skip


def make_pieces(world: World, count: int) -> None:
    """See to it that so many rows of the pool of pieces have nobody."""
    if world.ink.w.at[AT.PIECES] + count > len(world.ink.w.pieces):
        _make_pieces(world, count)


def write_tiers(world: World) -> None:
    """How many tiers there are, and how many devices a block has of those inside the node."""
    tiers = world.topology.tiers
    world.renew(blocks=np.array([tier.devices for tier in tiers], np.int64))
    world.ink.w.at[AT.TIERS], world.ink.w.at[AT.LABELLED] = len(tiers), world.topology.labelled


def write_found(world: World, pieces: Pieces) -> int:
    """Hand pieces to a kernel that takes them; how many. The pool has room for them afterwards."""
    w, count = world.ink.w, len(pieces)
    if count > len(w.found):
        world.grow(found=count)
    make_pieces(world, count)
    if count:
        found = world.ink.w.found
        found[:count, PIECE.ROLE : PIECE.SLICES + 1] = [columns_of(piece) for piece in pieces]
    return count


def _make_pieces(world: World, count: int) -> None:
    """Add rows that nobody has to the pool of pieces."""
    before = len(world.ink.w.pieces)
    world.grow(pieces=max(before + count, PIECES_AT_LEAST))
    w = world.ink.w
    after, end = w.at.item(AT.FREE_PIECE), len(w.pieces)
    w.pieces[before:end, PIECE.NEXT_OF_JOB] = [*range(before + 1, end), after]
    w.at[AT.FREE_PIECE] = before
