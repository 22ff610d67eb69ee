"""The host function: shapes, checks, tensor maps, the launch."""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.emit_bounds import host_scalars, largest_origin
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_expressions import CXX_TYPES, Expressions
from artifact.choreo.emit_kernel import Parameter, dynamic_bytes, kernel_name
from artifact.choreo.emit_names import Names
from artifact.choreo.emit_scalars import emit_scalar
from artifact.choreo.emit_tails import placed_tiles, whole_tiles
from artifact.choreo.emit_views import panel_columns, product, row_dimensions
from artifact.choreo.tables import Symbol, TensorMapPlan
from artifact.choreo.writer import Writer


def emit_host(
    kernel: Context, parameters: tuple[Parameter, ...], reserved: frozenset[str], out: Writer
) -> None:
    """``void name(const choreo::spanned_view<T, R>& x, ..)`` into ``out``.

    ``kernel`` is the context that the kernel was emitted with: its tensor maps are built here.
    """
    names = Names(reserved)
    host = Context(
        tables=kernel.tables,
        source=kernel.source,
        names=names,
        expressions=Expressions(kernel.tables, names),
        out=out,
        maps=kernel.maps,
    )
    function = host.function
    out.comment(f"{function.span.line}: checks the shapes and launches {kernel_name(function)}.")
    head = f"void {function.name}("
    arguments = [_argument(host, p) for p in function.params]
    out.call(head, arguments, ") {")
    inner = host.out = Writer(depth=1)
    _dimensions(host)
    _checks(host)
    _scalars(host, parameters)
    _grid(host)
    _placed(host)
    _launch(host, parameters)
    if not host.launch.is_async:
        inner.line("choreo::abend_true(cudaDeviceSynchronize());")
    out.adopt(inner)
    out.line("}")


def _argument(host: Context, node: syntax.TensorParam | syntax.ScalarParam) -> str:
    symbol = host.tables.declares[node][0]
    name = host.names.declare(symbol)
    if isinstance(node, syntax.ScalarParam):
        return f"{host.cxx_type(symbol)} {name}"
    return (
        f"const choreo::spanned_view<{CXX_TYPES[symbol.type or '']}, {len(node.extents)}>& {name}"
    )


def _tensors(host: Context) -> list[tuple[Symbol, syntax.TensorParam]]:
    return [
        (host.tables.declares[p][0], p)
        for p in host.function.params
        if isinstance(p, syntax.TensorParam)
    ]


def _dimensions(host: Context) -> None:
    """Dimension symbols come from the first tensor that has each."""
    for tensor, node in _tensors(host):
        for dim, extent in enumerate(node.extents):
            symbol = host.tables.uses.get(extent)
            if symbol is not None and symbol.kind == "dimension" and symbol not in host.names:
                name = host.names.declare(symbol)
                shape = f"{host.names.of(tensor)}.shape()[{dim}]"
                host.out.line(f"const unsigned {name} = unsigned({shape});")


def _checks(host: Context) -> None:
    """Constant extents, equal symbols, whole tiles."""
    seen: set[Symbol] = set()
    for tensor, node in _tensors(host):
        for dim, extent in enumerate(node.extents):
            symbol = host.tables.uses.get(extent)
            if symbol is not None and symbol not in seen:
                seen.add(symbol)
                continue
            wanted = host.text(extent)
            shape = f"{host.names.of(tensor)}.shape()[{dim}]"
            _check(
                host, f"{shape} == {wanted}", f"dimension {dim} of {tensor.name} is not {wanted}"
            )
    for rule in whole_tiles(host):
        assert isinstance(rule.tensor.node, syntax.TensorParam)
        size = host.expressions.factor(rule.tensor.node.extents[rule.dim])
        _check(
            host,
            f"{size} % {rule.extent} == 0",
            f"dimension {rule.dim} of {rule.tensor.name} is not a multiple of {rule.extent}, "
            "the extent of a tile in it",
        )


def _grid(host: Context) -> None:
    """A grid that is not empty; its bounds may need what the function computes before."""
    for symbol, bound in host.launch.grid:
        if host.expressions.integer(bound) is None:
            positive = f"{host.text(bound, 9)} > 0"
            _check(host, positive, f"the bound of {symbol.name} is not positive")


def _placed(host: Context) -> None:
    """Tiles that begin at any element end in their dimension."""
    told: set[str] = set()
    for tile in placed_tiles(host):
        assert isinstance(tile.tensor.node, syntax.TensorParam)
        origin = largest_origin(host, tile.terms)
        end = f"{origin} + {tile.extent}"
        if origin is None or origin.isdigit():
            end = str(int(origin or 0) + tile.extent)
        size = host.expressions.text(tile.tensor.node.extents[tile.dim], 9)
        condition = f"{end} <= {size}"
        if condition not in told:
            told.add(condition)
            _check(
                host,
                condition,
                f"a tile of {tile.extent} passes the end of dimension {tile.dim} of "
                f"{tile.tensor.name}",
            )


def _check(host: Context, condition: str, text: str) -> None:
    host.out.call("choreo::runtime_check(", [condition, f'"{host.function.name}: {text}"'])


def _scalars(host: Context, parameters: tuple[Parameter, ...]) -> None:
    """What the function computes outside of ``parallel``, as far as somebody reads it here."""
    statements = [n for n in host.function.body.body if not isinstance(n, syntax.Parallel)]
    read = {p.symbol for p in parameters}
    for tile in placed_tiles(host):
        read |= host_scalars(host, tile.terms)
    for root in (*statements, *(bound for _, bound in host.launch.grid)):
        read.update(host.tables.uses.get(node) for node in syntax.walk(root))
    for node in statements:
        if isinstance(node, syntax.ScalarDecl | syntax.Assign):
            if read.isdisjoint(host.tables.declares.get(node, read)):
                continue
            host.quote(node)
            emit_scalar(host, node)
        elif isinstance(node, syntax.Assert) and host.expressions.constant(node.condition) is None:
            host.quote(node)
            text = node.text.text if node.text else host.excerpt(node.condition)
            _check(host, host.text(node.condition), text.replace('"', "'"))


def _launch(host: Context, parameters: tuple[Parameter, ...]) -> None:
    launch = host.launch
    specs = {name: plan for plan, name in host.maps.items()}
    if specs:
        host.out.comment("Tensor maps, encoded again only when an address or a shape has changed.")
    arguments = []
    for parameter in parameters:
        if parameter.kind == "map":
            arguments.append(_tensor_map(host, parameter.name, specs[parameter.name]))
        elif parameter.symbol is not None:
            name = host.names.of(parameter.symbol)
            arguments.append(f"{name}.data()" if parameter.kind == "pointer" else name)
    grid = ", ".join(host.text(bound) for _, bound in launch.grid)
    head = [
        kernel_name(host.function),
        f"dim3({grid})",
        f"dim3({launch.threads})",
        str(dynamic_bytes(host)),
        "nullptr",
    ]
    host.out.call("choreo::launch(", head + arguments)


def _tensor_map(host: Context, name: str, plan: TensorMapPlan) -> str:
    """A map that is encoded again only when its address or shape has changed."""
    tensor = next(s for s, _ in _tensors(host) if s.name == plan.root)
    extents = host.expressions.extents(tensor)
    split = row_dimensions(plan, len(extents))
    rows, columns = (_wide(product(host, part)) for part in (extents[:split], extents[split:]))
    pitch = _scaled(columns, plan.element_bytes, 1)
    width = panel_columns(plan)
    if width is None:
        dims, pitches = [columns, rows], [pitch]
        box = [plan.box_columns, plan.box_rows]
    else:
        dims = [str(width), rows, _scaled(columns, 1, width)]
        pitches = [pitch, str(width * plan.element_bytes)]
        box = [width, plan.box_rows, plan.box_columns // width]
    local, spec = host.names.fresh(name), host.names.fresh(f"{name}_spec")
    host.out.line(f"static choreo::CachedTensorMap {local};")
    listed = ["{" + ", ".join(map(str, part)) + "}" for part in (dims, pitches, box)]
    arguments = [f"{host.names.of(tensor)}.data()", *listed, str(plan.swizzle)]
    host.out.call(f"const choreo::TensorMapSpec {spec} = choreo::tensor_map_spec(", arguments)
    return f"{local}.get({spec})"


def _scaled(text: str, times: int, over: int) -> str:
    """A product's text ``* times / over``, with its constant factor computed."""
    head, _, last = text.rpartition(" * ")
    if last.isdigit():
        number = int(last) * times
        if number % over == 0:
            number //= over
            texts = [head] if head else []
            return " * ".join(texts + ([str(number)] if number != 1 or not head else []))
    text = text if times == 1 else f"{text} * {times}"
    return text if over == 1 else f"{text} / {over}"


def _wide(text: str | None) -> str:
    """A product in 64 bits: a tensor may have more elements than 32 bits count."""
    if text is None:
        return "1"
    if text.isdigit():
        return text
    first, *rest = text.split(" * ")
    return " * ".join([f"std::uint64_t({first})", *rest])
