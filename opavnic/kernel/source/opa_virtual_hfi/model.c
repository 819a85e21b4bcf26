// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* The model as a whole: its registers by offset, its beginning, its reset, and what it does later. */
#include "parts.h"

#define PIO_BEGIN	0x2000000u
#define DC_BEGIN	0x600000u
#define DC_END		0x700000u

const struct reg_row hfi_registers[REGISTERS] = {
#define R(name, offset, times, stride, values, reset, write, what) \
	{ #name, offset, times, stride, values, reset, write_##write, VALUES_##name },
#include "registers.def"
#undef R
};

size_t hfi_size(void)
{
	return sizeof(struct hfi);
}

void hfi_note(struct hfi *hfi, enum hfi_note note, u64 first, u64 second)
{
	hfi->host.note(hfi->host.context, note, first, second);
}

int hfi_dma(struct hfi *hfi, u64 address, void *data, u32 len, bool to_memory)
{
	bool is_master = hfi->config[4] & 4;

	if (is_master && !hfi->host.dma(hfi->host.context, address, data, len, to_memory))
		return 0;
	hfi_note(hfi, HFI_NOTE_DMA, address, len);
	return -1;
}

void hfi_reset(struct hfi *hfi, bool dc)
{
	u32 reg, i;

	for (reg = 0; reg < REGISTERS; reg++) {
		const struct reg_row *row = &hfi_registers[reg];
		bool of_dc = row->offset >= DC_BEGIN && row->offset < DC_END;

		for (i = 0; of_dc == dc && i < row->times * row->values; i++)
			hfi->values[row->first + i] = row->reset;
	}
	if (dc) {
		dc_power_on(hfi);
		return;
	}
	for (i = 0; i < VECTORS; i++)
		V(hfi, CCE_MSIX_TABLE, 2 * i + 1) = 1ull << 32;	/* masked */
	memset(hfi->due, 0, sizeof(hfi->due));
	memset(hfi->send, 0, sizeof(hfi->send));
	memset(hfi->receive, 0, sizeof(hfi->receive));
}

struct hfi *hfi_init(void *memory, const struct hfi_host *host, u64 guid)
{
	struct hfi *hfi = memory;

	memset(hfi, 0, sizeof(*hfi));
	hfi->host = *host;
	hfi->guid = guid;
	hfi_reset(hfi, true);
	hfi_reset(hfi, false);
	pci_power_on(hfi);
	return hfi;
}

/* Return the register at an offset, and which of its values; REGISTERS: there is none. */
static enum reg find(u32 offset, u32 *index)
{
	enum reg reg;

	for (reg = 0; reg < REGISTERS; reg++) {
		const struct reg_row *row = &hfi_registers[reg];
		u32 from = offset - row->offset, time = row->times > 1 ? from / row->stride : 0;
		u32 value = (from - time * row->stride) / 8;

		if (offset >= row->offset && time < row->times && value < row->values) {
			*index = time * row->values + value;
			return reg;
		}
	}
	return REGISTERS;
}

/* Return whether a register without a row is named for the first time. */
static bool is_new(struct hfi *hfi, u32 key)
{
	u32 place = key * 2654435761u, tries;

	for (tries = 0; tries < 64; tries++, place++) {
		u32 *named = &hfi->named[place / 8 % NAMED];

		if (*named == key)
			return false;
		if (!*named) {
			*named = key;
			return true;
		}
		place += 7;
	}
	return false;	/* the table is full: it holds enough */
}

u64 hfi_read(struct hfi *hfi, u64 now, u32 offset, u32 size)
{
	u32 index, shift = 8 * (offset & 7);
	u64 value = 0;
	enum reg reg;

	hfi->now = now;
	if (offset >= HFI_BAR_SIZE)
		return ~0ull;
	if (offset >= PIO_BEGIN)
		return 0;
	reg = find(offset & ~7u, &index);
	if (reg < REGISTERS)
		value = hfi->values[hfi_registers[reg].first + index];
	else if (is_new(hfi, (offset & ~7u) + 1))
		hfi_note(hfi, HFI_NOTE_READ, offset & ~7u, 0);
	value >>= shift;
	return size == 8 ? value : value & ((1ull << 8 * size) - 1);
}

void hfi_write(struct hfi *hfi, u64 now, u32 offset, u32 size, u64 value)
{
	u32 index, shift = 8 * (offset & 7);
	u64 mask = size == 8 ? ~0ull : ((1ull << 8 * size) - 1) << shift;
	enum reg reg;

	hfi->now = now;
	if (offset >= HFI_BAR_SIZE)
		return;
	if (offset >= PIO_BEGIN) {
		pio_write(hfi, offset - PIO_BEGIN, size, value);
		return;
	}
	value = value << shift & mask;
	reg = find(offset & ~7u, &index);
	if (reg < REGISTERS) {
		const struct reg_row *row = &hfi_registers[reg];

		if (row->write == write_stored || row->write == write_msix_table)	/* of others, a part is all */
			value |= hfi->values[row->first + index] & ~mask;
		row->write(hfi, reg, index, value);
	} else if (is_new(hfi, ((offset & ~7u) + 1) | 1u << 31)) {
		hfi_note(hfi, HFI_NOTE_WRITE, offset & ~7u, value);
	}
}

WRITE(constant)
{
}

WRITE(stored)
{
	hfi->values[hfi_registers[reg].first + index] = value;
}

/* Of the register itself, the bits that are written are cleared. */
WRITE(clears_itself)
{
	hfi->values[hfi_registers[reg].first + index] &= ~value;
}

/* The lane of a service channel has 5 bits. */
WRITE(sc2vlt)
{
	write_stored(hfi, reg, index, value & 0x1f1f1f1f1f1f1f1full);
}

WRITE(clear)
{
	hfi->values[hfi_registers[reg - 2].first + index] &= ~value;
}

u64 hfi_deadline(const struct hfi *hfi)
{
	u32 i;

	for (i = 0; i < VECTORS / 64; i++)
		if (hfi->due[i])
			return hfi->now;
	return hfi->train_at;
}

void hfi_run(struct hfi *hfi, u64 now)
{
	hfi->now = now;
	dc_run(hfi);
	pci_send_due(hfi);
}
