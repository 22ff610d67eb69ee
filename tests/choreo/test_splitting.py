"""Warpgroups store their own rows of a tile, only where nothing else needs their meeting."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

import pytest

from artifact.choreo import analysis, splitting, syntax
from artifact.choreo.compiler import compile_text
from artifact.choreo.traverse import Places
from tests.choreo.conftest import TOGETHER
from tests.choreo.test_sinking import printed

Make = Callable[..., Any]

# Two warpgroups multiply 64 rows each, and one tile holds what comes of it.
TILE = """\
__co__ void example(global bf16 [B, S, 128] X, global bf16 [B, S, 128] Y, global bf16 [R, 128] Z,
                    global u32 [N] ids, int n) {
  parallel.async {tile, batch} by [cdiv(S, 128), B] : block {
    x = X.subspan(1, S, 128).at(batch, 0, 0).sqz();
    y = Y.subspan(1, S, 128).at(batch, 0, 0).sqz();
    shared bf16 [128, 128] x_s;
    shared bf16 [128, 128] y_s;
    shared event loaded;
    parallel p by 3 : group-4, t by 128 : thread {
      inthreads.async (p == 0 && t < 32) {
        load = tma.load.async.swiz<128> x.subspan(128, 128).at(tile, 0) => x_s;
        trigger loaded after load;
        // producer
      }
      inthreads.async (p > 0) {
        cid = p - 1;
        wait loaded;
        acc = mma.fill.f32 0.0f;
        mma.row.row acc, x_s.subspan(64, 128).at(cid, 0), x_s;
        // before
        mma.store acc, y_s.subspan(64, 128).at(cid, 0);
        // between
        tma.copy y_s => y.subspan(128, 128).at(tile, 0);
        // behind
      }
    }
  }
}
"""
LOAD = "load = tma.load.async.swiz<128> x.subspan(128, 128).at(tile, 0) => x_s;"
DECLARATION = "shared bf16 [128, 128] y_s;"
FILL = "mma.store acc, y_s.subspan(64, 128).at(cid, 0);"
STORE = "tma.copy y_s => y.subspan(128, 128).at(tile, 0);"
PRODUCT = "mma.row.row acc, x_s.subspan(64, 128).at(cid, 0), x_s;"
NOTE = "Each warpgroup stores its own rows, and meets with itself alone."


def tile(*edits: tuple[str, str]) -> str:
    """The program with edits: of an old text, found once, to a new one."""
    text = TILE
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def unsplit(whole: Make, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A program as it is without the pass."""

    def made(text: str) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(analysis, "split_stores", lambda *_: None)
            return whole(text)

    return made


# Where the rules hold --------------------------------------------------------------------------


def test_each_warpgroup_gets_a_tile_of_its_own(whole: Make, unsplit: Make) -> None:
    before, after = printed(unsplit(TILE).clean()), printed(whole(TILE).clean())
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert changed == [
        (DECLARATION, "shared bf16 [64, 128] y_s[2];"),
        (FILL, "mma.store acc, y_s[cid];"),
        (STORE, "tma.copy y_s[cid] => y.subspan(64, 128).at(tile * 2 + cid, 0);"),
    ]


def test_what_changed_has_its_place_in_the_source_and_a_note(whole: Make) -> None:
    made = whole(TILE)
    lines = TILE.split("\n")
    found = [(lines[s.span.line - 1].strip(), note) for s, note in made.tables.moved.items()]
    assert sorted(found) == sorted((line, NOTE) for line in (DECLARATION, FILL, STORE))
    # Each node is one of its own, as every table needs.
    nodes = list(syntax.walk(made.tables.function.body))
    assert len(nodes) == len(set(nodes))


def test_each_warpgroup_meets_with_itself_and_stores_by_its_first_thread(
    whole: Make, unsplit: Make
) -> None:
    (_, old), (_, new) = unsplit(TILE).transfers(), whole(TILE).transfers()
    assert (old.leaders, old.barrier, old.barrier_threads) == ((128,), 15, 256)
    # The first of two barriers next to each other.
    assert (new.leaders, new.barrier, new.barrier_threads) == ((128, 256), 13, 128)
    assert (old.threads, old.columns, old.rows) == (new.threads, new.columns, 2 * new.rows)


def test_the_tiles_lie_where_the_tile_was(whole: Make, unsplit: Make) -> None:
    old, new = (made.tables.shared[made.symbol("y_s")] for made in (unsplit(TILE), whole(TILE)))
    assert (old.tiles, old.rows, old.tile_bytes) == (1, 128, 32768)
    assert (new.tiles, new.rows, new.tile_bytes) == (2, 64, 16384)
    assert (old.offset, old.columns, old.swizzle) == (new.offset, new.columns, new.swizzle)
    assert unsplit(TILE).tables.shared_bytes == whole(TILE).tables.shared_bytes


def test_the_emitted_text_differs_in_the_tile_its_fill_its_meeting_and_its_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    after = compile_text(TILE, "t.co").cuda.split("\n")
    monkeypatch.setattr(analysis, "split_stores", lambda *_: None)
    before = compile_text(TILE, "t.co").cuda.split("\n")
    found = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    changed = [f"{line[0]} {line[1:].strip()}" for line in found if not line.startswith("@@")]
    tile = "unsigned char* const y_s = shared_base + 32768;  //"
    # What is not here is the same; the last pair is the box of the tensor map.
    assert changed == [
        f"- {tile} bf16 [128, 128], 128-byte swizzle",
        f"+ {tile} 2 x bf16 [64, 128], 128-byte swizzle",
        "- cu::store_fragment<128>(y_s, acc, cid * 64, 128);",
        f"+ // {NOTE}",
        "+ cu::store_fragment<128>(y_s + cid * 16384, acc, 0, 64);",
        "- cu::named_barrier_sync(15, 256);",
        "- if (threadIdx.x == 128) {",
        "- cu::tma_store(&y_s_store_map, y_s, 0, int(batch * S + tile * 128), 0);",
        "+ cu::named_barrier_sync(13 + cu::warpgroup_index() - 1, 128);",
        "+ if (threadIdx.x == 128 || threadIdx.x == 256) {",
        "+ cu::tma_store(&y_s_store_map, y_s + cid * 16384, 0, "
        "int(batch * S + (tile * 2 + cid) * 64), 0);",
        "- {256, 128}, {64, 128, 2}, 128);",
        "+ {256, 128}, {64, 64, 2}, 128);",
    ]


def test_the_host_function_still_demands_whole_tiles() -> None:
    """Rows of a last half tile would be those of the next batch."""
    host = compile_text(TILE, "t.co").cuda.split("void example(")[1]
    assert "S % 128 == 0" in host
    assert "S % 64" not in host


@pytest.mark.parametrize(("name", "edits"), [("v2", ()), ("v4", ()), ("v3", TOGETHER)])
def test_the_host_functions_of_the_kernels_still_demand_whole_tiles(
    edited: Make, name: str, edits: tuple[tuple[str, str], ...]
) -> None:
    cuda = compile_text(edited(name, *edits).text, f"{name}.co").cuda
    assert "// 2 x bf16 [64, 128], 128-byte swizzle" in cuda
    assert cuda.count("S % 128 == 0") == 1
    assert "S % 64" not in cuda


THREE = (("parallel p by 3 ", "parallel p by 4 "), ("cdiv(S, 128)", "cdiv(S, 192)"),
         ("[128, 128] x_s", "[192, 128] x_s"), (LOAD, LOAD.replace("(128, 128)", "(192, 128)")),
         (PRODUCT, PRODUCT.replace(", x_s;", ", x_s.view(128, 128).from(0, 0);")),
         (DECLARATION, "shared bf16 [192, 128] y_s;"),
         (STORE, STORE.replace("(128, 128)", "(192, 128)")))  # fmt: skip
HALF = "mma.row.row acc, x_s.subspan(64, 128).at(cid, 0), x_s.subspan(64, 128).at(0, 0);"


@pytest.mark.parametrize(
    ("edits", "after"),
    [
        (((FILL, FILL.replace("cid", "p - 1")),),
         "tma.copy y_s[p - 1] => y.subspan(64, 128).at(tile * 2 + (p - 1), 0);"),
        (((STORE, STORE.replace("at(tile", "at(cdiv(S, 128) - 1 - tile")),),
         "tma.copy y_s[cid] => y.subspan(64, 128).at((cdiv(S, 128) - 1 - tile) * 2 + cid, 0);"),
        (((STORE, STORE.replace("at(tile", "at(n == 1 ? 0u : tile")),),
         "tma.copy y_s[cid] => y.subspan(64, 128).at((n == 1 ? 0u : tile) * 2 + cid, 0);"),
        (((STORE, STORE.replace("y.sub", "Y.subspan(1, S, 128).at(batch, 0, 0).sqz().sub")),),
         "tma.copy y_s[cid] => Y.subspan(1, S, 128).at(batch, 0, 0).sqz()"
         ".subspan(64, 128).at(tile * 2 + cid, 0);"),
        ((("bf16 [R, 128] Z", "bf16 [S, 128] Z"), (STORE, STORE.replace("y.sub", "Z.sub"))),
         "tma.copy y_s[cid] => Z.subspan(64, 128).at(tile * 2 + cid, 0);"),
        (((PRODUCT, HALF), (DECLARATION, "shared bf16 [128, 64] y_s;"),
          (FILL, FILL.replace("128", "64")),
          (STORE, "tma.copy y_s => y.subspan(128, 64).at(tile, 1);")),
         "tma.copy y_s[cid] => y.subspan(64, 64).at(tile * 2 + cid, 1);"),
        (THREE, "tma.copy y_s[cid] => y.subspan(64, 128).at(tile * 3 + cid, 0);"),
    ],
    ids=["another expression", "tiles from the end", "a row that is chosen",
         "the tensor itself", "a tensor of two dimensions", "half of the columns of the tensor",
         "three warpgroups"],
)  # fmt: skip
def test_other_tiles_are_split_too(
    whole: Make, edits: tuple[tuple[str, str], ...], after: str
) -> None:
    made = whole(tile(*edits)).clean()
    assert len(made.tables.moved) == 3
    assert after in printed(made)


@pytest.mark.parametrize(
    "edits",
    [
        (("        // before\n", "        foreach {i} in [n] {\n"),
         ("        // behind\n", "        }\n")),
        (("        // before\n", "        if (n > 1) {\n"),
         ("        // behind\n", "        }\n")),
        (("        // before\n", "call croq::cuda::setreg_dec(160);\n"
          "call croq::cuda::setreg_inc(168);\n"),),
        (("        // producer\n", "mutable u32 k = ids.at(0);\nk += 2;\nk++;\n"),),
        (("        // before\n", "local u32 [2] own {0};\nown.at(1) = ids.at(0);\n"),),
        (("        // before\n", "apply {i, j} in acc.span\n  acc.at(i, j) = 2.0f;\n"),),
        (("    shared event loaded;\n", "    shared event loaded, again;\n"
          "    shared bf16 [64, 128] small;\n"),
         ("        // producer\n", "more = tma.load.async.swiz<128> x.subspan(64, 128).at(tile, 0) "
          "=> small;\ntrigger again after more;\n"), ("        // before\n", "wait again;\n")),
    ],
    ids=["in a loop", "in a branch", "registers moved", "scalars", "a local buffer", "a fragment",
         "another load"],
)  # fmt: skip
def test_what_no_other_warpgroup_reads_does_not_matter(
    whole: Make, edits: tuple[tuple[str, str], ...]
) -> None:
    assert len(whole(tile(*edits)).clean().tables.moved) == 3


# Where they do not -----------------------------------------------------------------------------


def stays(made: Any) -> None:
    """A program in which nothing is wrong is left alone."""
    tables = made.clean().tables
    assert not tables.moved
    # Not only because the new tree would break a rule.
    assert splitting.split_stores(tables, Places(tables.function)) is None


@pytest.mark.parametrize(
    "edits",
    [
        ((DECLARATION, "shared bf16 [128, 128] y_s[2];"), (FILL, FILL.replace("y_s", "y_s[1]")),
         (STORE, STORE.replace("y_s", "y_s[1]"))),
        (("        // between\n", "mutable u32 k = 0;\n"),),
        ((FILL, "if (n > 1) {\n" + FILL + "\n}"),),
        (("        // producer\n", "rows = y_s.span(0);\n"),),
        (("        // behind\n", "again = mma.load y_s.subspan(64, 128).at(cid, 0);\n"
          "mma.row.row acc, again, x_s;\n"),),
        ((PRODUCT, HALF), (FILL, FILL.replace("128", "64"))),
        ((STORE, STORE.replace("y_s =>", "y_s.subspan(128, 128).at(0, 0) =>")),),
        ((STORE, STORE.replace("at(tile", "step(128, 128).at(tile")),),
        ((STORE, STORE.replace("subspan(128, 128).at(tile,", "view(128, 128).from(tile * 128,")),),
        ((FILL, FILL.replace("at(cid", "step(64, 128).at(cid")),),
        ((FILL, FILL.replace("subspan(64, 128).at(cid,", "view(64, 128).from(cid * 64,")),),
        ((FILL, FILL.replace("cid, 0", "cid, n")),),
        (("        // before\n", "to = y.subspan(128, 128).at(tile, 0);\n"),
         (STORE, "tma.copy y_s => to;")),
    ],
    ids=["an array", "a statement between", "a condition between", "its extent is named",
         "it is read", "half of its columns", "a part of it", "steps of the store",
         "elements", "steps of the rows", "rows by their number", "columns of the run time",
         "a place with a name"],
)  # fmt: skip
def test_another_form_stays(whole: Make, edits: tuple[tuple[str, str], ...]) -> None:
    stays(whole(tile(*edits)))


@pytest.mark.parametrize(
    "edits",
    [
        ((FILL, FILL.replace("cid", "1 - cid")),),
        ((FILL, FILL.replace("cid", "0")),),
        ((FILL, FILL.replace("cid", "n")),),
        ((FILL, FILL.replace("cid", "(n == 1 ? 1 - cid : cid)")),),
        THREE[1:],
        (("p > 0", "p == 1"), ("cdiv(S, 128)", "cdiv(S, 64)"), ("[128, 128] x_s", "[64, 128] x_s"),
         (LOAD, LOAD.replace("(128, 128)", "(64, 128)")), (PRODUCT, "mma.row.row acc, x_s, x_s;"),
         (DECLARATION, "shared bf16 [64, 64] y_s;"), (FILL, FILL.replace("128", "64")),
         (STORE, STORE.replace("(128, 128)", "(64, 64)"))),
    ],
    ids=["the other's rows", "the same rows", "rows of the run time", "rows that are chosen",
         "rows without an owner", "one warpgroup"],
)  # fmt: skip
def test_a_row_block_has_one_owner(whole: Make, edits: tuple[tuple[str, str], ...]) -> None:
    stays(whole(tile(*edits)))


ANOTHER = (DECLARATION, f"{DECLARATION}\nshared bf16 [128, 128] z_s;")


@pytest.mark.parametrize(
    "edits",
    [
        (("        // before\n", "mma.store acc, z_s.subspan(64, 128).at(cid, 0);\n"), ANOTHER),
        (("        // before\n", "mma.store acc, Z.subspan(64, 128).at(cid, 0);\n"),),
        (("        // behind\n", "dma.copy.swiz<128> x.subspan(128, 128).at(tile, 0) => z_s;\n"),
         ANOTHER),
        (("        // behind\n", "mma.store acc, z_s.subspan(64, 128).at(cid, 0);\n"
          "tma.copy z_s => Z.subspan(128, 128).at(tile, 0);\n"), ANOTHER),
        (("        // before\n", "tma.copy x_s => Z.subspan(128, 128).at(tile, 0);\n"),),
        ((STORE, STORE.replace("y.sub", "x.sub")),),
        (("        // before\n", "if (t == 0)\n  ids.at(cid) = 1u;\n"),),
        (("        // behind\n", "if (t == 0)\n  ids.at(cid) += 1u;\n"),),
        (("        // producer\n", "if (t == 0)\n  ids.at(0) = 1u;\n"),),
        (("        // before\n", "call helper(n);\n"),),
        (("        // producer\n", "call helper(n);\n"),),
    ],
    ids=["another tile", "a tensor's rows", "a copy", "two tiles", "another store",
         "a load of what is stored", "an element", "an element that is added to",
         "an element by the producer", "a call", "a call by the producer"],
)  # fmt: skip
def test_what_others_could_read_keeps_their_meeting(
    whole: Make, edits: tuple[tuple[str, str], ...]
) -> None:
    stays(whole(tile(*edits)))


@pytest.mark.parametrize(
    "edits",
    [
        ((LOAD, LOAD.replace("128, 128).at", "64, 128).step(128, 128).at")),
         ("[128, 128] x_s", "[64, 128] x_s"), (PRODUCT, "mma.row.row acc, x_s, x_s;"),
         (DECLARATION, "shared bf16 [128, 64] y_s;"),
         (FILL, FILL.replace("128", "64")), (STORE, STORE.replace("128, 128", "128, 64"))),
        ((LOAD, LOAD.replace("x.sub", "Z.sub")),),
        ((LOAD, LOAD.replace("at(tile", "step(64, 128).at(tile")),),
        ((LOAD, LOAD.replace("subspan(128, 128).at(tile", "view(128, 128).from(n")),),
        ((STORE, STORE.replace("y.sub", "Z.sub")),),
        (("y = Y.subspan(1, S, 128).at(batch, 0, 0)", "y = Y.subspan(1, S, 128).at(0, batch, 0)"),),
        (("[B, S, 128] X", "[B, 256, 128] X"), ("X.subspan(1, S,", "X.subspan(1, 256,"),
         ("[B, S, 128] Y", "[B, 256, 128] Y"), ("Y.subspan(1, S,", "Y.subspan(1, 256,"),
         ("cdiv(S, 128)", "2")),
    ],
    ids=["smaller loads", "a load of another dimension", "loads from any 64 rows",
         "a load from any row", "a store of another dimension",
         "a store in another view", "a constant dimension"],
)  # fmt: skip
def test_what_demands_whole_tiles_is_not_lost(
    whole: Make, edits: tuple[tuple[str, str], ...]
) -> None:
    stays(whole(tile(*edits)))


def test_errors_are_about_the_source(whole: Make) -> None:
    # Of the tiles of the warpgroups each is written and stored as it should be.
    made = whole(tile((STORE, STORE.replace("(128, 128)", "(64, 128)"))))
    assert made.codes == ["transfer-shape"]
    assert "[128, 128]" in made.said("transfer-shape").message


def turns(pairs: int) -> str:
    """The tile, before which the warpgroups take turns: two events a pair are named barriers."""
    events = "".join(f", a{n} = ready, b{n}" for n in range(pairs))
    each = (
        f"inthreads (p == 1) {{\n  wait a{n};\n  trigger b{n};\n}}\n"
        f"inthreads (p == 2) {{\n  wait b{n};\n  trigger a{n};\n}}\n"
        for n in range(pairs)
    )
    return tile(
        ("    shared event loaded;\n", f"    shared event loaded{events};\n"),
        ("        // before\n", "".join(each)),
    )


def test_a_tree_that_a_rule_refuses_is_not_taken(whole: Make) -> None:
    # Warpgroups that meet for themselves have barriers next to each other: 15 and 8 are left.
    made = whole(turns(3)).clean()
    named = [made.event(f"{side}{n}").barrier for n in range(3) for side in "ab"]
    assert sorted(named) == [9, 10, 11, 12, 13, 14]
    assert splitting.split_stores(made.tables, Places(made.tables.function)) is not None
    assert not made.tables.moved
    (_, store) = made.transfers()
    assert (store.leaders, store.barrier, store.barrier_threads) == ((128,), 15, 256)
    # With fewer events there are two that are.
    fewer = whole(turns(2)).clean()
    assert len(fewer.tables.moved) == 3
    assert fewer.transfers()[-1].barrier == 9


def test_the_tile_by_another_name_stays(unsplit: Make) -> None:
    named = ("        // before\n", "all = y_s.subspan(128, 128).at(0, 0);\n")
    tables = unsplit(tile(named, (STORE, STORE.replace("y_s", "all")))).clean().tables
    assert splitting.split_stores(tables, Places(tables.function)) is None
