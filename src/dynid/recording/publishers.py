"""Merging of joint states that several publishers send, each for some of the joints and at its own rate.

The stamps of the most frequent publisher become the common stamps. Values of the other publishers are interpolated at
these stamps by splines. If a publisher sends nothing for more than a few of its sampling intervals, its joints are
unknown in this gap. The common stamps within the gap are then left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynid.errors import DataError
from dynid.recording.bag_reader import TopicContent
from dynid.recording.interpolation import by_splines, known_between
from dynid.recording.joint_log import Measured
from dynid.recording.log import SHORTEST
from dynid.recording.messages import JOINT_STATE
from dynid.recording.plausible import unwrapped
from dynid.recording.quantity import Conversion
from dynid.recording.repeated_rows import Rows, without_repeats
from dynid.recording.series import JointSeries, joint_series, joint_sets, messages_alike
from dynid.robot import FloatArray

FIELDS = ("position", "effort")
Chosen = dict[str, dict[str, int]]  # index of the publisher, by field and joint


@dataclass(frozen=True)
class Publisher:
    """Messages of one publisher of joint states.

    Attributes:
        topic: name of the topic.
        message_type: type of the messages.
        series: decoded messages, with the joints of the arm that they contain.
    """

    topic: str
    message_type: str
    series: JointSeries

    def carries(self, joint: str, field: str) -> bool:
        """Return whether the publisher sends any finite value of a field, such as "effort", for a joint."""
        if joint not in self.series.joint_names or field not in self.series.values:
            return False
        column = self.series.values[field][:, self.series.joint_names.index(joint)]
        return bool(np.isfinite(column).any())


def publishers_of(content: TopicContent, names: tuple[str, ...]) -> tuple[list[Publisher], list[str]]:
    """Return the publishers on a topic that send some of the arm's joints, and notes on the messages left out.

    A topic may have several publishers. Messages with the same joints of the arm are assumed to come from one
    publisher.

    Args:
        content: the topic with its messages.
        names: names of the arm's joints in the messages, (n,).
    """
    found, notes = [], []
    sets = [tuple(name for name in names if name in own) for own in joint_sets(content, names)]
    alike = [messages_alike(content, own) for own in sets]
    for k, own in enumerate(sets):
        others = np.any([one for j, one in enumerate(alike) if j != k], axis=0) & ~alike[k]
        series = joint_series(content, own, foreign=True, skipped=others)
        found.append(Publisher(content.name, content.message_type, series))
    read = sum(len(one.series.stamp_ns) for one in found)
    if found and read < len(content.messages):
        lost, total = len(content.messages) - read, len(content.messages)
        reason = next((one.series.reason for one in found if one.series.reason), "of other joints")
        notes.append(f"{lost} of {total} messages of {content.name} were left out; the first: {reason}")
    return found, notes


def chosen(publishers: Sequence[Publisher], names: tuple[str, ...], name: str) -> Chosen:
    """Choose a publisher of positions and a publisher of efforts for each joint.

    A publisher of both fields is preferred, and JointState is preferred over ros2_control's DynamicJointState.

    Args:
        publishers: the publishers.
        names: names of the arm's joints in the messages, (n,).
        name: name of the recording, for messages.

    Returns:
        Index of the chosen publisher, by field ("position" or "effort") and joint name. The dict of "effort" lacks the
        joints whose efforts no publisher sends.

    Raises:
        DataError: no publisher sends the positions of a joint, or several publishers send a field of a joint, and none
            of them is preferred.
    """
    found: Chosen = {field: {} for field in FIELDS}
    for joint in names:
        whole = [k for k, one in enumerate(publishers) if all(one.carries(joint, field) for field in FIELDS)]
        for field in FIELDS:
            own = whole or [k for k, one in enumerate(publishers) if one.carries(joint, field)]
            own = [k for k in own if publishers[k].message_type == JOINT_STATE] or own
            if len(own) > 1:
                topics = ", ".join(dict.fromkeys(publishers[k].topic for k in own))
                raise DataError(
                    f"{name}: the {field} of {joint} is sent more than once ({topics}): name the topics to read as "
                    "`topics` in a mapping"
                )
            if own:
                found[field][joint] = own[0]
        if joint not in found["position"]:
            sent = ", ".join(sorted({one for two in publishers for one in two.series.joint_names})) or "none"
            raise DataError(f"{name} lacks the joint {joint}; of the arm's joints it has: {sent}")
    return found


@dataclass(frozen=True, eq=False)
class _Track:
    """Rows of one publisher in SI units; a row contains the values of the publisher's joints at one time.

    Attributes:
        topic: name of the topic.
        time: times of the rows, (N,) [s].
        q: positions, (N, k) [rad or m].
        tau: torques, (N, j) [N m or N].
        q_places: indices, among the arm's joints, of the k joints in the columns of `q`.
        tau_places: indices, among the arm's joints, of the j joints in the columns of `tau`.
    """

    topic: str
    time: FloatArray
    q: FloatArray
    tau: FloatArray
    q_places: list[int]
    tau_places: list[int]

    @property
    def step_s(self) -> float:
        return float(np.median(np.diff(self.time)))


def merge_publishers(
    name: str,
    publishers: Sequence[Publisher],
    times: Sequence[tuple[FloatArray, NDArray[np.bool_]]],
    choice: Chosen,
    conversion: Conversion,
    notes: list[str],
) -> Measured:
    """Return positions and torques of all joints at the stamps of the most frequent publisher.

    Stamps at which not all joints are known are left out. The torques are None if a joint's efforts are not sent.

    Args:
        name: name of the log.
        publishers: the publishers, each of which sends some of the joints.
        times: for each publisher, the times (N,) [s] of its messages on a common axis, and a mask (N,) of the messages
            to use.
        choice: index of the publisher to use for each field ("position" or "effort") and joint name, from `chosen`.
        conversion: conversion from raw numbers to SI units.
        notes: list with the notes made so far, to which further notes are added; it becomes the log's notes.

    Raises:
        DataError: a publisher sent too few messages, or there is no time at which all joints are known.
    """
    names = tuple(choice["position"])  # in the robot's order
    n, wraps, tracks = len(names), [0] * len(names), []
    for k, (one, (time, keep)) in enumerate(zip(publishers, times, strict=True)):
        places = {field: [i for i, joint in enumerate(names) if choice[field].get(joint) == k] for field in FIELDS}
        if any(places.values()):
            tracks.append(_track(one, time, keep, places, names, conversion, wraps, notes))
    clock = min(tracks, key=lambda track: track.step_s)
    known = np.ones(len(clock.time), dtype=bool)
    for track in tracks:
        if track is not clock:
            known &= known_between(clock.time, track.time)
    if known.sum() < SHORTEST:
        raise DataError(
            f"{name}: at {int(known.sum())} instants all joints are known, expected {SHORTEST} or more: do the "
            f"publishers ({', '.join(track.topic for track in tracks)}) have one clock, and send at the same time?"
        )
    time = clock.time[known]
    q, tau = np.full((len(time), n), np.nan), np.full((len(time), n), np.nan)
    for track in tracks:
        for target, values, axes in ((q, track.q, track.q_places), (tau, track.tau, track.tau_places)):
            if axes:
                target[:, axes] = values[known] if track is clock else by_splines(time, track.time, values)
    whole = len(choice["effort"]) == n
    notes.append(_description(tracks, clock, names, int((~known).sum())))
    return Measured(name, time, q, wraps, tau if whole else None, notes=tuple(notes))


def _track(
    one: Publisher,
    time: FloatArray,
    keep: NDArray[np.bool_],
    places: dict[str, list[int]],
    names: tuple[str, ...],
    conversion: Conversion,
    wraps: list[int],
    notes: list[str],
) -> _Track:
    """Return one publisher's rows in SI units, with angles unwrapped and repeated rows removed or replaced.

    Args:
        one: the publisher.
        time: times of its messages, (N,) [s].
        keep: mask of the messages to use, (N,).
        places: by field, the indices of the joints for which this publisher is used.
        names: names of all joints, (n,).
        conversion: conversion from raw numbers to SI units.
        wraps: number of wrap-arounds of each joint, (n,); updated in place.
        notes: list to which notes on the changes are added.
    """
    factors = {"position": conversion.position_factors, "effort": conversion.torque_factors}
    columns = {}
    for field in FIELDS:
        own = [one.series.joint_names.index(names[i]) for i in places[field]]
        raw = one.series.values[field][:, own] if own else np.zeros((len(time), 0))
        columns[field] = raw * factors[field][places[field]]
    rows = keep & np.isfinite(np.hstack(list(columns.values()))).all(axis=1)
    if lost := int((keep & ~rows).sum()):
        notes.append(f"{lost} messages of {one.topic} hold values that are not finite and were left out")
    if rows.sum() < SHORTEST:
        raise DataError(f"{one.topic} has {int(rows.sum())} usable messages, expected {SHORTEST} or more")
    time, q, tau = time[rows], columns["position"][rows], columns["effort"][rows]
    turns = [not conversion.robot.prismatic[i] for i in places["position"]]
    q, counts = unwrapped(time, q, conversion.speed_limits()[places["position"]], turns)
    for i, count in zip(places["position"], counts, strict=True):
        wraps[i] = count
    if places["position"]:
        found = without_repeats(Rows(time, q, tau if tau.size else None))
        time, q = found.time, found.q
        tau = np.zeros((len(time), 0)) if found.tau is None else found.tau
        notes += [f"{one.topic}: {found.words}"] if found.words else []
    return _Track(one.topic, time, q, tau, places["position"], places["effort"])


def _description(tracks: Sequence[_Track], clock: _Track, names: tuple[str, ...], lost: int) -> str:
    """Return a sentence on the joints and rate of each publisher, and on the number of rows left out.

    Args:
        tracks: rows of each publisher.
        clock: rows of the publisher whose stamps are used.
        names: names of all joints, (n,).
        lost: number of rows of `clock` that were left out because not all joints are known at their stamps.
    """
    parts = []
    for track in tracks:
        joints = ", ".join(names[i] for i in sorted({*track.q_places, *track.tau_places}))
        parts.append(f"{track.topic} ({joints} at {1.0 / track.step_s:.4g} Hz)")
    gaps = f"; {lost} of its rows, at which not all joints are known, were left out" if lost else ""
    sent = ", ".join(parts)
    return f"joint states of {len(tracks)} publishers were merged: {sent}, at the stamps of {clock.topic}{gaps}"
