"""A syntax tree back to ``.co`` text, which parses to the same tree.

C++ text is printed as it was. Functions are printed in one style, with their macros expanded: the
text means the same as long as no ``#undef`` or redefinition inside a function took a name that
the function still uses (such a name would expand again).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from artifact.choreo import syntax
from artifact.choreo.print_expressions import (
    SUM,
    print_at,
    print_expression,
    print_list,
    print_view,
)
from artifact.choreo.syntax import File, Function

_INDENT = "  "


def print_file(file: File) -> str:
    """The text of a file."""
    return "".join(
        print_function(part) if isinstance(part, Function) else part.text for part in file.parts
    )


def print_function(function: Function) -> str:
    """The text of one function, from ``__co__`` to its closing brace."""
    params = ", ".join(
        f"{'global ' * p.is_global}{p.type} [{print_list(p.extents)}] {p.name}"
        if isinstance(p, syntax.TensorParam)
        else f"{p.type} {p.name}"
        for p in function.params
    )
    head = f"__co__ {function.returns} {function.name}({params})"
    return head + " " + "\n".join(_block(function.body, ""))


# Statements: their lines, the first without the indentation that the others have -----------------


def _block(block: syntax.Block, indent: str) -> list[str]:
    inner = indent + _INDENT
    lines = ["{"]
    for statement in block.body:
        first, *rest = _statement(statement, inner)
        lines += [inner + first, *rest]
    return [*lines, indent + "}"]


def _headed(head: str, block: syntax.Block, indent: str) -> list[str]:
    first, *rest = _block(block, indent)
    return [f"{head} {first}", *rest]


def _statement(node: syntax.Stmt, indent: str) -> list[str]:
    if isinstance(node, syntax.Block):
        return _block(node, indent)
    if isinstance(node, syntax.Parallel):
        return _parallel(node, indent)
    if isinstance(node, syntax.If):
        lines = _headed(f"if ({print_expression(node.condition)})", node.then, indent)
        if node.otherwise is None:
            return lines
        first, *rest = _block(node.otherwise, indent)
        return [*lines[:-1], f"{lines[-1]} else {first}", *rest]
    if isinstance(node, syntax.Inthreads):
        head = f"inthreads{'.async' * node.is_async} ({print_expression(node.condition)})"
        return _headed(head, node.body, indent)
    if isinstance(node, syntax.Foreach):
        head = f"foreach {_pattern(node.variables)} in [{print_list(node.bounds)}]"
        return _headed(head, node.body, indent)
    if isinstance(node, syntax.While):
        return _headed(f"while ({print_expression(node.condition)})", node.body, indent)
    if isinstance(node, syntax.Apply):
        over = f"{node.fragment.id}.span"
        if node.part is not None:
            over = print_view(syntax.View(node.part.span, node.fragment, (node.part,)))
        head = f"apply {_pattern(node.variables)} in {over}"
        return _headed(head, node.body, indent)
    return [_simple(node) + ";"]


def _pattern(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _parallel(node: syntax.Parallel, indent: str) -> list[str]:
    levels = ", ".join(
        f"{_pattern(level.variables)} by [{print_list(level.bounds)}]"
        + (f" : {level.kind}" if level.kind else "")
        for level in node.levels
    )
    lines = _headed(f"parallel{'.async' * node.is_async} {levels}", node.body, indent)
    bounds = node.launch_bounds
    if bounds is None:
        return lines
    args = [bounds.max_threads, bounds.min_blocks, bounds.max_cluster]
    while len(args) > 1 and args[-1] is None:
        args.pop()
    shown = ", ".join("_" if a is None else print_expression(a) for a in args)
    return [f"[[launch_bounds({shown})]]", indent + lines[0], *lines[1:]]


@singledispatch
def _simple(node: syntax.Node) -> str:
    """A statement without a body, and without its ``;``."""
    raise TypeError(f"{type(node).__name__} is no statement")


@_simple.register
def _(node: syntax.ScalarDecl) -> str:
    words = ["mutable"] * node.mutable + [node.type] * (node.type is not None)
    return " ".join([*map(str, words), node.name, "=", print_expression(node.value)])


@_simple.register
def _(node: syntax.ViewDecl) -> str:
    return f"{node.name} = {print_view(node.view)}"


@_simple.register
def _(node: syntax.SharedDecl) -> str:
    return f"shared {node.type} [{print_list(node.extents)}] {node.name}{_slots(node.tiles)}"


@_simple.register
def _(node: syntax.LocalDecl) -> str:
    init = "" if node.init is None else f" {{{print_expression(node.init)}}}"
    extents = print_list(node.extents)
    return f"local {node.type} [{extents}] {node.name}{_slots(node.tiles)}{init}"


@_simple.register
def _(node: syntax.EventDecl) -> str:
    count = "" if node.count is None else f"<{print_at(node.count, SUM)}>"
    ready = " = ready" * node.ready
    return f"shared event{count} {node.name}{_slots(node.slots)}{ready}"


def _slots(count: syntax.Expr | None) -> str:
    return "" if count is None else f"[{print_expression(count)}]"


@_simple.register
def _(node: syntax.FragDecl) -> str:
    init = "" if node.init is None else f" {{{print_expression(node.init)}}}"
    return f"frag {node.type} [{print_list(node.extents)}] {node.name}{init}"


@_simple.register
def _(node: syntax.Assign) -> str:
    return f"{print_expression(node.target)} {node.op} {print_expression(node.value)}"


@_simple.register
def _(node: syntax.Break) -> str:
    del node
    return "break"


@_simple.register
def _(node: syntax.Continue) -> str:
    del node
    return "continue"


@_simple.register
def _(node: syntax.Return) -> str:
    del node
    return "return"


@_simple.register
def _(node: syntax.Transfer) -> str:
    result = "" if node.result is None else f"{node.result} = "
    modifiers = ".async" * node.is_async + (f".{node.evict}" if node.evict else "")
    if node.swizzle is not None:
        modifiers += f".swiz<{node.swizzle}>"
    place = "shared" if node.destination is None else print_view(node.destination)
    source = print_view(node.source)
    return f"{result}{node.engine}.{node.operation}{modifiers} {source} => {place}"


@_simple.register
def _(node: syntax.MmaFill) -> str:
    type_ = "" if node.type is None else f".{node.type}"
    return f"{node.accumulator} = mma.fill{type_} {print_expression(node.value)}"


@_simple.register
def _(node: syntax.Mma) -> str:
    result = "" if node.result is None else f"{node.result} = "
    operation = f"mma.{node.a_order}.{node.b_order}{'.async' * node.is_async}"
    operands = ", ".join([node.accumulator.id, print_view(node.a), print_view(node.b)])
    return f"{result}{operation} {operands}"


@_simple.register
def _(node: syntax.MmaLoad) -> str:
    return f"{node.fragment} = mma.load {print_view(node.source)}"


@_simple.register
def _(node: syntax.MmaStore) -> str:
    return f"mma.store {node.accumulator.id}, {print_view(node.destination)}"


@_simple.register
def _(node: syntax.Reduce) -> str:
    dim = print_expression(node.dim)
    return f"reduce_{node.kind}({node.target.id}, {node.source.id}, {dim})"


@_simple.register
def _(node: syntax.AllReduce) -> str:
    return f"all_reduce_{node.kind}({node.target.id})"


@_simple.register
def _(node: syntax.CopyFragment) -> str:
    return f"copy({node.target.id}, {node.source.id})"


@_simple.register
def _(node: syntax.Wait) -> str:
    return "wait " + ", ".join(map(_target, node.targets))


@_simple.register
def _(node: syntax.Trigger) -> str:
    after = " after " + print_list(node.after) if node.after else ""
    return "trigger " + ", ".join(map(_target, node.targets)) + after


def _target(target: syntax.Target) -> str:
    if target.order is not None:
        return f"{target.name.id}.at({print_expression(target.order)})"
    return target.name.id + _slots(target.index)


@_simple.register
def _(node: syntax.CallStmt) -> str:
    template = ", ".join(print_at(arg, SUM) for arg in node.template_args)
    return f"call {node.name.id}{f'<{template}>' * bool(template)}({print_list(node.args)})"


@_simple.register
def _(node: syntax.Assert) -> str:
    text = "" if node.text is None else f', "{node.text.text}"'
    return f"assert({print_expression(node.condition)}{text})"


@_simple.register
def _(node: syntax.ExprStmt) -> str:
    return print_expression(node.value)
