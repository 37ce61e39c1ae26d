"""The behaviors of Pinyon's replacement for pylibmc, compared with pylibmc's; and its names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pylibmc as original
import pytest

from pinyon.compat import pylibmc
from pinyon.compat.pylibmc import behaviors

SERVER = ["127.0.0.1:1"]
#: Where pylibmc has no wheel, it is built on the system's libmemcached, whose defaults may be others.
compared = pytest.mark.skipif(
    not original.libmemcached_version.startswith("1.0."),
    reason=f"pylibmc stands on libmemcached {original.libmemcached_version}, and its wheels on 1.0",
)

#: Settings that pylibmc accepts and Pinyon does not.
REFUSED = [
    *({behavior.name: 1} for behavior in behaviors.BEHAVIORS if behavior.kind == "refused"),
    {"_poll_timeout": -1},
    {"connect_timeout": 0},
    {"receive_timeout": 3},
    {"send_timeout": -1},
]

#: Refused settings, and those whose range is smaller.
UNLIKE = {"send_timeout", "receive_timeout", *(name for changes in REFUSED for name in changes)}

CHANGES: list[dict[str, Any]] = [
    {},
    *({name: value} for name in original.all_behaviors for value in (True, 5000) if name not in UNLIKE),
    *({behavior.name: behavior.default} for behavior in behaviors.BEHAVIORS if behavior.name not in ("hash",)),
    *({"hash": name} for name in [*original.hashers, "nonesuch", None, 1]),
    *({"ketama_hash": name} for name in [*original.hashers, "nonesuch"]),
    *({"distribution": name} for name in [*original.distributions, "nonesuch", None]),
    {"ketama": True, "hash": "md5"},
    {"ketama": True, "distribution": "modula"},
    {"ketama": True, "ketama_weighted": False},
    {"ketama": False},
    {"ketama_weighted": True, "hash": "crc"},
    {"ketama_weighted": True, "distribution": "modula"},
    {"distribution": "consistent ketama", "hash": "md5"},
    {"remove_failed": 2, "retry_timeout": 1, "dead_timeout": 60, "ketama": True},
    {"remove_failed": 0},
    {"failure_limit": 3, "auto_eject": True},
    {"retry_timeout": 0},
    {"_retry_timeout": 3},
    {"tcp_nodelay": "yes"},
    {"tcp_nodelay": None},
    {"no_such": 1},
    {"namespace": b"n:"},
    {"namespace": b"a b"},
]


def outcome(module: Any, changes: dict[str, Any]) -> Any:
    """All behaviors after setting these, or the name of the exception."""
    mc = module.Client(SERVER)
    try:
        mc.behaviors = changes
    except Exception as error:
        return type(error).__name__
    return dict(mc.behaviors)


@compared
@pytest.mark.parametrize("changes", CHANGES, ids=repr)
def test_both_have_the_same_behaviors_afterwards(changes: dict[str, Any]) -> None:
    assert outcome(pylibmc, changes) == outcome(original, changes)


@pytest.mark.parametrize("changes", REFUSED, ids=repr)
def test_what_pinyon_cannot_do_is_refused_where_it_is_set(changes: dict[str, Any]) -> None:
    mc = pylibmc.Client(SERVER)
    before = dict(mc.behaviors)
    with pytest.raises(pylibmc.Error, match=next(iter(changes))):
        mc.behaviors = {"cas": True, **changes}
    assert dict(mc.behaviors) == before
    with pytest.raises(pylibmc.Error, match=next(iter(changes))):
        pylibmc.Client(SERVER, behaviors=changes)


def test_a_behavior_set_in_the_dict_is_set_on_the_client() -> None:
    mc = pylibmc.Client(SERVER)
    mc.behaviors["ketama"] = True
    mc.behaviors.update({"hash": "md5", "cas": 1})
    assert [mc.behaviors[name] for name in ("distribution", "hash", "cas")] == ["consistent ketama", "md5", 1]
    with pytest.raises(pylibmc.NotSupportedError):
        mc.behaviors["num_replicas"] = 1
    assert mc.behaviors["num_replicas"] == 0


def test_the_settings_of_pinyon_that_behaviors_are() -> None:
    given = {
        "connect_timeout": 2000,
        "send_timeout": 750_000,
        "receive_timeout": 500_000,
        "_poll_timeout": 2000,
        "ketama": True,
        "remove_failed": 1,
    }
    state = behaviors.changed(behaviors.defaults(), given)
    found = behaviors.settings(state, [(1, "a", 1, 1)])
    assert found == {
        "servers": ["a:1"],
        "namespace": None,
        "timeout": 0.5,
        "connect_timeout": 2.0,
        "failover": True,
    }
    plain = behaviors.settings(behaviors.defaults(), [(1, "::1", 11211, 1)])
    assert plain == {
        "servers": ["[::1]:11211"],
        "namespace": None,
        "timeout": 5.0,
        "connect_timeout": 4.0,
        "failover": False,
    }


@compared
def test_the_module_has_pylibmcs_names() -> None:
    modules = {"client", "consts", "pools"}
    theirs = {name for name in dir(original) if not name.startswith("_")} - modules
    assert theirs <= set(dir(pylibmc))
    assert theirs <= set(pylibmc.__all__)
    for name in theirs:
        if isinstance(getattr(original, name), (int, str, dict, list)) and name not in ("exceptions",):
            assert getattr(pylibmc, name) == getattr(original, name) or name == "support_sasl"
    assert pylibmc.__version__ == original.__version__
    assert pylibmc.build_info() == original.build_info().replace("sasl=True", "sasl=False")


def test_the_exceptions_are_pylibmcs() -> None:
    def tree(module: Any) -> dict[str, Any]:
        return {
            name: (kind.__name__, [base.__name__ for base in kind.__mro__[1:]], getattr(kind, "retcode", None))
            for name, kind in module.exceptions
        }

    assert tree(pylibmc) == tree(original)
    assert pylibmc.MemcachedError is pylibmc.Error


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "from-pylibmc.md").read_text()


def test_the_page_has_every_behavior_as_it_is(page: str) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (used|kept|refused) \| (.+) \|$", page, re.MULTILINE)
    expected = [(each.name, f"`{each.default!r}`", each.kind, each.meaning) for each in behaviors.BEHAVIORS]
    assert rows == expected


def test_the_page_tells_of_every_error_that_is_raised(page: str) -> None:
    raised = set(re.findall(r"^    \(pinyon\.(\w+), (\w+)\)", Path(pylibmc.errors.__file__).read_text(), re.MULTILINE))
    rows = {(ours, theirs) for theirs, ours in re.findall(r"^\| `(\w+)` \| .*?`pinyon\.(\w+)`", page, re.MULTILINE)}
    assert raised
    assert raised <= rows
