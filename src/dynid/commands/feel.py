"""`dynid feel`: contacts of a recorded motion, found without a sensor."""

from pathlib import Path
from typing import Annotated

import typer

from dynid.commands import options as opt
from dynid.commands.terminal import print_json, say, stages, stdout, table, with_deviation


def feel(
    bag: Annotated[Path, typer.Argument(metavar="BAG_OR_CSV", help="Recording of the arm.")],
    model: Annotated[str, typer.Option("--model", help="A model.yaml, or a result folder; it must be accepted.")],
    robot: opt.RobotOption = opt.DEFAULT_ROBOT,
    mapping: opt.MappingOption = None,
    as_json: opt.JsonOption = False,
) -> None:
    """Find contacts in a recording: when, which joint felt them, joint torques and the force at the tool."""
    from dynid.contact.recorded import measured_noise, refuse_coarser, sense_of, torques_before
    from dynid.identification.data.sources import load_recording, simulated_sentence
    from dynid.identification.settings import load_identification
    from dynid.model.model_file import load_model
    from dynid.robot import load_robot

    loaded = load_robot(robot)
    content = load_model(opt.model_path(loaded, model))
    with stages("feel", 2) as begin:
        begin(f"reading {bag.name}")
        source = load_recording(bag, loaded, opt.read_mapping(mapping))
        signals = source.signals(load_identification(loaded))
        sense = sense_of(loaded, content, source.mount, measured_noise(signals))
        refuse_coarser(signals, loaded)
        begin("feeling along")
        tau = torques_before(signals)
        found = sense.along(loaded.joint_names, signals.time, signals.q, tau)
    start = float(signals.time[0])
    if as_json:
        rows = [one.as_dict(start) for one in found]
        print_json({"robot": loaded.name, "frame": loaded.file.base_link, "contacts": rows})
        return
    shown = table(f"contacts of {bag.name}", "from [s]", "to [s]", "first felt by", "joint torques [N m]", "force [N]")
    for one in found:
        torques, force = (
            ", ".join(with_deviation(*one) for one in zip(*pair, strict=True))
            for pair in ((one.torque, one.torque_deviation), (one.force, one.force_deviation))
        )
        shown.add_row(f"{one.begin_s - start:.3f}", f"{one.end_s - start:.3f}", one.joint, torques, force)
    stdout().print(shown)
    say(f"{len(found)} contact(s); forces are those on the tool, in the frame of {loaded.file.base_link}")
    say(*filter(None, [simulated_sentence([source.name] if source.simulated else [])]))
