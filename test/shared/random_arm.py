"""Random serial arms: geometry, inertial parameters and limits, as the text of a URDF."""

from xml.sax.saxutils import quoteattr

import numpy as np

GRAVITY = 9.81


def _vector(values: np.ndarray) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def _inertial(rng: np.random.Generator, mass: float, size: np.ndarray, centre: np.ndarray) -> str:
    """A box of three sides `size` (3,) [m] about `centre` (3,) [m], turned at random."""
    x, y, z = size**2
    ixx, iyy, izz = mass / 12.0 * np.array([y + z, x + z, x + y])
    return (
        f'<inertial><origin xyz="{_vector(centre)}" rpy="{_vector(rng.uniform(-0.5, 0.5, 3))}"/>'
        f'<mass value="{mass:.6g}"/><inertia ixx="{ixx:.6g}" ixy="0" ixz="0" iyy="{iyy:.6g}" iyz="0" izz="{izz:.6g}"/>'
        "</inertial>"
    )


def _joint(name: str, kind: str, parent: str, child: str, origin: np.ndarray, rpy: np.ndarray, inside: str = "") -> str:
    return (
        f"<joint name={quoteattr(name)} type={quoteattr(kind)}><parent link={quoteattr(parent)}/>"
        f'<child link={quoteattr(child)}/><origin xyz="{_vector(origin)}" rpy="{_vector(rpy)}"/>{inside}</joint>'
    )


def random_arm(seed: int, prismatic: bool = False, odd: bool = False) -> str:
    """URDF text of an arm of 5 to 7 axes.

    Args:
        seed: of everything.
        prismatic: one joint (not the first) slides.
        odd: names with spaces and signs, a fixed joint between two axes, a continuous joint, a tool, and a gripper of
            which one finger mimics the other.
    """
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(5, 8))
    size = float(rng.uniform(0.5, 2.5))  # of the arm as a whole
    slides = int(rng.integers(1, 4)) if prismatic else -1
    mark = "arm 1/joint-α." if odd else "joint_"
    steps = rng.uniform(0.06, 0.2, axes) * size
    masses = np.sort(rng.uniform(0.15, 1.6, axes))[::-1] * size**2
    parts = ['<link name="world frame"/>' if odd else '<link name="base"/>']
    parent = "world frame" if odd else "base"
    for j in range(axes):
        link, reach = f"link {j}" if odd else f"link_{j}", float(steps[j:].sum())
        load = GRAVITY * float((masses[j:] * np.cumsum(steps[j:])).sum())
        kind, low, high = "revolute", -rng.uniform(1.3, 3.1), rng.uniform(1.3, 3.1)
        effort, speed = (2.5 + rng.uniform(0.0, 2.0)) * load + 1.0, rng.uniform(1.2, 5.0)
        if j == slides:
            kind, low, high = "prismatic", -0.1 * size, 0.25 * size
            effort, speed = 3.0 * GRAVITY * float(masses[j:].sum()) + 5.0, rng.uniform(0.2, 0.8)
        limit = f'<limit lower="{low:.4f}" upper="{high:.4f}" effort="{effort:.4g}" velocity="{speed:.4g}"/>'
        if odd and j == axes - 1:
            kind, limit = "continuous", f'<limit effort="{effort:.4g}" velocity="{speed:.4g}"/>'
        turned = rng.choice([0.0, np.pi / 2, -np.pi / 2, np.pi / 4], 3) if j else np.zeros(3)
        way = rng.permutation([1.0, 0.2, 0.1]) * steps[j]
        axis = np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])
        if odd and j == 2:
            parts += ['<link name="bracket"/>', _joint("bolt", "fixed", parent, "bracket", 0.3 * way, np.zeros(3))]
            parent = "bracket"
        parts.append(_joint(f"{mark}{j}", kind, parent, link, way, turned, f'<axis xyz="{_vector(axis)}"/>{limit}'))
        box = np.array([0.25, 0.3, 0.7]) * rng.uniform(0.6, 1.1, 3) * max(steps[j], 0.15 * reach)
        inertial = _inertial(rng, masses[j], rng.permutation(box), rng.uniform(-0.4, 0.4, 3) * box)
        parts.append(f"<link name={quoteattr(link)}>{inertial}</link>")
        parent = link
    if odd:
        hand = _inertial(rng, 0.1 * masses[-1], np.full(3, 0.04 * size), np.zeros(3))
        finger = '<axis xyz="0 1 0"/><limit lower="0" upper="0.04" effort="5" velocity="0.2"/>'
        parts += [
            f'<link name="tool">{hand}</link>',
            _joint("flange", "fixed", parent, "tool", np.array([0.0, 0.02, 0.05]), np.zeros(3)),
            f'<link name="left">{hand}</link><link name="right">{hand}</link>',
            _joint("finger", "prismatic", "tool", "left", np.zeros(3), np.zeros(3), finger),
            _joint(
                "follower", "prismatic", "tool", "right", np.zeros(3), np.zeros(3), f'{finger}<mimic joint="finger"/>'
            ),
        ]
    return f'<?xml version="1.0"?><robot name="stranger">{"".join(parts)}</robot>'
