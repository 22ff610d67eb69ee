"""Names: what declares, what assigns, what shadows."""

from __future__ import annotations

from collections.abc import Callable

from artifact.choreo import syntax


def test_a_new_name_is_declared_and_a_mutable_one_assigned(threads: Callable) -> None:
    analysed = threads("mutable k = 0;\nif (n > 0) {\n  k = k + 1;\n  x = 2;\n}").clean()
    declaring, assigning = analysed.symbol("x"), analysed.symbol("k")
    (assign, new) = [
        s for s in analysed.all(syntax.Assign) if getattr(s.target, "id", "") in ("k", "x")
    ]
    assert analysed.tables.uses[assign.target] is assigning
    assert assign not in analysed.tables.declares
    assert analysed.tables.declares[new] == (declaring,)
    assert (declaring.kind, assigning.kind) == ("scalar", "mutable")


def test_an_outer_immutable_is_shadowed_with_an_info(threads: Callable) -> None:
    analysed = threads("x = 1;\nif (n > 0) {\n  x = 2;\n  y = x;\n}\nz = x;")
    assert analysed.codes == []
    assert analysed.place("shadows") == "x = 2;"
    outer, inner = [s for s in analysed.tables.symbols if s.name == "x"]
    uses = {s: n.span.line for n, s in analysed.tables.uses.items() if s in (outer, inner)}
    assert uses[inner] < uses[outer]


def test_the_same_scope_does_not_assign_an_immutable(threads: Callable) -> None:
    analysed = threads("x = 1;\nx = 2;")
    assert analysed.codes == ["not-assignable"]
    assert analysed.place("not-assignable") == "x"
    assert analysed.said("not-assignable").repair == "declare it 'mutable'"


def test_a_compound_assignment_needs_a_mutable_also_outside(threads: Callable) -> None:
    assert threads("x = 1;\nif (n > 0) {\n  x += 2;\n}").codes == ["not-assignable"]


def test_a_loop_variable_is_counted_by_its_loop(threads: Callable) -> None:
    assert threads("foreach {i} in [n] {\n  i = 2;\n}").codes == ["not-assignable"]


def test_a_name_ends_with_its_block(threads: Callable) -> None:
    analysed = threads("{\n  inner = 1;\n}\ny = inner;")
    assert analysed.codes == ["undeclared"]


def test_a_near_name_is_offered(threads: Callable) -> None:
    assert threads("x = tilee;").said("undeclared").repair == "did you mean tile?"


def test_dimension_symbols_are_declared_once(threads: Callable) -> None:
    analysed = threads("x = S + B;").clean()
    dimensions = [s for s in analysed.tables.symbols if s.kind == "dimension"]
    assert [s.name for s in dimensions] == ["B", "S", "H", "N"]
    assert all(s.type == "u32" and s.host for s in dimensions)


def test_a_fill_sets_the_visible_accumulator_again(consumer: Callable) -> None:
    analysed = consumer(
        "acc = mma.fill.f32 0.0f;\n"
        "mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n"
        "foreach {i} in [n] {\n  acc = mma.fill.f32 0.0f;\n"
        "  mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n}"
    ).clean()
    fills = analysed.all(syntax.MmaFill)
    assert len({analysed.tables.fills[f] for f in fills}) == 1
    assert [f in analysed.tables.declares for f in fills] == [True, False]


def test_an_accumulator_filled_in_a_loop_is_local_to_it(consumer: Callable) -> None:
    analysed = consumer(
        "foreach {i} in [n] {\n  acc = mma.fill.f32 0.0f;\n"
        "  mma.row.row acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\n}\n"
        "all_reduce_sum(acc);"
    )
    assert analysed.codes == ["undeclared"]


def test_a_future_may_be_bound_anew_in_each_pass_but_once_a_scope(consumer: Callable) -> None:
    issue = "qk = mma.row.row.async acc, q_tile.subspan(64, 128).at(cid, 0), ring[0];\nwait qk;\n"
    consumer(f"acc = mma.fill.f32 0.0f;\nforeach {{i}} in [n] {{\n{issue}}}\n{issue}").clean()
    assert consumer(f"acc = mma.fill.f32 0.0f;\n{issue}{issue}").codes == ["declared-twice"]


def test_the_name_of_an_anonymous_buffer_is_a_buffer(threads: Callable) -> None:
    analysed = threads(
        "tile_s = dma.copy.swiz<128> q.subspan(128, 128).at(tile, 0) => shared;\n"
        "v = tile_s.subspan(64, 128).at(1, 0);"
    ).clean()
    view = next(v for v in analysed.all(syntax.View) if getattr(v.base, "id", "") == "tile_s")
    plan = analysed.tables.views[view]
    assert (plan.root.kind, plan.root.name, plan.root.type) == ("shared", "tile_s", "bf16")


def test_host_scalars_are_of_the_host(whole: Callable) -> None:
    analysed = whole(
        "__co__ void f(global f32 [N] x, int n) {\n  int past = N - 3;\n"
        "  parallel b by N : block {\n    y = past;\n  }\n}\n"
    )
    assert analysed.codes == []
    assert analysed.symbol("past").host
    assert not analysed.symbol("y").host


def test_a_name_that_an_included_header_may_define(whole: Callable) -> None:
    text = "__co__ void f(global f32 [N] x) {\n  y = TILE_ROWS;\n}\n"
    assert whole(text).said("undeclared").repair == "declare or #define TILE_ROWS"
    analysed = whole(f'#include "shape.h"\n#include <cstdio>\n#include "../tiles.h"\n{text}')
    assert analysed.said("undeclared").repair == (
        "declare or #define TILE_ROWS in this file, also if shape.h or ../tiles.h defines it"
    )
