"""lark's trees of declarations and assignments to nodes."""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.syntax import Span
from artifact.choreo.tree_operations import Operations
from artifact.choreo.tree_reader import Parsed, span_of


class Declarations(Operations):
    """Makes nodes of what introduces or writes a name."""

    def frag(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``frag T [..] a {init}, ..;``: a node a name."""
        type_, extents, *names = tree.children
        return self._each(syntax.FragDecl, tree, type_, extents, names)

    def tiles(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``shared T [..] a, b[N];`` or ``local T [..] a {init}, b[N];``: a node a name."""
        storage, type_, extents, *names = tree.children
        word = str(storage.children[0])
        if word == "local":
            return self._each(syntax.LocalDecl, tree, type_, extents, names)
        if word == "global":
            raise self.fail(
                "unsupported",
                span_of(storage),
                "global buffers in a function are not supported",
                rule="memory of the device belongs to the caller, who gives it as a parameter",
                repair="write shared for a tile of the block, frag for registers of a warpgroup, "
                "local for an array of a thread, or make it a global parameter",
            )
        for item in names:
            if item.children[2] is not None:
                raise self.fail(
                    "syntax",
                    span_of(item.children[2]),
                    "a shared buffer has no initialiser",
                    rule="shared memory is filled by transfers and stores",
                    repair="leave it out",
                )
        return self._each(syntax.SharedDecl, tree, type_, extents, names)

    def _each(
        self,
        node: type[syntax.FragDecl] | type[syntax.SharedDecl] | type[syntax.LocalDecl],
        tree: Parsed,
        type_: Parsed,
        extents: Parsed,
        names: Sequence[Parsed],
    ) -> Sequence[syntax.Stmt]:
        """A node for each name, all of one type and shape; what stands behind a name is its own."""
        shape = self.exprs(extents)
        span = span_of(tree)
        # Of a fragment an initialiser, of a shared buffer a number of tiles, of a local one both.
        own = 2 if node is syntax.LocalDecl else 1
        return [
            node(
                _own(span, names, item),
                self.type(type_),
                shape,
                str(item.children[0]),
                *(None if part is None else self.expr(part) for part in item.children[1 : own + 1]),
            )
            for item in names
        ]

    def events(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``shared event a, b[N] = ready;``: a node a name."""
        storage, count, *names = tree.children
        word = None if storage is None else str(storage.children[0])
        if word != "shared":
            raise self.fail(
                "syntax" if word is None else "unsupported",
                span_of(tree if storage is None else storage),
                "an event needs its storage"
                if word is None
                else f"{word} events are not supported",
                rule="events are barriers in shared memory, between the threads of a block",
                repair="write shared event ..;",
            )
        threads = None if count is None else self.expr(count)
        span = span_of(tree)
        made = []
        for item in names:
            name, slots, initial = item.children
            ready = initial is not None
            if ready:
                value = self.view_or_expr(initial)
                if not (isinstance(value, syntax.Name) and value.id == "ready"):
                    raise self.fail(
                        "syntax",
                        span_of(initial),
                        "an event can only start as ready",
                        rule="without an initialiser its first generation is pending",
                        repair="write = ready, or leave the initialiser out",
                    )
            made.append(
                syntax.EventDecl(
                    _own(span, names, item),
                    str(name),
                    None if slots is None else self.expr(slots),
                    ready,
                    threads,
                )
            )
        return made

    def _value(self, name: Parsed, tree: Parsed, what: str) -> syntax.Expr:
        if tree.data == "operation":
            raise self.fail(
                "syntax",
                span_of(tree),
                f"a {what} cannot hold a future or an accumulator",
                repair=f"write {name} = ..; without a type",
            )
        return self.expr(tree)

    def mutable(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``mutable [T] k = e;``."""
        type_, name, value = tree.children
        checked = None if type_ is None else self.type(type_)
        expr = self._value(name, value, "mutable")
        return [syntax.ScalarDecl(span_of(tree), str(name), checked, True, expr)]

    def typed(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``T n = e;``."""
        type_, name, value = tree.children
        checked = self.type(type_)
        expr = self._value(name, value, "scalar")
        return [syntax.ScalarDecl(span_of(tree), str(name), checked, False, expr)]

    def assign(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``target = ..;``: an assignment, a view, or the result of an operation."""
        left, right = tree.children
        span = span_of(tree)
        if right.data == "operation":
            name = self.name(left)
            self._unqualified(name)
            return [self.operation(right, left.children[0], span)]
        value = self.view_or_expr(right)
        if isinstance(value, syntax.View):
            name = self.name(left)
            self._unqualified(name)
            return [syntax.ViewDecl(span, name.id, value)]
        return [syntax.Assign(span, self._place(left), "=", value)]

    def compound(self, tree: Parsed) -> Sequence[syntax.Stmt]:
        """``target op= e;``."""
        left, op, right = tree.children
        return [syntax.Assign(span_of(tree), self._place(left), str(op), self.expr(right))]

    def _place(self, tree: Parsed) -> syntax.Name | syntax.Element:
        """What an assignment can write."""
        target = self.view_or_expr(tree)
        if isinstance(target, syntax.Name):
            self._unqualified(target)
            return target
        if isinstance(target, syntax.Element):
            return target
        raise self.fail(
            "syntax",
            target.span,
            "this cannot be assigned",
            rule="an assignment writes a scalar or one element: name = ..; or name.at(i, j) = ..;",
        )

    def _unqualified(self, name: syntax.Name) -> None:
        if "::" in name.id:
            raise self.fail(
                "syntax", name.span, "a name of C++ cannot be assigned or declared here"
            )


def _own(statement: Span, items: Sequence[Parsed], item: Parsed) -> Span:
    """The place of one of a statement's declarations: the statement's, where it is the only one."""
    return statement if len(items) == 1 else span_of(item)
