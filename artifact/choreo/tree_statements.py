"""lark's tree of a function to a node: its parameters, threads, control flow, events and calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.syntax import Span
from artifact.choreo.tree_declarations import Declarations
from artifact.choreo.tree_reader import Malformed, Parsed, span_of

_FRAGMENT_CALLS = ("reduce_max", "reduce_sum", "all_reduce_max", "all_reduce_sum", "copy")
_LEVELS: dict[str, syntax.LevelKind] = {
    "block": "block",
    "group-4": "group-4",
    "group": "group",
    "thread": "thread",
}


def function(tree: Parsed, diagnostics: Diagnostics) -> syntax.Function:
    """The node of a whole function.

    What is malformed is reported to ``diagnostics``; the node then lacks it, and only the report
    may be used.
    """
    return _Statements(diagnostics).function(tree)


class _Statements(Declarations):
    """Makes statements; a malformed one is left out, its diagnostic kept."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics)
        self._anonymous = 0
        self._statements: dict[str, Callable[[Parsed], Sequence[syntax.Stmt]]] = {
            "block": lambda t: [self._block(t)],
            "empty": lambda t: [],
            "attributed": self._attributed,
            "parallel": lambda t: [self._parallel(t, None)],
            "inthreads": self._inthreads,
            "foreach": self._foreach,
            "apply": self._apply,
            "while_loop": self._while,
            "if_else": self._if,
            "break_loop": lambda t: [syntax.Break(span_of(t))],
            "continue_loop": lambda t: [syntax.Continue(span_of(t))],
            "return_": self._return,
            "wait": lambda t: [syntax.Wait(span_of(t), self._targets(t.children[0]))],
            "trigger": self._trigger,
            "call": self._call,
            "frag": self.frag,
            "tile_decl": self.tiles,
            "event_decl": self.events,
            "mutable": self.mutable,
            "typed": self.typed,
            "assign": self.assign,
            "compound": self.compound,
            "bare": self._bare,
            "bare_operation": lambda t: [self.operation(t.children[0], None, span_of(t))],
        }

    def function(self, tree: Parsed) -> syntax.Function:
        returns, name, *params, body = tree.children
        type_, extents = returns.children
        if type_ != "void" or extents is not None:
            self._diagnostics.error(
                "unsupported",
                span_of(returns),
                "a __co__ function that returns a value is not supported",
                repair="return void and write through a global parameter",
            )
        made: list[syntax.TensorParam | syntax.ScalarParam] = []
        for param in params:
            if param is not None:
                try:
                    made.append(self._param(param))
                except Malformed:
                    continue
        return syntax.Function(span_of(tree), "void", str(name), tuple(made), self._block(body))

    def _param(self, tree: Parsed) -> syntax.TensorParam | syntax.ScalarParam:
        storage, type_, extents, name = tree.children
        word = None if storage is None else str(storage.children[0])
        if word not in (None, "global"):
            raise self.fail("syntax", span_of(storage), f"a parameter cannot be {word}")
        if extents is not None:
            return syntax.TensorParam(
                span_of(tree),
                word is not None,
                self.type(type_),
                self.exprs(extents),
                str(name),
            )
        if word is not None:
            raise self.fail(
                "syntax",
                span_of(tree),
                "a global parameter needs a shape",
                repair=f"write global {type_} [N] {name}, or {type_} {name} for a scalar",
            )
        return syntax.ScalarParam(span_of(tree), self.type(type_), str(name))

    # Bodies ------------------------------------------------------------------------------------

    def _block(self, tree: Parsed) -> syntax.Block:
        body: list[syntax.Stmt] = []
        for child in tree.children:
            try:
                body += self._statements[str(child.data)](child)
            except Malformed:
                continue
        return syntax.Block(span_of(tree), tuple(body))

    def _body(self, tree: Parsed) -> syntax.Block:
        """A body: a block, or one statement as a block of its own."""
        if tree.data == "block":
            return self._block(tree)
        try:
            body = self._statements[str(tree.data)](tree)
        except Malformed:
            body = ()
        return syntax.Block(span_of(tree), tuple(body))

    # Threads and control flow ------------------------------------------------------------------

    def _attributed(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        *attributes, statement = tree.children
        bounds: syntax.LaunchBounds | None = None
        for attribute in attributes:
            name, args = attribute.children
            span = span_of(attribute)
            if name == "maxnreg":
                self._diagnostics.error(
                    "unsupported",
                    span,
                    "[[maxnreg(n)]] is not supported",
                    repair="write [[launch_bounds(_, 1)]], and setreg_dec and setreg_inc by role",
                )
            elif name == "schedule":
                self._diagnostics.error(
                    "unsupported",
                    span,
                    "[[schedule(..)]] is not supported",
                    rule="the K steps of a matrix operation are issued in ascending order",
                    repair="leave the attribute out",
                )
            elif name != "launch_bounds":
                raise self.fail(
                    "syntax",
                    span,
                    f"there is no attribute {name}",
                    repair="write [[launch_bounds(_, 1)]]",
                )
            elif bounds is not None or statement.data != "parallel":
                raise self.fail("syntax", span, "launch_bounds stands once before a parallel")
            else:
                bounds = self._launch_bounds(span, [] if args is None else args.children)
        if statement.data == "parallel":
            return [self._parallel(statement, bounds)]
        return self._statements[str(statement.data)](statement)

    def _launch_bounds(self, span: Span, args: Sequence[Parsed]) -> syntax.LaunchBounds:
        if not 1 <= len(args) <= 3:
            raise self.fail("syntax", span, "launch_bounds takes one to three arguments")
        values = [
            None if isinstance(value := self.extent(arg), syntax.Wildcard) else value
            for arg in args
        ]
        return syntax.LaunchBounds(span, *values, *[None] * (3 - len(values)))

    def _parallel(self, tree: Parsed, bounds: syntax.LaunchBounds | None) -> syntax.Parallel:
        is_async, *levels, body = tree.children
        return syntax.Parallel(
            span_of(tree),
            is_async is not None,
            tuple(map(self._level, levels)),
            bounds,
            self._body(body),
        )

    def _level(self, tree: Parsed) -> syntax.Level:
        pattern, bounds, kind = tree.children
        values = self._bounds(bounds)
        if pattern is None:
            # No program can have these names: two underscores are C++'s own.
            names = tuple(f"__level{self._anonymous + i}" for i in range(len(values)))
            self._anonymous += len(values)
        else:
            names = self._pattern(pattern, len(values))
        level = None
        if kind is not None:
            word = str(kind.children[0])
            if word not in _LEVELS:
                raise self.fail(
                    "syntax",
                    span_of(kind),
                    f"there is no level {word}",
                    rule="the levels are block, group-4 (a warpgroup), group (a warp) and thread",
                )
            level = _LEVELS[word]
        return syntax.Level(span_of(tree), names, values, level)

    def _bounds(self, tree: Parsed) -> tuple[syntax.Expr, ...]:
        (inner,) = tree.children
        return self.exprs(inner) if inner.data == "exprs" else (self.expr(inner),)

    def _pattern(self, tree: Parsed, count: int) -> tuple[str, ...]:
        names = tuple(map(str, tree.children))
        if len(names) != count:
            raise self.fail(
                "syntax",
                span_of(tree),
                f"{len(names)} variable{'s' * (len(names) != 1)} for {count} "
                f"bound{'s' * (count != 1)}",
            )
        return names

    def _inthreads(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        is_async, condition, body = tree.children
        return [
            syntax.Inthreads(
                span_of(tree), is_async is not None, self.expr(condition), self._body(body)
            )
        ]

    def _foreach(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        pattern, bounds, body = tree.children
        values = self._bounds(bounds)
        names = self._pattern(pattern, len(values))
        return [syntax.Foreach(span_of(tree), names, values, self._body(body))]

    def _apply(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        pattern, what, body = tree.children
        over = self.view_or_expr(what)
        names = tuple(map(str, pattern.children))
        match over:
            case syntax.Extent(dim=None, count=False):
                return [syntax.Apply(span_of(tree), names, over.base, None, self._body(body))]
            case syntax.View(
                base=syntax.Name() as fragment, ops=(syntax.Subspan() | syntax.ViewFrom() as part,)
            ):
                return [syntax.Apply(span_of(tree), names, fragment, part, self._body(body))]
        raise self.fail(
            "syntax",
            over.span,
            "apply runs over a fragment, or over a part of its columns",
            repair="write apply {i, j} in fragment.span, or in fragment.subspan(_, c).at(0, k)",
        )

    def _while(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        condition, body = tree.children
        return [syntax.While(span_of(tree), self.expr(condition), self._body(body))]

    def _if(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        condition, then, otherwise = tree.children
        return [
            syntax.If(
                span_of(tree),
                self.expr(condition),
                self._body(then),
                None if otherwise is None else self._body(otherwise),
            )
        ]

    def _return(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        if tree.children[0] is not None:
            raise self.fail("syntax", span_of(tree), "a __co__ function returns nothing")
        return [syntax.Return(span_of(tree))]

    # Events and calls --------------------------------------------------------------------------

    def _targets(self, tree: Parsed) -> tuple[syntax.Target, ...]:
        return tuple(map(self.target, tree.children))

    def _trigger(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        targets, after = tree.children
        futures = () if after is None else tuple(map(self.name, after.children))
        return [syntax.Trigger(span_of(tree), self._targets(targets), futures)]

    def _call(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        name, template, args = tree.children
        text = "::".join(map(str, name.children))
        return [
            syntax.CallStmt(
                span_of(tree),
                syntax.Name(span_of(name), text),
                self.exprs(template),
                () if args is None else tuple(map(self._argument, args.children)),
            )
        ]

    def _argument(self, tree: Parsed) -> syntax.Expr | syntax.View:
        """What a call passes: ``x[i]`` is a whole tile or buffer."""
        node = self.view_or_expr(tree)
        return syntax.View(node.span, node, ()) if isinstance(node, syntax.Index) else node

    def _bare(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """A statement that is an expression: few are in the language."""
        value = self.view_or_expr(tree.children[0])
        span = span_of(tree)
        if isinstance(value, syntax.Increment):
            return [syntax.ExprStmt(span, value)]
        if not isinstance(value, syntax.BuiltinCall):
            raise self.fail("syntax", span, "this statement does nothing")
        if value.name == "assert":
            return [self._assert(span, value.args)]
        if value.name in _FRAGMENT_CALLS:
            return [self._fragment_call(span, value)]
        if re.fullmatch(r"(\w+::)*setreg_(inc|dec)", value.name):
            register = value.name.rpartition("::")[2]
            argument = value.args[0] if len(value.args) == 1 else None
            shown = argument.text if isinstance(argument, syntax.IntLit) else ".."
            raise self.fail(
                "old-form",
                span,
                f"{value.name} needs call and its full name",
                repair=f"write call croq::cuda::{register}({shown});",
            )
        raise self.fail(
            "syntax",
            span,
            f"{value.name}(..) is no statement",
            rule="a function of C++ is called by call name(..);",
            repair=f"write call {value.name}(..);",
        )

    def _assert(self, span: Span, args: tuple[syntax.Expr, ...]) -> syntax.Assert:
        text = args[1] if len(args) == 2 else None
        if isinstance(text, syntax.StringLit) or len(args) == 1:
            assert not isinstance(text, syntax.Expr) or isinstance(text, syntax.StringLit)
            return syntax.Assert(span, args[0], text)
        raise self.fail("syntax", span, "assert takes a condition and a text")

    def _fragment_call(self, span: Span, call: syntax.BuiltinCall) -> syntax.Stmt:
        forms = {
            "reduce_max": "reduce_max(target, source, 1)",
            "reduce_sum": "reduce_sum(target, source, 1)",
            "all_reduce_max": "all_reduce_max(vector)",
            "all_reduce_sum": "all_reduce_sum(vector)",
            "copy": "copy(target, source)",
        }
        form = forms[call.name]
        names = [a for a in call.args if isinstance(a, syntax.Name)]
        wanted = {"all_reduce_max": 1, "all_reduce_sum": 1, "copy": 2}.get(call.name, 3)
        operands = min(wanted, 2)
        if len(call.args) != wanted or list(call.args[:operands]) != names[:operands]:
            raise self.fail("syntax", span, f"{call.name} takes names: {form}")
        if call.name == "copy":
            return syntax.CopyFragment(span, names[0], names[1])
        kind: Literal["max", "sum"] = "max" if call.name.endswith("max") else "sum"
        if wanted == 1:
            return syntax.AllReduce(span, kind, names[0])
        return syntax.Reduce(span, kind, names[0], names[1], call.args[2])
