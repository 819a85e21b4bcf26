"""Read files named by the user: a file, a pipe or a device, plain or gzip'ed, with a size limit for each kind.

A file that exceeds its limit is refused after that many bytes were read or unpacked: a few megabytes can unpack to
terabytes, and /dev/zero has no end. All code that reads a whole file from the user does so through this module.
"""

from __future__ import annotations

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

from hfi_sim.base.errors import InputError
from hfi_sim.base.text import with_article
from opavnic.base.errors import OpavnicError

MAX_CAPTURE: Final = 1 << 28
"""Bytes of a capture, a recording or a packet, unpacked: they are kept in memory."""
MAX_DOCUMENT: Final = 1 << 26
"""Bytes of a document that is parsed as a whole, unpacked: parsed, it takes many times as much memory."""
MAX_TEXT: Final = 1 << 24
"""Bytes of a hand-written text: a table script, a list of targets."""
MAX_LINES: Final = 1 << 30
"""Bytes of a file that is read line by line, unpacked."""
MAX_LINE: Final = 1 << 24
"""Bytes of one such line."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_NOT_TEXT: Final = {
    _GZIP_MAGIC: "gzip'ed, ",
    b"PK\x03\x04": "a zip archive, as spreadsheets are, ",
    b"\xff\xfe": "UTF-16, ",
    b"\xfe\xff": "UTF-16, ",
}
"""What files are that are taken for text, by how they begin."""


class FileError(OpavnicError, InputError):
    """A file that cannot be read, is damaged, or is longer than its kind ever is."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def read_bytes(path: Path, limit: int, what: str, *, gzipped: bool = False) -> bytes:
    """Return the contents of a file.

    Args:    limit: size in bytes that no such file exceeds. what: the kind of file, for messages. gzipped: whether it
             may be compressed.
    Raises:  FileError: it cannot be read, is damaged, or is longer.
    """
    with _opened(path, gzipped) as stream:
        return read_stream(stream, str(path), limit, what)


def read_text(path: Path, limit: int, what: str, *, gzipped: bool = False) -> str:
    """Return the text of a file. Raises FileError as `read_bytes` does, and if it is not UTF-8."""
    return text_of(read_bytes(path, limit, what, gzipped=gzipped), str(path))


def read_lines(path: Path, what: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each non-blank line of a file, plain or gzip'ed.

    Raises:  FileError: the file or a line is too long, or as `read_text`; the lines before it have been yielded.
    """
    total = 0
    with _opened(path, gzipped=True) as stream:
        number = 0
        while line := stream.readline(MAX_LINE + 1):
            number += 1
            total += len(line)
            if len(line) > MAX_LINE:
                raise FileError(
                    f"{path}:{number}",
                    f"a line of more than {MAX_LINE} bytes: this is not {with_article(what)}",
                )
            if total > MAX_LINES:
                raise FileError(str(path), f"more than {MAX_LINES} bytes: this is not {with_article(what)}")
            if line.strip():
                yield number, text_of(line, str(path), total - len(line))


def read_stream(stream: BinaryIO, name: str, limit: int, what: str) -> bytes:
    """Return the rest of a stream; messages call it `name`. Raises FileError if it has more than `limit` bytes."""
    data = stream.read(limit + 1)
    if len(data) > limit:
        raise FileError(name, f"more than {limit} bytes: this is not {with_article(what)}")
    return data


def text_of(data: bytes, name: str, offset: int = 0) -> str:
    """Decode `data`, which begins at byte `offset` of a file. Raises FileError if it is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = next(
            (kind for begins, kind in _NOT_TEXT.items() if not offset and data.startswith(begins)), ""
        )
        raise FileError(name, f"{kind}not UTF-8 text (byte {offset + error.start})") from None


@contextlib.contextmanager
def _opened(path: Path, gzipped: bool) -> Iterator[BinaryIO]:
    try:
        with path.open("rb") as raw:  # opened once: it may be a pipe
            if gzipped and raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
                with gzip.GzipFile(fileobj=raw) as unpacked:
                    yield cast("BinaryIO", unpacked)
            else:
                yield raw
    except gzip.BadGzipFile as error:
        raise FileError(str(path), f"damaged gzip: {error}") from None
    except OSError as error:
        raise FileError(str(path), error.strerror or str(error)) from None
    except (EOFError, zlib.error) as error:
        raise FileError(str(path), f"damaged gzip: {error}") from None
    except ValueError as error:  # a path with a NUL
        raise FileError(str(path), str(error)) from None
