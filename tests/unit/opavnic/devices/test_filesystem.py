"""What the kernel gets of a host's file system when programs use it; the devices behind it are on a real fabric."""

from __future__ import annotations

import errno
import os
import random
import select
import stat
import struct
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hfi_sim.base.clock import ManualClock
from hfi_sim.base.errors import WireError
from hfi_sim.fabric.fabric import Fabric
from hfi_sim.management.sma.facts import node_description_of
from hfi_sim.management.umad.abi import ENABLE_PKEY, REGISTER_AGENT2
from hfi_sim.management.umad.service import UmadService
from hfi_sim.wire.mad.header import RmppHeader
from hfi_sim.wire.mad.rmpp import RMPP_VERSION, RmppFlag, RmppType
from opavnic.devices.filesystem import MAX_HANDLES, FileSystem
from opavnic.devices.fuse import FuseRequest, Opcode
from opavnic.devices.hfi_tree import hfi_tree
from opavnic.devices.tree import Directory, Tree
from unit.hfi_sim.fabric_pair import Pair, make_pair
from unit.hfi_sim.management.umad.umad_program import OUI, ema, message, received, register2
from unit.opavnic.devices.fuse_kernel import Kernel

BIG = 1 << 20


class Ground:
    """A host with the HFI of port `a`; an agent of the EMA class answers Gets at `b`."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.pair: Pair = make_pair(Fabric(self.clock, timer_resolution_s=1e-3))
        self.service = UmadService(self.pair.a)
        self.tree = hfi_tree([self.pair.a.hfi], [self.service])
        self.files = FileSystem(self.tree)
        self.kernel = Kernel(self.files)
        self.pair.b.mad.register_agent(0x34, OUI, [1], lambda asked: asked.mad[:3] + b"\x81" + asked.mad[4:])

    def program(self, *methods: int) -> int:
        """Open umad0 and register an agent; return the handle."""
        error, fh = self.kernel.open("dev/umad0", os.O_RDWR)
        assert not error
        self.kernel.ioctl(fh, ENABLE_PKEY, b"")
        assert not self.kernel.ioctl(fh, REGISTER_AGENT2, register2(0x34, *methods)).error
        return int(fh)

    def send(self, fh: int, mad: bytes | None = None, **options: int) -> None:
        data = message(0, ema() if mad is None else mad, self.pair.b.lid, timeout_ms=100, **options)
        written = self.kernel.write(fh, data)
        assert (written.error, struct.unpack_from("<I", written.body)[0]) == (0, len(data))
        self.clock.advance()
        self.kernel.take()


def at(tree: Tree, path: str) -> Directory:
    """Return the directory at a path."""
    found = tree.root
    for name in path.split("/"):
        inside = found.entries[name]
        assert isinstance(inside, Directory)
        found = inside
    return found


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_sysfs_has_the_counters_of_the_performance_agent(ground: Ground) -> None:
    base = "infiniband/hfi1_0"
    counters = at(ground.tree, f"{base}/ports/1/counters")
    assert len(counters.entries) == 21, "those of the IB core"
    fh = ground.program()
    ground.send(fh)
    counts = ground.pair.a.read_counts()

    def number(path: str) -> int:
        return int(ground.kernel.text(f"{base}/{path}"))

    assert number("ports/1/counters/port_xmit_packets") == counts["xmit_pkts"] > 0
    assert number("ports/1/counters/port_xmit_data") == counts["xmit_data"] > 0
    assert number("ports/1/hw_counters/TxWords") == 2 * counts["xmit_data"]
    assert number("ports/1/hw_counters/TxFlitVL15") + number("ports/1/hw_counters/TxFlitVL0") > 0
    assert number("hw_counters/DcXmitFlits") == counts["xmit_data"]
    # as chip.c of Linux 6.1 spells them: registers of 32 bits end in ",32"
    for name in ("TxDropped,32", "XmitDscd,32", "XmitDscdVl15,32", "TxPktVL0", "RcvCstrErr"):
        number(f"ports/1/hw_counters/{name}")
    for name in ("DcUnctblErr", "DcRxReplay", "RcvOverflow,32"):
        number(f"hw_counters/{name}")
    assert number("ports/1/counters/link_downed") == number("ports/1/hw_counters/SwLinkDown,32") == 0


def test_sysfs_is_what_libibumad_reads(ground: Ground) -> None:
    text, port = ground.kernel.text, ground.pair.a
    base = "infiniband/hfi1_0/ports/1/"
    assert text(base + "lid") == f"{port.lid:#x}\n"
    assert text(base + "state") == "4: ACTIVE\n"
    assert text(base + "phys_state") == "5: LinkUp\n"
    assert text(base + "rate") == "100 Gb/sec (4X EDR)\n"
    assert text(base + "pkeys/0") == f"{port.pkeys.entries[0]:#06x}\n"
    assert text(base + "pkeys/31") == "0x0000\n"
    digits = f"fe80000000000000{port.guid:016x}"
    assert text(base + "gids/0") == ":".join(digits[at : at + 4] for at in range(0, 32, 4)) + "\n"
    assert text("infiniband_mad/abi_version") == "5\n"
    assert text("infiniband_mad/umad0/ibdev") == "hfi1_0\n"
    assert text("infiniband_verbs/uverbs0/dev") == "1:3\n"
    assert port.link is not None
    port.link.hold_down("test", True)
    assert text(base + "state") == "1: DOWN\n", "as it is when the file is opened"


def test_what_a_subnet_manager_has_set_at_the_port_is_shown(ground: Ground) -> None:
    settings = ground.pair.a.settings
    settings.info = replace(settings.info, subnet_prefix=0xFE80000000001001, master_sm_sl=3)
    base = "infiniband/hfi1_0/ports/1/"
    assert ground.kernel.text(base + "gids/0").startswith("fe80:0000:0000:1001:")
    assert ground.kernel.text(base + "sm_sl") == "3\n"


def test_description_can_be_written_and_is_told(ground: Ground) -> None:
    kernel, hfi = ground.kernel, ground.pair.a.hfi
    told: list[str] = []
    ground.pair.a.on_announcement(lambda port, _described: told.append(port.hfi.description))
    assert kernel.text("infiniband/hfi1_0/node_desc") == f"{hfi.name}\n"
    error, fh = kernel.open("infiniband/hfi1_0/node_desc", os.O_WRONLY)
    assert not error
    assert (
        kernel.call(Opcode.SETATTR, kernel.walk("infiniband/hfi1_0/node_desc"), struct.pack("<I", 8)).error
        == 0
    )
    for _ in range(2):
        assert kernel.write(fh, b"node7 hfi1_0\n" + bytes(100)).error == 0
    assert kernel.text("infiniband/hfi1_0/node_desc") == "node7 hfi1_0\n"
    assert told == ["node7 hfi1_0"]
    assert node_description_of(ground.pair.a).name == "node7 hfi1_0"
    assert kernel.open("infiniband/hfi1_0/fw_ver", os.O_WRONLY)[0] == errno.EACCES


def test_directories_list_what_is_in_them(ground: Ground) -> None:
    kernel = ground.kernel
    ino = kernel.walk("dev")
    fh = struct.unpack_from("<Q", kernel.call(Opcode.OPENDIR, ino, bytes(8)).body)[0]
    names, offset = [], 0
    while body := kernel.replies[
        kernel.ask(Opcode.READDIR, ino, struct.pack("<QQIIQI4x", fh, offset, 64, 0, 0, 0))
    ].body:
        _, offset, length, kind = struct.unpack_from("<QQII", body)  # a buffer for one or two entries
        names.append((body[24 : 24 + length].decode(), kind))
    assert names[:2] == [(".", 4), ("..", 4)]
    assert dict(names)["umad0"] == stat.S_IFREG >> 12
    assert dict(names)["uverbs0"] == stat.S_IFLNK >> 12
    assert kernel.call(Opcode.READLINK, kernel.walk("dev/uverbs0")).body == b"/dev/null"


@pytest.mark.parametrize(
    ("opcode", "error"),
    [
        (Opcode.MKDIR, errno.EPERM),
        (Opcode.UNLINK, errno.EPERM),
        (Opcode.CREATE, errno.EPERM),
        (Opcode.SETATTR, errno.EPERM),
        (22, errno.ENOSYS),  # GETXATTR
        (4711, errno.ENOSYS),
    ],
)
def test_nothing_can_be_changed(ground: Ground, opcode: int, error: int) -> None:
    assert ground.kernel.call(opcode, 1, bytes(88)).error == error


def test_files_that_are_not_there_or_not_for_that(ground: Ground) -> None:
    kernel = ground.kernel
    with pytest.raises(OSError, match="umad7"):
        kernel.walk("dev/umad7")
    assert kernel.open("infiniband_mad/abi_version", os.O_RDWR)[0] == errno.EACCES
    assert kernel.call(Opcode.GETATTR, 99999).error == errno.EIO
    assert kernel.replies[kernel.read(12345)].error == errno.EIO
    _, fh = kernel.open("infiniband_mad/abi_version")
    assert kernel.ioctl(fh, ENABLE_PKEY, b"").error == errno.ENOTTY
    assert kernel.write(fh, b"x").error == errno.EBADF


def test_read_waits_for_a_mad_and_poll_is_woken(ground: Ground) -> None:
    fh = ground.program()
    kernel = ground.kernel
    assert kernel.replies[kernel.read(fh, BIG, flags=os.O_NONBLOCK)].error == errno.EAGAIN
    assert kernel.poll(fh, handle=5) & select.POLLIN == 0
    waiting = kernel.read(fh, BIG)
    assert waiting not in kernel.replies
    ground.send(fh)
    assert received(kernel.replies[waiting].body).mad[3] == 0x81
    assert kernel.woken == [5]
    ground.send(fh)
    assert kernel.poll(fh) & select.POLLIN


def long_message(size: int, number: int = 1) -> bytes:
    """Return a request of subnet administration with `size` bytes of records, which its agent leaves to the kernel."""
    head = struct.pack(">4BHHQHHI", 0x80, 3, 0x80, 0x12, 0, 0, number, 0x12, 0, 0)
    rmpp = RmppHeader(RMPP_VERSION, RmppType.DATA, RmppFlag.ACTIVE).build()
    return head + rmpp + bytes(20) + random.Random(number).randbytes(size)


def sa_agent(ground: Ground, *methods: int) -> int:
    """Return the handle of a program with an agent of subnet administration that leaves RMPP to the kernel."""
    _, fh = ground.kernel.open("dev/umad0", os.O_RDWR)
    ground.kernel.ioctl(fh, ENABLE_PKEY, b"")
    assert not ground.kernel.ioctl(fh, REGISTER_AGENT2, register2(3, *methods, oui=0, rmpp=1)).error
    return int(fh)


@pytest.mark.parametrize("size", [BIG - 200, BIG - 120, BIG, 3 * BIG, 3 * BIG + 4567])
def test_message_longer_than_a_request_is_written_and_read_as_one(ground: Ground, size: int) -> None:
    writer, reader = sa_agent(ground), sa_agent(ground, 0x12)
    kernel = ground.kernel
    data = message(0, long_message(size), ground.pair.a.lid)
    assert kernel.write_in_pieces(writer, data) == len(data)
    ground.clock.advance(1)
    kernel.take()
    assert kernel.read_in_pieces(reader, len(data) - 1) == errno.ENOSPC, "and it stays"
    got = kernel.read_in_pieces(reader, 4 * BIG)
    assert isinstance(got, bytes)
    assert received(got).length == len(got) == len(data)
    assert received(got).mad[56:] == long_message(size)[56:]
    assert kernel.poll(reader) & select.POLLIN == 0


def test_threads_that_read_long_messages_at_once_get_one_each(ground: Ground) -> None:
    writer, reader = sa_agent(ground), sa_agent(ground, 0x12)
    kernel = ground.kernel
    messages = [long_message(2 * BIG, number) for number in (1, 2)]
    for mad in messages:
        assert kernel.write_in_pieces(writer, message(0, mad, ground.pair.a.lid)) > 0
        ground.clock.advance(1)
        kernel.take()
    kernel.lengths = {1: 4 * BIG, 2: 4 * BIG}
    found = {1: b"", 2: b""}
    for _ in range(3):
        for tid, data in found.items():
            found[tid] += kernel.replies[kernel.read(reader, BIG, len(data), tid=tid)].body
    assert [received(data).mad[56:] for data in found.values()] == [mad[56:] for mad in messages]


def test_rest_of_a_read_whose_thread_has_ended_is_nobody_elses(ground: Ground) -> None:
    writer, reader = sa_agent(ground), sa_agent(ground, 0x12)
    kernel = ground.kernel
    kernel.write_in_pieces(writer, message(0, long_message(2 * BIG), ground.pair.a.lid))
    ground.clock.advance(1)
    kernel.lengths = {77: 4 * BIG}
    assert len(kernel.replies[kernel.read(reader, BIG)].body) == BIG
    assert kernel.replies[kernel.read(reader, BIG, BIG, tid=78)].body == b""
    assert kernel.replies[kernel.read(reader, BIG, flags=os.O_NONBLOCK)].error == errno.EAGAIN
    assert kernel.replies[kernel.read(reader, BIG, BIG)].body == b"", "a new read has begun"


def test_write_in_pieces_is_refused_as_a_whole(ground: Ground) -> None:
    fh = ground.program()
    data = message(0, ema(), ground.pair.b.lid).ljust(2 * BIG, b"\0")
    assert ground.kernel.write_in_pieces(fh, data) == -errno.EINVAL, "no MAD has so many bytes"
    assert ground.kernel.write(fh, bytes(100), BIG).error == errno.EINVAL, "part of nothing"
    fitting = message(0, long_message(BIG), ground.pair.b.lid)
    ground.kernel.memory = fitting[:5000] + bytes(8) + fitting[5008:]
    assert ground.kernel.write(sa_agent(ground), fitting[:BIG]).error == errno.EINVAL, (
        "bytes changed meanwhile"
    )
    ground.kernel.memory = None
    assert ground.kernel.write(fh, data[:BIG]).error == errno.EINVAL, "nobody knows how long it is"
    ground.send(fh)


def test_read_that_is_interrupted_takes_nothing(ground: Ground) -> None:
    fh = ground.program()
    waiting = ground.kernel.read(fh, BIG)
    ground.kernel.ask(Opcode.INTERRUPT, 1, struct.pack("<Q", waiting))
    assert ground.kernel.replies[waiting].error == errno.EINTR
    ground.send(fh)
    assert ground.kernel.poll(fh) & select.POLLIN


def test_close_frees_what_the_program_had(ground: Ground) -> None:
    fh = ground.program(5)
    _, other = ground.kernel.open("dev/umad0")
    assert ground.kernel.ioctl(other, REGISTER_AGENT2, register2(0x34, 5)).error == errno.EINVAL
    ground.kernel.release(fh)
    assert not ground.kernel.ioctl(other, REGISTER_AGENT2, register2(0x34, 5)).error
    ground.kernel.ask(Opcode.DESTROY)
    assert (ground.files.open_files, len(ground.service.files)) == (0, 0)


def test_mount_that_ends_frees_everything(ground: Ground) -> None:
    ground.kernel.read(ground.program(5), BIG)
    ground.files.close()
    assert (ground.files.open_files, len(ground.service.files)) == (0, 0)
    assert ground.kernel.open("dev/umad0")[0] == errno.ENFILE


def test_device_that_goes_away_ends_reads(ground: Ground) -> None:
    fh = ground.program()
    waiting = ground.kernel.read(fh, BIG)
    ground.service.close()
    ground.kernel.take()
    assert ground.kernel.replies[waiting].error == errno.EIO
    assert ground.kernel.poll(fh) == select.POLLERR


def test_one_subnet_manager_at_a_time(ground: Ground) -> None:
    capabilities = "infiniband/hfi1_0/ports/1/cap_mask"
    assert ground.kernel.text(capabilities) == "0x00410020\n", "those of hfi1; it tells of changes of them"
    _, fh = ground.kernel.open("dev/issm0")
    assert ground.kernel.text(capabilities) == "0x00410022\n"
    assert ground.kernel.open("dev/issm0", os.O_NONBLOCK)[0] == errno.EAGAIN
    assert ground.kernel.replies[ground.kernel.read(fh)].error == errno.EINVAL
    ground.kernel.release(fh)
    assert ground.kernel.open("dev/issm0", os.O_NONBLOCK)[0] == 0


def test_subnet_manager_that_may_wait_opens_the_device_when_it_is_free(ground: Ground) -> None:
    standby, third = Kernel(FileSystem(ground.tree)), Kernel(FileSystem(ground.tree))
    _, fh = ground.kernel.open("dev/issm0")
    waiting = standby.ask(Opcode.OPEN, standby.walk("dev/issm0"), bytes(8))
    interrupted = third.ask(Opcode.OPEN, third.walk("dev/issm0"), bytes(8))
    killed = third.ask(Opcode.OPEN, third.walk("dev/issm0"), bytes(8))
    last = ground.kernel.ask(Opcode.OPEN, ground.kernel.walk("dev/issm0"), bytes(8))
    assert waiting not in standby.replies
    third.ask(Opcode.INTERRUPT, 1, struct.pack("<Q", interrupted))
    assert third.replies[interrupted].error == errno.EINTR
    ground.kernel.release(fh)
    standby.take()
    assert standby.replies[waiting].error == 0
    third.files.close()  # its programs have gone
    assert killed not in third.replies
    assert last not in ground.kernel.replies, "one at a time"
    standby.files.close()  # a kill, without release
    ground.kernel.take()
    assert ground.kernel.replies[last].error == 0


def test_programs_cannot_fill_the_lab_with_open_files(ground: Ground) -> None:
    ino = struct.pack("<2I", 0, 0)
    file = ground.kernel.walk("infiniband_mad/abi_version")
    errors = {ground.kernel.call(Opcode.OPEN, file, ino).error for _ in range(MAX_HANDLES)}
    assert errors == {0}
    assert ground.kernel.call(Opcode.OPEN, file, ino).error == errno.ENFILE


@pytest.mark.parametrize(("minor", "error"), [(31, 0), (45, 0), (30, errno.EPROTO)])
def test_kernel_that_is_too_old_is_refused(ground: Ground, minor: int, error: int) -> None:
    reply = ground.kernel.call(Opcode.INIT, 0, struct.pack("<4I", 7, minor, 0, 0xFFFFFFFF))
    assert reply.error == error
    assert len(reply.body) in (0, 64)


@given(st.lists(st.tuples(st.integers(0, 53), st.integers(0, 200), st.binary(max_size=120)), max_size=20))
def test_any_requests_get_at_most_one_reply(requests: list[tuple[int, int, bytes]]) -> None:
    ground = Ground()
    fh = ground.program()
    for opcode, ino, body in requests:
        ground.kernel.ask(opcode, ino, body)
        ground.kernel.ask(opcode, ino, struct.pack("<Q", fh) + body)
        ground.clock.advance(1.0)
        ground.kernel.take()
    ground.files.close()
    assert len(ground.service.files) == 0


def test_request_that_ends_early_is_an_io_error_and_the_log_names_the_field(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    assert ground.kernel.call(Opcode.READ, 1, bytes(18)).error == errno.EIO
    assert "FUSE request -> fuse_read_in -> size at byte 18: 18 bytes" in caplog.text


@given(st.binary(max_size=120), st.booleans())
@example(b"", False)
@example(struct.pack("<IIQQIII4x", 50, 1, 2, 1, 0, 0, 0), False)
def test_any_bytes_are_a_request_or_an_error_of_the_mount(data: bytes, has_length: bool) -> None:
    if has_length:
        data = struct.pack("<I", max(4, len(data))) + data[4:]
    try:
        request = FuseRequest.parse(data)
    except WireError as error:
        assert error.field.startswith("FUSE request -> ")  # noqa: PT017 - or none
        with pytest.raises(WireError):
            FileSystem(Tree()).receive(data)
        return
    found = (len(data), request.opcode, request.unique, request.ino, request.tid, request.body)
    assert found == (*struct.unpack_from("<IIQQ8xI", data), data[40:])


def test_tree_refuses_what_cannot_be() -> None:
    tree = Tree()
    tree.text("a/b", "1")
    with pytest.raises(ValueError, match="there already"):
        tree.text("a/b", "2")
    with pytest.raises(ValueError, match="no directory"):
        tree.text("a/b/c", "3")
    assert list(tree.root.entries) == ["a"]
    assert list(at(tree, "a").entries) == ["b"]
