"""`dynid feel`: detection of contacts in recorded motions, without a force sensor."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table, with_deviation

if TYPE_CHECKING:
    from dynid.contact.contact_sense import Contact


class _Felt(NamedTuple):
    """Contacts that were detected in one recording, or the reason why the recording cannot be used.

    Attributes:
        name: name of the recording.
        start_s: first timestamp [s].
        length_s: duration [s].
        contacts: detected contacts.
        simulated: whether the recording is of a simulated arm.
        notes: remarks from reading the recording, for the user.
        refusal: reason why the recording cannot be used; '' if it can be used.
    """

    name: str
    start_s: float
    length_s: float
    contacts: "list[Contact]"
    simulated: bool
    notes: tuple[str, ...]
    refusal: str = ""

    def as_dict(self, robot: str, frame: str) -> dict[str, Any]:
        """Return the contacts as a dictionary for JSON, with times counted from the first timestamp.

        `robot` is the robot's name, and `frame` the frame in which forces are stated.
        """
        own = {"robot": robot, "frame": frame, "recording": self.name, "length_s": self.length_s}
        contacts = [contact.as_dict(self.start_s) for contact in self.contacts]
        return own | {"contacts": contacts, "notes": list(self.notes), "refused": self.refusal}


def feel(
    bags: Annotated[list[Path], typer.Argument(metavar="BAG_OR_CSV...", help="Recordings of the arm.")],
    model: Annotated[str, typer.Option("--model", help="A model.yaml, or a result folder; it must be accepted.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mapping: opt.MappingOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Detect contacts of the arm in recordings, with their times, joints, joint torques and forces at the tool.

    In recordings of an arm that was not touched, all contacts are false alarms. With --json, one recording is printed
    as an object, several as a list of objects. Exit code 1 if a recording cannot be used; the others are evaluated all
    the same.
    """
    from dynid.contact.recorded import measured_torques, refuse_coarser, sense_of, torques_before
    from dynid.errors import DynidError
    from dynid.identification.data.recordings import load_recording
    from dynid.identification.settings import load_identification
    from dynid.model.model_file import read_model_file
    from dynid.robot import load_robot

    read = opt.read_mapping(mapping)
    opt.refuse_unused_mapping(read, bags)
    loaded = load_robot(robot)
    content, settings = read_model_file(opt.model_path(loaded, model)), load_identification(loaded)
    found: list[_Felt] = []
    with stages("feel", len(bags)) as begin:
        for bag in bags:
            begin(bag.name)
            try:
                source = load_recording(bag, loaded, read)
                signals = source.signals(settings)
                sense = sense_of(loaded, content, source.mount, measured_torques(signals, settings))
                refuse_coarser(signals, loaded)
            except DynidError as error:
                if len(bags) == 1:
                    raise
                found.append(_Felt(str(bag), 0.0, 0.0, [], False, (), str(error)))
                continue
            contacts = sense.along(loaded.joint_names, signals.time, signals.q, torques_before(signals))
            first, last = float(signals.time[0]), float(signals.time[-1])
            name = str(bag) if len(bags) > 1 else bag.name
            found.append(_Felt(name, first, last - first, contacts, source.simulated, source.notes))
    if as_json:
        rows = [one.as_dict(loaded.name, loaded.file.base_link) for one in found]
        print_json(rows if len(rows) > 1 else rows[0])
    else:
        _say(found, loaded.file.base_link)
    if any(one.refusal for one in found):
        raise typer.Exit(1)


def _say(found: list[_Felt], frame: str) -> None:
    from dynid.identification.data.recordings import simulated_sentence

    for one in found:
        if one.contacts or len(found) == 1:
            _print(one)
    if len(found) > 1:
        _print_all(found)
    count = sum(len(one.contacts) for one in found)
    say(f"{count} contact(s); forces are those on the tool, in the frame of {frame}")
    say(*filter(None, [simulated_sentence([one.name for one in found if one.simulated])]))
    say(*(f"{one.name}: {note}" for one in found for note in one.notes))
    for one in found:
        if one.refusal:
            say(f"not used: {'' if one.name in one.refusal else f'{one.name}: '}{one.refusal}")


def _print(one: _Felt) -> None:
    shown = table(
        f"contacts of {one.name}", "from [s]", "to [s]", "first detected by", "joint torques [N m]", "force [N]"
    )
    for contact in one.contacts:
        torques, force = (
            ", ".join(with_deviation(*each) for each in zip(*pair, strict=True))
            for pair in ((contact.torque, contact.torque_deviation), (contact.force, contact.force_deviation))
        )
        times = (f"{time_s - one.start_s:.3f}" for time_s in (contact.begin_s, contact.end_s))
        shown.add_row(*times, contact.joint, torques, force)
    stdout().print(shown)


def _print_all(found: list[_Felt]) -> None:
    shown = table("all recordings", "recording", "length [s]", "contacts")
    for one in found:
        shown.add_row(one.name, *(("", "not used") if one.refusal else (f"{one.length_s:.1f}", str(len(one.contacts)))))
    minutes = sum(one.length_s for one in found) / 60.0
    shown.add_row(f"{len(found)} recordings, {minutes:.1f} minutes", "", str(sum(len(one.contacts) for one in found)))
    stdout().print(shown)
