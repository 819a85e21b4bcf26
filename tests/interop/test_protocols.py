"""Our .proto files against udplbd2's, field for field."""

from __future__ import annotations

from pathlib import Path

import grpc_tools
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor
from grpc_tools import protoc
from interop.peers import udplbd2_source

from ejfat.control.pb import loadbalancer_pb2, sn_cfg_v2_pb2, sn_p4_v2_pb2

Field = descriptor_pb2.FieldDescriptorProto
# what is the same on the wire: a number, and a number with names
SAME = {Field.TYPE_ENUM: Field.TYPE_UINT32}


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (loadbalancer_pb2.DESCRIPTOR, "loadbalancer/loadbalancer.proto"),
        (sn_p4_v2_pb2.DESCRIPTOR, "smartnic/sn_p4_v2.proto"),
        (sn_cfg_v2_pb2.DESCRIPTOR, "smartnic/sn_cfg_v2.proto"),
    ],
    ids=["loadbalancer", "sn_p4", "sn_cfg"],
)
def test_nothing_of_ours_differs_from_theirs(ours: FileDescriptor, theirs: str, tmp_path: Path) -> None:
    there, here = facts(compiled(udplbd2_source(f"proto/{theirs}"), tmp_path)), facts(copied(ours))
    assert {key: fact for key, fact in here.items() if there.get(key) != fact} == {}


def test_client_api_is_complete(tmp_path: Path) -> None:
    there = facts(compiled(udplbd2_source("proto/loadbalancer/loadbalancer.proto"), tmp_path))
    assert sorted(there.keys() - facts(copied(loadbalancer_pb2.DESCRIPTOR)).keys()) == []


def test_calls_that_program_tables_are_complete(tmp_path: Path) -> None:
    there = facts(compiled(udplbd2_source("proto/smartnic/sn_p4_v2.proto"), tmp_path))
    calls = {key for key in there if key[0] == "call"}
    assert sorted(calls - facts(copied(sn_p4_v2_pb2.DESCRIPTOR)).keys()) == []


def compiled(path: Path, directory: Path) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a .proto file."""
    made = directory / "descriptors"
    own = Path(grpc_tools.__file__).parent / "_proto"
    assert protoc.main(["", f"-I{path.parent}", f"-I{own}", f"--descriptor_set_out={made}", str(path)]) == 0
    return descriptor_pb2.FileDescriptorSet.FromString(made.read_bytes()).file[0]


def copied(file: FileDescriptor) -> descriptor_pb2.FileDescriptorProto:
    """Return the descriptor of a generated module."""
    made = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(made)
    return made


def facts(file: descriptor_pb2.FileDescriptorProto) -> dict[tuple[str, ...], tuple[object, ...]]:
    """Return what goes over the wire, by names and numbers: fields, values of enumerations, calls."""
    found: dict[tuple[str, ...], tuple[object, ...]] = {}

    def enumeration(prefix: str, one: descriptor_pb2.EnumDescriptorProto) -> None:
        for value in one.value:
            found["value", f"{prefix}{one.name}", value.name] = (value.number,)

    def message(prefix: str, one: descriptor_pb2.DescriptorProto) -> None:
        name = f"{prefix}{one.name}"
        for field in one.field:
            kind = SAME.get(field.type, field.type)
            holds = field.type_name if field.type == Field.TYPE_MESSAGE else ""
            found["field", name, field.name] = (field.number, kind, field.label, holds)
        for inner in one.nested_type:
            message(f"{name}.", inner)
        for values in one.enum_type:
            enumeration(f"{name}.", values)

    for one in file.message_type:
        message("", one)
    for values in file.enum_type:
        enumeration("", values)
    for service in file.service:
        for call in service.method:
            streams = call.client_streaming, call.server_streaming
            found["call", f"{file.package}.{service.name}", call.name] = (
                call.input_type,
                call.output_type,
                *streams,
            )
    return found
