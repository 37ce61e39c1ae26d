"""Key rules: the core's vectors match the behavior of the clients that the rules are from.

``PINYON_WRITE_TABLES=1 pytest -n 0 tests/test_key_rules.py`` writes ``vectors/keys.json``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import other_keys
import pytest

#: The memcached of the vectors.
RECORDED_WITH = "1.6.18"
VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "keys.json"


@pytest.mark.parametrize("rule", other_keys.RULES)
def test_keys_are_stored_as_the_vectors_say(rule: str) -> None:
    found = other_keys.vectors(rule)
    known = json.loads(VECTORS.read_text()) if VECTORS.exists() else []
    if "PINYON_WRITE_TABLES" in os.environ:
        known = [*(vector for vector in known if vector["rule"] != rule), *found]
        VECTORS.write_text("[\n" + ",\n".join(map(json.dumps, known)) + "\n]\n")
    known = [vector for vector in known if vector["rule"] == rule]
    assert known
    if other_keys.server_version() != RECORDED_WITH:
        known, found = filter(is_stored_as_before, known), filter(is_stored_as_before, found)
    assert list(known) == list(found)


def is_stored_as_before(vector: dict[str, Any]) -> bool:
    """Whether newer releases do the same: memcached has come to store a NUL, and Dalli to shorten more keys."""
    key = bytes.fromhex(vector["key_hex"])
    return b"\0" not in key and (key.isascii() or len(key) < 188)


@pytest.mark.parametrize("rule", other_keys.RULES)
def test_a_client_with_a_key_rule_stores_where_the_rules_client_does(rule: str) -> None:
    vectors = [vector for vector in json.loads(VECTORS.read_text()) if vector["rule"] == rule]
    assert vectors
    assert other_keys.vectors(rule, by_pinyon=True) == vectors
