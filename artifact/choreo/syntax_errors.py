"""What a syntax error says: what was found, what could stand there, and the likely repair."""

from __future__ import annotations

from collections.abc import Sequence, Set

from artifact.choreo.diagnostics import Diagnostics
from artifact.choreo.lexer import RESERVED, TYPES, Token
from artifact.choreo.syntax import Span


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What means one thing to a reader, the largest first: its name, words that are there together only
# where all of it can stand, and all of it.
_GROUPS = (
    (
        "a statement",
        _words("parallel foreach wait trigger call"),
        _words("parallel inthreads foreach apply while if break continue return wait trigger call")
        | _words("frag global shared local event mutable dma tma mma NAME INCREMENT ; { ["),
    ),
    (
        "an expression",
        _words("NUMBER true inf ("),
        _words("NUMBER STRING NAME INCREMENT true false inf _ # | ( __to - + ! ~"),
    ),
    ("an operation (dma, tma, mma)", _words("dma tma mma"), _words("dma tma mma")),
    (
        "an operator",
        _words("* / % << && =="),
        _words("? || && | ^ & == != < > <= >= << >> + - * / % # INCREMENT MEMBER :: [ ("),
    ),
)
_CLASSES = {
    "NAME": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "MEMBER": "a member such as '.at'",
    "COMPOUND": "an assignment such as '+='",
    "INCREMENT": "'++'",
}
_FOREIGN = {
    "for": ("C's for loop is not in the language", "write foreach {i} in [n] { .. }"),
    "do": ("do .. while is not in the language", "write while (condition) { .. }"),
    "switch": ("switch is not in the language", "write if .. else if .. else"),
    "goto": ("goto is not in the language", "write while, break or continue"),
    "const": ("const is not in the language", "leave it out: a scalar without mutable is constant"),
    "constexpr": (
        "constexpr is not in the language",
        "leave it out: a scalar without mutable is constant",
    ),
    "static": ("static is not in the language", "leave it out"),
    "unsigned": ("'unsigned' is no type of the language", "write u32"),
    "long": ("'long' is no type of the language", "write s64"),
    "using": ("using is not in the language", "move it out of the function, into C++ text"),
}


def report(
    tokens: Sequence[Token],
    begin: int,
    position: int,
    acceptable: Set[str],
    diagnostics: Diagnostics,
) -> None:
    """Report that the token at ``position`` cannot stand there.

    Args:
        tokens: The function's tokens.
        begin: Where the statement begins that has the error.
        position: The token that the parser refused; the last one if the function ends too early.
        acceptable: Spellings, or classes in capitals, of what it would have taken.
        diagnostics: Takes the error.
    """
    token = tokens[position]
    before = tokens[position - 1] if position > begin else None
    first = tokens[begin] if begin <= position else token
    found = _found(token)
    if token.kind == "unknown":
        _unknown(token, diagnostics)
    elif token.macro is None and first.text in _FOREIGN and position - begin <= 3:
        message, repair = _FOREIGN[first.text]
        diagnostics.error("syntax", first.span, message, repair=repair)
    elif token.text in RESERVED and "NAME" in acceptable and token.text not in acceptable:
        diagnostics.error(
            "syntax",
            token.span,
            f"{found} is a word of the language and cannot be a name",
            repair="choose another name",
        )
    elif _is_cast(tokens, position):
        name = tokens[position - 2].text
        diagnostics.error(
            "syntax",
            Span(
                tokens[position - 3].span.line,
                tokens[position - 3].span.column,
                tokens[position - 1].span.end_line,
                tokens[position - 1].span.end_column,
            ),
            "casts as in C are not in the language",
            repair=f"write __to<{name}>(..)",
        )
    elif token.text == ";" and acceptable == {"="} and before is not None:
        diagnostics.error(
            "syntax",
            before.span,
            f"'{before.text}'{_from(before)} has no value",
            rule="a scalar gets its value where it is declared",
            repair=f"write {before.text} = ..; mutable where it changes later",
        )
    elif before is not None and ";" in acceptable and _new_line(before, token):
        after = before.span
        diagnostics.error(
            "syntax",
            Span(after.end_line, after.end_column, after.end_line, after.end_column + 1),
            f"a ';' is missing after '{before.text}'" + _from(before),
        )
    else:
        diagnostics.error("syntax", token.span, f"{found} cannot stand here{_expected(acceptable)}")


def statement_end(tokens: Sequence[Token], begin: int, position: int) -> int | None:
    """Where the statement ends that begins at ``begin`` and is wrong at ``position``.

    That is after its ``;`` or its body, or at the ``}`` of the block around it; null if the
    function ends first.
    """
    depth = sum((t.text == "{") - (t.text == "}") for t in tokens[begin:position])
    start = position
    if tokens[begin].text == "for":
        start = max(start, _after_parentheses(tokens, begin))
    holds_statements: list[bool] = []
    for index in range(start, len(tokens)):
        text = tokens[index].text
        if text == "{":
            holds_statements.append(True)
            following = tokens[index + 1 : index + 3]
            # `{i}` or `{i, j}` is a pattern or an initialiser, no body
            if len(following) == 2 and following[1].text in (",", "}"):
                holds_statements[-1] = following[0].text in ("}", ";")
        elif text == "}":
            if holds_statements:
                if holds_statements.pop() and not holds_statements and depth == 0:
                    return index + 1
            elif depth:
                depth -= 1
            else:
                return index
        elif text == ";" and not holds_statements and depth == 0:
            return index + 1
    return None


def _after_parentheses(tokens: Sequence[Token], begin: int) -> int:
    depth = 0
    for index in range(begin, len(tokens)):
        depth += (tokens[index].text == "(") - (tokens[index].text == ")")
        if depth == 0 and tokens[index].text == ")":
            return index + 1
    return begin


def _found(token: Token) -> str:
    shown = token.text if len(token.text) <= 40 else token.text[:37] + "..."
    return (shown if token.kind == "string" else f"'{shown}'") + _from(token)


def _from(token: Token) -> str:
    return f" (from macro {token.macro})" if token.macro else ""


def _unknown(token: Token, diagnostics: Diagnostics) -> None:
    if token.text == "/*":
        message = "this comment has no '*/'"
    elif token.text == '"':
        message = "this string has no closing quote on its line"
    elif token.text == "'":
        message = "character literals are not in the language"
    else:
        message = f"the character {token.text!r} is not in the language"
    diagnostics.error("syntax", token.span, message + _from(token))


def _is_cast(tokens: Sequence[Token], position: int) -> bool:
    """Whether ``(T)`` stands before the token."""
    if position < 3:
        return False
    open_, name, close = (t.text for t in tokens[position - 3 : position])
    return (open_, close) == ("(", ")") and name in TYPES


def _new_line(before: Token, token: Token) -> bool:
    return token.span.line > before.span.end_line or token.text == "}"


def _expected(acceptable: Set[str]) -> str:
    """``: expected ..`` in people's words."""
    left, words = set(acceptable), []
    for name, signs, members in _GROUPS:
        if signs <= left:
            words.append(name)
            left -= members
    words += [_CLASSES.get(word, f"'{word}'") for word in sorted(left - {"$END"})]
    if not words:
        return ""
    if len(words) > 6:
        words = [*words[:6], "others"]
    alternatives = f"{', '.join(words[:-1])} or {words[-1]}" if words[1:] else words[0]
    return f": expected {alternatives}"
