"""Commands of `dynid`, one per file; each file has a `register(app)`."""

import typer


def register_all(app: typer.Typer) -> None:
    """Add every command of this folder to the application."""
    from dynid.commands import (
        audit,
        benchmark,
        campaign,
        collect,
        compare,
        doctor,
        elastic,
        essential,
        excite,
        identify,
        joint_id,
        payload,
        regressor,
        report,
        robot,
        simulate,
        torque_constants,
        trajectories,
        validate,
    )

    for module in (
        trajectories, simulate, identify, compare, essential, audit, validate, campaign, robot, joint_id, regressor,
        payload, torque_constants, collect, excite, elastic, report, doctor, benchmark,
    ):  # fmt: skip
        module.register(app)
