// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Receive contexts: a queue of headers in memory, whose entries end with 8 bytes of flags (RHF), and eager buffers for what
 * follows a header, which RcvArray lists.
 *
 * Source: driver.c, common.h RHF_; chip.c hfi1_rcvctrl, hfi1_put_tid.
 */
#include "parts.h"

#define ENABLE		1ull
#define ONE_IN_BUFFER	2ull
#define KEEP_EAGER_FULL	4ull	/* what finds no buffer waits, and is not dropped */
#define KEEP_QUEUE_FULL	8ull
#define TELL_TAIL	0x40ull
#define PORT_ENABLE	1ull
#define SEQUENCES	13
#define ENTRY_MAX	128
#define RHF_SIZE	8
#define BYPASS_SPLIT	16	/* in RCV_BYPASS: how much of a 16B packet is its header, in 4 bytes */
#define TYPE_9B		2
#define TYPE_BYPASS	4
#define USES_EAGER	(1u << 15)
#define EAGER_STEP	64u	/* of places in an eager buffer */

static u32 entry_bytes(const struct hfi *hfi, u32 context)
{
	u32 size = V(hfi, RCV_HDR_ENT_SIZE, context) & 7;

	return size == 4 ? ENTRY_MAX : size == 2 ? 64 : size == 1 ? 8 : 0;
}

static u32 entries(const struct hfi *hfi, u32 context)
{
	return (V(hfi, RCV_HDR_CNT, context) & 0x1ff) * 32;
}

WRITE(rcv_ctxt_ctrl)
{
	if (value & ~hfi->values[hfi_registers[reg].first + index] & ENABLE) {
		memset(&hfi->receive[index], 0, sizeof(hfi->receive[index]));
		V(hfi, RCV_HDR_TAIL, index) = 0;
		V(hfi, RCV_EGR_INDEX_TAIL, index) = 0;
	}
	write_stored(hfi, reg, index, value);
}

/* Return the length of the headers of a 9B packet: LRH, GRH if there is one, BTH and what the opcode adds. */
static u32 header_bytes(const u8 *packet, u32 len)
{
	static const u8 more[32] = { [6] = 16, [10] = 16, [11] = 20, [12] = 16, [13] = 4, [15] = 4, [16] = 4, [17] = 4,
				     [18] = 12, [19] = 28, [20] = 28, [22] = 4, [23] = 4 };
	u32 bth = (packet[1] & 3) == 3 ? 48 : 8, opcode, header;

	if (len < bth + 12)
		return len;
	opcode = packet[bth];
	header = bth + 12 + (opcode >> 5 == 3 ? 8 + (opcode & 1) * 4 : more[opcode & 31]);
	return header < len ? header : len;
}

/* Return the size of a buffer. Source: hfi1_rcvbuf_validate. */
static u32 buffer_bytes(u64 entry)
{
	return 2048u << (entry >> 36 & 15);
}

/*
 * Write what follows the header into eager buffers: a buffer has packets one behind the other, unless the driver asks for one
 * in each; what does not fit begins the next. Return the bits of the RHF that say where, or 0: there is none.
 */
static u64 to_eager(struct hfi *hfi, u32 context, const u8 *data, u32 len, bool *is_full)
{
	u64 control = V(hfi, RCV_EGR_CTRL, context), alone = V(hfi, RCV_CTXT_CTRL, context) & ONE_IN_BUFFER;
	u32 base = (control & 0x1fff) * 8, buffers = (control >> 32 & 0x1ff) * 8, buffer, offset, end;
	struct receive_context *receive = &hfi->receive[context];
	u64 entry;

	if (!buffers || base + buffers > 32768 || receive->eager >= buffers)
		return 0;
	buffer = receive->eager;
	offset = receive->offset;
	if (offset && (alone || offset + len > buffer_bytes(V(hfi, RCV_ARRAY, base + buffer)))) {
		buffer = (buffer + 1) % buffers;
		offset = 0;
	}
	*is_full = (buffer + 1) % buffers == (V(hfi, RCV_EGR_INDEX_HEAD, context) & 0x7ff) % buffers;
	if (*is_full)
		return 0;
	entry = V(hfi, RCV_ARRAY, base + buffer);
	if (offset + len > buffer_bytes(entry) ||
	    hfi_dma(hfi, ((entry & 0xfffffffffull) << 12) + offset, (void *)data, len, true))
		return 0;
	end = (offset + len + EAGER_STEP - 1) / EAGER_STEP * EAGER_STEP;
	receive->eager = buffer;
	receive->offset = end;
	V(hfi, RCV_EGR_INDEX_TAIL, context) = buffer;
	return USES_EAGER | buffer << 16 | (u64)(offset / EAGER_STEP) << 32;
}

enum hfi_taken hfi_receive(struct hfi *hfi, u64 now, const u8 *packet, u32 len, bool bypass)
{
	bool by_rule, is_full = false;
	int context = steer(hfi, packet, len, bypass, &by_rule);
	struct receive_context *receive;
	u32 entry, count, head, header, from, at;
	u8 bytes[ENTRY_MAX];
	u64 address, rhf, flags = 0, keep;

	hfi->now = now;
	if (context < 0 || !dc_is_up(hfi) || cce_is_frozen(hfi) || !(V(hfi, RCV_CTRL, 0) & PORT_ENABLE) || len < 20 ||
	    len > HFI_PACKET_MAX || !(V(hfi, RCV_CTXT_CTRL, context) & ENABLE))
		return HFI_DROPPED;
	receive = &hfi->receive[context];
	entry = entry_bytes(hfi, context);
	count = entries(hfi, context);
	if (entry < 64 || receive->tail >= count)
		return HFI_DROPPED;
	head = (V(hfi, RCV_HDR_HEAD, context) & 0xffffffff) / (entry / 4);
	keep = vl_of(packet, bypass) == 15 ? 0 : V(hfi, RCV_CTXT_CTRL, context);	/* VL15 has no credits */
	if ((receive->tail + 1) % count == head % count) {
		if (keep & KEEP_QUEUE_FULL)
			return HFI_FULL;
		V(hfi, RCV_HDR_OVFL_CNT, context)++;
		return HFI_DROPPED;
	}
	header = bypass ? (V(hfi, RCV_BYPASS, 0) >> BYPASS_SPLIT & 0x1f) * 4 : header_bytes(packet, len);
	if (header > entry - RHF_SIZE)
		header = entry - RHF_SIZE;
	if (header > len)
		header = len;
	from = bypass && by_rule ? 0 : header;	/* a rule's contexts, those of netdevs, have 16B packets whole */
	if (len > from) {
		flags = to_eager(hfi, context, packet + from, len - from, &is_full);
		if (!flags && keep & KEEP_EAGER_FULL && is_full)
			return HFI_FULL;
		if (!flags) {
			count_overflow(hfi);
			return HFI_DROPPED;
		}
	}
	/* The flags follow the header at once: the driver takes the distance for the header's length. */
	at = entry - RHF_SIZE - header;
	memset(bytes, 0, entry);
	memcpy(bytes + at, packet, header);
	rhf = (len / 4 & 0xfff) | (bypass ? TYPE_BYPASS : TYPE_9B) << 12 | flags | (u64)(receive->sequence + 1) << 28 |
	      (u64)(at / 4) << 44;
	memcpy(bytes + entry - RHF_SIZE, &rhf, sizeof(rhf));
	address = V(hfi, RCV_HDR_ADDR, context) + (u64)receive->tail * entry;
	if (hfi_dma(hfi, address, bytes, entry, true))
		return HFI_DROPPED;
	receive->sequence = (receive->sequence + 1) % SEQUENCES;
	receive->tail = (receive->tail + 1) % count;
	V(hfi, RCV_HDR_TAIL, context) = (u64)receive->tail * (entry / 4);
	address = V(hfi, RCV_HDR_TAIL_ADDR, context);
	if (V(hfi, RCV_CTXT_CTRL, context) & TELL_TAIL && address)
		hfi_dma(hfi, address, &V(hfi, RCV_HDR_TAIL, context), 8, true);
	count_received(hfi, len, vl_of(packet, bypass));
	cce_raise(hfi, SOURCE_RECEIVE + context);
	return HFI_TAKEN;
}
