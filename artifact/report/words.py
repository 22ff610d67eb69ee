"""How numbers and texts are written in every report: the same way in every locale.

Texts come from documents that other people wrote. :func:`visible` is applied to each of
them before any format's own escaping.
"""

from __future__ import annotations

import math
import unicodedata

from artifact.model.results import RunResults, Scalar

#: What stands where there is no value.
NOTHING = "–"

#: Digits of a protocol's or content's digest that tables print.
SHORT = 12

# Characters that change the order in which others are shown, or that show as nothing.
_HIDDEN = frozenset("\u061c\u200b\u200e\u200f\u2028\u2029\u2060\ufeff")


def visible(text: str) -> str:
    r"""``text`` on one line, with every control character written out, as ``\x1b`` or ``\u202e``.

    Terminal escapes, overrides of the writing direction, line breaks and invisible marks
    can then neither act nor hide. Joiners that scripts and emoji need are kept.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if _acts(c) else c for c in text)


def visible_lines(text: str) -> str:
    """Like :func:`visible`, but line breaks stay line breaks."""
    return "\n".join(visible(line) for line in text.splitlines())


def _acts(character: str) -> bool:
    if character in _HIDDEN or "\u202a" <= character <= "\u202e":
        return True
    if "\u2066" <= character <= "\u206f":
        return True
    return unicodedata.category(character) in ("Cc", "Cs")


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def milliseconds(value: float) -> str:
    """Milliseconds with four decimals, or four significant digits below a tenth."""
    return f"{value:.4f}" if value >= 0.1 else significant(value)


def significant(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits, without an exponent where it is readable."""
    if value == 0:
        return "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals > digits + 4 or decimals < -digits:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{max(decimals, 0)}f}"


def ratio(value: float) -> str:
    """A ratio with three decimals, or four significant digits outside of 0.01 to 100."""
    return f"{value:.3f}" if 0.01 <= value < 100 else significant(value)


def percent(value: float, *, signed: bool = True) -> str:
    """A relative change: ``+0.52 %``."""
    return f"{100 * value:{'+' if signed else ''}.2f} %"


def seconds(value: float) -> str:
    """A duration: ``0.04 s``, ``12.3 s``, ``5 min 7 s``, ``2 h 3 min``."""
    if value < 10:
        return f"{value:.2f} s"
    if value < 100:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def gibibytes(size: int) -> str:
    """A size of memory: ``31.3 GiB``."""
    return f"{size / 2**30:.1f} GiB"


def count(value: int) -> str:
    """A count in groups of three digits: ``8,388,608``."""
    return f"{value:,}"


def scalar(value: Scalar) -> str:
    """A fact as a worker or a driver reported it."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return repr(value)
    return visible(str(value))


def plural(number: int, noun: str) -> str:
    """``1 round``, ``3 rounds``, ``200 launches``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}{'es' if noun.endswith(('ch', 's', 'x')) else 's'}"


def marks(results: RunResults) -> tuple[str, ...]:
    """What every table and figure says about the run, the gravest first."""
    return (() if results.complete else ("INCOMPLETE",)) + results.marks


def protocol_line(results: RunResults) -> str:
    """The protocol with everything that makes two runs comparable, in one sentence."""
    p = results.protocol
    parts = [
        f"{plural(p.warmup, 'warm-up')}, {plural(p.repeat, 'launch')} a sample, "
        f"{plural(p.rounds, 'round')}, {p.order} order, clock {p.clock}"
    ]
    if p.max_temperature_c is not None:
        parts.append(f"at most {p.max_temperature_c:g} °C before each backend")
    return f"{stamp(results)}: " + ", ".join(parts)


def stamp(results: RunResults) -> str:
    """The protocol by name and short digest."""
    return f"protocol {results.protocol.name} {results.protocol_digest[:SHORT]}"
