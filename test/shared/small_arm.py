"""A small arm of the OpenMANIPULATOR-X's size: four XM430-W350 with ROBOTIS' kind of block and rounded values."""

LINKS = (  # mass [kg], centre of mass [m], size of its box [m]
    (0.08, (0.0, 0.0, 0.045), (0.045, 0.035, 0.06)),
    (0.10, (0.01, 0.0, 0.11), (0.035, 0.03, 0.13)),
    (0.14, (0.09, 0.0, 0.0), (0.12, 0.03, 0.035)),
    (0.24, (0.06, 0.0, 0.0), (0.12, 0.06, 0.05)),
)
JOINTS = (  # origin [m], axis, limits [rad]
    ((0.012, 0.0, 0.017), "0 0 1", (-3.14, 3.14)),
    ((0.0, 0.0, 0.06), "0 1 0", (-1.5, 1.5)),
    ((0.024, 0.0, 0.128), "0 1 0", (-1.5, 1.4)),
    ((0.124, 0.0, 0.0), "0 1 0", (-1.7, 1.97)),
)
LINE = '<hardware><param name="port_name">/dev/ttyUSB0</param><param name="baud_rate">1000000</param></hardware>'


def _vector(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:g}" for value in values)


def small_arm(shapes: bool = True, effort: float = 4.0) -> str:
    """Return the text of its URDF; all servos are in one `<ros2_control>` block, their models are not named."""
    box = '<collision><origin xyz="0 0 0.005"/><geometry><box size="0.1 0.1 0.03"/></geometry></collision>'
    base = f'<link name="base">{box}</link>'
    parts = [base if shapes else '<link name="base"/>']
    for k, ((mass, centre, sides), (origin, axis, (low, high))) in enumerate(zip(LINKS, JOINTS, strict=True), 1):
        x, y, z = (side**2 for side in sides)
        moments = [mass * one / 12.0 for one in (y + z, x + z, x + y)]
        names = ("ixx", "iyy", "izz")
        inertia = " ".join(f'{name}="{one:.6g}"' for name, one in zip(names, moments, strict=True))
        at = f'<origin xyz="{_vector(centre)}"/>'
        shape = f'<collision>{at}<geometry><box size="{_vector(sides)}"/></geometry></collision>' if shapes else ""
        parent = "base" if k == 1 else f"link_{k - 1}"
        parts.append(
            f'<link name="link_{k}"><inertial>{at}<mass value="{mass}"/><inertia {inertia} ixy="0" ixz="0" iyz="0"/>'
            f'</inertial>{shape}</link><joint name="joint_{k}" type="revolute"><parent link="{parent}"/>'
            f'<child link="link_{k}"/><origin xyz="{_vector(origin)}"/><axis xyz="{axis}"/>'
            f'<limit lower="{low}" upper="{high}" effort="{effort}" velocity="4.8"/></joint>'
        )
    tool = '<link name="tool"/><joint name="flange" type="fixed"><parent link="link_4"/><child link="tool"/>'
    parts.append(f'{tool}<origin xyz="0.126 0 0"/></joint>')
    servos = "".join(
        f'<joint name="joint_{k}"><command_interface name="effort"/></joint><gpio name="dxl{k}"><param name="type">dxl'
        f'</param><param name="ID">{10 + k}</param><param name="Drive Mode">0</param></gpio>'
        for k in range(1, 5)
    )
    return (
        f'<?xml version="1.0"?><robot name="small">{"".join(parts)}<ros2_control>{LINE}{servos}</ros2_control></robot>'
    )
