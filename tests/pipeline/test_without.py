"""Optimisations left out by name: programs are others, and right."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import penlight
from penlight.errors import InvalidInput
from penlight.ir.edge import EdgeProgram
from penlight.kernels.table import default_table
from penlight.passes import recipes
from penlight.pipeline import export, to_edge


class Everything(nn.Module):
    """Something for each fusion."""

    angles: Tensor
    ends: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.expansion = nn.Conv2d(8, 48, 1)
        self.windows = nn.Conv2d(48, 48, 3, padding=1, groups=48)
        self.head = nn.Linear(48, 6)
        self.register_buffer("angles", torch.randn(8, 12))
        self.experts = nn.Parameter(torch.randint(-4, 5, (2, 8, 16)).bfloat16())
        self.register_buffer("ends", torch.tensor([3, 8], dtype=torch.int32))

    def attend(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (4, 12)).transpose(1, 2)
        low, high = heads.chunk(2, -1)
        heads = heads * self.angles.cos() + torch.cat([-high, low], -1) * self.angles.sin()
        return functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.windows(functional.relu6(self.expansion(self.stem(x)))).mean((2, 3))
        x = self.attend(x[None])[0]
        x = self.head(x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        signs = functional.pad(x.sign(), (0, 2)).bfloat16()
        mixed = functional.grouped_mm(signs, self.experts, offs=self.ends)
        return (x.view(-1, 6) + x.exp() * x.sin()).view(x.shape) + mixed[:, :6].float()


ARGS = (torch.randn(8, 3, 56, 58),)


def operators(program: EdgeProgram) -> set[str]:
    return {str(node.target) for node in program.methods["forward"].graph.nodes if node.op == "call_function"}


@pytest.mark.parametrize("name", sorted(recipes.OPTIONAL))
def test_left_out_alone(name: str) -> None:
    model = Everything().eval()
    program = penlight.compile(model, ARGS, without=[name])
    assert program.report is not None
    assert name.replace("_", " ") not in {stage.name for stage in program.report.stages}
    with torch.no_grad():
        torch.testing.assert_close(
            penlight.load(program.to_bytes())(*ARGS), model(*ARGS), rtol=1e-4, atol=1e-5
        )


def test_what_the_fusions_make_is_gone() -> None:
    exported = export(Everything().eval(), ARGS)
    whole = operators(to_edge(exported))
    for name, made in (
        ("fuse_rms_norm", "penlight.rms_norm.default"),
        ("fuse_rotary", "penlight.rotary.default"),
        ("fuse_attention_views", "penlight.attention_in_rows.default"),
        ("pack_weights", "penlight.linear_packed.default"),
        ("pack_groups", "penlight.grouped_linear_packed.default"),
        ("fuse_expansions", "penlight.expand_depthwise_packed.default"),
        ("fuse_elementwise", "penlight.elementwise.default"),
    ):
        assert made in whole
        assert made not in operators(to_edge(exported, without={name}))
    assert "aten.relu.default" in operators(to_edge(exported, without=["fuse_epilogues"]))


def test_all_left_out() -> None:
    model = Everything().eval()
    program = penlight.compile(model, ARGS, without=recipes.OPTIONAL)
    with torch.no_grad():
        torch.testing.assert_close(
            penlight.load(program.to_bytes())(*ARGS), model(*ARGS), rtol=1e-4, atol=1e-5
        )


def test_every_optimisation_has_a_name() -> None:
    from penlight.dialects.attention_op import attention_op, rotary_op
    from penlight.dialects.elementwise_op import elementwise_op
    from penlight.dialects.packed_ops import packed_ops
    from penlight.dialects.penlight_ops import twins

    table, libraries = default_table(), ("optimized", "portable")
    packed, chain = packed_ops(table, libraries), elementwise_op(table, libraries)
    assert packed is not None and chain is not None
    layers = packed.linear, packed.convolution, packed.transposed, packed.embedding, packed.pack
    ops = *layers, packed.max_pool, packed.expand_depthwise, packed.video, packed.grouped
    ops = *ops, packed.convolution_of_parts, packed.linear_strassen, packed.convolution_strassen
    ops = *ops, packed.stem, packed.squeeze_excite, packed.gated_convolution
    edge = recipes.edge_for(
        twins(table, libraries), attention_op(table, libraries), rotary_op(table, libraries)
    )
    passes = (*edge, *recipes.packed(*ops, (), (), ()), *recipes.chains(chain))
    assert {function.__name__ for function in passes} == recipes.OPTIONAL


def test_unknown_name() -> None:
    with pytest.raises(InvalidInput, match="no optimisation 'fuse_epilogue' to leave out") as caught:
        penlight.compile(nn.ReLU(), (torch.ones(2),), without=["fuse_epilogue"])
    assert "fuse_epilogues" in str(caught.value)
