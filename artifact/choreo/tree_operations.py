"""lark's trees of ``dma``, ``tma`` and ``mma`` statements to nodes, and the old forms of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from artifact.choreo import syntax
from artifact.choreo.lexer import ELEMENT_TYPES
from artifact.choreo.print_expressions import print_expression
from artifact.choreo.syntax import Span
from artifact.choreo.tree_expressions import Expressions
from artifact.choreo.tree_reader import Malformed, Parsed, between, span_of

_TRANSFER_ORDER = "an operation, .async, .evict_first or .evict_last, .swiz<32|64|128>"


@dataclass(frozen=True)
class _Modifier:
    """``.word`` or ``.word<argument>``."""

    name: str
    span: Span
    argument: Parsed


@dataclass(frozen=True)
class _Operation:
    """The parts of an operation statement before they are judged."""

    span: Span
    result: Parsed
    engine: str
    modifiers: list[_Modifier]
    operands: list[Parsed]
    destination: Parsed

    @property
    def shown(self) -> str:
        return self.engine + "".join(m.name for m in self.modifiers[:1])


class Operations(Expressions):
    """Makes nodes of data movement and matrix operations."""

    def operation(self, tree: Parsed, result: Parsed, span: Span) -> syntax.Stmt:
        """The statement of an operation, bound to the name ``result`` where there is one."""
        engine, *modifiers, operands, destination = tree.children
        parts = _Operation(
            span,
            result,
            str(engine.children[0]),
            [_Modifier(str(m.children[0]), span_of(m), m.children[1]) for m in modifiers],
            [] if operands is None else list(operands.children),
            destination,
        )
        if not parts.modifiers:
            raise self.fail(
                "syntax", span_of(engine), f"{parts.engine} needs an operation after it"
            )
        if parts.engine == "mma":
            return self._mma(parts)
        return self._transfer(parts)

    # Transfers ---------------------------------------------------------------------------------

    def _transfer(self, parts: _Operation) -> syntax.Transfer:
        first = parts.modifiers[0]
        self._transfer_name(parts, first)
        is_async, evict, swizzle = False, None, None
        for modifier in parts.modifiers[1:]:
            if modifier.name == ".async":
                if modifier.argument is not None:
                    raise self._inline_event(parts, modifier)
                if is_async or evict or swizzle:
                    self._order(modifier)
                is_async = True
            elif modifier.name in (".evict_first", ".evict_last"):
                evict = self._evict(parts, modifier, evict, swizzle)
            elif modifier.name in (".swiz", ".swizzle"):
                if swizzle is not None:
                    self._order(modifier)
                swizzle = self._swizzle(modifier)
            else:
                raise self.fail(
                    "syntax",
                    modifier.span,
                    f"{parts.shown} has no modifier {modifier.name}",
                    rule=f"the modifiers are, in this order: {_TRANSFER_ORDER}",
                )
        if len(parts.operands) != 1 or parts.destination is None:
            raise self.fail(
                "syntax",
                parts.span,
                f"{parts.shown} moves one view to one destination",
                repair=f"write {parts.shown} source => destination;",
            )
        anonymous = getattr(parts.destination, "data", None) == "anonymous"
        if not anonymous:
            (place,) = parts.destination.children
        return syntax.Transfer(
            parts.span,
            None if parts.result is None else str(parts.result),
            "tma" if parts.engine == "tma" else "dma",
            "load" if first.name == ".load" else "copy",
            is_async,
            evict,
            swizzle,
            self.view(parts.operands[0]),
            None if anonymous else self.view(place),
        )

    def _transfer_name(self, parts: _Operation, first: _Modifier) -> None:
        if first.name == ".load" and parts.engine == "dma":
            raise self.fail(
                "old-form",
                first.span,
                "dma has no load",
                rule="dma.copy is the cooperative copy, tma.load the asynchronous one",
                repair="write dma.copy, or tma.load",
            )
        if first.name == ".store":
            raise self.fail(
                "old-form",
                first.span,
                f"{parts.engine} has no store",
                rule="tma.copy from shared memory to a global view is the store",
                repair="write tma.copy tile => view;",
            )
        if first.name not in (".copy", ".load"):
            raise self.fail(
                "syntax",
                first.span,
                f"{parts.engine} has no operation {first.name}",
                repair="write dma.copy, tma.load or tma.copy",
            )
        if first.argument is not None:
            raise self._inline_event(parts, first)

    def _inline_event(self, parts: _Operation, modifier: _Modifier) -> Malformed:
        name = "load" if parts.result is None else str(parts.result)
        event = "event"
        if modifier.argument is not None:
            event = print_expression(self.expr(modifier.argument))
        return self.fail(
            "old-form",
            modifier.span,
            "an event cannot be named inside a transfer",
            rule="the completion of an asynchronous load is handed to an event by trigger .. after",
            repair=f"write {name} = tma.load.async .. => ..; trigger {event} after {name};",
        )

    def _evict(
        self, parts: _Operation, modifier: _Modifier, evict: str | None, swizzle: int | None
    ) -> Literal["evict_first", "evict_last"]:
        if modifier.argument is not None:
            raise self.fail("syntax", modifier.span, f"{modifier.name} takes no argument")
        if parts.shown != "tma.load":
            raise self.fail(
                "syntax",
                modifier.span,
                f"{parts.shown} takes no eviction hint",
                rule="eviction hints are for loads from global memory by tma.load",
                repair="leave the hint out, or write tma.load for a load",
            )
        if swizzle is not None:
            raise self.fail(
                "syntax",
                modifier.span,
                "the eviction hint must precede .swiz",
                rule=f"the modifiers are, in this order: {_TRANSFER_ORDER}",
                repair=f"write {modifier.name}.swiz<{swizzle}>",
            )
        if evict is not None:
            self._order(modifier)
        return "evict_first" if modifier.name == ".evict_first" else "evict_last"

    def _swizzle(self, modifier: _Modifier) -> int:
        if modifier.argument is None:
            raise self.fail("syntax", modifier.span, f"{modifier.name} needs the number of bytes")
        value = self.expr(modifier.argument)
        if not isinstance(value, syntax.IntLit) or value.value not in (32, 64, 128):
            raise self.fail(
                "swizzle",
                value.span,
                "the swizzle must be 32, 64 or 128",
                rule="it is the number of bytes that the hardware permutes 16-byte chunks in",
                repair="write .swiz<128> for tiles whose rows are 128 bytes or longer",
            )
        return value.value

    def _order(self, modifier: _Modifier) -> None:
        raise self.fail(
            "syntax",
            modifier.span,
            f"{modifier.name} is not in its place, or there twice",
            rule=f"the modifiers are, in this order: {_TRANSFER_ORDER}",
        )

    # Matrix operations -------------------------------------------------------------------------

    def _mma(self, parts: _Operation) -> syntax.Stmt:
        first = parts.modifiers[0]
        if first.name == ".fill":
            return self._fill(parts)
        if first.name == ".store":
            return self._store(parts)
        if first.name in (".row", ".col"):
            return self._multiply(parts)
        if first.name == ".wait":
            raise self.fail(
                "old-form",
                first.span,
                "mma.wait is not in the language",
                rule="each asynchronous operation has a future; the compiler finds the wait depth",
                repair="write op = mma.row.row.async ..; and wait op;",
            )
        if first.name == ".load":
            return self._load(parts)
        raise self.fail(
            "syntax",
            first.span,
            f"mma has no operation {first.name}",
            rule="there are mma.fill, mma.load, mma.row.row, mma.row.col and mma.store",
        )

    def _plain(self, modifiers: list[_Modifier]) -> list[str]:
        for modifier in modifiers:
            if modifier.argument is not None:
                raise self.fail("syntax", modifier.span, f"{modifier.name} takes no argument here")
        return [modifier.name for modifier in modifiers]

    def _fill(self, parts: _Operation) -> syntax.MmaFill:
        names = self._plain(parts.modifiers)[1:]
        if parts.result is None:
            raise self.fail(
                "syntax",
                parts.span,
                "mma.fill has no accumulator",
                repair="write acc = mma.fill.f32 0.0f;",
            )
        if len(names) > 1 or (names and names[0][1:] not in ELEMENT_TYPES):
            raise self.fail(
                "syntax",
                parts.modifiers[-1].span,
                f"mma.fill has no modifier {names[-1]}",
                repair="write mma.fill.f32",
            )
        if len(parts.operands) != 1 or parts.destination is not None:
            raise self.fail("syntax", parts.span, "mma.fill takes one value")
        type_ = names[0][1:] if names else None
        return syntax.MmaFill(parts.span, str(parts.result), type_, self.expr(parts.operands[0]))

    def _load(self, parts: _Operation) -> syntax.MmaLoad:
        names = self._plain(parts.modifiers)[1:]
        if names:
            raise self.fail(
                "syntax",
                parts.modifiers[1].span,
                f"mma.load has no modifier {names[0]}",
                rule="mma.load is complete when the statement is: there is nothing to wait for",
                repair="write a = mma.load view;",
            )
        if parts.result is None or len(parts.operands) != 1 or parts.destination is not None:
            raise self.fail(
                "syntax",
                parts.span,
                "mma.load takes one view, and its result is a fragment",
                repair="write a = mma.load view;",
            )
        return syntax.MmaLoad(parts.span, str(parts.result), self.view(parts.operands[0]))

    def _store(self, parts: _Operation) -> syntax.MmaStore:
        names = self._plain(parts.modifiers)[1:]
        if parts.result is not None or names or len(parts.operands) != 2 or parts.destination:
            raise self.fail(
                "syntax",
                parts.span,
                "mma.store takes an accumulator and a view, and has no result",
                repair="write mma.store acc, view;",
            )
        accumulator, place = parts.operands
        return syntax.MmaStore(parts.span, self.name(accumulator), self.view(place))

    def _multiply(self, parts: _Operation) -> syntax.Mma:
        names = self._plain(parts.modifiers)
        is_async = names[2:] == [".async"]
        if len(names) < 2 or names[1] not in (".row", ".col") or (names[2:] and not is_async):
            raise self.fail(
                "syntax",
                between(parts.modifiers[0].span, parts.modifiers[-1].span),
                f"there is no operation mma{''.join(names)}",
                rule="mma.row.row takes B as [N, K], mma.row.col takes B as [K, N]; "
                ".async comes last",
            )
        if len(parts.operands) != 3 or parts.destination is not None:
            raise self.fail(
                "syntax",
                parts.span,
                "a matrix operation takes an accumulator and two operands",
                repair=f"write mma{''.join(names)} acc, a, b;",
            )
        accumulator, a, b = parts.operands
        return syntax.Mma(
            parts.span,
            None if parts.result is None else str(parts.result),
            "row" if names[0] == ".row" else "col",
            "row" if names[1] == ".row" else "col",
            is_async,
            self.name(accumulator),
            self.view(a),
            self.view(b),
        )
