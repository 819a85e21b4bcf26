"""The netdev without a kernel: what the core network stack does to a driver."""

from __future__ import annotations

import errno

from hfi_sim.base.types import MacAddr
from hfi_sim.netdev.memory import MemoryNetdev, memory_netdev

MAC = MacAddr(b"\x02\0\0\0\0\1")


class Ops:
    """An adapter that writes down what it is asked."""

    def __init__(self, *, error: int = 0) -> None:
        self.error = error
        self.calls: list[object] = []

    def ndo_open(self) -> int:
        self.calls.append("open")
        return self.error

    def ndo_stop(self) -> None:
        self.calls.append("stop")

    def ndo_set_mac_address(self, mac: MacAddr) -> int:
        self.calls.append(mac)
        return self.error

    def ndo_set_rx_mode(self) -> None:
        self.calls.append("rx_mode")

    def ndo_start_xmit(self, frame: bytes) -> None:
        self.calls.append(frame)

    def ndo_rx_wake(self) -> None:
        self.calls.append("rx_wake")


def make(*, error: int = 0, queue_frames: int = 4) -> tuple[MemoryNetdev, Ops]:
    netdev, ops = MemoryNetdev("veth0", queue_frames=queue_frames), Ops(error=error)
    netdev.ops = ops
    return netdev, ops


def test_open_and_stop_are_told_once() -> None:
    netdev, ops = make()
    assert (netdev.open(), netdev.open(), netdev.is_up) == (0, 0, True)
    netdev.stop()
    netdev.stop()
    assert (ops.calls, netdev.is_up) == (["open", "rx_mode", "stop"], False)


def test_open_that_the_adapter_refuses_leaves_the_device_down() -> None:
    netdev, ops = make(error=-errno.EBUSY)
    assert netdev.open() == -errno.EBUSY
    assert (ops.calls, netdev.is_up) == (["open"], False)


def test_device_without_an_adapter_cannot_be_opened() -> None:
    netdev = MemoryNetdev("veth0")
    assert netdev.open() == -errno.ENODEV
    assert not netdev.transmit(bytes(60))
    assert netdev.set_mac(MAC) == 0
    netdev.stop()


def test_lists_are_told_while_up_only() -> None:
    netdev, ops = make()
    netdev.set_uc_list([MAC])
    assert ops.calls == []
    netdev.open()
    ops.calls.clear()
    netdev.set_mc_list([MAC])
    assert (ops.calls, list(netdev.uc_list), list(netdev.mc_list)) == (["rx_mode"], [MAC], [MAC])


def test_address_is_taken_where_the_adapter_agrees() -> None:
    netdev, _ = make()
    assert (netdev.set_mac(MAC), netdev.address) == (0, MAC)
    netdev, _ = make(error=-errno.EADDRNOTAVAIL)
    assert (netdev.set_mac(MAC), netdev.address) == (-errno.EADDRNOTAVAIL, bytes(6))


def test_mtu_of_the_host_stays_within_the_limits() -> None:
    netdev, _ = make()
    netdev.set_max_mtu(2000)
    assert [netdev.change_mtu(mtu) for mtu in (67, 68, 2000, 2001)] == [-errno.EINVAL, 0, 0, -errno.EINVAL]
    assert netdev.mtu == 2000


def test_frames_arrive_in_order_until_the_queue_is_full() -> None:
    netdev, _ = make(queue_frames=2)
    assert not netdev.receive(b"down")
    netdev.open()
    assert [netdev.receive(frame) for frame in (b"1", b"2", b"3")] == [True, True, False]
    assert list(netdev.received) == [b"1", b"2"]


def test_frames_go_to_the_callback_where_there_is_one() -> None:
    netdev, _ = make()
    netdev.open()
    frames: list[bytes] = []
    netdev.on_receive = frames.append
    assert netdev.receive(b"1")
    assert (frames, list(netdev.received)) == ([b"1"], [])


def test_full_queue_says_so_and_has_room_again_when_a_frame_is_taken() -> None:
    netdev, ops = make(queue_frames=2)
    netdev.open()
    assert not netdev.rx_stopped
    assert [netdev.receive(frame) for frame in (b"1", b"2")] == [True, True]
    assert netdev.rx_stopped
    assert netdev.take() == b"1"
    assert (netdev.rx_stopped, ops.calls[-1]) == (False, "rx_wake")
    assert (netdev.take(), netdev.take()) == (b"2", None)


def test_reader_that_stops_finds_what_has_waited_in_order() -> None:
    netdev, ops = make(queue_frames=3)
    netdev.open()
    frames: list[bytes] = []

    def read(frame: bytes) -> None:
        frames.append(frame)
        if frame == b"2":  # what comes while others still wait stays behind them
            assert netdev.receive(b"4")

    netdev.on_receive = read
    netdev.stop_reading()
    assert [netdev.receive(frame) for frame in (b"1", b"2", b"3", b"x")] == [True, True, True, False]
    assert (frames, netdev.rx_stopped) == ([], True)
    netdev.resume_reading()
    assert frames == [b"1", b"2", b"3", b"4"]
    assert (netdev.rx_stopped, ops.calls[-1]) == (False, "rx_wake")
    assert netdev.receive(b"5")
    assert frames[-1] == b"5"


def test_reader_that_stops_again_while_it_catches_up_leaves_the_rest() -> None:
    netdev, _ = make()
    netdev.open()
    frames: list[bytes] = []

    def read(frame: bytes) -> None:
        frames.append(frame)
        netdev.stop_reading()

    netdev.on_receive = read
    netdev.stop_reading()
    for frame in (b"1", b"2"):
        netdev.receive(frame)
    netdev.resume_reading()
    assert (frames, list(netdev.received)) == ([b"1"], [b"2"])


def test_transmit_needs_the_device_up() -> None:
    netdev, ops = make()
    assert not netdev.transmit(b"1")
    netdev.open()
    assert netdev.transmit(b"2")
    assert ops.calls[-1] == b"2"


def test_closed_device_is_down_and_takes_nothing() -> None:
    netdev, _ = make()
    netdev.open()
    netdev.close()
    netdev.close()
    assert (netdev.is_up, netdev.carrier, netdev.receive(b"1")) == (False, False, False)


def test_device_without_a_kernel_notices_its_carrier_at_once() -> None:
    netdev, _ = make()
    netdev.open()
    seen = [netdev.host_sees_running]
    netdev.set_carrier(True)
    seen.append(netdev.host_sees_running)
    netdev.set_dormant(True)
    seen.append(netdev.host_sees_running)
    netdev.set_dormant(False)
    netdev.stop()
    assert [*seen, netdev.host_sees_running] == [False, True, False, False]


def test_device_in_memory_has_no_kernel_and_no_descriptor() -> None:
    netdev = memory_netdev(7)
    assert netdev.name == "veth7"
    assert netdev.kernel_counters() is None
    assert not netdev.can_hand_over
    assert netdev.hand_over() == -1
