"""pymemcache's way to choose a server for a key: the one whose name hashes highest together with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinyon.compat.pymemcache.client.murmur3 import murmur3_32


class RendezvousHash:
    """Places keys on nodes, so that a node that goes moves its own keys alone.

    Args:
        nodes: their names.
        seed: of the hash function.
        hash_function: of a text and a seed.
    """

    def __init__(
        self,
        nodes: list[Any] | None = None,
        seed: int = 0,
        hash_function: Callable[[str, int], int] = murmur3_32,
    ) -> None:
        self.nodes: list[Any] = [] if nodes is None else nodes
        self.seed = seed
        self.hash_function: Callable[[str], int] = lambda text: hash_function(text, seed)

    def add_node(self, node: Any) -> None:
        if node not in self.nodes:
            self.nodes.append(node)

    def remove_node(self, node: Any) -> None:
        if node not in self.nodes:
            raise ValueError(f"No such node {node} to remove")
        self.nodes.remove(node)

    def get_node(self, key: Any) -> Any:
        """Return the key's node, None when there are none. A key of bytes is another one than its text."""
        if len(self.nodes) == 1:
            return self.nodes[0]
        winner, highest = None, (-1, "")
        for node in self.nodes:
            score = (self.hash_function(f"{node}-{key}"), str(node))
            if score > highest:
                winner, highest = node, score
        return winner
