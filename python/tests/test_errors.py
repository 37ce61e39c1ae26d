"""The exception classes match the core's kinds of errors."""

from __future__ import annotations

import pytest

from pinyon import _native, errors

STANDARD = {"timeout": TimeoutError, "connection": ConnectionError, "argument": ValueError, "type": TypeError}


@pytest.mark.parametrize("kind", _native.ERROR_KINDS, ids=lambda kind: kind[0])
def test_every_kind_is_a_class_in_its_place(kind: tuple[str, list[str], str | None, bool]) -> None:
    name, parents, resembles, is_outage = kind
    found = getattr(errors, name)
    below = [base.__name__ for base in found.__bases__ if issubclass(base, errors.Error)]
    assert below == parents
    assert {standard for standard in STANDARD.values() if issubclass(found, standard)} == (
        {STANDARD[resembles]} if resembles else set()
    )
    assert (issubclass(found, errors.OUTAGES) and found is not errors.LockTimeout) == is_outage


def test_every_class_is_a_kind() -> None:
    classes = {
        name for name, found in vars(errors).items() if isinstance(found, type) and issubclass(found, errors.Error)
    }
    assert classes == {name for name, *_ in _native.ERROR_KINDS}
