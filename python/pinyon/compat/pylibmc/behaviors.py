"""pylibmc's behaviors: their names, defaults and effects on each other, and the settings of Pinyon they become.

A behavior without visible effect is kept and otherwise ignored. A behavior that Pinyon does not support is refused when
it is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from pinyon.compat.pylibmc.errors import Error, NotSupportedError
from pinyon.compat.pylibmc.rings import MODULA, WEIGHTED, placement
from pinyon.compat.pylibmc.servers import Spec

if TYPE_CHECKING:
    from typing_extensions import TypeAlias

    _Dict = dict[str, Any]
else:
    _Dict = dict

hashers: dict[str, int] = {
    "default": 0,
    "md5": 1,
    "crc": 2,
    "fnv1_64": 3,
    "fnv1a_64": 4,
    "fnv1_32": 5,
    "fnv1a_32": 6,
    "hsieh": 7,
    "murmur": 8,
    "jenkins": 9,
}
distributions: dict[str, int] = {
    MODULA: 0,
    "consistent": 1,
    "consistent ketama": 2,
    "random": 3,
    "consistent ketama spy": 4,
    WEIGHTED: 5,
    "virtual bucket": 6,
    "consistent max": 7,
}

Kind: TypeAlias = Literal["used", "kept", "refused"]


class Behavior(NamedTuple):
    """A behavior.

    Attributes:
        name: pylibmc's name for it.
        default: its default value.
        kind: whether it is used, kept without effect, or refused unless it has its default value.
        meaning: what it does here, or what to do instead.
    """

    name: str
    default: Any
    kind: Kind
    meaning: str


#: In the order in which they are set, also if they are given in another order.
BEHAVIORS = (
    Behavior("no_block", 0, "kept", "every wait has a deadline, and lets other threads and greenlets run"),
    Behavior("tcp_nodelay", 0, "kept", "always on"),
    Behavior(
        "tcp_keepalive",
        0,
        "kept",
        "always on; see the settings `keepalive`, `keepalive_interval` and `keepalive_probes`",
    ),
    Behavior("hash", "default", "used", "with `distribution`: the ring"),
    Behavior("ketama_hash", 0, "kept", "as in libmemcached, which follows `hash` in any case"),
    Behavior("ketama", 0, "used", 'true: `distribution` is "consistent ketama"; the hash stays as it is'),
    Behavior("ketama_weighted", 0, "used", 'true: `distribution` is "consistent weighted", `hash` is "md5"'),
    Behavior("distribution", MODULA, "used", "with `hash`: the ring"),
    Behavior("cas", 0, "used", "`gets` and `cas` need it"),
    Behavior(
        "buffer_requests", 0, "refused", "it sends later and reports nothing: use a quiet batch of `pinyon.Client`"
    ),
    Behavior("verify_keys", 0, "used", "how invalid keys are refused: see above"),
    Behavior("connect_timeout", 4000, "used", "milliseconds; `connect_timeout` of `pinyon.Client`"),
    Behavior("send_timeout", 0, "used", "microseconds, 0 for none; a bound of `timeout`"),
    Behavior("receive_timeout", 0, "used", "microseconds, 0 for none; a bound of `timeout`"),
    Behavior("num_replicas", 0, "refused", "libmemcached's replicas go stale: use a `gutter` of `pinyon.Client`"),
    Behavior("auto_eject", 0, "used", "true: keys of a failed server move along a consistent ring"),
    Behavior("retry_timeout", 2, "kept", "a failed server is tried again after ¼ to 1½ seconds"),
    Behavior(
        "remove_failed", 5, "used", "sets `auto_eject`; a server is marked down after a timeout or two quick failures"
    ),
    Behavior("failure_limit", 5, "kept", "see `remove_failed`"),
    Behavior("_io_msg_watermark", 500, "kept", "Pinyon has its own buffers"),
    Behavior("_io_bytes_watermark", 66560, "kept", "Pinyon has its own buffers"),
    Behavior("_io_key_prefetch", 0, "kept", "Pinyon has its own buffers"),
    Behavior(
        "_hash_with_prefix_key", 0, "refused", "the namespace is not hashed: put it in front of the keys yourself"
    ),
    Behavior("_noreply", 0, "refused", "it reports no failure: use a quiet batch of `pinyon.Client`"),
    Behavior("_sort_hosts", 0, "refused", "sort the list of servers yourself"),
    Behavior("_poll_timeout", 5000, "used", "milliseconds; a bound of `timeout`"),
    Behavior("_socket_send_size", 0, "kept", "Pinyon has its own buffers"),
    Behavior("_socket_recv_size", 0, "kept", "Pinyon has its own buffers"),
    Behavior("dead_timeout", 0, "kept", "see `retry_timeout`"),
    Behavior("pickle_protocol", -1, "used", "passed to `pickle.dumps`"),
)
all_behaviors: list[str] = [behavior.name for behavior in BEHAVIORS]
all_callbacks: list[str] = ["namespace"]

_SWITCHES = {"no_block", "tcp_nodelay", "tcp_keepalive", "cas", "verify_keys", "auto_eject"} | {
    behavior.name for behavior in BEHAVIORS if behavior.kind == "refused" and behavior.name != "num_replicas"
}
_POSITIVE = {"connect_timeout", "_poll_timeout", "retry_timeout", "remove_failed", "failure_limit"}
#: A value below a millisecond was probably meant in another unit.
_MICROSECONDS = {"send_timeout", "receive_timeout"}


def defaults() -> dict[str, Any]:
    return {behavior.name: behavior.default for behavior in BEHAVIORS}


def changed(state: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the behaviors after some of them are set, with the effects on others.

    Raises:
        ValueError: a name is unknown, or a namespace or a time makes no sense.
        KeyError: the hash or distribution is unknown.
        TypeError: a value is not an integer.
        NotSupportedError: Pinyon does not support the behavior.
        Error: libmemcached would refuse the value.
    """
    changes = dict(changes)
    if "_retry_timeout" in changes:
        changes.setdefault("retry_timeout", changes.pop("_retry_timeout"))
    unknown = set(changes).difference(all_behaviors, all_callbacks)
    if unknown:
        raise ValueError(f"unknown behavior names: {', '.join(map(str, sorted(unknown)))}")
    state = dict(state)
    for behavior in BEHAVIORS:
        if behavior.name in changes:
            _set(state, behavior, changes[behavior.name])
    if "namespace" in changes:
        state["namespace"] = _namespace(changes["namespace"])
    return state


def _set(state: dict[str, Any], behavior: Behavior, given: Any) -> None:
    name = behavior.name
    if name == "hash":
        _check_named(hashers, name, given, missing="hsieh")
        state.update(hash=given, ketama_hash=hashers[given])
        return
    if name == "distribution":
        _check_named(distributions, name, given, missing="consistent max")
        _distribute(state, given)
        return
    if name == "ketama_hash" and given in hashers:
        _check_named(hashers, name, given, missing="hsieh")
        return
    value = given
    if not isinstance(value, int):
        raise TypeError(f"behavior {name} must be int, not {type(value).__name__}")
    value = int(bool(value)) if name in _SWITCHES else int(value)
    if behavior.kind == "refused" and value != behavior.default:
        raise NotSupportedError(f"the behavior {name} = {given!r} is not supported: {behavior.meaning}")
    _check_number(name, value)
    if name == "ketama_hash":
        return
    if name == "ketama":
        if value:
            _distribute(state, "consistent ketama")
        return
    if name == "ketama_weighted":
        if value:
            state.update(hash="md5", ketama_hash=hashers["md5"])
        _distribute(state, WEIGHTED if value else "consistent ketama")
        return
    state[name] = value
    if name == "remove_failed":
        state.update(auto_eject=1, failure_limit=value)
    elif name == "failure_limit":
        state["remove_failed"] = value


def _check_named(names: Mapping[str, int], behavior: str, given: Any, missing: str) -> None:
    if given is None:
        raise TypeError(f"behavior {behavior} must be int, not NoneType")
    if given not in names:
        raise KeyError(given)
    if given == missing:
        raise Error(f"libmemcached has no {behavior} {given!r}, unless it was built with it")


def _check_number(name: str, value: int) -> None:
    if name in _POSITIVE and value < 1:
        raise Error(f"behavior {name} = {value} makes no sense: give at least 1, because every wait must end")
    if name in _MICROSECONDS and value != 0 and value < 1000:
        raise Error(f"behavior {name} = {value} is microseconds; give at least 1000, a millisecond, or 0 for none")


def _distribute(state: dict[str, Any], distribution: str) -> None:
    state["distribution"] = distribution
    state["ketama"] = int(distribution.startswith("consistent"))
    state["ketama_weighted"] = int(distribution == WEIGHTED)


def _namespace(given: Any) -> bytes:
    if not isinstance(given, bytes):
        raise TypeError(f"the namespace is bytes, as keys are sent, not {type(given).__name__}")
    if len(given) > 127 or any(byte <= 0x20 or byte == 0x7F for byte in given):
        raise ValueError(f"bad key provided: {given!r}")
    return given


def settings(state: Mapping[str, Any], specs: list[Spec]) -> dict[str, Any]:
    """Return the settings of ``pinyon.Client`` for these behaviors and servers.

    Raises:
        NotSupportedError: Pinyon has no ring that assigns keys to the same servers as pylibmc.
    """
    waits = [state["_poll_timeout"] / 1e3, state["send_timeout"] / 1e6, state["receive_timeout"] / 1e6]
    return {
        **placement(specs, state["distribution"], state["hash"]),
        "namespace": state.get("namespace"),
        "timeout": min(wait for wait in waits if wait),
        "connect_timeout": state["connect_timeout"] / 1e3,
        "failover": bool(state["auto_eject"] and state["ketama"]),
    }


class Behaving(Protocol):
    """A client that has behaviors."""

    def set_behaviors(self, behaviors: Mapping[str, Any]) -> None: ...


class BehaviorDict(_Dict):
    """A client's behaviors. Setting one here sets it on the client."""

    def __init__(self, client: Behaving, state: Mapping[str, Any]) -> None:
        super().__init__(state)
        self.client = client

    def __setitem__(self, name: str, value: Any) -> None:
        self.client.set_behaviors({name: value})
        super().__setitem__(name, value)

    def update(self, changes: Mapping[str, Any]) -> None:  # type: ignore[override]
        self.client.set_behaviors(changes)
        super().update(changes)
