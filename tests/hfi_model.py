"""The model of an HFI (opavnic/kernel/source/opa_virtual_hfi) as a library, with a host of its own."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import pytest

SOURCE: Final = Path(__file__).parents[1] / "opavnic" / "kernel" / "source" / "opa_virtual_hfi"
NOTES: Final = re.findall(r"(?m)^\tHFI_NOTE_(\w+),", (SOURCE / "model.h").read_text())
NEVER: Final = (1 << 64) - 1
MEMORY_AT: Final = 0x100000
BUS_MASTER: Final = 6
POLLING, VERIFY_CAP, CONFIGURED, LINKUP, OFFLINE = 0x20, 0x46, 0x48, 0x50, 0x90
DROPPED, TAKEN, FULL = range(3)

_U64, _U32 = ctypes.c_uint64, ctypes.c_uint32
_Dma = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, _U64, ctypes.c_void_p, _U32, ctypes.c_bool)
_Interrupt = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _U64, _U32)
_Send = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint8), _U32, ctypes.c_bool)
_Idle = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _U64)
_Note = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, _U64, _U64)


class _Host(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("dma", _Dma),
        ("interrupt", _Interrupt),
        ("send", _Send),
        ("idle", _Idle),
        ("note", _Note),
    )


class End(ctypes.Structure):
    """struct hfi_end."""

    _fields_ = (
        ("guid", _U64),
        *((name, ctypes.c_uint8) for name in ("port", "type", "state", "reason")),
        *((name, _U32) for name in ("phy", "fabric", "width", "device", "lni")),
    )


def parts() -> list[Path]:
    """Return the files of the model: those that call nothing of a kernel."""
    return [path for path in sorted(SOURCE.glob("*.c")) if "linux/" not in path.read_text()]


def compiled(directory: Path, name: str, options: Sequence[str], more: Sequence[Path] = ()) -> Path:
    """Compile the model into a directory; skip the test where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    result = directory / name
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-O1", "-g", f"-I{SOURCE}"]
    files = [str(path) for path in (*parts(), *more)]
    subprocess.run(["gcc", *warnings, *options, *files, "-o", str(result)], check=True)
    return result


def library(directory: Path) -> ctypes.CDLL:
    """Return the model as a library."""
    loaded = ctypes.CDLL(str(compiled(directory, "hfi.so", ["-shared", "-fPIC"])))
    loaded.hfi_size.restype = ctypes.c_size_t
    loaded.hfi_init.restype = ctypes.c_void_p
    loaded.hfi_init.argtypes = (ctypes.c_void_p, ctypes.POINTER(_Host), _U64)
    loaded.hfi_read.restype = loaded.hfi_deadline.restype = _U64
    loaded.hfi_read.argtypes = (ctypes.c_void_p, _U64, _U32, _U32)
    loaded.hfi_write.argtypes = (ctypes.c_void_p, _U64, _U32, _U32, _U64)
    loaded.hfi_config_read.argtypes = (ctypes.c_void_p, _U32, _U32)
    loaded.hfi_config_read.restype = _U32
    loaded.hfi_config_write.argtypes = (ctypes.c_void_p, _U64, _U32, _U32, _U32)
    loaded.hfi_receive.argtypes = (ctypes.c_void_p, _U64, ctypes.c_char_p, _U32, ctypes.c_bool)
    loaded.hfi_receive.restype = ctypes.c_int
    loaded.hfi_set_neighbour.argtypes = (ctypes.c_void_p, _U64, ctypes.POINTER(End))
    loaded.hfi_own_end.argtypes = (ctypes.c_void_p,)
    loaded.hfi_own_end.restype = End
    loaded.hfi_idle.argtypes = (ctypes.c_void_p, _U64, _U64)
    loaded.hfi_fail.argtypes = (ctypes.c_void_p, _U64, _U32, _U64)
    loaded.hfi_deadline.argtypes = (ctypes.c_void_p,)
    loaded.hfi_run.argtypes = (ctypes.c_void_p, _U64)
    return loaded


class Model:
    """An HFI in a machine with 64 KiB of memory."""

    def __init__(self, loaded: ctypes.CDLL, guid: int = 0x0011750101000001) -> None:
        self._library = loaded
        self.now = 0
        self.memory = bytearray(1 << 16)
        self.interrupts: list[int] = []
        self.sent: list[tuple[bytes, bool]] = []
        self.notes: list[tuple[str, int, int]] = []
        self.idle: list[int] = []
        self._memory = ctypes.create_string_buffer(loaded.hfi_size())
        self._host = _Host(
            None,
            _Dma(self._dma),
            _Interrupt(self._interrupt),
            _Send(self._send),
            _Idle(self._idle),
            _Note(self._note),
        )
        self._hfi = loaded.hfi_init(self._memory, ctypes.byref(self._host), guid)

    def _dma(self, _context: object, address: int, data: int, length: int, to_memory: bool) -> int:
        at = address - MEMORY_AT
        if at < 0 or at + length > len(self.memory):
            return -1
        if to_memory:
            self.memory[at : at + length] = ctypes.string_at(data, length)
        else:
            ctypes.memmove(data, bytes(self.memory[at : at + length]), length)
        return 0

    def _interrupt(self, _context: object, _address: int, data: int) -> None:
        self.interrupts.append(data)

    def _send(self, _context: object, packet: object, length: int, bypass: bool) -> bool:
        self.sent.append((ctypes.string_at(packet, length), bypass))  # type: ignore[arg-type]
        return True

    def _idle(self, _context: object, message: int) -> None:
        self.idle.append(message)

    def _note(self, _context: object, note: int, first: int, second: int) -> None:
        self.notes.append((NOTES[note], first, second))

    def read(self, offset: int, size: int = 8) -> int:
        return int(self._library.hfi_read(self._hfi, self.now, offset, size))

    def write(self, offset: int, value: int, size: int = 8) -> None:
        self._library.hfi_write(self._hfi, self.now, offset, size, value)

    def config(self, at: int, size: int = 4) -> int:
        return int(self._library.hfi_config_read(self._hfi, at, size))

    def set_config(self, at: int, value: int, size: int = 4) -> None:
        self._library.hfi_config_write(self._hfi, self.now, at, size, value)

    def receive(self, packet: bytes, *, bypass: bool = False) -> int:
        """Return DROPPED, TAKEN or FULL."""
        return int(self._library.hfi_receive(self._hfi, self.now, packet, len(packet), bypass))

    def set_neighbour(self, end: End | None) -> None:
        self._library.hfi_set_neighbour(self._hfi, self.now, None if end is None else ctypes.byref(end))

    def set_cable(self, plugged: bool, guid: int = 7, port: int = 3, kind: int = 1) -> None:
        """Join it with a switch whose port is ready, or with nothing."""
        self.set_neighbour(End(guid, port, kind, LINKUP) if plugged else None)

    @property
    def own_end(self) -> End:
        return self._library.hfi_own_end(self._hfi)  # type: ignore[no-any-return]

    def hear(self, message: int) -> None:
        """Take a message of the neighbour's 8051."""
        self._library.hfi_idle(self._hfi, self.now, message)

    def fail(self, block: int, bits: int) -> None:
        """Let the hardware find errors of itself."""
        self._library.hfi_fail(self._hfi, self.now, block, bits)

    @property
    def physical(self) -> int:
        return self.read(0x602060) & 0xFF

    @property
    def logical(self) -> int:
        return self.read(0x600008) >> 48 & 7

    @property
    def deadline(self) -> int:
        return int(self._library.hfi_deadline(self._hfi))

    def run(self) -> None:
        """Let time pass until nothing is due."""
        while (due := self.deadline) != NEVER:
            self.now = max(self.now, due)
            self._library.hfi_run(self._hfi, self.now)

    def command(self, kind: int, data: int) -> int:
        """Give the 8051 a command as the driver does; return its response."""
        self.write(0x602028, kind << 8 | data << 16)
        self.write(0x602028, kind << 8 | data << 16 | 1)
        response = self.read(0x602030)
        assert response & 0xFF01 == 2 << 8 | 1, "completed, with success"
        self.write(0x602028, 0)
        return response >> 16

    def started(self) -> Self:
        """Make it a bus master with MSI-X, whose vector N is message N, and all interrupt sources on."""
        self.set_config(4, BUS_MASTER, 2)
        self.set_config(0xB2, 0x8000, 2)
        for vector in range(256):
            self.write(0x100000 + 16 * vector + 8, vector, 4)
            self.write(0x100000 + 16 * vector + 12, 0, 4)
        for register in range(12):
            self.write(0x110900 + 8 * register, NEVER)
        return self

    def loaded(self) -> Self:
        """Start the firmware of the 8051."""
        self.write(0x602068, 1)
        self.write(0x602068, 0)
        return self

    def linked(self) -> Self:
        """Bring the link up, and let packets pass."""
        self.started().loaded()
        self.set_cable(True)
        self.command(3, POLLING)
        self.run()
        self.command(3, LINKUP)
        self.run()
        self.write(0x6020E8, 1)
        self.interrupts.clear()
        self.write(0x1800000, 1)
        self.write(0x1000000, 1)
        return self
