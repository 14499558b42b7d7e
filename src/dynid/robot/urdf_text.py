"""Reader of URDF files as text, which refuses unsafe content and replaces rounded angles by exact ones."""

import contextlib
import re
from pathlib import Path
from xml.parsers import expat

import numpy as np

from dynid.errors import ConfigurationError, InputNotFoundError

MOST_URDF_BYTES = 4 * 2**20
MOST_LEVELS, MOST_ELEMENTS = 100, 100_000  # parsers recurse; the largest robots have some 5000 elements
RPY_PATTERN = re.compile(r"""(<origin\b[^<>]*?\brpy\s*=\s*["'])([^"'<>]*)""")
DECIMALS_PATTERN = re.compile(r"[+-]?\d+\.(\d{2,})")
NOISE_RAD = 1e-6  # rounding noise of exporters


def read_urdf_text(path: Path) -> str:
    """Read the text of a URDF file, and replace rounded angles such as 1.5708 by exact ones.

    Rounded angles tilt parallel joint axes by some 4e-6 rad against each other, so their common normal, which defines
    the link frames of the modified DH convention, may be kilometres away. A DOCTYPE is refused, because it could
    include other files as external entities.

    Raises:
        InputNotFoundError: the file does not exist.
        ConfigurationError: the file is not a regular UTF-8 text file of at most `MOST_URDF_BYTES`, has a DOCTYPE, is a
            xacro file, or has too many or too deeply nested elements.
    """
    try:
        if not path.exists():
            raise InputNotFoundError(f"no such URDF file: {path}")
        if not path.is_file() or path.stat().st_size > MOST_URDF_BYTES:
            raise ConfigurationError(
                f"{path} is not a URDF: expected a regular file of at most {MOST_URDF_BYTES} bytes"
            )
        text = path.read_text(encoding="utf-8")
    except InputNotFoundError:
        raise
    except (UnicodeDecodeError, OSError) as error:
        raise ConfigurationError(f"{path} is not a valid URDF: {error}") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigurationError(f"{path} holds a DOCTYPE or ENTITY declaration; remove it, a URDF needs neither")
    if "<xacro:" in text:
        raise ConfigurationError(f"{path} is a xacro file: expand it first, by 'xacro {path.name} > robot.urdf'")
    _refuse_deep(text, path)
    return RPY_PATTERN.sub(lambda found: found[1] + " ".join(map(_exact, found[2].split())), text)


def _refuse_deep(text: str, path: Path) -> None:
    """Raise ConfigurationError if XML text has too many or too deeply nested elements, without building a tree.

    Malformed XML is accepted here; the later parsing of the tree reports it.
    """
    depth = count = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, count
        depth, count = depth + 1, count + 1
        if depth > MOST_LEVELS or count > MOST_ELEMENTS:
            raise ConfigurationError(
                f"{path} is not a URDF of a robot: expected at most {MOST_ELEMENTS} elements, {MOST_LEVELS} levels deep"
            )

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    with contextlib.suppress(expat.ExpatError):
        parser.Parse(text, True)


def _exact(figure: str) -> str:
    """Return the text of an angle [rad], with a rounded multiple of 90 deg replaced by the exact value.

    With four or more decimals, a rounded multiple of 15 deg is replaced, too. Any other text is returned unchanged.
    """
    digits = DECIMALS_PATTERN.fullmatch(figure)
    decimals = len(digits[1]) if digits else 0
    try:
        value, step = float(figure), np.pi / (12.0 if decimals >= 4 else 2.0)
        exact = step * round(value / step)
    except (ValueError, OverflowError):
        return figure  # the parser reports the error
    meant = abs(value - exact) < max(10.0**-decimals if decimals else 0.0, NOISE_RAD)
    return repr(exact) if meant and value != exact else figure
