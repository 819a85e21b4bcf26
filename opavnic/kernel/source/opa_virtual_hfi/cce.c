// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The core: interrupt sources, which the driver maps to vectors, errors of the hardware, and the freeze. */
#include "parts.h"

#define FREEZE		0x100
#define UNFREEZE	0x200
#define FROZEN		0xf	/* egress, SDMA, PIO, receive */
#define DC_RESET	1

/* Where a block says its errors, by interrupt source; behind it stands their mask. Source: chip.c misc_errs, ALL_..._FREEZE_ERR. */
static const struct { enum reg status; u64 freezing; } blocks[] = {
	[0] = { REG_CCE_ERR_STATUS, 0 },
	[1] = { REG_RCV_ERR_STATUS, 0x9eabf7bfffebb540ull },
	[2] = { REG_MISC_ERR_STATUS, 0 },
	[3] = { REGISTERS, 0 },
	[4] = { REG_SEND_PIO_ERR_STATUS, 0xf3fed9ffeull },
	[5] = { REG_SEND_DMA_ERR_STATUS, 0x7ull },
	[6] = { REG_SEND_EGRESS_ERR_STATUS, 0x3ff0000e988ull },
	[7] = { REG_SEND_ERR_STATUS, 0 },
};

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

static void freeze(struct hfi *hfi)
{
	V(hfi, CCE_STATUS, 0) = FROZEN;
	sdma_freeze(hfi);
	hfi_note(hfi, HFI_NOTE_FREEZE, 1, 0);
}

bool cce_is_frozen(const struct hfi *hfi)
{
	return V(hfi, CCE_STATUS, 0);
}

void hfi_fail(struct hfi *hfi, u64 now, u32 block, u64 bits)
{
	enum reg status = block < sizeof(blocks) / sizeof(*blocks) ? blocks[block].status : REGISTERS;

	hfi->now = now;
	if (status == REGISTERS)
		return;
	hfi->values[hfi_registers[status].first] |= bits;
	hfi_note(hfi, HFI_NOTE_ERROR, block, bits);
	if (bits & blocks[block].freezing)
		freeze(hfi);
	if (bits & hfi->values[hfi_registers[status + 1].first])
		cce_raise(hfi, SOURCE_CCE_ERR + block);
}

WRITE(cce_ctrl)
{
	if (value & FREEZE)
		freeze(hfi);
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
