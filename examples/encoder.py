"""A tiny byte encoder that reads a whole verse, with or without a memory."""

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["PAD", "ByteEncoder"]

PAD = 0
# 256 bytes after the three special ids of `engram_rs.encode`.
VOCABULARY = 259


class Neighbours(nn.Module):
    """Adds a weighted sum of the two bytes on either side; it also tells attention what is near.

    The same as a depthwise convolution, which is slower on a CPU.
    """

    def __init__(self, width: int, reach: int = 2) -> None:
        super().__init__()
        self.reach = reach
        taps = 2 * reach + 1
        self.weight = nn.Parameter(torch.randn(taps, width) * taps**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`[B, T, width]` to the same shape."""
        padded = F.pad(x, (0, 0, self.reach, self.reach))
        for tap, weight in enumerate(self.weight):
            x = x + padded[:, tap : tap + x.shape[1]] * weight
        return x


class Block(nn.Module):
    """Attention over the whole verse and a feed-forward layer, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.neighbours = Neighbours(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)
        )

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """`x` is `[B, T, width]`; `real` is bool `[B, T]`, false at padding."""
        batch, length, width = x.shape
        # Padding must look like the nothing beyond the end, or a verse's result would depend on its batch.
        near = self.neighbours(self.norm(x) * real[..., None])
        parts = self.query_key_value(near).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, attn_mask=real[:, None, None, :])
        x = x + self.merge(seen.transpose(1, 2).reshape(x.shape))
        return x + self.feed_forward(x)


class ByteEncoder(nn.Module):
    """Embedding, blocks, and a class for every byte.

    Args:
        classes: How many classes.
        width: Of the hidden stream.
        blocks: How many blocks.
        heads: Attention heads a block.

    Attributes:
        memory: Maps ids `[B, T]` to what is added to the stream that leaves block 0, or `None`.
    """

    def __init__(self, classes: int, width: int = 128, blocks: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, classes))
        self.memory: nn.Module | None = None
        nn.init.normal_(self.embedding.weight, std=0.3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits `[B, T, classes]` of ids `[B, T]`, padded at the right with `PAD`."""
        real = ids != PAD
        x = self.embedding(ids)
        for number, block in enumerate(self.blocks):
            x = block(x, real)
            if number == 0 and self.memory is not None:
                x = x + self.memory(ids)
        return self.head(x)
