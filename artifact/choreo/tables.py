"""What the passes find out about one ``__co__`` function: analysis fills it, emission reads it.

A pass reads the syntax tree and the tables of the passes before it, and fills its own table. The
tables are keyed by node or symbol (both compare by identity). When every pass is through without
an error the tables are complete: emission and the interpreter look up, and decide nothing.

Thread sets are integers: bit t stands for thread t of the block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from artifact.choreo import syntax

SymbolKind = Literal[
    "tensor",  # a global tensor parameter
    "parameter",  # a scalar parameter
    "dimension",  # a dimension symbol, declared by a tensor parameter's shape
    "scalar",  # an immutable scalar
    "mutable",
    "level",  # a variable of parallel
    "loop",  # a variable of foreach
    "coordinate",  # a variable of apply
    "view",
    "shared",  # a shared buffer, or an array of tiles; anonymous ones are named by their future
    "local",  # a buffer of one thread, or an array of them
    "event",
    "fragment",  # a fragment, also an accumulator that mma.fill declares
    "future",
]


@dataclass(eq=False)
class Symbol:
    """Something that a name stands for, from its declaration to the end of its scope.

    Only the types pass changes one: it sets the ``type`` of a scalar without a declared type.
    """

    name: str
    kind: SymbolKind
    node: syntax.Node
    """The declaration: statement, parameter, level or loop."""
    type: str | None = None
    """The element type: ``s32 u32 s64 u64 bool f32 f64 bf16 f16`` ...; null of events, futures."""
    host: bool = False
    """Declared outside ``parallel``: computed on the host and passed to the kernel."""


# Threads ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LevelPlan:
    """A variable of an inner level: ``(threadIdx.x / unit) % bound``."""

    unit: int
    bound: int


@dataclass(frozen=True, eq=False)
class Launch:
    """The one block-level ``parallel`` of a function."""

    node: syntax.Parallel
    grid: tuple[tuple[Symbol, syntax.Expr], ...]
    """One to three variables with their bounds, to blockIdx.x, .y, .z in this order."""
    threads: int
    """Threads of a block: the product of the inner levels."""
    min_blocks: int
    is_async: bool
    max_threads: int = 0
    """What ``launch_bounds`` promises; the real number of threads where it says nothing."""


# Views and transfers ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Term:
    """One summand of an origin: index * scale elements."""

    index: syntax.Expr
    scale: int | syntax.Expr


@dataclass(frozen=True, eq=False)
class ViewPlan:
    """A view as a box in its root.

    The origin in root dimension k is the origin of ``base`` there (if ``base`` is a named view)
    plus the sum of ``added[k]``.
    """

    root: Symbol
    """A tensor parameter or a shared buffer."""
    base: Symbol
    """The named view it starts from, or the root."""
    tile: syntax.Expr | None
    """Which tile of an array of shared buffers; null: the root is one tile."""
    added: tuple[tuple[Term, ...], ...]
    """By root dimension."""
    extents: tuple[int | syntax.Expr, ...]
    """The view's shape after ``.sqz``; an integer where it is constant."""
    dims: tuple[int, ...]
    """Which root dimension each of ``extents`` runs along."""


@dataclass(frozen=True)
class TensorMapPlan:
    """A tensor map: the root flattened to rows x columns, the box, and the swizzle.

    Dimensions left of ``row_dim`` are flattened into the row number, those right of it into the
    column number. A box row longer than the swizzle makes the inner extent split into panels of
    that many bytes (co-language.md, 9): the map then has three dimensions.
    """

    root: str
    """The tensor parameter's name."""
    element_bytes: int
    row_dim: int
    """The root dimension that box rows run along (S of [B, S, H, D])."""
    box_rows: int
    box_columns: int
    swizzle: int
    """Bytes: 128, 64, 32, or 0."""


@dataclass(frozen=True, eq=False)
class TransferPlan:
    """How one transfer is carried out."""

    kind: Literal["tma-load", "tma-store", "cooperative-load"]
    map: TensorMapPlan | None
    source: ViewPlan
    target: ViewPlan
    rows: int
    columns: int
    """The tile, in elements; rows are contiguous in the shared buffer's panels."""
    bytes: int
    threads: int
    """The threads that execute the statement."""
    leaders: tuple[int, ...]
    """Who issues: one thread, or one of each warpgroup where a store depends on the warpgroup."""
    barrier: int | None = None
    """Hardware barrier of the threads that meet; with several leaders their warpgroups use this
    id, the next, and so on. Null: the whole block meets, or threads of one warp, or nobody."""
    barrier_threads: int = 0
    """How many threads meet at each such barrier."""
    meets_before: bool = False
    """The threads of a load meet before it: some may still read what the buffer holds."""
    reused: bool = False
    """Something may write the buffer of a store later: its threads meet again when it is read."""
    event: Symbol | None = None
    """The event that a load completes (also a hidden one, where its future is waited for)."""
    slot: syntax.Target | None = None
    """The trigger's target: its order gives slot and generation."""


# Events and futures ----------------------------------------------------------------------------


@dataclass(frozen=True)
class EventPlan:
    """The barrier behind an event (co-language.md, 8.3)."""

    kind: Literal["transaction", "arrivals", "named"]
    slots: int
    ready: bool
    arrivals: int
    """Arrivals that complete a generation of a slot: 1 of a transaction; else of threads, or of
    warps where ``per_warp``."""
    per_warp: bool
    """Each triggering warp arrives once, by one lane after a warp barrier."""
    triggering: int
    waiting: int
    barrier: int | None
    """The id of a named barrier; its thread count is that of both sets."""

    @property
    def participants(self) -> int:
        """How many threads trigger or wait."""
        return (self.triggering | self.waiting).bit_count()


@dataclass(frozen=True, eq=False)
class WaitPlan:
    """What waiting for one target means."""

    kind: Literal["event", "mma", "done"]
    depth: int = 0
    """wgmma groups that may stay in flight (kind ``mma``)."""
    completes: tuple[syntax.Mma, ...] = ()
    """The operations that are known complete only from here on, oldest first."""


# Fragments and MMA -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FragmentPlan:
    """How a fragment lies in the registers of a warpgroup's 128 threads (co-language.md, 10).

    ``accumulator``: f32 [64, N], N/2 registers a thread. ``operand``: bf16 [64, K], the same map
    of elements, two to a 32-bit register. ``row``: a value a row, 2 a thread, the same in 4 lanes.
    """

    layout: Literal["accumulator", "operand", "row"]
    type: str
    rows: int
    columns: int
    """1 of a row vector."""


@dataclass(frozen=True, eq=False)
class MmaPlan:
    """One MMA statement: m64 x n x k per warpgroup."""

    n: int
    k: int
    a: ViewPlan | Symbol
    """A view of shared memory, or an operand fragment."""
    b: ViewPlan
    a_swizzle: int
    b_swizzle: int
    clears: bool
    """The accumulator starts at zero: its ``mma.fill`` became scale-d = 0 of the first step."""


@dataclass(frozen=True)
class SharedPlan:
    """Where a shared buffer lies; bases are multiples of 1024 bytes."""

    offset: int
    tile_bytes: int
    """From a tile to the next: a multiple of 1024."""
    tiles: int
    rows: int
    columns: int
    swizzle: int
    """Bytes: what the transfers that fill it say; of a buffer that only mma.store fills, 128 where
    its rows allow it."""


@dataclass(frozen=True)
class LocalPlan:
    """A buffer of each thread, or an array of ``tiles`` of them: row-major, one after the other."""

    type: str
    shape: tuple[int, ...]
    tiles: int
    """1 also of what is no array."""

    @property
    def elements(self) -> int:
        """Elements of one buffer."""
        return math.prod(self.shape)


@dataclass
class Tables:
    """Everything known about one function; a comment names the pass that fills a table."""

    function: syntax.Function
    """The tree that they are about: the source's, or one in which statements were moved."""
    moved: dict[syntax.Stmt, str] = field(default_factory=dict)
    """Statements that were moved or added (splitting, sinking, halving), with what the generated
    text says."""
    # names
    symbols: list[Symbol] = field(default_factory=list)
    uses: dict[syntax.Node, Symbol] = field(default_factory=dict)
    """Name nodes (also of ``Target``, ``Mma``, ``Reduce`` ...) to what they stand for."""
    declares: dict[syntax.Node, tuple[Symbol, ...]] = field(default_factory=dict)
    """Declarations to their symbols: also an ``Assign`` that declares, a ``Transfer`` (its future
    and its anonymous buffer), ``Parallel``, ``Foreach``, ``Apply``, a declaring ``MmaFill``
    or ``MmaLoad``."""
    fills: dict[syntax.MmaFill | syntax.MmaLoad, Symbol] = field(default_factory=dict)
    """The fragment that a fill or a load (declaring it or not) sets."""
    # types and constants
    types: dict[syntax.Node, str] = field(default_factory=dict)
    """Element type of every expression."""
    constants: dict[syntax.Node, int | float | bool] = field(default_factory=dict)
    """Expressions whose value is known at compile time."""
    # threads
    launch: Launch | None = None
    levels: dict[Symbol, LevelPlan] = field(default_factory=dict)
    threads: dict[syntax.Node, int | None] = field(default_factory=dict)
    """Statements inside ``parallel`` to the threads that reach them; null: not known statically."""
    # views
    views: dict[syntax.View, ViewPlan] = field(default_factory=dict)
    # fragments
    fragments: dict[Symbol, FragmentPlan] = field(default_factory=dict)
    columns: dict[syntax.Apply, range] = field(default_factory=dict)
    """The columns that an ``apply`` over a part of a fragment runs over."""
    mmas: dict[syntax.Mma, MmaPlan] = field(default_factory=dict)
    fused_fills: set[syntax.MmaFill] = field(default_factory=set)
    """Fills that emit nothing, because their MMA clears."""
    # local buffers
    locals: dict[Symbol, LocalPlan] = field(default_factory=dict)
    # events and futures
    events: dict[Symbol, EventPlan] = field(default_factory=dict)
    waits: dict[syntax.Target, WaitPlan] = field(default_factory=dict)
    in_flight: dict[syntax.Node, tuple[syntax.Mma, ...]] = field(default_factory=dict)
    """Statements to the MMAs that may still run when they begin, oldest first."""
    transfers: dict[syntax.Transfer, TransferPlan] = field(default_factory=dict)
    # resources
    shared: dict[Symbol, SharedPlan] = field(default_factory=dict)
    shared_bytes: int = 0
    """Bytes of the buffers, from a base that is a multiple of 1024; events come on top."""
