"""Tensor core operations: issued in order, run some time before they are waited for.

Operands that are loaded and accumulators that are stored are there when the statement is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from artifact.choreo import syntax
from artifact.choreo.barriers import is_operand
from artifact.choreo.interpret_agents import Operation
from artifact.choreo.interpret_fragments import ROWS, Fragment
from artifact.choreo.interpret_memory import Box, Tile, round_bf16
from artifact.choreo.interpret_threads import Steps, Threads
from artifact.choreo.tables import ViewPlan, WaitPlan
from artifact.choreo.views import squeezed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def issue(threads: Threads, node: syntax.Mma) -> Steps:
    """One statement, one operation; it reads its operands when it runs."""
    yield None
    plan = threads.tables.mmas[node]
    accumulator = threads.fragments[threads.tables.uses[node.accumulator]]
    if not accumulator.busy:
        accumulator.target(node)
    operation = Operation(threads, node, "the MMA")
    operation.after = threads.mmas[-1][0] if threads.mmas else None
    used = [accumulator]
    tile, box = threads.places.tile(plan.b, node)
    tile.read(operation, box, node)
    rows: tuple[Tile, Box] | Fragment
    if isinstance(plan.a, ViewPlan):
        a_tile, a_box = threads.places.tile(plan.a, node)
        # The warpgroup reads all of it, whichever warp comes first.
        a_tile.read(operation, a_box, node)
        first = a_box[0] + ROWS * threads.warp
        rows = a_tile, (first, first + ROWS, a_box[2], a_box[3])
    else:
        rows = threads.fragments[plan.a]
        rows.lend(operation, node)
        used.append(rows)
    transposed = node.b_order == "row"

    def run() -> None:
        a = rows.matrix() if isinstance(rows, Fragment) else rows[0].part(rows[1])
        b = tile.part(box)
        accumulator.accumulate(_product(a, b.T if transposed else b))

    accumulator.begin(operation, clears=plan.clears)
    operation.action = run
    threads.mmas.append((operation, tuple(used)))
    threads.block.start(operation)
    for symbol in threads.tables.declares.get(node, ()):
        threads.futures[symbol] = operation
    if not node.is_async:
        yield from _drain(threads, 0, node)


def _product(a: Array, b: Array) -> Array:
    import numpy as np

    with np.errstate(all="ignore"):
        return a @ b


def _drain(threads: Threads, depth: int, node: syntax.Node) -> Steps:
    """Until at most ``depth`` operations are in flight."""
    while len(threads.mmas) > depth:
        operation, used = threads.mmas[0]
        yield from threads.complete(operation, node)
        for fragment in used:
            fragment.end(operation)
        del threads.mmas[0]


def wait_mma(
    threads: Threads, plan: WaitPlan, future: Operation | None, node: syntax.Node
) -> Steps:
    """A wait as it was planned: by how many operations may stay in flight.

    Raises:
        InterpreterError: ``in-flight``: the future is one of those.
    """
    yield from _drain(threads, plan.depth, node)
    if any(operation is future for operation, _ in threads.mmas):
        raise threads.report.error(
            "in-flight", node, f"{future} is still in flight after this wait leaves {plan.depth}"
        )


def load(threads: Threads, node: syntax.MmaLoad, fragment: Fragment) -> Steps:
    """Each warp reads its rows of a tile."""
    yield None
    tile, box = threads.places.tile(squeezed(threads.tables.views[node.source]), node)
    first = box[0] + ROWS * threads.warp
    own = (first, first + ROWS, box[2], box[3])
    tile.read(threads, own, node)
    target = fragment.target(node)
    target[...] = tile.part(own).reshape(target.shape)


def store(threads: Threads, node: syntax.MmaStore) -> Steps:
    """Each warp stores its rows, rounded to BF16."""
    yield None
    plan = threads.tables.views[node.destination]
    fragment = threads.fragments[threads.tables.uses[node.accumulator]]
    fragment.values(node)
    values = round_bf16(fragment.matrix())
    offset = ROWS * threads.warp
    if plan.root.kind == "tensor":
        window = threads.places.window(plan, node, partial=True)
        left = min(threads.places.rows_left(plan) - offset, ROWS)
        if left > 0:
            window.down(offset).store(values, left)
        return
    tile, box = threads.places.tile(plan, node)
    own = (box[0] + offset, box[0] + offset + ROWS, box[2], box[3])
    tile.write(threads, own, node)
    tile.part(own)[...] = values
    if is_operand(threads.tables, node):
        # Shown to the tensor cores, and to the other warps, when the warpgroup has written.
        yield from threads.meet_warpgroup(node)
