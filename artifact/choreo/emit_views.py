"""Views in C++: origins, addresses in global and shared memory, coordinates of tensor maps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.arithmetic import BYTES
from artifact.choreo.emit_context import Context
from artifact.choreo.tables import SharedPlan, Symbol, TensorMapPlan, Term, ViewPlan

_WORD_OR_NUMBER = re.compile(r"\w+")


def declare_view(ctx: Context, node: syntax.ViewDecl) -> None:
    """A named view: constants for the parts of its origin that take computing."""
    plan = ctx.tables.views[node.view]
    (symbol,) = ctx.tables.declares[node]
    parts: list[str | None] = []
    for dim, text in enumerate(origin(ctx, plan)):
        if text is not None and _may_change(ctx, plan.added[dim], text):
            name = ctx.names.fresh(f"{node.name}_at{dim}")
            ctx.out.line(f"const int {name} = {text};")
            text = name
        parts.append(text)
    ctx.origins[symbol] = tuple(parts)
    tile = _tile(ctx, plan)
    if tile is not None:
        if not _WORD_OR_NUMBER.fullmatch(tile) or _has_mutable(ctx, plan.tile):
            name = ctx.names.fresh(f"{node.name}_tile")
            ctx.out.line(f"const unsigned {name} = {tile};")
            tile = name
        ctx.tiles[symbol] = tile


def _may_change(ctx: Context, terms: Sequence[Term], text: str) -> bool:
    """Whether a part of an origin has to be kept in a constant of its own."""
    simple = _WORD_OR_NUMBER.fullmatch(text) is not None
    return not simple or any(_has_mutable(ctx, term.index) for term in terms)


def _has_mutable(ctx: Context, node: syntax.Expr | None) -> bool:
    if node is None:
        return False
    names = (n for n in syntax.walk(node) if isinstance(n, syntax.Name))
    return any(ctx.symbol(n).kind == "mutable" for n in names if n in ctx.tables.uses)


def origin(ctx: Context, plan: ViewPlan) -> tuple[str | None, ...]:
    """Where a view begins, by root dimension, in elements; null is 0.

    A text is an expression whose parts are joined by ``+`` and ``*`` only.
    """
    base = ctx.origins.get(plan.base, (None,) * len(plan.added))
    out: list[str | None] = []
    for before, terms in zip(base, plan.added, strict=True):
        parts = [before] if before is not None else []
        parts += [text for term in terms if (text := _term(ctx, term)) is not None]
        out.append(" + ".join(parts) if parts else None)
    return tuple(out)


def _term(ctx: Context, term: Term) -> str | None:
    expressions = ctx.expressions
    index = expressions.integer(term.index)
    scale = term.scale if isinstance(term.scale, int) else expressions.integer(term.scale)
    if index == 0 or scale == 0:
        return None
    if index is not None and scale is not None:
        return str(index * scale)
    if scale == 1:
        return ctx.text(term.index, 11)
    if index == 1:
        return expressions.extent(term.scale, 11)
    factor = str(scale) if scale is not None else expressions.extent(term.scale, 12)
    return f"{expressions.factor(term.index)} * {factor}"


def factor_of(text: str) -> str:
    """An origin's text as a factor of a product."""
    return text if _WORD_OR_NUMBER.fullmatch(text) else f"({text})"


def _tile(ctx: Context, plan: ViewPlan) -> str | None:
    if plan.base in ctx.tiles:
        return ctx.tiles[plan.base]
    return None if plan.tile is None else ctx.text(plan.tile)


# Global memory ---------------------------------------------------------------------------------


def tensor_extents(ctx: Context, tensor: Symbol) -> tuple[int | syntax.Expr, ...]:
    """A tensor parameter's shape; integers where it is constant."""
    return ctx.expressions.extents(tensor)


def product(ctx: Context, extents: Sequence[int | syntax.Expr]) -> str | None:
    """The product of extents, as a factor; null is 1."""
    number, texts = 1, []
    for extent in extents:
        value = extent if isinstance(extent, int) else ctx.expressions.integer(extent)
        if value is None:
            texts.append(ctx.expressions.extent(extent, 12))
        else:
            number *= value
    if number != 1:
        texts.append(str(number))
    return " * ".join(texts) if texts else None


def flattened(
    ctx: Context, origins: Sequence[str | None], extents: Sequence[int | syntax.Expr]
) -> str | None:
    """The number of the element (or row) at ``origins`` in row-major order; null is 0."""
    text: str | None = None
    for part, extent in zip(origins, extents, strict=True):
        if text is not None:
            size = ctx.expressions.extent(extent, 12)
            text = f"{_sum_in_parentheses(text)} * {size}"
        if part is not None:
            text = part if text is None else f"{text} + {part}"
    return text


def _sum_in_parentheses(text: str) -> str:
    """A text as a factor: in parentheses where it is a sum outside of any."""
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth == 0 and character in "+-":
            return f"({text})"
    return text


def global_address(ctx: Context, plan: ViewPlan) -> str:
    """A pointer to the first element of a view of a tensor."""
    parts = list(origin(ctx, plan))
    first = next((k for k, part in enumerate(parts) if part is not None), None)
    name = ctx.names.of(plan.root)
    if first is None:
        return name
    # 64 bits: a tensor may have more elements than an int counts.
    parts[first] = f"size_t({parts[first]})"
    return f"{name} + {flattened(ctx, parts, tensor_extents(ctx, plan.root))}"


def row_pitch(ctx: Context, plan: ViewPlan) -> str:
    """Elements from a row of a two-dimensional view of a tensor to the next one."""
    row_dim = plan.dims[0]
    text = product(ctx, tensor_extents(ctx, plan.root)[row_dim + 1 :])
    return "1" if text is None else text


# Shared memory ---------------------------------------------------------------------------------


def element_type(ctx: Context, root: Symbol) -> str:
    """The element type of a tensor or buffer; an anonymous buffer has that of its source."""
    if root.type is None and isinstance(root.node, syntax.Transfer):
        return element_type(ctx, ctx.tables.views[root.node.source].root)
    return root.type or ""


def shared_of(ctx: Context, plan: ViewPlan) -> SharedPlan:
    """Where the buffer of a view lies."""
    return ctx.tables.shared[plan.root]


def shared_position(ctx: Context, plan: ViewPlan) -> tuple[str | None, str | None]:
    """The first row and column of a view within its tile; null is 0."""
    parts = origin(ctx, plan)
    extents = ctx.expressions.extents(plan.root)
    if len(parts) == 1:
        return None, parts[0]
    return flattened(ctx, parts[:-1], extents[:-1]), parts[-1]


def tile_address(ctx: Context, plan: ViewPlan) -> str:
    """The address of the whole tile that a view lies in."""
    shared = shared_of(ctx, plan)
    name, tile = ctx.names.of(plan.root), _tile(ctx, plan)
    if tile is None or shared.tiles == 1:
        return name
    if tile.isdigit():
        return f"{name} + {int(tile) * shared.tile_bytes}" if int(tile) else name
    return f"{name} + {factor_of(tile)} * {shared.tile_bytes}"


def shared_address(ctx: Context, plan: ViewPlan) -> str:
    """The address of the first element of a view of shared memory.

    With swizzle a row of a panel has the swizzle's bytes, and a panel as many rows as the whole
    buffer. The swizzle itself permutes within 8 rows: whoever reads knows it.
    """
    shared = shared_of(ctx, plan)
    element = BYTES[element_type(ctx, plan.root)]
    row, column = shared_position(ctx, plan)
    parts = [tile_address(ctx, plan)]
    pitch = shared.swizzle or shared.columns * element
    if row is not None:
        parts.append(_scaled(row, pitch))
    if column is not None:
        parts.append(column_bytes(shared, column, element))
    return " + ".join(parts)


def column_bytes(shared: SharedPlan, column: str, element: int) -> str:
    """How far a column is from the first one of its row, as if nothing were permuted."""
    panel = shared.swizzle // element
    if not shared.swizzle or shared.columns <= panel:
        return _scaled(column, element)
    panel_bytes = shared.rows * shared.swizzle
    if column.isdigit():
        panels, inner = divmod(int(column), panel)
        return str(panels * panel_bytes + inner * element)
    split = factor_of(column)
    return f"{split} / {panel} * {panel_bytes} + {split} % {panel} * {element}"


_LAST_FACTOR = re.compile(r"(.*) \* (\d+)", re.DOTALL)


def _scaled(text: str, scale: int) -> str:
    """``text * scale``, with a constant factor that ``text`` ends with multiplied in."""
    if text.isdigit():
        return str(int(text) * scale)
    last = _LAST_FACTOR.fullmatch(text)
    if last is not None and " + " not in text:
        return f"{last[1]} * {int(last[2]) * scale}"
    return f"{factor_of(text)} * {scale}"


# Tensor maps -----------------------------------------------------------------------------------


def panel_columns(plan: TensorMapPlan) -> int | None:
    """Columns of a panel, where a row of the box is wider than its swizzle; null where not."""
    if not plan.swizzle or plan.box_columns * plan.element_bytes <= plan.swizzle:
        return None
    return plan.swizzle // plan.element_bytes


def row_dimensions(plan: TensorMapPlan, rank: int) -> int:
    """How many of a tensor's dimensions are flattened into the row number, from the left.

    A tensor of one dimension is one row.
    """
    return plan.row_dim + 1 if rank > 1 else 0


def map_coordinates(ctx: Context, tmap: TensorMapPlan, plan: ViewPlan) -> tuple[str, ...]:
    """Column and row, or column in panel, row and panel, as a TMA instruction takes them."""
    extents = tensor_extents(ctx, plan.root)
    parts = origin(ctx, plan)
    split = row_dimensions(tmap, len(extents))
    row = flattened(ctx, parts[:split], extents[:split])
    row_text = f"int({row})" if row is not None else "0"
    width = panel_columns(tmap)
    if width is None:
        column = flattened(ctx, parts[split:], extents[split:])
        return ("0" if column is None else f"int({column})", row_text)
    return (*_panels(ctx, parts[split:], extents[split:], width, row_text),)


def _panels(
    ctx: Context,
    parts: Sequence[str | None],
    extents: Sequence[int | syntax.Expr],
    width: int,
    row: str,
) -> tuple[str, str, str]:
    """The three coordinates; where everything is a multiple of the panel, without a remainder."""
    inner = extents[-1] if isinstance(extents[-1], int) else ctx.expressions.integer(extents[-1])
    if parts[-1] is None and inner is not None and inner % width == 0:
        outer = flattened(ctx, parts[:-1], extents[:-1])
        if outer is None:
            return "0", row, "0"
        return "0", row, f"int({_scaled(outer, inner // width)})"
    column = flattened(ctx, parts, extents)
    if column is None:
        return "0", row, "0"
    return f"int({column}) % {width}", row, f"int({column}) / {width}"
