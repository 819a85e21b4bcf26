"""The build backend: that of setuptools, once the modules of gRPC are made from their .proto files.

git holds the .proto files alone. A source distribution and a wheel hold what was made of them too, so installing either
needs no compiler of protocols: the build asks for one only where a module is missing or older than its .proto file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import build_meta

# A module asks at import for a runtime no older than its compiler: pyproject's lower bound of protobuf goes with this.
COMPILER = "grpcio-tools~=1.85.0"
ROOT = Path(__file__).parent.parent
PROTOS = sorted((ROOT / "ejfat/control/pb").glob("*.proto"))
MADE = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


def stale() -> list[Path]:
    """Return the .proto files of which a module is missing or older."""
    return [
        proto for proto in PROTOS if any(_older(proto.with_name(proto.stem + end), proto) for end in MADE)
    ]


def make_modules(protos: list[Path]) -> None:
    """Make the messages, their types and the stubs of each .proto file, beside it.

    Raises:
        RuntimeError: the compiler refuses a file; it has said why.
    """
    if not protos:
        return
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    names = [str(proto.relative_to(ROOT)) for proto in protos]
    outputs = [f"--{kind}_out={ROOT}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{ROOT}", f"-I{well_known}", *outputs, *names]):
        raise RuntimeError(f"{', '.join(names)}: not compiled")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return build_meta.get_requires_for_build_wheel(config_settings) + _compiler()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return build_meta.get_requires_for_build_editable(config_settings) + _compiler()


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return build_meta.get_requires_for_build_sdist(config_settings) + _compiler()


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    make_modules(stale())
    return build_meta.build_wheel(directory, config_settings, metadata_directory)


def build_editable(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    make_modules(stale())
    return build_meta.build_editable(directory, config_settings, metadata_directory)


def build_sdist(directory: str, config_settings: Any = None) -> str:
    make_modules(stale())
    return build_meta.build_sdist(directory, config_settings)


prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def _older(made: Path, proto: Path) -> bool:
    return not made.exists() or made.stat().st_mtime < proto.stat().st_mtime


def _compiler() -> list[str]:
    return [COMPILER] if stale() else []
