"""Statements in CUDA: one function a statement, each after a comment with its source text."""

from __future__ import annotations

from collections.abc import Sequence

from artifact.choreo import syntax
from artifact.choreo.comparisons import is_comparison, is_vote
from artifact.choreo.emit_apply import emit_apply
from artifact.choreo.emit_beside import written_beside
from artifact.choreo.emit_calls import emit_call
from artifact.choreo.emit_context import Context
from artifact.choreo.emit_elements import declare_local, numbers_registers
from artifact.choreo.emit_events import trigger_event, wait_event
from artifact.choreo.emit_fragments import (
    declare_fragment,
    emit_all_reduce,
    emit_copy,
    emit_fill,
    emit_reduce,
)
from artifact.choreo.emit_mma import emit_load, emit_mma, emit_store, wait_mma
from artifact.choreo.emit_scalars import emit_scalar
from artifact.choreo.emit_stores import after_loop
from artifact.choreo.emit_threads import declare_levels
from artifact.choreo.emit_transfers import (
    complete_copies,
    emit_transfer,
    emit_trigger_after,
    is_cooperative,
)
from artifact.choreo.emit_turns import emit_turns
from artifact.choreo.emit_views import declare_view
from artifact.choreo.traverse import changed_name

_DECLARED_BEFORE = syntax.SharedDecl | syntax.EventDecl
"""What stands at the kernel's start, whatever block it is declared in."""


def emit_body(ctx: Context, statements: Sequence[syntax.Stmt]) -> None:
    """Statements in their order."""
    done = 0
    for position, node in enumerate(statements):
        if position >= done:
            done = position + emit_turns(ctx, statements[position:])
        if position < done:
            continue
        if isinstance(node, syntax.Transfer):
            ctx.quote(node)
            emit_transfer(ctx, node, kept=_interrupted(ctx, node, statements[position + 1 :]))
        elif isinstance(node, syntax.Wait):
            ctx.quote(node)
            for target in node.targets:
                _wait(ctx, target, statements[:position])
        else:
            emit_statement(ctx, node)


def _interrupted(ctx: Context, load: syntax.Transfer, following: Sequence[syntax.Stmt]) -> bool:
    """Whether anything but loads stands between a load and the trigger that issues it."""
    future = next((s for s in ctx.tables.declares.get(load, ()) if s.kind == "future"), None)
    for node in following:
        if isinstance(node, syntax.Trigger):
            return not any(ctx.symbol(name) is future for name in node.after)
        if not isinstance(node, syntax.Transfer):
            return True
    return True


def emit_statement(ctx: Context, node: syntax.Stmt) -> None:
    """One statement."""
    if isinstance(node, _DECLARED_BEFORE):
        return
    # Of apply the comment has the whole text.
    if not isinstance(node, syntax.Block) and ctx.assign_operand is None:
        _quote(ctx, node)
        if node in ctx.tables.moved:
            ctx.out.comment(ctx.tables.moved[node])
    match node:
        case syntax.ScalarDecl() | syntax.Assign():
            emit_scalar(ctx, node)
        case syntax.ViewDecl():
            declare_view(ctx, node)
        case syntax.FragDecl():
            declare_fragment(ctx, node)
        case syntax.LocalDecl():
            declare_local(ctx, node)
        case syntax.Block():
            with ctx.block():
                emit_body(ctx, node.body)
        case syntax.Parallel():
            with ctx.names.scope():
                declare_levels(ctx, node)
                emit_body(ctx, node.body.body)
        case syntax.Inthreads():
            _guarded(ctx, f"if ({ctx.text(node.condition)})", node.body)
        case syntax.Foreach():
            _foreach(ctx, node)
            after_loop(ctx, node)
        case syntax.While():
            _guarded(ctx, f"while ({ctx.text(node.condition)})", node.body)
            after_loop(ctx, node)
        case syntax.If():
            _if(ctx, node)
        case syntax.Break():
            ctx.out.line("break;")
        case syntax.Continue():
            ctx.out.line("continue;")
        case syntax.Return():
            ctx.out.line("return;")
        case syntax.ExprStmt():
            ctx.out.line(f"{ctx.text(node.value)};")
        case syntax.Assert():
            _assert(ctx, node)
        case syntax.CallStmt():
            emit_call(ctx, node)
        case _:
            _operation(ctx, node)


def _operation(ctx: Context, node: syntax.Stmt) -> None:
    """Statements that move data, compute on fragments or synchronise."""
    match node:
        case syntax.MmaFill():
            emit_fill(ctx, node)
        case syntax.Mma():
            emit_mma(ctx, node)
        case syntax.MmaLoad():
            emit_load(ctx, node)
        case syntax.MmaStore():
            emit_store(ctx, node)
        case syntax.Reduce():
            emit_reduce(ctx, node)
        case syntax.AllReduce():
            emit_all_reduce(ctx, node)
        case syntax.CopyFragment():
            emit_copy(ctx, node)
        case syntax.Apply():
            emit_apply(ctx, node)
        case syntax.Trigger():
            if node.after:
                emit_trigger_after(ctx, node)
            else:
                for target in node.targets:
                    trigger_event(ctx, target)
        case _:
            raise AssertionError(f"no statement of a kernel: {node}")


def _quote(ctx: Context, node: syntax.Stmt) -> None:
    """The statement's text; of one with a body that is blocks, the head alone."""
    match node:
        case syntax.Foreach() | syntax.While() | syntax.Inthreads() | syntax.Parallel():
            ctx.out.blank()
            ctx.quote(node, node.body)
        case syntax.If():
            ctx.quote(node, node.then)
        case _:
            ctx.quote(node)


def _guarded(ctx: Context, head: str, body: syntax.Block) -> None:
    with ctx.block(head):
        emit_body(ctx, body.body)


def _foreach(ctx: Context, node: syntax.Foreach, depth: int = 0) -> None:
    """Loops from 0; no trip at all is legal."""
    if depth == len(node.variables):
        emit_body(ctx, node.body.body)
        return
    symbol = ctx.tables.declares[node][depth]
    bound = ctx.text(node.bounds[depth], 9)
    with ctx.names.scope():
        if _may_change(ctx, node.bounds[depth], node.body):
            # The number of trips is what it was before the first one.
            name = ctx.names.fresh(f"{symbol.name}_bound")
            ctx.out.line(f"const {ctx.cxx_type(symbol)} {name} = {bound};")
            bound = name
        name = ctx.names.declare(symbol)
        kind = ctx.cxx_type(symbol)
        if numbers_registers(ctx, symbol, node):
            ctx.out.flush_left("#pragma unroll")
        with ctx.block(f"for ({kind} {name} = 0; {name} < {bound}; ++{name})"):
            _foreach(ctx, node, depth + 1)


def _may_change(ctx: Context, bound: syntax.Expr, body: syntax.Block) -> bool:
    """Whether a bound could have another value after a trip, or is too dear to ask each time."""
    for node in syntax.walk(bound):
        # Fragments change in many ways, and other threads write to a tensor.
        if is_comparison(node) or is_vote(node):
            return True
        if isinstance(node, syntax.Element) and ctx.symbol(node.base).kind == "tensor":
            return True
    return _assigned_in(ctx, bound, body)


def _assigned_in(ctx: Context, bound: syntax.Expr, body: syntax.Block) -> bool:
    names = [n for n in syntax.walk(bound) if isinstance(n, syntax.Name)]
    read = {ctx.symbol(n) for n in names if ctx.symbol(n).kind in ("mutable", "local")}
    if not read:
        return False
    for node in syntax.walk(body):
        name = changed_name(node)
        if name is not None and ctx.tables.uses.get(name) in read:
            return True
        if isinstance(node, syntax.CallStmt) and any(
            ctx.tables.uses.get(n) in read for n in syntax.walk(node)
        ):
            # A helper may write what it gets.
            return True
    return False


def _if(ctx: Context, node: syntax.If) -> None:
    head = f"if ({ctx.text(node.condition)})"
    if node.otherwise is None:
        _guarded(ctx, head, node.then)
        return
    with ctx.block(head, tail="} else {"):
        emit_body(ctx, node.then.body)
    with ctx.block(None):
        emit_body(ctx, node.otherwise.body)


def _assert(ctx: Context, node: syntax.Assert) -> None:
    if ctx.expressions.constant(node.condition) is not None:
        return
    condition = ctx.text(node.condition, 12)
    if ctx.tables.mmas:
        # A call that prints would make ptxas serialize every wgmma of the kernel.
        ctx.out.line(f"if (!{condition}) __trap();")
        return
    text = node.text.text if node.text else ctx.excerpt(node.condition).replace('"', "'")
    ctx.out.line(f'choreo::choreo_assert({ctx.text(node.condition)}, "{text}");')


def _wait(ctx: Context, target: syntax.Target, before: Sequence[syntax.Stmt]) -> None:
    plan = ctx.tables.waits[target]
    if is_cooperative(ctx, target):
        complete_copies(ctx, target)
    elif plan.kind == "mma":
        wait_mma(ctx, plan, written_beside(ctx.tables, before, plan))
    elif plan.kind == "event":
        wait_event(ctx, target)
    else:
        ctx.out.comment("Complete since the wait before.")
