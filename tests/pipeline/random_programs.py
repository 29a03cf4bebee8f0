"""Random modules whose statements view, overwrite and keep each other's tensors.

A module is text: statements over tensors in scope, each of which was tried in
eager before it was taken. Sizes are tried for several calls at once, so that no
statement depends on two dynamic sizes being equal by chance. All numbers are whole
and small: results are the same in whatever order they are computed.
"""

from __future__ import annotations

import linecache
import random
import warnings
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

DTYPES = (*("float32",) * 3, "int64", "int32", "bool", "uint8", "float64", "float16", "bfloat16")
SHAPES: tuple[tuple[int, ...], ...] = ((2, 3), (3, 2), (2, 3), (4,), (3,), (1, 3), (2, 2, 3), (), (6,))
LARGEST = 5  # of a dynamic size

FRESH = (
    "{a} + {b}",
    "{a} - {b}",
    "{a} * 2",
    "({a} * {b}).clamp(-20, 20)",
    "-{a}",
    "{a}.abs()",
    "{a}.relu()",
    "{a}.clone()",
    "torch.maximum({a}, {b})",
    "torch.where({a} > {b}, {a}, {c})",
    "{a}.clamp(0, 5)",
    "{a}.sum(0)",
    "{a}.sum(-1, keepdim=True).clamp(-20, 20)",
    "{a}.amax(0)",
    "torch.cat([{a}, {b}], 0)",
    "torch.cat([{a}, {a}], -1)",
    "torch.stack([{a}, {b}])",
    "{a}.flip(0)",
    "{a}.roll(1, 0)",
    "{a} > {b}",
    "{a}.logical_not()",
    "torch.zeros_like({a})",
    "torch.full_like({a}, 3)",
    "{a}.new_ones(2, 3)",
    "torch.arange(3)",
    "torch.tensor([1., 2., 3.])",
    "({a}.clamp(-20, 20).float() @ {b}.clamp(-20, 20).float().mT).clamp(-20, 20)",
    "{a}.clamp(-20, 20).float()",
    "{a}.clamp(-20, 20).long()",
    "{a}.clamp(-20, 20).int()",
    "{a}.clamp(-20, 20).to(torch.float16)",
    "{a}.abs().clamp(max=20).to(torch.uint8)",
    "{a}.cumsum(0).clamp(-20, 20)",
    "{a}[{a} > 1].sum()",
    "{a}.repeat(2, 1)",
    "{a}.scatter(0, torch.zeros_like({a}, dtype=torch.long), {b})",
    "{a}.index_select(0, torch.tensor([0, 0]))",
    "torch.nn.functional.pad({a}, (1, 1), value=2)",
    "{a}.softmax(-1).round()",
    "{a}.argmax(-1)",
    "{a}.sort(-1)[0]",
    "{a}.masked_fill({b} > 0, 3)",
    "{a}.index_put((torch.tensor([0, -1]),), {b})",
)
VIEWS = (
    "{a}[1:]",
    "{a}[:1]",
    "{a}[0]",
    "{a}[-1]",
    "{a}[..., 0]",
    "{a}[..., 1:]",
    "{a}[::2]",
    "{a}[..., ::2]",
    "{a}[None]",
    "{a}.mT",
    "{a}.transpose(0, 1)",
    "{a}.permute(1, 0)",
    "{a}.reshape(-1)",
    "{a}.view(-1)",
    "{a}.view(3, -1)",
    "{a}.reshape(3, 2)",
    "{a}.view_as({b})",
    "{a}.unsqueeze(-1)",
    "{a}.squeeze(0)",
    "{a}.flatten()",
    "{a}.chunk(2, 0)[1]",
    "{a}.split(1, 0)[0]",
    "{a}.unbind(0)[0]",
    "{a}.unbind(-1)[1]",
    "{a}.split([1, 2], -1)[1]",
    "{a}.diagonal()",
    "{a}.expand(2, *{a}.shape)",
    "{a}.narrow(0, 0, 1)",
    "{a}.detach()",
    "{a}.contiguous()",
    "{a}.float()",
    "{a}.unflatten(-1, (-1, 1))",
    "{a}.expand_as({b})",
    "{a}.detach().t_()",
    "{a}.detach().unsqueeze_(0)",
    "{a}.detach().squeeze_()",
    "{a}",
)
IN_PLACE = (
    "{a}.add_({b})",
    "{a}.sub_({b})",
    "{a}.mul_(-1)",
    "{a}.copy_({b})",
    "{a}.copy_({b})",
    "{a}.zero_()",
    "{a}.fill_(3)",
    "{a}.neg_()",
    "{a}.clamp_(-5, 5)",
    "{a}.relu_()",
    "{a}.masked_fill_({b} > 0, 1)",
    "{a}[0] = {b}",
    "{a}[-1] = {b}",
    "{a}[..., 1:] = {b}",
    "{a}[..., 0] += {b}",
    "{a}[{a} > 2] = 0",
    "{a} += {b}",
    "{a}.index_fill_(0, torch.tensor([0]), 2)",
    "{a}.index_copy_(0, torch.tensor([0]), {b})",
    "{a}.index_add_(0, torch.tensor([0, 0]), {b})",
    "{a}.scatter_(0, torch.zeros_like({a}, dtype=torch.long), {b})",
    "{a}.index_put_((torch.tensor([0, -1]),), {b}, accumulate=True)",
    "{a}.floor_divide_(2)",
    "{a}.remainder_(5)",
    "{a}.tril_()",
    "{a}.cumsum_(0).clamp_(-9, 9)",
    "{a}.logical_not_()",
    "torch.add({b}, {c}, out={a})",
    "torch.nn.functional.relu({a}, inplace=True)",
    "{a}.copy_({a}.flip(0))",
    "{a}.copy_({a}.clone().mT)",
    "torch.maximum({b}, {c}, out={a})",
    "{a}.eq_({b})",
    "{a}.addcmul_({b}.clamp(-3, 3), {c}.clamp(-3, 3))",
    "{a}.addcmul_({b}.clamp(-3, 3), {b}.clamp(-3, 3)).clamp_(-9, 9)",
)
BODY = (
    "{a} + {b}",
    "({a} * {b}).clamp(-20, 20)",
    "-{a}",
    "{a}.clone()",
    "{a} - 1",
    "{a}.clamp(-3, 3)",
    "{a}.flip(0)",
    "{a}.roll(1, 0)",
    "torch.maximum({a}, {b})",
    "{a}.cumsum(0).clamp(-20, 20)",
    "torch.zeros_like({a})",
    "{a}.mT.clone()",
    "{a}[0] + {a}",
    "torch.where({a} > {b}, {b}, {a})",
)


@dataclass
class Program:
    """The text of a module, and what builds and calls it."""

    statements: list[str]
    results: list[str]
    states: dict[str, tuple[tuple[int, ...], str]]
    inputs: dict[str, tuple[tuple[int | str, ...], str]]
    seed: int
    parameters: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        lines = [f"def forward(self, {', '.join(self.inputs)}):"]
        for statement in self.statements:
            lines += ["    " + line for line in statement.split("\n")]
        return "\n".join([*lines, f"    return {', '.join(self.results)},", ""])

    def module(self) -> nn.Module:
        scope: dict[str, Any] = {"torch": torch, **LOOPS}
        name = f"<random program {self.seed}, {hash(self.text)}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        exec(compile(self.text, name, "exec"), scope)
        made = nn.Module()
        generator = torch.Generator().manual_seed(self.seed)
        for key, (shape, dtype) in self.states.items():
            value = numbers(shape, dtype, generator)
            if key in self.parameters:
                made.register_parameter(key, nn.Parameter(value, requires_grad=False))
            else:
                made.register_buffer(key, value)
        kind = type("RandomProgram", (nn.Module,), {"forward": scope["forward"]})
        made.__class__ = kind
        return made

    def arguments(self, size: dict[str, int], seed: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(seed)
        return tuple(
            numbers(tuple(size[s] if isinstance(s, str) else s for s in shape), dtype, generator)
            for shape, dtype in self.inputs.values()
        )

    def dynamic_shapes(self, least: int) -> dict[str, Any] | None:
        names = {s for shape, _ in self.inputs.values() for s in shape if isinstance(s, str)}
        if not names:
            return None
        dims = {name: Dim(name, min=least, max=LARGEST) for name in names}
        return {
            key: {i: dims[s] for i, s in enumerate(shape) if isinstance(s, str)}
            for key, (shape, _) in self.inputs.items()
        }


def numbers(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> Tensor:
    low = 0 if dtype in ("bool", "uint8") else -3
    drawn = torch.randint(low, 2 if dtype == "bool" else 4, shape, generator=generator)
    return drawn.to(getattr(torch, dtype))


def _loops() -> dict[str, Any]:
    from torch._higher_order_ops.map import map as each
    from torch._higher_order_ops.scan import scan
    from torch._higher_order_ops.while_loop import while_loop

    return {"cond": torch.cond, "while_loop": while_loop, "scan": scan, "each": each}


LOOPS = _loops()


# Of the dynamic dimensions, each with which a program is tried while it is written.
SIZES = [{"p": 3, "q": 4}, {"p": 4, "q": 3}, {"p": 5, "q": 5}, {"p": 2, "q": 5}, {"p": 2, "q": 2}]


class Unfit(Exception):
    """A statement that eager PyTorch does not run, or not alike for all sizes."""


@dataclass
class Writer:
    """Draws statements one after the other."""

    seed: int
    dynamic: bool = False
    control: bool = False
    least: int = 2
    draw: random.Random = field(init=False)
    scopes: list[dict[str, Any]] = field(init=False)
    names: list[str] = field(init=False)
    count: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    def program(self, length: int) -> Program:
        draw = self.draw
        kinds = draw.sample(DTYPES, draw.randint(1, 2)) if draw.random() < 0.6 else ["float32"]
        states: dict[str, tuple[tuple[int, ...], str]] = {
            f"s{i}": (draw.choice(SHAPES), draw.choice(kinds)) for i in range(draw.randint(1, 3))
        }
        if draw.random() < 0.7:  # of one kind, so that each can be written to the other
            states = dict.fromkeys(states, states["s0"])
        symbols = ("p", "q") if self.dynamic else ()
        inputs = {}
        for i in range(draw.randint(1, 2)):
            shape: tuple[int | str, ...] = draw.choice([s for s in SHAPES if s] if self.dynamic else SHAPES)
            if draw.random() < 0.5 and not self.dynamic:
                shape = states["s0"][0]
            if self.dynamic:
                shape = tuple(
                    draw.choice(symbols) if k == 0 or draw.random() < 0.3 else s for k, s in enumerate(shape)
                )
            inputs[f"x{i}"] = (shape, draw.choice(kinds))
        parameters = ("s1",) if "s1" in states and draw.random() < 0.2 else ()
        made = Program([], ["None"], states, inputs, self.seed, parameters)
        self.start(made)
        misses = 0
        while len(made.statements) < length and misses < 400:
            try:
                statement, name = (
                    self.control_flow() if self.control and draw.random() < 0.25 else self.statement(made)
                )
                made.statements.append(self.tried(statement, name))
            except Unfit:
                misses += 1
                self.restore(made)
        results = [n for n in self.names if not n.startswith("self.")]
        late = [n for n in results if n.startswith("v")][-6:] + list(inputs) + [f"self.{s}" for s in states]
        made.results = [draw.choice(late) for _ in range(draw.randint(1, 4))]
        return made

    def start(self, made: Program) -> None:
        self.scopes = []
        for size in SIZES if self.dynamic else [{}]:
            module = made.module()
            arguments = dict(zip(made.inputs, made.arguments(size, self.seed), strict=True))
            self.scopes.append({"torch": torch, "self": module, **LOOPS, **arguments})
        self.names = [*made.inputs, *(f"self.{s}" for s in made.states)]
        self.accepted = self.sizes()

    def restore(self, made: Program) -> None:
        """Run again what was accepted, where a statement that failed has resized a tensor before it did."""
        if self.sizes() == self.accepted:
            return
        names, accepted = self.names, self.accepted
        self.start(made)
        self.names, self.accepted = names, accepted
        with torch.no_grad():
            for scope in self.scopes:
                exec("\n".join(made.statements), scope)
        assert self.sizes() == accepted

    def sizes(self) -> list[list[tuple[int, ...]]]:
        return [[tuple(eval(name, scope).shape) for name in self.names] for scope in self.scopes]

    def tried(self, statement: str, name: str | None) -> str:
        for scope in self.scopes:
            try:
                with torch.no_grad(), warnings.catch_warnings(action="error"):
                    exec(statement, scope)
            except Exception as error:
                raise Unfit from error
            if name is not None and scope[name].numel() > 200:
                raise Unfit
        if name is not None:
            dims = {(scope[name].dim(), scope[name].dtype) for scope in self.scopes}
            if len(dims) > 1:
                raise Unfit
            self.names.append(name)
        self.accepted = self.sizes()
        return statement

    def any(self, tensors: list[str] | None = None) -> str:
        names = tensors or self.names
        return self.draw.choice(names[-6:] if self.draw.random() < 0.5 else names)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def filled(self, template: str, names: list[str] | None = None) -> str:
        a = self.any(names)
        others = self.like(a, names)
        return template.format(a=a, b=self.any(others), c=self.any(others))

    def like(self, a: str, names: list[str] | None) -> list[str]:
        """Mostly tensors of the same shape, with which more can be done."""
        if self.draw.random() < 0.4:
            return names or self.names
        shapes = [tuple(eval(a, scope).shape) for scope in self.scopes]
        return [n for n in names or self.names if [tuple(eval(n, s).shape) for s in self.scopes] == shapes]

    def statement(self, made: Program) -> tuple[str, str | None]:
        kind = self.draw.random()
        if kind < 0.42:
            writable = [n for n in self.names if n.removeprefix("self.") not in made.parameters]
            template = self.draw.choice(IN_PLACE)
            a = (
                self.draw.choice([n for n in writable if n.startswith("self.")] or writable)
                if self.draw.random() < 0.4
                else self.any(writable)
            )
            others = self.like(a, None)
            return template.format(a=a, b=self.any(others), c=self.any(others)), None
        name = self.fresh()
        template = self.draw.choice(VIEWS if kind < 0.68 else FRESH)
        return f"{name} = {self.filled(template)}", name

    # --- control flow ------------------------------------------------------------------------------

    def control_flow(self) -> tuple[str, str]:
        name, form = self.fresh(), self.draw.choice(["cond", "nested", "while", "scan", "each", "write"])
        states = [n for n in self.names if n.startswith("self.")]
        a = self.draw.choice(states) if form == "write" else self.any()
        b = self.any(self.like(a, None))
        test = self.draw.choice(["{}.sum() > 0", "({} > 0).any()", "{}.sum() < 100"])
        pair = f"lambda a, b: {self.body()}"
        inner = f"cond({test.format('b')}, {pair}, lambda a, b: {self.body()}, (a, b))"
        either = f"cond({test.format(b)}, {pair}, lambda a, b: {self.body()}, ({a}, {b}))"
        match form:
            case "cond":
                return f"{name} = {either}", name
            case "write":
                return f"{name} = {a}.copy_({either})", name
            case "nested":
                return f"{name} = cond({test.format(a)}, lambda a, b: {inner}, {pair}, ({a}, {b}))", name
            case "while":
                more = self.draw.choice(["i < 3", "(i < 4) & (a.sum() < 50)"])
                first, second = (
                    self.draw.choice([inner, self.body()]),
                    self.draw.choice([self.body(), "a.clone()"]),
                )
                bodies = f"lambda i, a, b: {more}, lambda i, a, b: (i + 1, {first}, {second})"
                start = self.draw.choice([0, 0, 2, 9])
                return f"_, {name}, {name}b = while_loop({bodies}, (torch.tensor({start}), {a}, {b}))", name
            case "scan":
                return f"{name}, {name}b = scan(lambda a, b: ({self.body()}, {self.body()}), {a}, {b})", name
        return f"{name} = each({pair}, {a}, {b})", name

    def body(self) -> str:
        a, b = self.draw.choice([("a", "b"), ("a", "b"), ("b", "a"), ("a", "a")])
        return self.draw.choice(BODY).format(a=a, b=b)


def write(seed: int, *, dynamic: bool = False, control: bool = False, length: int | None = None) -> Program:
    """The random program of a number."""
    writer = Writer(seed, dynamic, control)
    return writer.program(length or writer.draw.randint(3, 14))
