"""Groups of base parameters of links and rotors: the rotor, the inertia and the first moments of each link."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from dynid.model.drive import KINDS, kind_and_number
from dynid.model.springs import is_spring

Kind = Literal["rotor", "inertia", "gravity"]
GROUP_PHRASES: dict[Kind, str] = {
    "rotor": "the rotor inertia of joint {}",
    "inertia": "the inertia of link {}",
    "gravity": "the mass and first moments of link {}",
}


class ParameterGroup(NamedTuple):
    """Group of base parameters of one link: rotor inertia, link inertia, or mass and first moments.

    Attributes:
        kind: "rotor" (inertia of the joint's rotor), "inertia", or "gravity" (mass and first moments).
        number: number of the link or joint, from 1.
        names: names of the parameters.
        places: indices of the parameters among all names.
    """

    kind: Kind
    number: int
    names: tuple[str, ...]
    places: tuple[int, ...]

    @property
    def words(self) -> str:
        """Description of the group, such as "the inertia of link 3"."""
        return GROUP_PHRASES[self.kind].format(self.number)


def parameter_groups(names: Sequence[str]) -> tuple[ParameterGroup, ...]:
    """Return the groups of base parameters by link and kind, from their names; friction and springs are in no group."""
    places: dict[tuple[int, Kind], list[int]] = {}
    for place, name in enumerate(names):
        if (kind := _kind(name)) is not None:
            places.setdefault((kind_and_number(name)[1], kind), []).append(place)
    return tuple(
        ParameterGroup(kind, number, tuple(names[k] for k in own), tuple(own))
        for (number, kind), own in sorted(places.items())
    )


def _kind(name: str) -> Kind | None:
    kind = kind_and_number(name)[0]
    if is_spring(name) or (kind in KINDS and kind != "IA"):
        return None
    plain = kind.removesuffix("R")
    return "rotor" if plain == "IA" else "gravity" if plain in ("M", "MX", "MY", "MZ") else "inertia"
