"""Django's own tests of its caches, and of sessions in them, on Pinyon, in threads and awaited."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers import Memcached

HERE = Path(__file__).parent
SUITES = (HERE.parents[1] / "tools" / "requirements-suites.txt").read_text()
VERSIONS = re.findall(r"^django==(\S+)", SUITES, re.MULTILINE)

CULLING = "memcached makes room as it likes: Django skips this for all that have no caches to cull"
MIDDLEWARE = "it goes through Django's cache middleware, which awaits nothing"
A_DUMMYS = "it says what is special about a dummy: nothing is kept, and keys are warned of, not refused"

#: Tests that cannot apply. Each of them must fail or be skipped; one that passes must be removed here.
NOT_APPLYING: dict[str, dict[str, str]] = {
    "blocking": {
        "Blocking.test_cull": CULLING,
        "Blocking.test_cull_delete_when_store_empty": CULLING,
        "Blocking.test_zero_cull": CULLING,
    },
    "asyncio": {
        "Awaited.test_cull": CULLING,
        "Awaited.test_cull_delete_when_store_empty": CULLING,
        "Awaited.test_zero_cull": CULLING,
        "Awaited.test_cache_write_unpicklable_object": MIDDLEWARE,
        "WhatADummyDoes.test_aadd": A_DUMMYS,
        "WhatADummyDoes.test_adecr": A_DUMMYS,
        "WhatADummyDoes.test_adecr_version": A_DUMMYS,
        "WhatADummyDoes.test_adelete": A_DUMMYS,
        "WhatADummyDoes.test_adelete_many_invalid_key": A_DUMMYS,
        "WhatADummyDoes.test_aget_many": A_DUMMYS,
        "WhatADummyDoes.test_aget_many_invalid_key": A_DUMMYS,
        "WhatADummyDoes.test_aget_or_set": A_DUMMYS,
        "WhatADummyDoes.test_ahas_key": A_DUMMYS,
        "WhatADummyDoes.test_aincr": A_DUMMYS,
        "WhatADummyDoes.test_aincr_version": A_DUMMYS,
        "WhatADummyDoes.test_aset_many_invalid_key": A_DUMMYS,
        "WhatADummyDoes.test_data_types": A_DUMMYS,
        "WhatADummyDoes.test_expiration": A_DUMMYS,
        "WhatADummyDoes.test_simple": A_DUMMYS,
        "WhatADummyDoes.test_unicode": A_DUMMYS,
    },
}
#: The least number of tests that pass: those of caches, of sessions or of a dummy cache, and of our sessions.
AT_LEAST = {"blocking": 57 + 81 + 45, "asyncio": 56 + 7}

RUNS = [(version, model) for version in VERSIONS for model in NOT_APPLYING]
Run = tuple[str, str]


@pytest.fixture(scope="module")
def outcomes(four_memcacheds: list[Memcached], repository: Path) -> dict[Run, dict[str, Any]]:
    """The outcome of each test. All runs go at once because they mostly sleep, each on a server of its own."""
    running = {}
    for (version, model), server in zip(RUNS, four_memcacheds):
        source = repository / ".venv" / "suites" / f"django-{version}"
        command = [sys.executable, HERE / "django_suite.py", source, server.address, model]
        running[version, model] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed = {run: (*process.communicate(timeout=500), process.returncode) for run, process in running.items()}
    finally:
        for process in running.values():
            process.kill()
    assert [code for _, _, code in printed.values()] == [0] * len(RUNS), [errors for _, errors, _ in printed.values()]
    return {run: json.loads(output) for run, (output, _, _) in printed.items()}


@pytest.mark.parametrize(("version", "model"), RUNS)
def test_djangos_own_tests_pass(outcomes: dict[Run, dict[str, Any]], version: str, model: str) -> None:
    outcome = outcomes[version, model]
    unexpected = {name: why for name, why in outcome["failed"].items() if name not in NOT_APPLYING[model]}
    assert unexpected == {}, "\n".join(unexpected.values())
    assert {*outcome["failed"], *outcome["skipped"]} == set(NOT_APPLYING[model])
    assert len(outcome["passed"]) >= AT_LEAST[model]
