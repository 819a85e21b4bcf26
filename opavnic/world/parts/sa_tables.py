"""Tables of subnet administration, asked for once over the wire from a port, as a tool on a host would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from hfi_sim.base.errors import FabricError, WireError
from hfi_sim.base.port_state import PortState
from hfi_sim.base.types import LID_NONE
from hfi_sim.management.sa.client import status_text, table_of
from hfi_sim.nodes.hfi import HfiPort
from hfi_sim.wire.mad.header import MadStatus
from hfi_sim.wire.mad.message import Mad
from hfi_sim.wire.mad.sa_attributes import SaAttrId, SaStatus
from hfi_sim.wire.sa.by_attribute import RECORDS
from hfi_sim.wire.sa.message import SaMessage
from hfi_sim.wire.sa.record import SaRecord

TIMEOUT_S: Final = 1.0
RETRIES: Final = 2


async def ask_tables(
    port: HfiPort, wanted: Sequence[SaAttrId]
) -> tuple[dict[int, Iterable[Any]], dict[int, str]]:
    """Ask the administration that a port knows for whole tables, all at once.

    Args:    wanted: the attributes of their records.
    Returns: the records by attribute, and for each table that was not given why.
    """
    if port.state is not PortState.ACTIVE or port.sm_lid == LID_NONE:
        why = f"{port.name} is {port.state.name}: no fabric manager has activated it"
        return {}, dict.fromkeys(wanted, why)
    answers = await asyncio.gather(*(_ask(port, attr_id) for attr_id in wanted))
    tables: dict[int, Iterable[Any]] = {}
    errors: dict[int, str] = {}
    for attr_id, mad in zip(wanted, answers, strict=True):
        try:
            tables[attr_id] = _records(mad, RECORDS[attr_id])
        except (FabricError, WireError) as error:
            errors[attr_id] = str(error)
    return tables, errors


async def _ask(port: HfiPort, attr_id: SaAttrId | int) -> Mad | None:
    answer: asyncio.Future[Mad | None] = asyncio.get_running_loop().create_future()

    def done(mad: Mad | None) -> None:
        if not answer.done():  # the requester may have left
            answer.set_result(mad)

    port.mad.submit(
        port.sm_lid,
        table_of(attr_id).mad(),
        done,
        timeout_s=TIMEOUT_S,
        retries=RETRIES,
        sl=port.settings.info.master_sm_sl,
    )
    return await answer


def _records(mad: Mad | None, kind: type[SaRecord]) -> list[Any]:
    """Return the records of an answer. Raises: FabricError: there is none, or it refuses. WireError: it is damaged."""
    if mad is None:
        raise FabricError("no answer")
    message = SaMessage.of(mad)
    status = message.header.status
    if status == SaStatus.NO_RECORDS:
        return []
    if status != MadStatus.OK:
        raise FabricError(status_text(status))
    return message.table(kind)
