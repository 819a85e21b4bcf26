// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * SDMA engines: rings of descriptors of 16 bytes, each a piece of a packet in memory. A packet begins with its PBC.
 *
 * Source: sdma.h SDMA_DESC0_, SDMA_DESC1_; sdma.c sdma_sendctrl, sdma_update_tail.
 */
#include "parts.h"

#define ENABLE		1ull
#define HALT		2ull
#define CLEAN_UP	4ull
#define HALTED		(1ull << 56)
#define CLEANED_UP	(1ull << 57)

/* Errors of an engine. Source: SEND_DMA_ENG_ERR_STATUS_SDMA_... */
#define TOO_LONG	0x4ull
#define TAIL_BAD	0x8ull
#define NOT_FIRST	0x10ull
#define NO_MEMORY	0x20ull
#define HALT_DONE	0x40ull
#define WRONG_LENGTH	0x80ull

#define FIRST		(1ull << 63)
#define LAST		(1ull << 62)
#define TELL_HEAD	1ull
#define INTERRUPT	2ull

static u32 ring_size(const struct hfi *hfi, u32 engine)
{
	return V(hfi, SEND_DMA_LEN_GEN, engine) & 0xffc0;
}

static void halt(struct hfi *hfi, u32 engine, u64 error)
{
	V(hfi, SEND_DMA_STATUS, engine) |= HALTED;
	V(hfi, SEND_DMA_ENG_ERR_STATUS, engine) |= error;
	if (error != HALT_DONE)
		hfi_note(hfi, HFI_NOTE_ENGINE, engine, error);
	if (V(hfi, SEND_DMA_ENG_ERR_MASK, engine) & error)
		cce_raise(hfi, SOURCE_ENGINE_ERR + engine);
}

static void tell_head(struct hfi *hfi, u32 engine)
{
	u64 address = V(hfi, SEND_DMA_HEAD_ADDR, engine), head = V(hfi, SEND_DMA_HEAD, engine);

	if (address)
		hfi_dma(hfi, address, &head, sizeof(head), true);
}

/* Take a descriptor; `len` is that of the packet so far. Return an error, or 0. */
static u64 take(struct hfi *hfi, u32 engine, const u64 *descriptor, u32 *len)
{
	u32 bytes = descriptor[0] >> 48 & 0x3fff;
	u64 pbc;

	if (!(descriptor[0] & FIRST) == !*len)
		return NOT_FIRST;
	if (*len + bytes > sizeof(hfi->packet))
		return TOO_LONG;
	if (bytes && hfi_dma(hfi, descriptor[0] & 0xffffffffffffull, hfi->packet + *len, bytes, false))
		return NO_MEMORY;
	*len += bytes;
	if (!(descriptor[0] & LAST))
		return *len ? 0 : WRONG_LENGTH;
	if (*len < sizeof(pbc))
		return WRONG_LENGTH;
	memcpy(&pbc, hfi->packet, sizeof(pbc));
	if ((pbc & 0xfff) * 4 != *len)
		return WRONG_LENGTH;
	if (egress_allows(hfi, &V(hfi, SEND_DMA_CHECK, 6 * engine), hfi->packet + sizeof(pbc), *len - sizeof(pbc), pbc))
		packet_leaves(hfi, hfi->packet, *len, pbc);
	else
		egress_disallows(hfi, engine);
	*len = 0;
	return 0;
}

/* Send the packets between head and tail; an engine waits for the last descriptor of a packet. */
static void go_on(struct hfi *hfi, u32 engine)
{
	u32 size = ring_size(hfi, engine), tail = V(hfi, SEND_DMA_TAIL, engine) & 0xffff;
	u32 at = V(hfi, SEND_DMA_HEAD, engine) & 0xffff, len = 0;
	bool interrupt = false, moved = false;
	u64 descriptor[2], error = 0;

	if (!(V(hfi, SEND_DMA_CTRL, engine) & ENABLE) || V(hfi, SEND_DMA_STATUS, engine) & HALTED || !size)
		return;
	if (tail >= size || at >= size) {
		halt(hfi, engine, TAIL_BAD);
		return;
	}
	while (at != tail && !error) {
		if (hfi_dma(hfi, V(hfi, SEND_DMA_BASE_ADDR, engine) + 16ull * at, descriptor, sizeof(descriptor), false)) {
			error = NO_MEMORY;
			break;
		}
		error = take(hfi, engine, descriptor, &len);
		if (error)
			break;
		at = at + 1 == size ? 0 : at + 1;
		if (len)
			continue;
		V(hfi, SEND_DMA_HEAD, engine) = at;
		moved = true;
		interrupt |= (descriptor[1] & INTERRUPT) != 0;
	}
	if (moved)
		tell_head(hfi, engine);
	if (moved && V(hfi, SEND_DMA_RELOAD_CNT, engine))
		cce_raise(hfi, SOURCE_SDMA_IDLE + engine);	/* at once: it has nothing more to do */
	if (interrupt)
		cce_raise(hfi, SOURCE_SDMA + engine);
	if (error)
		halt(hfi, engine, error);
}

/* All engines halt and forget their rings: the driver starts them at descriptor 0 again. */
void sdma_freeze(struct hfi *hfi)
{
	u32 engine;

	for (engine = 0; engine < ENGINES; engine++) {
		V(hfi, SEND_DMA_STATUS, engine) = HALTED | CLEANED_UP;
		V(hfi, SEND_DMA_HEAD, engine) = V(hfi, SEND_DMA_TAIL, engine) = 0;
	}
}

WRITE(dma_ctrl)
{
	write_stored(hfi, reg, index, value & ~CLEAN_UP);
	if (value & CLEAN_UP) {
		V(hfi, SEND_DMA_STATUS, index) = HALTED | CLEANED_UP;
		V(hfi, SEND_DMA_HEAD, index) = V(hfi, SEND_DMA_TAIL, index) = 0;
	} else if (value & HALT) {
		halt(hfi, index, HALT_DONE);
	} else if (value & ENABLE) {
		V(hfi, SEND_DMA_STATUS, index) = 0;
		go_on(hfi, index);
	}
}

WRITE(dma_tail)
{
	write_stored(hfi, reg, index, value & 0xffff);
	go_on(hfi, index);
}
