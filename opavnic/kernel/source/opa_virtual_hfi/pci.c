// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Configuration space and MSI-X. Source: PCI Express Base Specification 3.1, 7.5 and 7.8; PCI Local Bus Specification
 * 3.0, 6.8.2; pcie.c of hfi1, which looks for MSI-X at a place of its own.
 */
#include "parts.h"

#define COMMAND		0x04
#define BAR0		0x10
#define CAPABILITIES	0x34
#define EXPRESS		0x70
#define MSIX		0xb0	/* PCI_CFG_MSIX0 */
#define ENABLE		0x80	/* of MSI-X, in the upper byte of its control */
#define MASK_ALL	0x40
#define FLR		0x80	/* in the upper byte of device control */

/* Configuration space at power on, and which bits a write changes; 32 bits each. */
static const struct { u8 at; u32 value, writable; } header[] = {
	{ 0x00, 0x24f08086, 0 },			/* Intel, HFI1 */
	{ COMMAND, 0x00110000, 0x0000057f },		/* there are capabilities; it is ready at once after a reset */
	{ 0x08, 0x02080011, 0 },			/* fabric controller, revision B1 */
	{ 0x0c, 0x00000000, 0x000000ff },
	{ BAR0, 0x00000004, ~(HFI_BAR_SIZE - 1) },	/* memory, 64 bits */
	{ BAR0 + 4, 0x00000000, 0xffffffff },
	{ 0x2c, 0x00018086, 0 },
	{ CAPABILITIES, EXPRESS, 0 },
	{ 0x3c, 0x00000100, 0x000000ff },
	{ EXPRESS, MSIX << 8 | 0x00020010, 0 },		/* an endpoint, version 2 */
	{ EXPRESS + 0x04, 0x10008fc2, 0 },		/* function level reset, payload of 512 bytes */
	{ EXPRESS + 0x08, 0x00002810, 0x00007fff },
	{ EXPRESS + 0x0c, 0x00000103, 0 },		/* 8 GT/s, 16 lanes */
	{ EXPRESS + 0x10, 0x01030000, 0x00000fff },
	{ EXPRESS + 0x24, 0x0000001f, 0 },
	{ EXPRESS + 0x28, 0x00000000, 0x0000ffff },
	{ EXPRESS + 0x2c, 0x0000000e, 0 },
	{ EXPRESS + 0x30, 0x00000003, 0x0000ffff },
	{ MSIX, (VECTORS - 1) << 16 | 0x0011, 0xc0000000 },
	{ MSIX + 4, 0x00100000, 0 },			/* where the table is */
	{ MSIX + 8, 0x00110000, 0 },			/* where the pending bits are */
};

static void put(u8 *to, u32 value)
{
	u32 i;

	for (i = 0; i < 4; i++)
		to[i] = value >> 8 * i;
}

void pci_power_on(struct hfi *hfi)
{
	u32 i;

	for (i = 0; i < sizeof(header) / sizeof(*header); i++) {
		put(hfi->config + header[i].at, header[i].value);
		put(hfi->writable + header[i].at, header[i].writable);
	}
}

u32 hfi_config_read(struct hfi *hfi, u32 at, u32 size)
{
	u32 value = 0, i;

	for (i = 0; i < size && i < 4; i++)
		if (at + i < sizeof(hfi->config))
			value |= (u32)hfi->config[at + i] << 8 * i;
	return value;
}

void hfi_config_write(struct hfi *hfi, u64 now, u32 at, u32 size, u32 value)
{
	u32 i, vector;

	hfi->now = now;
	for (i = 0; i < size && i < 4; i++, value >>= 8) {
		u32 place = at + i;

		if (place >= sizeof(hfi->config))
			break;
		if (place == EXPRESS + 9 && value & FLR) {
			hfi_note(hfi, HFI_NOTE_RESET, 0, 0);
			hfi_reset(hfi, false);
			pci_power_on(hfi);
			return;
		}
		hfi->config[place] = (hfi->config[place] & ~hfi->writable[place]) | (value & hfi->writable[place]);
		if (place == MSIX + 3)
			for (vector = 0; vector < VECTORS; vector++)
				if (V(hfi, CCE_MSIX_PBA, vector / 64) >> vector % 64 & 1)
					pci_vector(hfi, vector);
	}
}

/* Send a vector, or leave it pending while it is masked. */
void pci_vector(struct hfi *hfi, u32 vector)
{
	u64 *pending = &V(hfi, CCE_MSIX_PBA, vector / 64), bit = 1ull << vector % 64;
	bool masked = hfi->config[MSIX + 3] & MASK_ALL || V(hfi, CCE_MSIX_TABLE, 2 * vector + 1) >> 32 & 1;

	if (!(hfi->config[MSIX + 3] & ENABLE))
		return;
	if (masked) {
		*pending |= bit;
	} else {
		*pending &= ~bit;
		hfi->due[vector / 64] |= bit;
	}
}

WRITE(msix_table)
{
	write_stored(hfi, reg, index, value);
	if (index & 1 && V(hfi, CCE_MSIX_PBA, index / 128) >> index / 2 % 64 & 1)
		pci_vector(hfi, index / 2);
}

void pci_send_due(struct hfi *hfi)
{
	u32 vector;

	for (vector = 0; vector < VECTORS; vector++) {
		u64 bit = 1ull << vector % 64;

		if (!(hfi->due[vector / 64] & bit))
			continue;
		hfi->due[vector / 64] &= ~bit;
		hfi->host.interrupt(hfi->host.context, V(hfi, CCE_MSIX_TABLE, 2 * vector),
				    V(hfi, CCE_MSIX_TABLE, 2 * vector + 1));
	}
}
