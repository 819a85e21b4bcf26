// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Send contexts: packets that the processor writes into blocks of 64 bytes. The first block of a packet is written 16 MiB
 * above the others; it begins with the PBC, 8 bytes that say how long the packet is. Blocks are given back by a counter that
 * is written to memory.
 *
 * Source: pio.c, pio_copy.c; chip.h PBC_, CR_.
 */
#include "parts.h"

#define FIRST_BLOCK	(16u << 20)
#define ENABLE		1ull
#define HALTED		1ull
#define INTERRUPT	0x20000ull
#define FORCED		(1ull << 15)
#define PBC_SIZE	8u
#define CM_RESET	4ull
#define INIT_ALL	1u
#define INIT_ONE	2u

/* Errors of a context. Source: SEND_CTXT_ERR_STATUS_PIO_... */
#define INCONSISTENT	0x1ull	/* a first block within a packet, or none at its beginning */
#define DISALLOWED	0x2ull	/* a packet that fails a check: egress.c */
#define OVERFLOW	0x8ull	/* more blocks than the context has */
#define OUT_OF_BOUNDS	0x10ull

static u32 first_block(const struct hfi *hfi, u32 context)
{
	return V(hfi, SEND_CTXT_CTRL, context) >> 32 & 0x3fff;
}

static u32 blocks(const struct hfi *hfi, u32 context)
{
	u32 depth = V(hfi, SEND_CTXT_CTRL, context) >> 48 & 0x7ff, most = PIO_MEMORY / BLOCK - first_block(hfi, context);

	return depth < most ? depth : most;
}

static void return_credits(struct hfi *hfi, u32 context, u64 why)
{
	u64 line = V(hfi, SEND_CTXT_CREDIT_RETURN_ADDR, context) & 0xffffffffffc0ull;
	u64 halted = V(hfi, SEND_CTXT_STATUS, context) & HALTED;
	u64 value = (hfi->send[context].returned & 0x7ff) | halted << 11 | why;

	if (line)	/* of 64 bytes, for eight contexts */
		hfi_dma(hfi, line + context % 8 * 8, &value, sizeof(value), true);
	if (V(hfi, SEND_CTXT_CREDIT_CTRL, context) & INTERRUPT)
		cce_raise(hfi, SOURCE_CREDIT + context);
}

static void fail(struct hfi *hfi, u32 context, u64 error)
{
	V(hfi, SEND_CTXT_ERR_STATUS, context) |= error;
	V(hfi, SEND_CTXT_STATUS, context) |= HALTED;
	hfi->send[context].written = 0;
	hfi_note(hfi, HFI_NOTE_CONTEXT, context, error);
	if (V(hfi, SEND_CTXT_ERR_MASK, context) & error)
		cce_raise(hfi, SOURCE_CONTEXT_ERR + context);
}

/* Copy from a place of a context, whose blocks are a ring, into a buffer. */
static void from_blocks(const struct hfi *hfi, u32 context, u32 at, u8 *to, u32 len)
{
	const u8 *memory = hfi->pio + first_block(hfi, context) * BLOCK;
	u32 size = blocks(hfi, context) * BLOCK, piece;

	memset(to, 0, size ? 0 : len);
	for (; size && len; to += piece, len -= piece, at += piece) {
		at %= size;
		piece = len < size - at ? len : size - at;
		memcpy(to, memory + at, piece);
	}
}

static u64 pbc_of(const struct hfi *hfi, u32 context)
{
	u8 bytes[PBC_SIZE];
	u64 pbc = 0;
	u32 i;

	from_blocks(hfi, context, hfi->send[context].begin, bytes, sizeof(bytes));
	for (i = 0; i < sizeof(bytes); i++)
		pbc |= (u64)bytes[i] << 8 * i;
	return pbc;
}

void packet_leaves(struct hfi *hfi, const u8 *packet, u32 len, u64 pbc)
{
	if (len < PBC_SIZE || !dc_is_up(hfi) || cce_is_frozen(hfi) || !(V(hfi, SEND_CTRL, 0) & ENABLE)) {
		count_dropped(hfi);
		return;
	}
	if (hfi->host.send(hfi->host.context, packet + PBC_SIZE, len - PBC_SIZE, pbc >> 28 & 1))
		count_sent(hfi, len - PBC_SIZE, pbc >> 12 & 15);
	else
		count_dropped(hfi);
}

static void complete(struct hfi *hfi, u32 context)
{
	struct send_context *send = &hfi->send[context];
	u64 pbc = pbc_of(hfi, context);
	u32 len = (pbc & 0xfff) * 4;

	from_blocks(hfi, context, send->begin, hfi->packet, len);
	send->returned += send->wanted / BLOCK;
	send->written = 0;
	if (len >= PBC_SIZE && !egress_allows(hfi, &V(hfi, SEND_CTXT_CHECK, 6 * context), hfi->packet + PBC_SIZE,
					      len - PBC_SIZE, pbc)) {
		fail(hfi, context, DISALLOWED);
		return;
	}
	packet_leaves(hfi, hfi->packet, len, pbc);
	return_credits(hfi, context, 0);
}

void pio_write(struct hfi *hfi, u32 offset, u32 size, u64 value)
{
	u32 context = (offset % FIRST_BLOCK) >> 16, at = offset & 0xffff, i;
	bool first = offset >= FIRST_BLOCK;
	struct send_context *send;

	if (context >= CONTEXTS || !(V(hfi, SEND_CTXT_CTRL, context) & ENABLE) || V(hfi, SEND_CTXT_STATUS, context) & HALTED)
		return;
	send = &hfi->send[context];
	if (at + size > blocks(hfi, context) * BLOCK) {
		fail(hfi, context, OUT_OF_BOUNDS);
		return;
	}
	if (first != (send->written < BLOCK)) {
		fail(hfi, context, INCONSISTENT);
		return;
	}
	if (!send->written) {
		send->begin = at;
		send->wanted = BLOCK;
	}
	for (i = 0; i < size; i++)
		hfi->pio[first_block(hfi, context) * BLOCK + at + i] = value >> 8 * i;
	send->written += size;
	if (send->written == PBC_SIZE) {
		send->wanted = ((pbc_of(hfi, context) & 0xfff) * 4 + BLOCK - 1) / BLOCK * BLOCK;
		if (!send->wanted)
			send->wanted = BLOCK;
		if (send->wanted > blocks(hfi, context) * BLOCK) {
			fail(hfi, context, OVERFLOW);
			return;
		}
	}
	if (send->written >= send->wanted)
		complete(hfi, context);
}

void pio_reset(struct hfi *hfi, u32 context)
{
	memset(&hfi->send[context], 0, sizeof(hfi->send[context]));
	V(hfi, SEND_CTXT_STATUS, context) = 0;
}

WRITE(pio_init)
{
	u32 context = value >> 8 & 0xff, i;

	if (value & INIT_ALL)
		for (i = 0; i < CONTEXTS; i++)
			pio_reset(hfi, i);
	else if (value & INIT_ONE && context < CONTEXTS)
		pio_reset(hfi, context);
}

WRITE(credit_force)
{
	if (value & 1)
		return_credits(hfi, index, FORCED);
}

WRITE(send_ctrl)
{
	write_stored(hfi, reg, index, value & ~CM_RESET);	/* done at once */
}
