"""Requests to one servo at a time during set-up: wait times, and assignment of answers to questions.

Protocol 2.0 has no sequence numbers: an answer contains only the servo's ID and its parameters. The host delivers
answers in the order of their questions. So an answer is assigned to the oldest unanswered question that it fits, see
`Question.answered_by`. Once a ping is answered, no answer to an earlier question can follow, so earlier questions count
as unanswered for good.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dynid.errors import BusTimeoutError, SilentLineError
from dynid.hardware.bus import control_table as table
from dynid.hardware.bus import protocol
from dynid.hardware.bus.clock import Clock
from dynid.hardware.bus.port import REPLY_LATENCY_MS, WaitingPortHandler
from dynid.hardware.bus.simulated_line import is_simulated_port

ID_AT, INSTRUCTION_AT = 4, 7
STATUS_OVERHEAD = 11
PING_PARAMETERS = 3
USUAL_S = REPLY_LATENCY_MS * 1e-3  # wait beyond the time on the wire: enough unless the host is busy
QUICK_S = (USUAL_S,) * 3  # wait times of the attempts to ping a servo that may not be there
PATIENT_S = (USUAL_S, 0.06, 0.2, 0.72)  # wait times; one second in total, for a host that compiles or swaps
SILENCE_S = sum(PATIENT_S)
Answer = tuple[protocol.Packet | None, bool]
"""The answer of a servo, None if there is none; and whether a damaged answer came instead."""


class Line(Protocol):
    """Part of a servo bus's interface that a dialogue with single servos needs; see `ServoBus`."""

    port: str
    servo_ids: tuple[int, ...]
    clock: Clock
    parser: protocol.PacketParser
    retries: int

    def line(self) -> contextlib.AbstractContextManager[WaitingPortHandler]:
        """Return the open port as a context manager."""
        ...

    def wire_s(self, *byte_counts: int) -> float:
        """Return the time that a number of bytes takes on the wire [s]."""
        ...

    def ask_to_the_end(
        self, port: WaitingPortHandler, request: bytes, reply_size: int, margin_s: float | None
    ) -> Iterator[list[protocol.Packet]]:
        """Send a request, and yield new packets as they arrive, until the timeout; see `ServoBus.ask_to_the_end`."""
        ...


@dataclass(slots=True, eq=False)
class Question:
    """An instruction to one servo that expects an answer.

    Attributes:
        frame: bytes of the instruction packet.
        size: number of parameter bytes of the answer.
        sent_ns: time of sending on the monotonic clock [ns].
    """

    frame: bytes
    size: int
    sent_ns: int = 0

    @property
    def servo_id(self) -> int:
        """ID of the servo that was asked."""
        return self.frame[ID_AT]

    @property
    def is_ping(self) -> bool:
        """Whether the question is a ping.

        A servo answers all pings alike, so its late answer to one ping is as good as its answer to the next.
        """
        return self.frame[INSTRUCTION_AT] == protocol.Instruction.PING

    def answered_by(self, packet: protocol.Packet) -> bool:
        """Return whether a status packet may be the answer to this question.

        The packet must have the servo's ID. Unless it reports an error, it must also have the expected number of
        parameters.
        """
        refused = bool(packet.error & ~table.ALERT_BIT)
        return packet.packet_id == self.servo_id and (refused or len(packet.parameters) == self.size)


class Dialogue:
    """Dialogue with one servo at a time that distinguishes late answers from answers to the present question.

    Args:
        bus: the servo bus, which provides the open port, a clock and the parser of the answers.

    Attributes:
        late: number of late answers. They took more than 20 ms (`USUAL_S`) beyond their time on the wire, or came after
            the usual duration of a broadcast ping.
        slowest_s: longest time between a question and its late answer [s]; 0 if no answer was late.
    """

    def __init__(self, bus: Line) -> None:
        self._bus = bus
        self.late = 0
        self.slowest_s = 0.0
        self._patient = 0  # nesting depth of `patiently`
        self._pending: list[Question] = []
        self._answered: dict[int, None] = {}  # IDs of servos that answered, the latest at the end

    @property
    def patient(self) -> bool:
        """Whether the dialogue is inside `patiently`, where it waits up to a second for late answers."""
        return self._patient > 0

    @property
    def lateness(self) -> str:
        """Text, for use in messages, with the longest delay of late answers; '' if no answer was late."""
        return f"answers arrive after {self.slowest_s * 1e3:.0f} ms: the machine is busy" if self.late else ""

    def reset(self) -> None:
        """Clear the lists of unanswered questions and of servos that answered, for a port that is opened again."""
        self._pending.clear()
        self._answered.clear()

    @contextlib.contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait up to a second for each answer inside the `with` block; at its end, wait until no answer is pending.

        Raises:
            SilentLineError: answers are pending at the end, and no servo answers any more.
        """
        self._patient += 1
        try:
            yield
            if self._patient == 1 and self._pending and self._answered:
                self.settle()
        finally:
            self._patient -= 1

    def ask(self, frame: bytes, size: int) -> Answer:
        """Send an instruction to one servo once.

        Without an answer, a dialogue inside `patiently` (a patient dialogue) pings the servo. If the servo answers only
        the ping, the result is (None, False).

        Args:
            frame: bytes of the instruction packet to one servo; not a ping.
            size: number of parameter bytes of the answer, unless the servo refuses the instruction.

        Returns:
            The answer or None, and whether a damaged answer came instead.

        Raises:
            SilentLineError: in a patient dialogue, no servo answers within a second.
            BusTimeoutError: in a patient dialogue, this servo answers neither the instruction nor pings within a
                second, but other servos do.
            BusError: the port is lost.
        """
        if not self.patient:
            self._pending.clear()
        elif any(not one.is_ping for one in self._pending):
            self.settle()  # otherwise a late answer could be mistaken for the answer to this question
        question = Question(frame, size)
        answer, damaged = self._send(question, question, USUAL_S)
        if not self.patient or answer is not None or damaged:
            return answer, damaged
        for wait_s in PATIENT_S:
            answer, _ = self._send(_ping(question.servo_id), question, wait_s)
            if answer is not None or question not in self._pending:
                return answer, False
        raise self._silence(question.servo_id)

    def ping(self, servo_id: int, waits_s: Sequence[float]) -> Answer:
        """Ping a servo until it answers, at most once for each wait time.

        Args:
            servo_id: ID of the servo.
            waits_s: wait time of each attempt beyond the time on the wire [s].

        Returns:
            The answer or None, and whether a damaged answer came instead.

        Raises:
            BusError: the port is lost.
        """
        if not self.patient:
            self._pending.clear()
        damaged = False
        for attempt, wait_s in enumerate(waits_s):
            self._bus.retries += attempt > 0
            ping = _ping(servo_id)
            answer, damaged_answer = self._send(ping, ping, wait_s)
            if answer is not None:
                return answer, False
            damaged |= damaged_answer
        return None, damaged

    def settle(self) -> bool:
        """Ping one servo until it answers, so that no late answer to an earlier question can follow.

        A servo that answered before is preferred.

        Returns:
            Whether an answer arrived late meanwhile, which shows that the host is busy.

        Raises:
            SilentLineError: no servo answers within a second.
        """
        late, candidates = self.late, [*reversed(self._answered), *self._bus.servo_ids]
        pending_ids = {one.servo_id for one in self._pending}
        servo_id = next((one for one in candidates if one not in pending_ids), candidates[0])
        if self.ping(servo_id, PATIENT_S)[0] is None:
            raise self._silence(servo_id)
        return self.late > late

    def owe_pings(self, servo_ids: Sequence[int]) -> None:
        """Register servos that have not answered a broadcast ping yet, so that late answers are recognised."""
        for servo_id in servo_ids:
            self._add_pending(_ping(servo_id))

    def count_late(self, took_s: float) -> None:
        """Count a late answer that came `took_s` [s] after its question."""
        self.late += 1
        self.slowest_s = max(self.slowest_s, took_s)

    def _silence(self, servo_id: int) -> BusTimeoutError:
        """Return the error for a servo that did not answer within a second, after pinging others to find the cause."""
        port = self._bus.port
        others = [one for one in reversed(self._answered) if one != servo_id][:2]
        if any(self.ping(one, QUICK_S)[0] is not None for one in others):
            return BusTimeoutError(
                f"servo {servo_id} on {port} does not answer: no answer in {SILENCE_S:.0f} s, while other servos "
                "answer; check its plug and power"
            )
        cause = "the cable or the power is off, or this computer stood still; check them, and start again"
        if is_simulated_port(port):
            cause = "the process of the simulated arm, or this computer, stands still; start again when it runs"
        return SilentLineError(f"no servo on {port} answers: no answer in {SILENCE_S:.0f} s, {cause}")

    def _send(self, sent: Question, wanted: Question, wait_s: float) -> Answer:
        """Send the question `sent`, and wait for the answer to the question `wanted`.

        The wait ends without an answer after `wait_s` [s] beyond the time on the wire, or as soon as an answer to a
        later question shows that no answer will follow.

        Args:
            sent: question to send, either `wanted` itself or a ping to the same servo.
            wanted: question whose answer is returned.
            wait_s: wait time beyond the time on the wire [s].

        Returns:
            The answer or None, and whether a damaged answer came instead.
        """
        bus = self._bus
        damaged, mismatched = bus.parser.crc_errors + bus.parser.malformed, 0
        with bus.line() as port:
            if self._pending and (data := port.receive(0.0)):
                answer, _ = self._assign(bus.parser.feed(data), wanted)
                if answer is not None:
                    return answer, False
            self._add_pending(sent)
            for packets in bus.ask_to_the_end(port, sent.frame, STATUS_OVERHEAD + sent.size, wait_s):
                answer, unassigned = self._assign(packets, wanted)
                mismatched += sum(one.packet_id == sent.servo_id for one in unassigned)
                if answer is not None or wanted not in self._pending:
                    return answer, False
        return None, bool(mismatched or bus.parser.crc_errors + bus.parser.malformed > damaged or bus.parser.pending)

    def _add_pending(self, question: Question) -> None:
        question.sent_ns = self._bus.clock.monotonic_ns()
        self._pending.append(question)

    def _assign(
        self, packets: Sequence[protocol.Packet], wanted: Question
    ) -> tuple[protocol.Packet | None, list[protocol.Packet]]:
        """Assign each packet to the oldest pending question that it may answer; drop that question and all older ones.

        Returns:
            The answer to `wanted` (or, if that is a ping, to any pending ping to the same servo), and the packets that
                answer no question.
        """
        answer, unassigned = None, list[protocol.Packet]()
        for packet in packets:
            if packet.instruction != protocol.Instruction.STATUS:
                continue
            index = next((k for k, one in enumerate(self._pending) if one.answered_by(packet)), None)
            if index is None:
                unassigned.append(packet)
                continue
            question = self._pending[index]
            del self._pending[: index + 1]
            self._answered.pop(packet.packet_id, None)
            self._answered[packet.packet_id] = None
            took_s = (self._bus.clock.monotonic_ns() - question.sent_ns) * 1e-9
            if took_s > USUAL_S + self._bus.wire_s(len(question.frame), STATUS_OVERHEAD + question.size):
                self.count_late(took_s)
            if question is wanted or (question.is_ping and question.frame == wanted.frame):
                answer = answer or packet
        return answer, unassigned


def _ping(servo_id: int) -> Question:
    return Question(protocol.build_ping(servo_id), PING_PARAMETERS)
