"""Rendezvous hashing, as in pymemcache: a key's server is the one with the highest hash of name and key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pinyon.compat.pymemcache.client.murmur3 import murmur3_32


class RendezvousHash:
    """Assigns keys to nodes. If a node is removed, only its own keys move.

    Args:
        nodes: the names of the nodes.
        seed: the seed of the hash function.
        hash_function: a function of a text and a seed.
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
        """Return the key's node, or None if there are no nodes. Bytes and text are different keys."""
        if len(self.nodes) == 1:
            return self.nodes[0]
        winner, highest = None, (-1, "")
        for node in self.nodes:
            score = (self.hash_function(f"{node}-{key}"), str(node))
            if score > highest:
                winner, highest = node, score
        return winner
