"""Independent clients on the emulated bus: the complete DYNAMIXEL SDK, lerobot's motor bus, RT's C++ library.

lerobot needs PyTorch, and RT's library a C++ compiler: their packets are sent here through the SDK that both use, in
the order of lerobot 0.4.4's `DynamixelMotorsBus` and rt_manipulators_cpp's `Hardware`.
"""

import pytest
from dynamixel_sdk import (
    COMM_RX_TIMEOUT,
    COMM_SUCCESS,
    GroupBulkRead,
    GroupBulkWrite,
    GroupSyncRead,
    GroupSyncWrite,
    PortHandler,
    Protocol2PacketHandler,
)
from plain_bus import IndependentAxesPlant

from dynid.hardware.bus import control_table as table
from dynid.simulation.bus.servo_bus import EmulatedServoBus

SDK = Protocol2PacketHandler()
DONE = (COMM_SUCCESS, 0)
X7 = range(2, 10)


# -- every instruction of the SDK ------------------------------------------------------------------------------


def test_the_sdk_reads_and_writes_registers_of_every_size(port: PortHandler) -> None:
    assert SDK.ping(port, 3) == (1120, *DONE)
    assert len(SDK.broadcastPing(port)[0]) == 8
    assert SDK.write1ByteTxRx(port, 2, 65, 1) == DONE and SDK.read1ByteTxRx(port, 2, 65) == (1, *DONE)
    assert SDK.write2ByteTxRx(port, 2, 84, 640) == DONE and SDK.read2ByteTxRx(port, 2, 84) == (640, *DONE)
    assert SDK.write4ByteTxRx(port, 2, 112, 300) == DONE and SDK.read4ByteTxRx(port, 2, 112) == (300, *DONE)
    assert SDK.write1ByteTxRx(port, 2, 66, 1) == (COMM_SUCCESS, 7)
    assert SDK.write1ByteTxRx(port, 2, 102, 1) == (COMM_SUCCESS, 5)


def test_a_reg_write_of_the_sdk_takes_effect_at_the_action(port: PortHandler) -> None:
    for servo in (2, 3):
        assert SDK.regWriteTxRx(port, servo, 65, 1, [1]) == DONE
        assert SDK.read1ByteTxRx(port, servo, 69) == (1, *DONE)
    assert SDK.read1ByteTxRx(port, 2, 65) == (0, *DONE)
    SDK.action(port, 254)
    assert [SDK.read1ByteTxRx(port, servo, 65)[0] for servo in (2, 3, 4)] == [1, 1, 0]
    assert SDK.read1ByteTxRx(port, 2, 69) == (0, *DONE)


@pytest.mark.parametrize(("option", "found_at"), [(0xFF, (1, 57_600)), (0x01, (2, 57_600)), (0x02, (2, 3_000_000))])
def test_a_factory_reset_of_the_sdk_keeps_what_its_option_excludes(
    bus: EmulatedServoBus, port: PortHandler, option: int, found_at: tuple[int, int]
) -> None:
    assert SDK.write1ByteTxRx(port, 2, 9, 7) == DONE
    assert SDK.factoryReset(port, 2, option) == DONE
    servo, rate = found_at
    again = PortHandler(bus.port)
    assert again.setBaudRate(rate)
    assert SDK.ping(again, servo) == (1020, *DONE)
    assert SDK.read1ByteTxRx(again, servo, 9) == (250, *DONE)
    again.closePort()


def test_a_clear_of_the_sdk_removes_turns_and_a_reboot_ends_torque(
    port: PortHandler, plant: IndependentAxesPlant
) -> None:
    plant.q[0] = 3.0
    assert SDK.read4ByteTxRx(port, 2, 132)[0] == 2048 + 1956
    plant.q[0] = 9.0  # more than a turn from the centre
    assert SDK.read4ByteTxRx(port, 2, 132)[0] == 2048 + 5867
    assert SDK.clearMultiTurn(port, 2) == DONE
    assert SDK.read4ByteTxRx(port, 2, 132)[0] == 2048 + 5867 - 4096
    plant.dq[0] = 1.0
    assert SDK.clearMultiTurn(port, 2) == (COMM_SUCCESS, 1)
    assert SDK.write1ByteTxRx(port, 2, 64, 1) == DONE
    assert SDK.reboot(port, 2) == DONE and SDK.read1ByteTxRx(port, 2, 64) == (0, *DONE)


@pytest.mark.parametrize("fast", [False, True])
def test_a_bulk_read_of_the_sdk_gives_different_registers(port: PortHandler, fast: bool) -> None:
    group = GroupBulkRead(port, SDK)
    assert group.addParam(2, 132, 4) and group.addParam(3, 146, 1) and group.addParam(9, 144, 2)
    assert (group.fastBulkRead() if fast else group.txRxPacket()) == COMM_SUCCESS
    assert group.getData(2, 132, 4) == 2048 and group.getData(3, 146, 1) == 35 and group.getData(9, 144, 2) == 120


def test_a_bulk_write_of_the_sdk_sets_different_registers(port: PortHandler) -> None:
    group = GroupBulkWrite(port, SDK)
    assert group.addParam(2, 65, 1, [1]) and group.addParam(3, 112, 4, [44, 1, 0, 0]) and group.addParam(4, 9, 1, [3])
    assert group.txPacket() == COMM_SUCCESS
    assert SDK.read1ByteTxRx(port, 2, 65)[0] == 1
    assert SDK.read4ByteTxRx(port, 3, 112)[0] == 300
    assert SDK.read1ByteTxRx(port, 4, 9)[0] == 3


@pytest.mark.parametrize("fast", [False, True])
def test_the_sdk_uses_indirect_addresses_in_group_instructions(port: PortHandler, fast: bool) -> None:
    """Blocks across both ends of the indirect data: address 28's data, and those of 29, which lie far away."""
    for servo in (2, 3):
        for pointer, target in ((222, 65), (578, 146), (580, 144), (582, 145)):
            assert SDK.write2ByteTxRx(port, servo, pointer, target) == DONE
    lamps = GroupSyncWrite(port, SDK, 251, 1)
    assert lamps.addParam(2, [1]) and lamps.addParam(3, [1]) and lamps.txPacket() == COMM_SUCCESS
    assert SDK.read1ByteTxRx(port, 3, 65) == (1, *DONE)
    group = GroupSyncRead(port, SDK, 632, 5)  # indirect address 56, then temperature and voltage
    assert group.addParam(2) and group.addParam(3)
    assert (group.fastSyncRead() if fast else group.txRxPacket()) == COMM_SUCCESS
    assert [group.getData(servo, address, size) for servo in (2, 3) for address, size in ((632, 2), (634, 1))] == [
        661,
        35,
    ] * 2
    assert group.getData(2, 635, 2) == 120


def test_the_sdk_changes_the_id_of_a_servo(port: PortHandler) -> None:
    assert SDK.write1ByteTxRx(port, 2, 7, 30) == DONE
    assert SDK.ping(port, 2)[1] == COMM_RX_TIMEOUT
    assert SDK.ping(port, 30) == (1020, *DONE)


# -- others ----------------------------------------------------------------------------------------------------


def test_lerobot_finds_configures_and_homes(port: PortHandler, plant: IndependentAxesPlant) -> None:
    found, result = SDK.broadcastPing(port)
    assert result == COMM_SUCCESS and {servo: model for servo, (model, _) in found.items()} == {
        servo: 1120 if servo == 3 else 1020 for servo in X7
    }
    for servo in X7:
        assert SDK.write1ByteTxRx(port, servo, 64, 0) == DONE
        assert SDK.write1ByteTxRx(port, servo, 9, 0) == DONE
        assert SDK.write1ByteTxRx(port, servo, 11, 4) == DONE
        for address, value in ((20, 0), (52, 0), (48, 4095)):  # reset_calibration
            assert SDK.write4ByteTxRx(port, servo, address, value) == DONE
    plant.q[:] = 0.1
    assert set(_lerobot_positions(port).values()) == {2113}
    for servo, position in _lerobot_positions(port).items():
        assert SDK.write4ByteTxRx(port, servo, 20, (2047 - position) & 0xFFFFFFFF) == DONE
    assert set(_lerobot_positions(port).values()) == {2047}
    plant.q[:] = -0.1
    assert set(_lerobot_positions(port).values()) == {2047 - 130}


def _lerobot_positions(port: PortHandler) -> dict[int, int]:
    """Present positions as lerobot's `sync_read` asks for them."""
    group = GroupSyncRead(port, SDK, 132, 4)
    for servo in X7:
        assert group.addParam(servo)
    assert group.txRxPacket() == COMM_SUCCESS
    return {servo: group.getData(servo, 132, 4) for servo in X7}


def test_rt_manipulators_cpp_sets_up_its_indirect_reads_and_writes(port: PortHandler, bus: EmulatedServoBus) -> None:
    """Its first write is to 578: present position, velocity, current from indirect address 29, goals from 44 on."""
    read = [*range(132, 136), *range(128, 132), *range(126, 128)]
    write = [*range(116, 120), *range(102, 104)]
    for servo in X7:
        assert SDK.write1ByteTxRx(port, servo, 11, 5) == DONE
        for place, target in enumerate(read):
            assert SDK.write2ByteTxRx(port, servo, 578 + 2 * place, target) == DONE
        for place, target in enumerate(write):
            assert SDK.write2ByteTxRx(port, servo, 608 + 2 * place, target) == DONE
    states = GroupSyncRead(port, SDK, 634, len(read))
    goals = GroupSyncWrite(port, SDK, 649, len(write))
    for servo in X7:
        assert states.addParam(servo) and goals.addParam(servo, [0, 4, 0, 0, 100, 0])
    assert goals.txPacket() == COMM_SUCCESS
    assert states.txRxPacket() == COMM_SUCCESS
    assert states.getData(2, 634, 4) == 2048 and states.getData(5, 634, 4) == SDK.read4ByteTxRx(port, 5, 132)[0]
    servos = bus.chain.servos.values()
    assert {(one.get(table.GOAL_POSITION), one.get(table.GOAL_CURRENT)) for one in servos} == {(1024, 100)}
