"""Single messages: encoders against the bulk encoders, decoder against the typestore's serialization."""

import numpy as np
import pytest

from dynid.errors import DataError
from dynid.recording.messages import JOINT_STATE, JointStateDecoder, JointStateEncoder, ReferenceEncoder, type_store

NAMES = ("shoulder", "elbow", "a_longer_wrist_name")
VALUES = {"position": [0.1, 0.2, 0.3], "velocity": [1.0, 2.0, 3.0], "effort": [-1.0, -2.0, -3.0]}


def test_single_encoding_equals_bulk_encoding() -> None:
    encoder = JointStateEncoder(NAMES, frame_id="base")
    bulk = encoder.encode_many([5 * 10**9 + 7], **{k: np.array([v]) for k, v in VALUES.items()})
    assert encoder.encode(5 * 10**9 + 7, **VALUES) == bulk[0].tobytes()
    reference = ReferenceEncoder(NAMES)
    row = [np.array([v]) for v in VALUES.values()]
    assert reference.encode(1, *VALUES.values()) == reference.encode_many([1], *row)[0].tobytes()
    with pytest.raises(DataError, match="effort"):
        encoder.encode(0, position=[0, 0, 0])


def serialized(names: tuple[str, ...], **fields: list[float]) -> bytes:
    store = type_store()
    header, time = store.types["std_msgs/msg/Header"], store.types["builtin_interfaces/msg/Time"]
    arrays = [np.array(fields.get(name, []), dtype=float) for name in ("position", "velocity", "effort")]
    message = store.types[JOINT_STATE](header(time(3, 4), ""), list(names), *arrays)
    return bytes(store.serialize_cdr(message, JOINT_STATE))


def test_decodes_in_the_order_asked_for() -> None:
    decoder = JointStateDecoder(tuple(reversed(NAMES)))
    for _ in range(2):  # the first message is learnt from, the second takes the fast path
        stamp, fields = decoder.decode(serialized(NAMES, **VALUES))
        assert stamp == 3 * 10**9 + 4
        for name, values in VALUES.items():
            np.testing.assert_array_equal(fields[name], values[::-1])


@pytest.mark.parametrize("names", [NAMES, ("a", "b", "c"), ("ab", "cd", "efghij")])
def test_the_same_size_with_another_field_is_not_mistaken(names: tuple[str, ...]) -> None:
    decoder = JointStateDecoder(names)
    messages = [
        serialized(names, effort=[1, 2, 3]),
        serialized(names, position=[4, 5, 6]),
        serialized(names, velocity=[7, 8, 9]),
    ]
    for _ in range(2):
        efforts, positions, velocities = (decoder.decode(raw)[1] for raw in messages)
        np.testing.assert_array_equal(efforts["effort"], [1, 2, 3])
        assert np.isnan(efforts["position"]).all()
        np.testing.assert_array_equal(positions["position"], [4, 5, 6])
        assert np.isnan(positions["effort"]).all()
        np.testing.assert_array_equal(velocities["velocity"], [7, 8, 9])


def test_renamed_and_missing_joints_are_noticed() -> None:
    decoder = JointStateDecoder(NAMES)
    assert decoder.decode(serialized(NAMES, **VALUES)) is not None
    swapped = ("elbow", "shoulder", "a_longer_wrist_name")
    np.testing.assert_array_equal(decoder.decode(serialized(swapped, **VALUES))[1]["position"], [0.2, 0.1, 0.3])
    assert decoder.decode(serialized(("shoulder", "elbow", "a_longer_wrist_namf"), **VALUES)) is None
    with pytest.raises(DataError):
        decoder.decode(b"\x00\x01\x00\x00garbage")
