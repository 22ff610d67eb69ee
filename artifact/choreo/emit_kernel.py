"""The ``__global__`` function: signature, shared memory, the block's prologue, the roles."""

from __future__ import annotations

from dataclasses import dataclass

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_events import declare_events, event_bytes
from artifact.choreo.emit_expressions import CXX_TYPES
from artifact.choreo.emit_prologue import initialise
from artifact.choreo.emit_scalars import assigned
from artifact.choreo.emit_statements import emit_body, emit_statement
from artifact.choreo.emit_threads import declare_levels
from artifact.choreo.emit_transfers import declare_maps
from artifact.choreo.emit_views import element_type
from artifact.choreo.tables import Symbol
from artifact.choreo.writer import Writer

_ALIGNMENT = 1024
_SHARED = "shared_base"


@dataclass(frozen=True)
class Parameter:
    """What the kernel gets from its host function."""

    kind: str
    """``pointer``, ``scalar``, ``dimension`` or ``map``."""
    declaration: str
    symbol: Symbol | None
    """Null of a tensor map."""
    name: str


def kernel_name(function: syntax.Function) -> str:
    """The symbol of a function's kernel."""
    return f"{function.name}_kernel"


def dynamic_bytes(ctx: Context) -> int:
    """Dynamic shared memory of a block: buffers, events, and room to align their start."""
    used = _buffer_bytes(ctx) + event_bytes(ctx)
    return used + _ALIGNMENT if used else 0


def _buffer_bytes(ctx: Context) -> int:
    ends = [p.offset + p.tile_bytes * p.tiles for p in ctx.tables.shared.values()]
    return -(-max(ends, default=0) // _ALIGNMENT) * _ALIGNMENT


def emit_kernel(ctx: Context) -> tuple[Parameter, ...]:
    """The kernel into ``ctx.out``; returns its parameters, which depend on what its body uses."""
    function, launch = ctx.function, ctx.launch
    out, ctx.out = ctx.out, Writer(depth=1)
    with ctx.names.scope():
        _declare_parameters(ctx)
        declare_maps(ctx)
        ctx.names.used.clear()
        constants = _host_constants(ctx)
        _declare_shared(ctx)
        initialise(ctx)
        ctx.out.blank()
        ctx.quote(launch.node, launch.node.body)
        declare_levels(ctx, launch.node)
        emit_body(ctx, launch.node.body.body)
        body = ctx.out
        parameters = _parameters(ctx)
    ctx.out = out
    out.comment(f"{function.span.line}: {function.name}, {launch.threads} threads a block.")
    bounds = f"{launch.max_threads or launch.threads}, {launch.min_blocks}"
    out.line(f"__global__ void __launch_bounds__({bounds})")
    out.call(f"{kernel_name(function)}(", [p.declaration for p in parameters], ") {")
    for symbol, text in constants:
        if symbol in ctx.names.used:
            out.line(f"  {text}")
    out.adopt(body)
    out.line("}")
    return parameters


def _declare_parameters(ctx: Context) -> None:
    for symbol in ctx.tables.symbols:
        if symbol.kind in ("tensor", "parameter", "dimension") or (
            symbol.kind == "scalar" and symbol.host
        ):
            ctx.names.declare(symbol)


def _host_constants(ctx: Context) -> list[tuple[Symbol, str]]:
    """Scalars declared outside of ``parallel`` whose value is known at compile time."""
    found = []
    for node in ctx.function.body.body:
        if isinstance(node, syntax.Assign | syntax.ScalarDecl):
            (symbol,) = ctx.tables.declares[node]
            if ctx.expressions.constant(node.value) is not None:
                name = ctx.names.of(symbol)
                kind = ctx.cxx_type(symbol)
                # The constructors of 16-bit types are not constexpr.
                word = "const" if symbol.type in ("bf16", "f16") else "constexpr"
                found.append(
                    (symbol, f"{word} {kind} {name} = {assigned(ctx, symbol.type, node)};")
                )
    ctx.names.used.clear()
    return found


def _declare_shared(ctx: Context) -> None:
    """The buffers and barriers as addresses in dynamic shared memory."""
    if not dynamic_bytes(ctx):
        declare_events(ctx, _SHARED, 0)
        return
    dynamic = ctx.names.fresh("dynamic_shared")
    base = ctx.names.fresh(_SHARED)
    ctx.out.line(f"extern __shared__ unsigned char {dynamic}[];")
    ctx.out.line(f"unsigned char* const {base} = cu::align_1024({dynamic});")
    for symbol, plan in ctx.tables.shared.items():
        name = ctx.names.declare(symbol)
        tiles = f"{plan.tiles} x " if plan.tiles > 1 else ""
        swizzle = f", {plan.swizzle}-byte swizzle" if plan.swizzle else ""
        note = f"{tiles}{element_type(ctx, symbol)} [{plan.rows}, {plan.columns}]{swizzle}"
        place = f"{base} + {plan.offset}" if plan.offset else base
        ctx.out.line(f"unsigned char* const {name} = {place};  // {note}")
    declare_events(ctx, base, _buffer_bytes(ctx))
    ctx.out.blank()


def _parameters(ctx: Context) -> tuple[Parameter, ...]:
    """Pointers, scalars, dimension symbols by name, tensor maps: those that the body uses."""
    used = ctx.names.used
    symbols = [s for s in ctx.tables.symbols if s in used]
    constant = {
        symbol
        for node in ctx.function.body.body
        if isinstance(node, syntax.Assign | syntax.ScalarDecl)
        and ctx.expressions.constant(node.value) is not None
        for symbol in ctx.tables.declares[node]
    }
    out = []
    for symbol in symbols:
        if symbol.kind == "tensor":
            name = ctx.names.of(symbol)
            kind = CXX_TYPES[symbol.type or ""]
            out.append(Parameter("pointer", f"{kind}* {name}", symbol, name))
    for symbol in symbols:
        scalar = symbol.kind == "parameter" or (symbol.kind == "scalar" and symbol.host)
        if scalar and symbol not in constant:
            name = ctx.names.of(symbol)
            declaration = f"{ctx.cxx_type(symbol)} {name}"
            out.append(Parameter("scalar", declaration, symbol, name))
    for symbol in sorted(symbols, key=lambda s: s.name):
        if symbol.kind == "dimension":
            name = ctx.names.of(symbol)
            out.append(Parameter("dimension", f"unsigned {name}", symbol, name))
    for name in ctx.maps.values():
        declaration = f"const __grid_constant__ CUtensorMap {name}"
        out.append(Parameter("map", declaration, None, name))
    return tuple(out)


def make_context_statement(ctx: Context) -> None:
    """Let every part emit statements through the one function that knows them all."""
    ctx.statement = lambda node: emit_statement(ctx, node)
