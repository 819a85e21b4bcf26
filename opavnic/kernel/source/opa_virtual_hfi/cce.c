// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The core: interrupt sources, which the driver maps to vectors, and the freeze. */
#include "parts.h"

#define FREEZE		0x100
#define UNFREEZE	0x200
#define DC_RESET	1

static void deliver(struct hfi *hfi, u32 source)
{
	u32 vector = V(hfi, CCE_INT_MAP, source / 8) >> 8 * (source % 8) & 0xff;

	if (V(hfi, CCE_INT_MASK, source / 64) & V(hfi, CCE_INT_STATUS, source / 64) & 1ull << source % 64)
		pci_vector(hfi, vector);
}

/* Set sources; one that is set already sends no message until it is cleared: the driver says when it may come again. */
static void set(struct hfi *hfi, u32 index, u64 sources)
{
	u64 added = sources & ~V(hfi, CCE_INT_STATUS, index);
	u32 bit;

	V(hfi, CCE_INT_STATUS, index) |= sources;
	for (bit = 0; bit < 64; bit++)
		if (added >> bit & 1)
			deliver(hfi, 64 * index + bit);
}

void cce_raise(struct hfi *hfi, u32 source)
{
	set(hfi, source / 64, 1ull << source % 64);
}

WRITE(int_force)
{
	set(hfi, index, value);
}

WRITE(int_mask)
{
	u64 added = value & ~V(hfi, CCE_INT_MASK, index);
	u32 bit;

	write_stored(hfi, reg, index, value);
	for (bit = 0; bit < 64; bit++)
		if (added >> bit & 1)
			deliver(hfi, 64 * index + bit);
}

WRITE(cce_ctrl)
{
	if (value & FREEZE) {
		V(hfi, CCE_STATUS, 0) = 0xf;
		sdma_freeze(hfi);
		hfi_note(hfi, HFI_NOTE_FREEZE, 1, 0);
	}
	if (value & UNFREEZE) {
		V(hfi, CCE_STATUS, 0) = 0;
		hfi_note(hfi, HFI_NOTE_FREEZE, 0, 0);
	}
}

WRITE(dc_ctrl)
{
	if (value & ~V(hfi, CCE_DC_CTRL, 0) & DC_RESET) {
		hfi_reset(hfi, true);
		hfi_note(hfi, HFI_NOTE_PHYSICAL, V(hfi, DC_8051_CUR_STATE, 0), 0);
	}
	write_stored(hfi, reg, index, value);
}
