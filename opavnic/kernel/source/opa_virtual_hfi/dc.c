// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The link: a microcontroller, the 8051, takes commands of the driver and brings the link up; DCC holds the logical state.
 * As with a functional simulator, which the device says that it is, polling becomes link up without training.
 *
 * Source: chip.c do_8051_command, set_link_state, handle_8051_interrupt, read_8051_config; chip.h HCMD_, PLS_.
 */
#include "parts.h"

#define NEW		1u		/* in a command: begin */
#define COMPLETED	1u
#define SUCCESS		2u
#define FIRMWARE_READY	0xa00000u
#define LINKUP_ACHIEVED	(1u << 7)
#define LINK_GOING_DOWN	(1u << 8)
#define GENERAL_FIELDS	0x17
#define LANE_FIELDS	8
#define TX_SETTINGS	0x06		/* field of the 8051: lanes that send, in 7:0 */
#define LINK_MODE	0x09		/* widths of the link: in 15:12, 11:8 */
#define LOCAL_LNI_INFO	0x0c		/* lanes that receive, in 23:16 */
#define FOUR_LANES	0xf
#define POLLING_NS	400000000ull	/* from polling to link up: a link takes its time, and hfi1 counts on it (docs/hfi1.md) */

enum command { LOAD_CONFIG = 1, READ_CONFIG = 2, CHANGE_STATE = 3, READ_LCB = 7, WRITE_LCB = 8 };
enum physical { POLLING = 0x20, DISABLED = 0x30, LINKUP = 0x50, OFFLINE = 0x90, QUICK_LINKUP = 0xe2 };
enum logical { DOWN = 1, INIT = 2 };

static void set_physical(struct hfi *hfi, u32 state)
{
	V(hfi, DC_8051_CUR_STATE, 0) = FIRMWARE_READY | state;
	hfi_note(hfi, HFI_NOTE_PHYSICAL, state, 0);
}

static u32 physical(const struct hfi *hfi)
{
	return V(hfi, DC_8051_CUR_STATE, 0) & 0xff;
}

static void set_logical(struct hfi *hfi, u64 state)
{
	V(hfi, DCC_CFG_PORT_CONFIG, 0) &= ~(7ull << 48);
	V(hfi, DCC_CFG_PORT_CONFIG, 0) |= state << 48;
	hfi_note(hfi, HFI_NOTE_LOGICAL, state, 0);
}

static void tell_host(struct hfi *hfi, u64 message)
{
	V(hfi, DC_8051_SET_BY_8051, 0) = message;
	V(hfi, DC_8051_ERR_FLG, 0) |= 1;
	cce_raise(hfi, SOURCE_8051);
}

void dc_power_on(struct hfi *hfi)
{
	memset(hfi->fields, 0, sizeof(hfi->fields));
	hfi->link_at = HFI_NEVER;
	hfi->taken = false;
	V(hfi, DC_8051_LOCAL_GUID, 0) = hfi->guid;
}

bool dc_is_up(const struct hfi *hfi)
{
	return physical(hfi) == LINKUP;
}

static void link_up(struct hfi *hfi)
{
	hfi->link_at = HFI_NEVER;
	V(hfi, DC_8051_REMOTE_GUID, 0) = hfi->neighbour.guid;
	V(hfi, DC_8051_REMOTE_PORT_NO, 0) = hfi->neighbour.port;
	V(hfi, DC_8051_REMOTE_NODE_TYPE, 0) = hfi->neighbour.type & 3;
	hfi->fields[TX_SETTINGS] = (hfi->fields[TX_SETTINGS] & ~0xffu) | FOUR_LANES;
	hfi->fields[LOCAL_LNI_INFO] |= FOUR_LANES << 16;
	hfi->fields[LINK_MODE] = (hfi->fields[LINK_MODE] & 0xffff00ffu) | 0x4400;
	set_physical(hfi, LINKUP);
	set_logical(hfi, INIT);
	tell_host(hfi, LINKUP_ACHIEVED);
}

static void change_state(struct hfi *hfi, u32 state)
{
	hfi->link_at = HFI_NEVER;
	if (state == POLLING) {
		set_physical(hfi, POLLING);
		if (hfi->plugged)
			hfi->link_at = hfi->now + POLLING_NS;
	} else if (state == QUICK_LINKUP && hfi->plugged) {
		link_up(hfi);
	} else if (state == OFFLINE || state == DISABLED) {
		set_physical(hfi, state);
		set_logical(hfi, DOWN);
	}
}

/* Return the place of a field: those of the link, then those of each lane. */
static u32 place(u64 data)
{
	u32 field = data >> 40 & 0xff, lane = data >> 32 & 0xff;

	return (lane < 4 ? GENERAL_FIELDS + lane * LANE_FIELDS : 0) + field;
}

static u64 command(struct hfi *hfi, u32 type, u64 data)
{
	u64 lcb = data & 511;	/* which register of LCB */

	switch (type) {
	case LOAD_CONFIG:
		hfi->fields[place(data)] = data;
		return 0;
	case READ_CONFIG:
		return hfi->fields[place(data)];
	case CHANGE_STATE:
		change_state(hfi, data & 0xff);
		return 0;
	case READ_LCB:
		return V(hfi, DC_LCB, lcb) & 0xffffffffffffull;
	default:	/* messages to the neighbour's 8051, who may access LCB: nothing comes of them */
		return 0;
	}
}

WRITE(host_command)
{
	write_stored(hfi, reg, index, value);
	if (!(value & NEW)) {
		V(hfi, DC_8051_HOST_CMD_1, 0) = 0;
		hfi->taken = false;
	} else if (!hfi->taken) {
		hfi->taken = true;
		V(hfi, DC_8051_SET_BY_8051, 0) = 0;	/* the next command clears the message of before */
		V(hfi, DC_8051_HOST_CMD_1, 0) = COMPLETED | SUCCESS << 8 | command(hfi, value >> 8 & 0xff, value >> 16) << 16;
	}
}

WRITE(ram_ctrl)
{
	u32 word = (value & 0x7fff) / 8 * 2;

	write_stored(hfi, reg, index, value);
	V(hfi, DC_8051_RAM_RD_DATA, 0) =
		word < 1024 ? hfi->fields[word] | (u64)hfi->fields[word + 1] << 32 : 0;
}

WRITE(port_config)
{
	u64 before = V(hfi, DCC_CFG_PORT_CONFIG, 0) >> 48 & 7, state = value >> 48 & 7;

	write_stored(hfi, reg, index, value);
	if (state != before)
		hfi_note(hfi, HFI_NOTE_LOGICAL, state, 0);
}

void hfi_set_cable(struct hfi *hfi, u64 now, const struct hfi_neighbour *neighbour)
{
	bool plugged = neighbour;

	hfi->now = now;
	hfi->plugged = plugged;
	if (plugged)
		hfi->neighbour = *neighbour;
	if (plugged && physical(hfi) == POLLING && hfi->link_at == HFI_NEVER)
		hfi->link_at = now + POLLING_NS;
	if (plugged)
		return;
	hfi->link_at = HFI_NEVER;
	if (dc_is_up(hfi)) {
		set_logical(hfi, DOWN);
		set_physical(hfi, OFFLINE);
		tell_host(hfi, LINK_GOING_DOWN);
	}
}

void dc_run(struct hfi *hfi)
{
	if (hfi->link_at <= hfi->now)
		link_up(hfi);
}
