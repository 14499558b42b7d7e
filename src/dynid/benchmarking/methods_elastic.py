"""Figures of the elastic joints for `dynid benchmark methods`."""

from dynid.elastic.study import study
from dynid.robot import load_robot

PLANAR, LARGE = "planar_2r_elastic", "puma560"


def elastic_figures() -> dict[str, float]:
    """Mean relative errors over the identifiable parameters of both arms in the setting of their elastic.yaml."""
    small, large = study(load_robot(PLANAR)), study(load_robot(LARGE))
    return {
        "elastic_2dof_error": small.error,
        "elastic_2dof_error_no_static_friction": small.error_no_static_friction,
        "elastic_6dof_error": large.error,
        **{f"elastic_2dof_error_at_{ratio:g}_db": error for ratio, error in small.noise.items()},
        **{f"elastic_6dof_error_at_{ratio:g}_db": error for ratio, error in large.noise.items()},
    }
