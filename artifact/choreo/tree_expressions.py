"""lark's trees of expressions and views to nodes of the syntax tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from artifact.choreo import syntax
from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.syntax import Span
from artifact.choreo.tree_reader import Parsed, Reader, between, likely, span_of

VIEW_MEMBERS = (".subspan", ".view", ".chunkat", ".span_as", ".sqz")
_MEMBERS = (*VIEW_MEMBERS, ".step", ".at", ".from", ".span")
_UNSUPPORTED = {
    ".data": "leave it out: a future's name is its buffer",
    ".modspan": "write .subspan(..).at(..)",
    ".chunk": "write .chunkat(..)",
}

#: Levels of an expression; compiler.py allows as many calls as that takes.
DEEPEST = 250


@dataclass(frozen=True)
class _Link:
    """One ``.member``, ``.member(args)`` or ``[index]`` of a chain; an index is named ``[``."""

    name: str
    span: Span
    args: tuple[Parsed, ...] | None


class Expressions(Reader):
    """Makes nodes of expressions and views."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(diagnostics)
        self._depth = 0
        self._forms: dict[str, Callable[[Parsed], syntax.Expr]] = {
            "number": self.number,
            "string": self._string,
            "true": lambda t: syntax.BoolLit(span_of(t), True),
            "false": lambda t: syntax.BoolLit(span_of(t), False),
            "inf": lambda t: syntax.Infinity(span_of(t)),
            "wildcard": self._misplaced_wildcard,
            "unary": self._unary,
            "binary": self._binary,
            "ternary": lambda t: syntax.Ternary(span_of(t), *self._all(t.children)),
            "compose": lambda t: syntax.Compose(span_of(t), *self._all(t.children)),
            "before": self._increment,
            "after": self._increment,
            "bound": lambda t: syntax.Bound(span_of(t), self.name(t.children[0])),
            "count": self._count,
            "group": lambda t: replace(self.expr(t.children[0]), span=span_of(t)),
            "convert": self._convert,
        }

    # What a place may hold ---------------------------------------------------------------------

    def expr(self, tree: Parsed) -> syntax.Expr:
        """A value."""
        node = self._any(tree)
        if isinstance(node, syntax.View):
            raise self.fail(
                "syntax",
                node.span,
                "a view stands where a value is needed",
                repair="name one element with .at(..)",
            )
        return node

    def exprs(self, tree: Parsed) -> tuple[syntax.Expr, ...]:
        """The values of a list; none of an absent one."""
        return () if tree is None else self._all(tree.children)

    def view(self, tree: Parsed) -> syntax.View:
        """A view, or a name or tile that stands for one."""
        node = self._any(tree)
        if isinstance(node, syntax.View):
            return node
        if isinstance(node, (syntax.Name, syntax.Index)):
            return syntax.View(node.span, node, ())
        raise self.fail(
            "syntax", node.span, "a view is needed here: a buffer, a tile, or a part of one"
        )

    def view_or_expr(self, tree: Parsed) -> syntax.View | syntax.Expr:
        """A value, or a view with at least one operation."""
        return self._any(tree)

    def name(self, tree: Parsed) -> syntax.Name:
        """A name and nothing else."""
        node = self._any(tree)
        if not isinstance(node, syntax.Name):
            raise self.fail("syntax", node.span, "only a name can stand here")
        return node

    def extent(self, tree: Parsed) -> syntax.Expr | syntax.Wildcard:
        """A value or ``_``."""
        if getattr(tree, "data", None) == "wildcard":
            return syntax.Wildcard(span_of(tree))
        return self.expr(tree)

    def target(self, tree: Parsed) -> syntax.Target:
        """What ``wait`` and ``trigger`` name: ``e``, ``e[i]`` or ``e.at(order)``."""
        name, links = self._chain(tree)
        if isinstance(name, syntax.Name):
            span = span_of(tree)
            if not links:
                return syntax.Target(span, name, None, None)
            link = links[0]
            if len(links) == 1 and link.name == "[":
                return syntax.Target(span, name, self.expr(self._args(link, 1)[0]), None)
            if len(links) == 1 and link.name == ".at":
                return syntax.Target(span, name, None, self.expr(self._args(link, 1)[0]))
        raise self.fail(
            "syntax",
            span_of(tree),
            "this is no event or future",
            rule="wait and trigger name e, e.at(order), or a future",
        )

    # Chains ------------------------------------------------------------------------------------

    def _chain(self, tree: Parsed) -> tuple[syntax.Expr, list[_Link]]:
        """The begin of ``a.b(..)[..]..`` and its links, left to right."""
        links: list[_Link] = []
        while (data := getattr(tree, "data", None)) in ("member", "method", "index"):
            base, *rest = tree.children
            whole = span_of(tree)
            if data == "index":
                links.append(_Link("[", whole, (rest[0],)))
            else:
                args = None
                if data == "method":
                    args = () if rest[1] is None else tuple(rest[1].children)
                span = between(span_of(rest[0]), whole)
                links.append(_Link(str(rest[0]), span, args))
            tree = base
        links.reverse()
        if data == "qualified":
            text = "::".join(map(str, tree.children))
            return syntax.Name(span_of(tree), text), links
        if data == "called":
            name, args = tree.children
            text = "::".join(map(str, name.children))
            call = syntax.BuiltinCall(span_of(tree), text, self.exprs(args))
            if links:
                raise self.fail("syntax", links[0].span, "the result of a call has no members")
            return call, links
        return self._forms[str(data)](tree), links

    def _any(self, tree: Parsed) -> syntax.Expr | syntax.View:
        if self._depth == DEEPEST:
            raise self.fail(
                "unsupported",
                span_of(tree),
                f"an expression of more than {DEEPEST} levels",
                rule="each operand of an operator, and each pair of parentheses, is a level",
                repair="name parts of it: 'part = ..;'",
            )
        self._depth += 1
        try:
            return self._chained(tree)
        finally:
            self._depth -= 1

    def _chained(self, tree: Parsed) -> syntax.Expr | syntax.View:
        base, links = self._chain(tree)
        if not links:
            return base
        assert isinstance(base, syntax.Name)  # the grammar gives links to names and calls alone
        span = span_of(tree)
        for link in links:
            self._known(link)
        if any(link.name in VIEW_MEMBERS for link in links):
            return self._view(span, base, links)
        link = links[0]
        tile = None
        if link.name == "[" and len(links) == 2 and links[1].name == ".at":
            tile, link = self.expr(self._args(link, 1)[0]), links[1]
        elif len(links) > 1:
            raise self.fail(
                "syntax",
                links[1].span,
                "nothing can follow here",
                rule=f"x{'[i]' if link.name == '[' else link.name + '(..)'} is one element or "
                "tile; only a view has further operations",
            )
        if link.name == "[":
            return syntax.Index(span, base, self.expr(self._args(link, 1)[0]))
        if link.name == ".at":
            return syntax.Element(span, base, tile, self._all(self._args(link)))
        if link.name == ".span":
            dim = None if link.args is None else self.expr(self._args(link, 1)[0])
            return syntax.Extent(span, base, dim)
        raise self.fail(
            "syntax", link.span, f"{link.name} has nothing before it that it belongs to"
        )

    def _known(self, link: _Link) -> None:
        if link.name == "[" or link.name in _MEMBERS:
            return
        if repair := _UNSUPPORTED.get(link.name):
            raise self.fail(
                "unsupported", link.span, f"{link.name} is not supported", repair=repair
            )
        raise self.fail(
            "syntax",
            link.span,
            f"there is no member {link.name}",
            repair=likely(link.name, _MEMBERS),
        )

    def _args(self, link: _Link, count: int | None = None) -> tuple[Parsed, ...]:
        """The arguments of a link; an error unless there are ``count`` (null: at least one)."""
        args = link.args or ()
        if len(args) == count or (count is None and args):
            return args
        wanted = "arguments" if count is None else f"{count} argument{'s' * (count != 1)}"
        raise self.fail("syntax", link.span, f"{link.name} needs {wanted}")

    def _view(self, span: Span, base: syntax.Name, links: list[_Link]) -> syntax.View:
        root: syntax.Name | syntax.Index = base
        rest = list(links)
        if rest[0].name == "[":
            link = rest.pop(0)
            root = syntax.Index(
                between(base.span, link.span), base, self.expr(self._args(link, 1)[0])
            )
        ops: list[syntax.ViewOp] = []
        while rest:
            ops.append(self._operation(rest))
        return syntax.View(span, root, tuple(ops))

    def _operation(self, rest: list[_Link]) -> syntax.ViewOp:
        """The next operation of a view; takes its links from ``rest``."""
        link = rest.pop(0)

        def follows(name: str) -> _Link | None:
            return rest.pop(0) if rest and rest[0].name == name else None

        if link.name == ".subspan":
            extents = tuple(map(self.extent, self._args(link)))
            step, at = follows(".step"), follows(".at")
            last = at or step or link
            return syntax.Subspan(
                between(link.span, last.span),
                extents,
                None if step is None else self._all(self._args(step)),
                None if at is None else self._all(self._args(at)),
            )
        if link.name == ".view":
            extents_ = self._all(self._args(link))
            offsets = follows(".from")
            return syntax.ViewFrom(
                between(link.span, (offsets or link).span),
                extents_,
                None if offsets is None else self._all(self._args(offsets)),
            )
        if link.name == ".chunkat":
            return syntax.ChunkAt(link.span, tuple(map(self.extent, self._args(link))))
        if link.name == ".span_as":
            return syntax.SpanAs(link.span, self._all(self._args(link)))
        if link.name == ".sqz":
            if link.args != ():
                raise self.fail("syntax", link.span, "write .sqz()")
            return syntax.Squeeze(link.span)
        after = {
            ".at": ".at(..) of a view comes after .subspan(..), or .subspan(..).step(..)",
            ".step": ".step(..) comes right after .subspan(..)",
            ".from": ".from(..) comes right after .view(..)",
            ".span": "the shape of a view is that of its .subspan(..)",
            "[": "a tile is chosen right after the buffer's name",
        }
        shown = "[..]" if link.name == "[" else link.name
        raise self.fail("syntax", link.span, f"{shown} cannot stand here", rule=after[link.name])

    # Other forms -------------------------------------------------------------------------------

    def _all(self, trees: Iterable[Parsed]) -> tuple[syntax.Expr, ...]:
        return tuple(self.expr(tree) for tree in trees)

    def _string(self, tree: Parsed) -> syntax.Expr:
        return syntax.StringLit(span_of(tree), "".join(str(token)[1:-1] for token in tree.children))

    def _misplaced_wildcard(self, tree: Parsed) -> NoReturn:
        raise self.fail(
            "syntax",
            span_of(tree),
            "'_' cannot stand here",
            rule="'_' is a whole dimension: an extent of .subspan or a factor of .chunkat",
        )

    def _unary(self, tree: Parsed) -> syntax.Expr:
        op, operand = tree.children
        return syntax.Unary(span_of(tree), str(op), self.expr(operand))

    def _binary(self, tree: Parsed) -> syntax.Expr:
        left, op, right = tree.children
        return syntax.Binary(span_of(tree), str(op), self.expr(left), self.expr(right))

    def _increment(self, tree: Parsed) -> syntax.Increment:
        prefix = tree.data == "before"
        op, name = tree.children if prefix else reversed(tree.children)
        what: syntax.Increment = syntax.Increment(
            span_of(tree), "++" if op == "++" else "--", prefix, self.name(name)
        )
        return what

    def _count(self, tree: Parsed) -> syntax.Expr:
        (token,) = tree.children
        name = syntax.Name(span_of(token), str(token))
        return syntax.Extent(span_of(tree), name, None, count=True)

    def _convert(self, tree: Parsed) -> syntax.Expr:
        type_, operand = tree.children
        return syntax.Convert(span_of(tree), self.type(type_), self.expr(operand))
