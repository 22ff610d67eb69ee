"""``apply`` in CUDA: loops over the elements that a thread owns.

The outer loop runs over a thread's two rows, the inner one over its elements of that row. What
touches row vectors alone runs once a row, before the elements; what does not change along a row
is computed before them too, so that ``x * c - m * c`` is one FMA an element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from artifact.choreo import syntax
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_elements import memory_element
from artifact.choreo.emit_touches import Touches

_UNROLL = "#pragma unroll"


class ApplyLoop:
    """One ``apply`` statement on its way to text."""

    def __init__(self, ctx: Context, node: syntax.Apply) -> None:
        self._ctx = ctx
        self._node = node
        self._plan = ctx.tables.fragments[ctx.symbol(node.fragment)]
        coordinates = ctx.tables.declares[node]
        self._i = coordinates[0]
        self._j = coordinates[1] if len(coordinates) > 1 else None
        self._touch = Touches(ctx.tables, node)
        self._row = ""
        self._e = ""
        self._half: int | None = None
        self._hoisted = 0
        columns = ctx.tables.columns.get(node, range(self._plan.columns))
        self._owned = columns.start // 4, columns.stop // 4
        """The first of the elements that a thread owns in a row, and where they end."""

    def emit(self) -> None:
        """The loops."""
        if self._plan.layout == "row":
            with self._rows():
                for statement in self._node.body.body:
                    self._ctx.statement(statement)
            return
        once = [s for s in self._node.body.body if not self._touch.elements(s)]
        each = [s for s in self._node.body.body if self._touch.elements(s)]
        with self._rows():
            for statement in once:
                self._ctx.statement(statement)
            if not each:
                return
            for expression, known in self._touch.invariants(each):
                self._hoist(expression, known)
            for group in self._groups(each):
                if len(group) == 1 and self._stores_operand(group[0]) is not None:
                    self._pairs(group[0])
                elif len(group) == 1 and self._extreme(group[0]) is not None:
                    self._chains(group[0])
                else:
                    self._elements(group)

    def _hoist(self, expression: syntax.Expr, known: syntax.Expr | None) -> None:
        """A constant of the row; ``known`` is an equal expression that has one already."""
        replaced = self._ctx.expressions.replaced
        if known is not None:
            replaced[expression] = replaced[known]
            return
        name = self._ctx.names.fresh(f"row_{self._hoisted}")
        self._hoisted += 1
        self._ctx.out.line(f"const float {name} = {self._ctx.text(expression)};")
        replaced[expression] = name

    # Loops -------------------------------------------------------------------------------------

    @contextmanager
    def _rows(self) -> Iterator[None]:
        ctx = self._ctx
        outer = ctx.expressions.element, dict(ctx.expressions.replaced)
        ctx.out.flush_left(_UNROLL)
        with ctx.names.scope():
            self._row = ctx.names.fresh("row")
            head = f"for (int {self._row} = 0; {self._row} < 2; ++{self._row})"
            with ctx.block(head):
                if self._touch.uses(self._node.body, self._i):
                    name = ctx.names.declare(self._i)
                    ctx.out.line(f"const int {name} = cu::fragment_row() + 8 * {self._row};")
                ctx.expressions.element = self._element
                try:
                    yield
                finally:
                    ctx.expressions.element, ctx.expressions.replaced = outer

    def _elements(self, statements: list[syntax.Stmt]) -> None:
        with self._element_loop(1, any(self._touch.column(s) for s in statements)):
            for statement in statements:
                self._ctx.statement(statement)

    @contextmanager
    def _element_loop(self, step: int, column: bool) -> Iterator[None]:
        ctx = self._ctx
        ctx.out.flush_left(_UNROLL)
        with ctx.names.scope():
            e = self._e = ctx.names.fresh("e")
            advance = f"++{e}" if step == 1 else f"{e} += {step}"
            first, end = self._owned
            with ctx.block(f"for (int {e} = {first}; {e} < {end}; {advance})"):
                if column and self._j is not None:
                    name = ctx.names.declare(self._j)
                    ctx.out.line(f"const int {name} = {self._column(0)};")
                yield
            self._e = ""

    def _column(self, ahead: int) -> str:
        e = f"{self._e} + {ahead}" if ahead else self._e
        return f"cu::fragment_column() + cu::column_of({e})"

    def _pairs(self, statement: syntax.Stmt) -> None:
        """Two neighbouring columns at a time: they share a register of an operand."""
        ctx = self._ctx
        assign = self._stores_operand(statement)
        if assign is None or not isinstance(assign.target, syntax.Element):
            raise AssertionError("no store into an operand")
        fragment = ctx.names.of(ctx.symbol(assign.target.base))
        with self._element_loop(2, column=False):
            e = self._e
            target = f"{fragment}[cu::element({self._row}, {e}) / 2]"
            halves = []
            for ahead in (0, 1):
                self._half = ahead
                halves.append(self._ahead(e, ahead, assign.value))
            self._half = None
            ctx.out.call(f"{target} = cu::pack_bf16(", halves)

    def _extreme(self, statement: syntax.Stmt) -> syntax.BuiltinCall | None:
        """``row.at(i) = __max(row.at(i), e)`` (or ``__min``), where nothing else is a row's."""
        match statement:
            case syntax.Assign(
                target=syntax.Element() as target,
                op="=",
                value=syntax.BuiltinCall(name="__max" | "__min", args=(first, second)) as call,
            ):
                plan = self._touch.fragment(target)
                symbol = self._ctx.symbol(target.base)
                again = sum(self._ctx.tables.uses.get(n) is symbol for n in syntax.walk(second))
                if plan is not None and plan.layout == "row" and syntax.same(first, target):
                    return None if again else call
        return None

    def _chains(self, statement: syntax.Stmt) -> None:
        """A maximum or minimum along a row: two chains, half as deep as one.

        In which order the elements are compared does not matter; it would for a sum.
        """
        ctx = self._ctx
        call = self._extreme(statement)
        if call is None:
            raise AssertionError("no maximum or minimum along a row")
        row, function = ctx.text(call.args[0]), f"f{call.name[2:]}f"
        with ctx.names.scope():
            odd = ctx.names.fresh("odd")
            first = self._ahead(str(self._owned[0]), 1, call.args[1])
            ctx.out.line(f"float {odd} = {first};")
            with self._element_loop(2, column=False):
                e = self._e
                for ahead, chain in enumerate((row, odd)):
                    value = self._ahead(e, ahead, call.args[1])
                    ctx.out.line(f"{chain} = {function}({chain}, {value});")
            ctx.out.line(f"{row} = {function}({row}, {odd});")

    def _ahead(self, e: str, ahead: int, value: syntax.Expr) -> str:
        """A value at the element ``ahead`` of the one that a loop is at, in FP32."""
        outer = self._e
        self._e = f"{e} + {ahead}" if ahead else e
        if self._j is not None:
            self._ctx.names.alias(self._j, f"({self._column(0)})")
        text = self._as_float(value)
        self._e = outer
        return text

    def _groups(self, statements: list[syntax.Stmt]) -> list[list[syntax.Stmt]]:
        """Statements that share a loop; a store into an operand has its own where it may.

        Elements are independent of each other unless a row vector or another outer variable
        carries something along the row: only then the statements must stay together.
        """
        if any(self._carries(s) for s in statements):
            return [statements]
        groups: list[list[syntax.Stmt]] = []
        for statement in statements:
            apart = self._stores_operand(statement) is not None
            if groups and not apart and self._stores_operand(groups[-1][-1]) is None:
                groups[-1].append(statement)
            else:
                groups.append([statement])
        return groups

    def _carries(self, statement: syntax.Stmt) -> bool:
        """Whether a statement changes more than its own element, or declares something."""
        for node in syntax.walk(statement):
            if node in self._ctx.tables.declares:
                return True
            if isinstance(node, syntax.Assign) and not self._touch.is_matrix(node.target):
                return True
            if isinstance(node, syntax.ExprStmt):
                return True
        return False

    def _stores_operand(self, statement: syntax.Stmt) -> syntax.Assign | None:
        """The statement, if it is a plain store into an operand fragment."""
        if not isinstance(statement, syntax.Assign) or statement.op != "=":
            return None
        if not isinstance(statement.target, syntax.Element):
            return None
        plan = self._touch.fragment(statement.target)
        return statement if plan is not None and plan.layout == "operand" else None

    # Elements ----------------------------------------------------------------------------------

    def _element(self, node: syntax.Element) -> str:
        """An element access within the loops."""
        plan = self._touch.fragment(node)
        if plan is None:
            return memory_element(self._ctx, node)
        name = self._ctx.names.of(self._ctx.symbol(node.base))
        if plan.layout == "row":
            return f"{name}[{self._row}]"
        register = f"cu::element({self._row}, {self._e})"
        if plan.layout == "accumulator":
            return f"{name}[{register}]"
        packed = f"{name}[{register} / 2]"
        if self._half is not None:
            return f"cu::unpack_{('low', 'high')[self._half]}({packed})"
        return f"cu::get_bf16({packed}, {self._e})"

    def assign_operand(self, node: syntax.Assign) -> bool:
        """A store into half a register, where it could not be made one of a pair."""
        if not isinstance(node.target, syntax.Element):
            return False
        plan = self._touch.fragment(node.target)
        if plan is None or plan.layout != "operand":
            return False
        name = self._ctx.names.of(self._ctx.symbol(node.target.base))
        register = f"{name}[cu::element({self._row}, {self._e}) / 2]"
        value = self._as_float(node.value)
        if node.op != "=":
            value = f"{self._element(node.target)} {node.op[:-1]} ({value})"
        self._ctx.out.call("cu::set_bf16(", [register, self._e, value])
        return True

    def _as_float(self, node: syntax.Expr) -> str:
        """A value that is about to be rounded to BF16, as the FP32 that it is rounded from."""
        if isinstance(node, syntax.Convert) and node.type == "bf16":
            return self._as_float(node.operand)
        return self._ctx.expressions.single(node)


def emit_apply(ctx: Context, node: syntax.Apply) -> None:
    """One ``apply`` statement."""
    loop = ApplyLoop(ctx, node)
    outer: Callable[[syntax.Assign], bool] | None = ctx.assign_operand
    ctx.assign_operand = loop.assign_operand
    try:
        loop.emit()
    finally:
        ctx.assign_operand = outer
