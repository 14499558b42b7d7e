"""Broadcast ping, which finds every servo on a line, including unexpected ones."""

from collections.abc import Collection

from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.dialogue import PING_PARAMETERS, SILENCE_S
from dynid.hardware.bus.servo_bus import ServoBus


def scan(bus: ServoBus, window_s: float, silence_s: float, expected: Collection[int] = ()) -> list[tuple[int, int]]:
    """Return (ID, model number) of every servo that answers a broadcast ping, in order of arrival.

    Args:
        bus: an open bus.
        window_s: longest duration of the scan [s], unless expected servos are missing. A servo delays its answer by
            3 ms for every smaller ID.
        silence_s: time without an answer after which the scan ends before `window_s` [s].
        expected: IDs of servos that are known to be on the line. While any of them is missing, the scan does not end
            before a second has passed since the last answer, even if this exceeds `window_s`.

    Raises:
        BusError: the port is lost.
    """
    found: list[tuple[int, int]] = []
    awaited = set(expected)
    with bus.line() as port:
        port.discard_input()
        bus.parser.reset()
        port.send(protocol.build_ping(protocol.BROADCAST_ID))
        began_ns = latest_ns = bus.clock.monotonic_ns()
        listening = True
        while listening:
            usual_ns = min(began_ns + round(window_s * 1e9), latest_ns + round(silence_s * 1e9))
            end_ns = max(usual_ns, latest_ns + round(SILENCE_S * 1e9)) if awaited else usual_ns
            left_ns = max(0, end_ns - bus.clock.monotonic_ns())  # 0 reads once more, in case the host stalled
            data = port.receive(left_ns * 1e-6)
            answers = [packet for packet in bus.parser.feed(data) if _answers_ping(packet)]
            now_ns = bus.clock.monotonic_ns()
            if answers and now_ns > usual_ns:
                bus.dialogue.count_late((now_ns - began_ns) * 1e-9)
            latest_ns = now_ns if answers else latest_ns
            listening = bool(data) and left_ns > 0
            awaited -= {packet.packet_id for packet in answers}
            found += [(one.packet_id, table.MODEL_NUMBER.from_bytes(one.parameters[:2])) for one in answers]
    bus.dialogue.owe_pings(sorted(awaited))
    return found


def _answers_ping(packet: protocol.Packet) -> bool:
    return packet.instruction == protocol.Instruction.STATUS and len(packet.parameters) == PING_PARAMETERS
