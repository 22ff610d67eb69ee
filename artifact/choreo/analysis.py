"""The passes in their order: a file's syntax tree to the tables of its ``__co__`` functions.

Each pass is a module that can be read alone; its docstring lists its rules and the sections of the
language reference that they come from. A pass reads the tree and the tables of those before it.
Where its errors leave no ground for the next one, a function's analysis ends there.

Splitting, sinking and halving are no such passes: each makes another tree of one without errors,
through which all passes then go again.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.arrivals import check_arrivals
from artifact.choreo.barriers import check_barriers
from artifact.choreo.calls import check_calls
from artifact.choreo.comparisons import check_comparisons
from artifact.choreo.conversions import check_conversions
from artifact.choreo.definitions import check_definitions
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.event_rules import check_rules
from artifact.choreo.event_targets import check_targets
from artifact.choreo.events import gather, plan_events
from artifact.choreo.fragments import plan_fragments
from artifact.choreo.function_names import check_function_names
from artifact.choreo.futures import plan_futures
from artifact.choreo.halving import halve_conversions
from artifact.choreo.handoffs import check_handoffs
from artifact.choreo.hazards import check_hazards
from artifact.choreo.jumps import check_jumps
from artifact.choreo.levels import plan_levels
from artifact.choreo.liveness import check_liveness
from artifact.choreo.load_order import check_load_order
from artifact.choreo.local_buffers import plan_locals
from artifact.choreo.mma import plan_mmas
from artifact.choreo.moves import Moved
from artifact.choreo.names import resolve
from artifact.choreo.order_rules import check_orders
from artifact.choreo.preprocess import quoted_includes
from artifact.choreo.register_owners import check_owners
from artifact.choreo.resources import check_resources
from artifact.choreo.scalars import check
from artifact.choreo.shared import place_buffers
from artifact.choreo.sinking import sink_scalings
from artifact.choreo.splitting import split_stores
from artifact.choreo.tables import Tables
from artifact.choreo.threads import ThreadValues, plan_threads
from artifact.choreo.tile_orders import check_tile_orders
from artifact.choreo.transfers import plan_transfers
from artifact.choreo.traverse import Places
from artifact.choreo.views import plan_views
from artifact.choreo.votes import check_votes


def analyse(
    file: syntax.File, diagnostics: Diagnostics, *, move: bool = True
) -> dict[syntax.Function, Tables]:
    """Everything known about each function; complete where ``diagnostics`` has no error.

    Args:
        file: The syntax tree.
        diagnostics: Where the findings go: all are about the statements as the source orders them.
        move: Whether statements may be moved; then the tables are about the tree that came of it.
    """
    functions = [part for part in file.parts if isinstance(part, syntax.Function)]
    check_function_names(functions, diagnostics)
    headers = quoted_includes(file)
    return {function: _analyse(function, diagnostics, headers, move) for function in functions}


def _analyse(
    function: syntax.Function, diagnostics: Diagnostics, headers: tuple[str, ...], move: bool
) -> Tables:
    tables = Tables(function)
    # An error of another function does not end the analysis of this one.
    own = Diagnostics(diagnostics.path, diagnostics.text)
    _run(tables, own, headers)
    for diagnostic in own.found:
        if diagnostic not in diagnostics.found:
            diagnostics.found.append(diagnostic)
    if own.failed or not move:
        return tables
    tables = _moved(tables, split_stores(tables, Places(function)), diagnostics, headers)
    places = Places(tables.function)
    tables = _moved(tables, sink_scalings(tables, places), diagnostics, headers)
    return _moved(tables, halve_conversions(tables), diagnostics, headers)


def _moved(
    tables: Tables, moved: Moved | None, diagnostics: Diagnostics, headers: tuple[str, ...]
) -> Tables:
    """The tables of a tree in which statements moved; those of the old one if they may not."""
    if moved is None:
        return tables
    again = Tables(moved.function, {**tables.moved, **moved.notes})
    own = Diagnostics(diagnostics.path, diagnostics.text)
    _run(again, own, headers)
    # A rule that the new order breaks is none that the source broke: the old one stays.
    return tables if own.failed else again


def _run(tables: Tables, diagnostics: Diagnostics, headers: tuple[str, ...]) -> None:
    resolve(tables, diagnostics, headers)
    if diagnostics.failed:
        return
    conversions = check(tables, diagnostics)
    plan_levels(tables, diagnostics)
    if diagnostics.failed:
        return
    places = Places(tables.function)
    check_jumps(tables, diagnostics, places)
    values = ThreadValues(tables, places)
    plan_threads(tables, diagnostics, values)
    check_conversions(tables, diagnostics, conversions, values)
    check_votes(tables, diagnostics, values, places)
    plan_views(tables, diagnostics, values)
    if diagnostics.failed:
        return
    place_buffers(tables, diagnostics)
    plan_fragments(tables, diagnostics)
    if diagnostics.failed:
        return
    check_comparisons(tables, diagnostics)
    plan_locals(tables, diagnostics, values, places)
    plan_mmas(tables, diagnostics, values, places)
    plan_futures(tables, diagnostics)
    found = gather(tables, diagnostics, values, places)
    check_targets(tables, diagnostics, found, places, values)
    check_orders(tables, diagnostics, found, places)
    check_liveness(tables, diagnostics, found, places)
    check_definitions(tables, diagnostics)
    check_owners(tables, diagnostics)
    plan_events(tables, diagnostics, found, places)
    plan_transfers(tables, diagnostics, values, places)
    check_rules(tables, diagnostics, found, places)
    check_hazards(tables, diagnostics, found, places)
    check_arrivals(tables, diagnostics, found, places)
    check_handoffs(tables, diagnostics, found, places)
    check_tile_orders(tables, diagnostics, found, places)
    check_load_order(tables, diagnostics, values, found, places)
    check_barriers(tables, diagnostics)
    check_calls(tables, diagnostics)
    check_resources(tables, diagnostics, values, places)
