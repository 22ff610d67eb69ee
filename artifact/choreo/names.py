"""The names pass: what every name stands for (co-language.md, 3, 4, 8.5, 10).

Rules:

* ``x = e;`` with a new name declares an immutable scalar. Where the name is an outer mutable it
  assigns; where it is an outer immutable it declares a new variable, and an info says so; where
  it is an immutable of the same scope it is an error (3).
* An unknown name that is an extent of a tensor parameter declares a dimension symbol (4).
* ``acc = mma.fill ..`` declares an accumulator, or sets again the one that is visible (10).
* A transfer or an async MMA declares its future; a future may be declared once a scope (8.5). The
  name of a transfer to an anonymous buffer also names the buffer.
"""

from __future__ import annotations

from artifact.choreo import syntax
from artifact.choreo.comparisons import ABOVE
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.kinds import (
    ARGUMENTS,
    ASSIGN_INSTEAD,
    BOUNDED,
    BUFFERS,
    ELEMENTS,
    EVENT,
    FRAGMENTS,
    FUTURE,
    LOCALS,
    MUTABLE,
    SCALARS,
    SHAPED,
    WAITABLE,
    WITH_ARTICLE,
)
from artifact.choreo.scopes import Scopes
from artifact.choreo.tables import Symbol, SymbolKind, Tables


def resolve(tables: Tables, diagnostics: Diagnostics, headers: tuple[str, ...] = ()) -> None:
    """Fill ``symbols``, ``uses``, ``declares`` and ``fills``.

    Args:
        tables: Those of the function.
        diagnostics: Where findings go.
        headers: What the file includes with quotes: their macros are the likely cause of a name
            that nobody declares.
    """
    names = _Names(tables, diagnostics, headers)
    names.parameters(tables.function)
    for stmt in tables.function.body.body:
        names.statement(stmt)


def bound_of(symbol: Symbol) -> syntax.Expr:
    """The bound of a variable of ``parallel`` or ``foreach``."""
    node = symbol.node
    if not isinstance(node, syntax.Level | syntax.Foreach):
        raise TypeError(f"{symbol.name} has no bound")
    return node.bounds[node.variables.index(symbol.name)]


class _Names(Scopes):
    # Parameters --------------------------------------------------------------------------------

    def parameters(self, function: syntax.Function) -> None:
        """The parameters and the dimension symbols of their shapes."""
        for parameter in function.params:
            if isinstance(parameter, syntax.ScalarParam):
                self.declare(parameter.name, "parameter", parameter, parameter.type)
                continue
            self.declare(parameter.name, "tensor", parameter, parameter.type)
            if not parameter.is_global:
                self.diagnostics.error(
                    "host-tensor",
                    parameter,
                    f"{parameter.name} is a host tensor",
                    rule="the compiler makes no copies between host and device",
                    repair=f"write 'global {parameter.type} [..] {parameter.name}'",
                )
        for parameter in function.params:
            if isinstance(parameter, syntax.TensorParam):
                for extent in parameter.extents:
                    self._dimension(parameter, extent)

    def _dimension(self, parameter: syntax.TensorParam, extent: syntax.Expr) -> None:
        if not isinstance(extent, syntax.Name):
            self.expression(extent)
            return
        symbol = self.scope.find(extent.id)
        if symbol is None:
            symbol = self.declare(extent.id, "dimension", parameter, "u32")
        elif symbol.kind != "dimension":
            self.diagnostics.error(
                "extent-name",
                extent,
                f"{extent.id} is a {symbol.kind} and cannot be an extent",
                rule="an extent of a parameter is a constant or a dimension symbol",
                repair="give the dimension a name of its own",
            )
        self.tables.uses[extent] = symbol

    # Using -------------------------------------------------------------------------------------

    def expression(self, node: syntax.Node) -> None:
        """Resolve the names of an expression, a view, or another part of a statement."""
        match node:
            case syntax.Name():
                self.use(node, SCALARS, "a scalar")
            case syntax.Bound():
                self.use(node.name, BOUNDED, "a variable of parallel or foreach")
            case syntax.Increment():
                self.use(node.name, MUTABLE, "a mutable scalar")
            case syntax.Element():
                self.use(node.base, ELEMENTS, "a fragment, a tensor parameter or a local buffer")
                self._each((node.tile, *node.indices))
            case syntax.Index():
                self.use(node.base, BUFFERS, "an array of shared tiles")
                self.expression(node.index)
            case syntax.Extent():
                self.use(node.base, SHAPED, "something with a shape")
                self._each((node.dim,))
            case syntax.View():
                if isinstance(node.base, syntax.Name):
                    self._view_base(node.base)
                else:
                    self.expression(node.base)
                self._each(node.ops)
            case syntax.Target():
                self.use(node.name, WAITABLE, "an event or a future")
                self._each((node.index, node.order))
            case syntax.Wildcard():
                pass
            case syntax.BuiltinCall(name=name) if name == ABOVE:
                for arg in node.args:
                    self._whole_fragment(arg)
            case _:
                self._each(tuple(syntax.children(node)))

    def _whole_fragment(self, node: syntax.Expr) -> None:
        if isinstance(node, syntax.Name):
            self.use(node, FRAGMENTS, "a fragment")
            return
        self.diagnostics.error(
            "wrong-kind",
            node,
            "this is a value, but a fragment is needed here",
            rule=f"{ABOVE} compares a fragment with a row vector of limits",
            repair=f"name both: {ABOVE}(acc, limit)",
        )

    def _view_base(self, base: syntax.Name) -> None:
        symbol = self.scope.find(base.id)
        # The future of a transfer to a named buffer stands for the view that was filled.
        if (
            symbol is not None
            and symbol.kind == "future"
            and isinstance(symbol.node, syntax.Transfer)
            and symbol.node.destination is not None
        ):
            self.tables.uses[base] = symbol
        else:
            self.use(base, BUFFERS, "a tensor, a shared buffer or a view")

    def _each(self, nodes: tuple[syntax.Node | None, ...]) -> None:
        for node in nodes:
            if node is not None:
                self.expression(node)

    # Statements --------------------------------------------------------------------------------

    def block(
        self,
        block: syntax.Block,
        node: syntax.Node | None = None,
        variables: tuple[str, ...] = (),
        kind: SymbolKind = "loop",
    ) -> None:
        """A block in a scope of its own, which begins with the variables of its statement."""
        with self.inner():
            for variable in variables:
                assert node is not None
                self.declare(variable, kind, node)
            self._statements(block)

    def _statements(self, block: syntax.Block) -> None:
        for stmt in block.body:
            self.statement(stmt)

    def statement(self, stmt: syntax.Stmt) -> None:
        """One statement: its uses first, then what it declares, then its blocks."""
        match stmt:
            case syntax.Block():
                self.block(stmt)
            case syntax.Parallel():
                self._parallel(stmt)
            case syntax.Inthreads():
                self.expression(stmt.condition)
                self.block(stmt.body)
            case syntax.Foreach():
                self._each(stmt.bounds)
                self.block(stmt.body, stmt, stmt.variables, "loop")
            case syntax.While():
                self.expression(stmt.condition)
                self.block(stmt.body)
            case syntax.If():
                self.expression(stmt.condition)
                self.block(stmt.then)
                if stmt.otherwise is not None:
                    self.block(stmt.otherwise)
            case syntax.Apply():
                self.use(stmt.fragment, FRAGMENTS, "a fragment")
                self._each((stmt.part,))
                self.block(stmt.body, stmt, stmt.variables, "coordinate")
            case syntax.Assign():
                self._assign(stmt)
            case syntax.ScalarDecl():
                self.expression(stmt.value)
                self.declare(stmt.name, "mutable" if stmt.mutable else "scalar", stmt, stmt.type)
            case syntax.ViewDecl():
                self.expression(stmt.view)
                self.declare(stmt.name, "view", stmt)
            case syntax.SharedDecl():
                self._each((*stmt.extents, stmt.tiles))
                self.declare(stmt.name, "shared", stmt, stmt.type)
            case syntax.LocalDecl():
                self._each((*stmt.extents, stmt.tiles, stmt.init))
                self.declare(stmt.name, "local", stmt, stmt.type)
            case syntax.EventDecl():
                self._each((stmt.slots, stmt.count))
                self.declare(stmt.name, "event", stmt)
            case syntax.FragDecl():
                self._each((*stmt.extents, stmt.init))
                self.declare(stmt.name, "fragment", stmt, stmt.type)
            case syntax.Transfer():
                self._transfer(stmt)
            case syntax.MmaFill():
                self.expression(stmt.value)
                self._fill(stmt, stmt.accumulator, stmt.type or "f32", "an accumulator")
            case syntax.MmaLoad():
                self.expression(stmt.source)
                self._fill(stmt, stmt.fragment, "bf16", "a register operand")
            case syntax.Mma():
                self.use(stmt.accumulator, FRAGMENTS, "an accumulator")
                for operand in (stmt.a, stmt.b):
                    self._operand(operand)
                if stmt.result is not None:
                    self.declare(stmt.result, "future", stmt)
            case syntax.MmaStore():
                self.use(stmt.accumulator, FRAGMENTS, "an accumulator")
                self.expression(stmt.destination)
            case syntax.Reduce():
                for name in (stmt.target, stmt.source):
                    self.use(name, FRAGMENTS, "a fragment")
                self.expression(stmt.dim)
            case syntax.AllReduce():
                self.use(stmt.target, FRAGMENTS, "a fragment")
            case syntax.CopyFragment():
                for name in (stmt.target, stmt.source):
                    self.use(name, FRAGMENTS, "a fragment")
            case syntax.Trigger():
                for target in stmt.targets:
                    self.use(target.name, EVENT, "an event")
                    self._each((target.index, target.order))
                for name in stmt.after:
                    self.use(name, FUTURE, "the future of a load")
            case syntax.CallStmt():
                self._call(stmt)
            case _:
                self._each(tuple(syntax.children(stmt)))

    def _parallel(self, stmt: syntax.Parallel) -> None:
        outside, self.in_kernel = self.in_kernel, True
        with self.inner():
            for level in stmt.levels:
                self._each(level.bounds)
            for level in stmt.levels:
                for variable in level.variables:
                    symbol = self.declare(variable, "level", level)
                    self.tables.declares[stmt] = (*self.tables.declares.get(stmt, ()), symbol)
            if stmt.launch_bounds is not None:
                self.expression(stmt.launch_bounds)
            self._statements(stmt.body)
        self.in_kernel = outside

    def _assign(self, stmt: syntax.Assign) -> None:
        self.expression(stmt.value)
        if isinstance(stmt.target, syntax.Element):
            self.expression(stmt.target)
            return
        name = stmt.target.id
        symbol = self.scope.find(name)
        if symbol is not None and symbol.kind == "mutable":
            self.tables.uses[stmt.target] = symbol
        elif symbol is None and stmt.op != "=":
            self.use(stmt.target, MUTABLE, "a mutable scalar")
        elif symbol is not None and (
            name in self.scope.names or stmt.op != "=" or symbol.kind not in SCALARS
        ):
            self.diagnostics.error(
                "not-assignable",
                stmt.target,
                f"{name} is {WITH_ARTICLE[symbol.kind]} and cannot be assigned",
                rule="only mutables can be assigned again",
                repair=ASSIGN_INSTEAD.get(symbol.kind, "choose another name"),
            )
        else:
            self.declare(name, "scalar", stmt)

    def _transfer(self, stmt: syntax.Transfer) -> None:
        self.expression(stmt.source)
        if stmt.destination is not None:
            self.expression(stmt.destination)
        if stmt.result is not None:
            self.declare(stmt.result, "future", stmt)
            if stmt.destination is None:
                buffer = Symbol(stmt.result, "shared", stmt)
                self.tables.symbols.append(buffer)
                self.tables.declares[stmt] = (*self.tables.declares[stmt], buffer)
        elif stmt.destination is None:
            self.diagnostics.error(
                "unnamed-buffer",
                stmt,
                "nothing names the anonymous buffer of this transfer",
                rule="'=> shared' makes a buffer that only the result's name can reach",
                repair="write 'tile = dma.copy .. => shared;'",
            )

    def _fill(
        self, stmt: syntax.MmaFill | syntax.MmaLoad, name: str, type_: str, what: str
    ) -> None:
        """A fill or a load declares its fragment (``what``), or sets a visible one again."""
        symbol = self.scope.find(name)
        if symbol is None:
            symbol = self.declare(name, "fragment", stmt, type_)
        elif symbol.kind != "fragment":
            operation = "mma.fill" if isinstance(stmt, syntax.MmaFill) else "mma.load"
            self.diagnostics.error(
                "wrong-kind",
                stmt,
                f"{name} is {WITH_ARTICLE[symbol.kind]}, but {what} is needed here",
                rule=f"{operation} declares {what}, or sets a visible one again",
                repair=f"choose another name for the {what.removeprefix('an ').removeprefix('a ')}",
            )
            return
        self.tables.fills[stmt] = symbol

    def _operand(self, operand: syntax.View) -> None:
        """An operand of an MMA: a view, or the name of a fragment."""
        if isinstance(operand.base, syntax.Name) and not operand.ops:
            symbol = self.scope.find(operand.base.id)
            if symbol is not None and symbol.kind == "fragment":
                self.tables.uses[operand.base] = symbol
                return
        self.expression(operand)

    def _call(self, stmt: syntax.CallStmt) -> None:
        self._each(stmt.template_args)
        for arg in stmt.args:
            base = arg.base if isinstance(arg, syntax.View) and not arg.ops else arg
            if isinstance(base, syntax.Name):
                self.use(base, ARGUMENTS, "a scalar, a fragment or a buffer")
            elif isinstance(base, syntax.Index):
                # One of an array of local buffers, or of shared tiles.
                self.use(base.base, BUFFERS | LOCALS, "an array of buffers")
                self.expression(base.index)
            else:
                self.expression(arg)
