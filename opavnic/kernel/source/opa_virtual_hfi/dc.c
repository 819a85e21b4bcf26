// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The link: a microcontroller, the 8051, takes commands of the driver and brings the link up; DCC holds the logical state.
 * Where both ends poll, each is told of the other's capabilities (VERIFY_CAP), and its driver lets the link go up; when both
 * have, it is up. There is no serdes, so nothing but time passes in training. What the 8051 does is its firmware's work on
 * real hardware; here the driver loads one that nothing reads (opavnic/kernel/firmware.py).
 *
 * Source: chip.c do_8051_command, set_link_state, handle_verify_cap, handle_8051_interrupt, read_8051_config; chip.h HCMD_,
 * PLS_, LDR_, and the fields of the 8051.
 */
#include "parts.h"

#define NEW		1u		/* in a command: begin */
#define COMPLETED	1u
#define SUCCESS		2u
#define FIRMWARE	0xff0000u
#define FIRMWARE_READY	0xa00000u
#define IN_RESET	1u
#define POLLING_NS	400000000ull	/* until training: a link takes its time, and hfi1 counts on it (docs/reference/hfi1.md) */
#define GENERAL_FIELDS	0x17
#define LANE_FIELDS	8
#define FOUR_LANES	0xf
#define FOUR_WIDE	0x4400		/* widths of the link: in 15:12, 11:8 */
#define VERSION_MAJOR	1		/* of firmware that knows all commands of the driver */
#define VERSION_MINOR	27

enum field {
	TX_SETTINGS = 0x06, LOCAL_PHY = 0x07, LOCAL_FABRIC = 0x08, LOCAL_LINK_MODE = 0x09, LOCAL_DEVICE = 0x0a,
	LOCAL_LNI = 0x0c, REMOTE_LNI = 0x0d, MISC_STATUS = 0x0e, REMOTE_PHY = 0x0f, REMOTE_FABRIC = 0x10, REMOTE_WIDTH = 0x11,
	LINK_QUALITY = 0x14, REMOTE_DEVICE = 0x15, DOWN_REASON = 0x16,
};
enum command {
	LOAD_CONFIG = 1, READ_CONFIG = 2, CHANGE_STATE = 3, SEND_IDLE = 4, READ_IDLE = 6, READ_LCB = 7, WRITE_LCB = 8,
};
enum physical {
	POLLING = 0x20, DISABLED = 0x30, VERIFY_CAP = 0x46, CONFIGURED = 0x48, LINKUP = 0x50, OFFLINE = 0x90, QUICK_LINKUP = 0xe2,
};
enum logical { DOWN = 1, INIT = 2 };
/* Messages for the driver, and errors above them. */
enum told { SMA_MESSAGE = 1 << 2, CAPABILITIES = 1 << 6, LINKUP_ACHIEVED = 1 << 7, LINK_GOING_DOWN = 1 << 8, TRAINING_FAILED = 1 << 25 };
enum down { NO_TRANSFER = 0xa, NEIGHBOUR_SAID = 0xb, DRIVER_ASKED = 0xc };

static void set_physical(struct hfi *hfi, u32 state)
{
	V(hfi, DC_8051_CUR_STATE, 0) = (V(hfi, DC_8051_CUR_STATE, 0) & FIRMWARE) | state;
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

/* What the driver has not seen yet stays. */
static void tell_host(struct hfi *hfi, u64 message)
{
	if (V(hfi, DC_8051_ERR_FLG, 0) & 1)
		message |= V(hfi, DC_8051_SET_BY_8051, 0);
	V(hfi, DC_8051_SET_BY_8051, 0) = message;
	V(hfi, DC_8051_ERR_FLG, 0) |= 1;
	cce_raise(hfi, SOURCE_8051);
}

void dc_power_on(struct hfi *hfi)
{
	memset(hfi->fields, 0, sizeof(hfi->fields));
	hfi->train_at = HFI_NEVER;
	hfi->taken = false;
	hfi->reason = 0;
	V(hfi, DC_8051_LOCAL_GUID, 0) = hfi->guid;
}

bool dc_is_up(const struct hfi *hfi)
{
	return physical(hfi) == LINKUP;
}

struct hfi_end hfi_own_end(const struct hfi *hfi)
{
	return (struct hfi_end){
		.guid = hfi->guid,
		.port = 1,
		.state = physical(hfi),
		.reason = hfi->reason,
		.phy = hfi->fields[LOCAL_PHY],
		.fabric = hfi->fields[LOCAL_FABRIC],
		.width = (hfi->fields[LOCAL_LINK_MODE] & 0xffff) | hfi->fields[TX_SETTINGS] >> 24 << 16,
		.device = hfi->fields[LOCAL_DEVICE],
	};
}

static bool neighbour_trains(const struct hfi *hfi)
{
	u8 state = hfi->neighbour.state;

	return state == POLLING || (state >= VERIFY_CAP && state <= LINKUP);
}

static void verify_cap(struct hfi *hfi)
{
	hfi->train_at = HFI_NEVER;
	V(hfi, DC_8051_REMOTE_GUID, 0) = hfi->neighbour.guid;
	V(hfi, DC_8051_REMOTE_PORT_NO, 0) = hfi->neighbour.port;
	V(hfi, DC_8051_REMOTE_NODE_TYPE, 0) = hfi->neighbour.type & 3;
	hfi->fields[REMOTE_PHY] = hfi->neighbour.phy;
	hfi->fields[REMOTE_FABRIC] = hfi->neighbour.fabric;
	hfi->fields[REMOTE_WIDTH] = hfi->neighbour.width;
	hfi->fields[REMOTE_DEVICE] = hfi->neighbour.device;
	hfi->fields[REMOTE_LNI] = hfi->neighbour.lni;
	hfi->fields[TX_SETTINGS] = (hfi->fields[TX_SETTINGS] & ~0xffu) | FOUR_LANES;
	hfi->fields[LOCAL_LNI] |= FOUR_LANES << 16;
	set_physical(hfi, VERIFY_CAP);
	tell_host(hfi, CAPABILITIES);
}

static void link_up(struct hfi *hfi)
{
	hfi->fields[LOCAL_LINK_MODE] = (hfi->fields[LOCAL_LINK_MODE] & 0xffff00ffu) | FOUR_WIDE;
	set_physical(hfi, LINKUP);
	set_logical(hfi, INIT);
	tell_host(hfi, LINKUP_ACHIEVED);
}

/* The drivers of both ends have seen the capabilities. */
static bool both_ready(const struct hfi *hfi)
{
	return physical(hfi) == CONFIGURED && (hfi->neighbour.state == CONFIGURED || hfi->neighbour.state == LINKUP);
}

static void train_later(struct hfi *hfi)
{
	if (physical(hfi) != POLLING || !neighbour_trains(hfi))
		hfi->train_at = HFI_NEVER;
	else if (hfi->train_at == HFI_NEVER)
		hfi->train_at = hfi->now + POLLING_NS;
}

/* The link is lost: the 8051 says so; the driver takes it offline, and lets it poll again. */
static void lose(struct hfi *hfi)
{
	bool was_up = dc_is_up(hfi);
	u8 reason = hfi->neighbour.reason;

	hfi->fields[DOWN_REASON] = (hfi->fields[DOWN_REASON] & ~0xffu) | (reason ? NEIGHBOUR_SAID : NO_TRANSFER);
	hfi->fields[LINK_QUALITY] = (hfi->fields[LINK_QUALITY] & 0xff00ffffu) | reason << 16;
	set_logical(hfi, DOWN);
	set_physical(hfi, OFFLINE);
	tell_host(hfi, was_up ? LINK_GOING_DOWN : TRAINING_FAILED);
}

static void change_state(struct hfi *hfi, u32 state, u8 reason)
{
	hfi->train_at = HFI_NEVER;
	if (state == POLLING) {
		hfi->reason = 0;
		set_physical(hfi, POLLING);
		train_later(hfi);
	} else if (state == LINKUP && physical(hfi) == VERIFY_CAP) {
		set_physical(hfi, CONFIGURED);
		if (both_ready(hfi))
			link_up(hfi);
	} else if (state == QUICK_LINKUP && hfi->neighbour.state) {
		link_up(hfi);
	} else if (state == OFFLINE || state == DISABLED) {
		hfi->reason = reason;
		hfi->fields[DOWN_REASON] = (hfi->fields[DOWN_REASON] & ~0xffu) |
			(dc_is_up(hfi) ? DRIVER_ASKED : hfi->fields[DOWN_REASON] & 0xff);
		set_logical(hfi, DOWN);
		set_physical(hfi, state);
	}
}

/* A field of the link that a command of the driver writes: the rest of the value is in another register. */
static void write_lcb(struct hfi *hfi, u64 data)
{
	V(hfi, DC_LCB, data & 0xff) = (data >> 8 & 0xffffffffffull) | (V(hfi, DC_8051_EXT_DEV, 0) >> 8 & 0xff) << 40 |
				      V(hfi, DC_8051_EXT_DEV, 0) >> 16 << 48;
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
		change_state(hfi, data & 0xff, data >> 8);
		return 0;
	case SEND_IDLE:
		if (dc_is_up(hfi))
			hfi->host.idle(hfi->host.context, data);
		return 0;
	case READ_IDLE:
		return hfi->idle;
	case WRITE_LCB:
		write_lcb(hfi, data);
		return 0;
	case READ_LCB:
		return V(hfi, DC_LCB, lcb) & 0xffffffffffffull;
	default:	/* who may access LCB: nothing comes of it */
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
		if (!(V(hfi, DC_8051_ERR_FLG, 0) & 1))
			V(hfi, DC_8051_SET_BY_8051, 0) = 0;	/* a command clears a message that was seen */
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

WRITE(reset_8051)
{
	bool was = V(hfi, DC_8051_RST, 0) & IN_RESET;

	write_stored(hfi, reg, index, value);
	if (value & IN_RESET) {
		V(hfi, DC_8051_CUR_STATE, 0) = OFFLINE;
		set_logical(hfi, DOWN);
		change_state(hfi, OFFLINE, 0);
	} else if (was) {
		V(hfi, DC_8051_CUR_STATE, 0) |= FIRMWARE_READY;
		hfi->fields[MISC_STATUS] = VERSION_MAJOR << 24 | VERSION_MINOR << 16;
	}
}

void hfi_set_neighbour(struct hfi *hfi, u64 now, const struct hfi_end *end)
{
	bool trains;

	hfi->now = now;
	hfi->neighbour = end ? *end : (struct hfi_end){ 0 };
	trains = neighbour_trains(hfi);
	if (physical(hfi) == POLLING)
		train_later(hfi);
	else if (dc_is_up(hfi) ? hfi->neighbour.state != CONFIGURED && hfi->neighbour.state != LINKUP :
		 physical(hfi) >= VERIFY_CAP && physical(hfi) <= CONFIGURED && !trains)
		lose(hfi);
	else if (both_ready(hfi))
		link_up(hfi);
}

void hfi_idle(struct hfi *hfi, u64 now, u64 message)
{
	hfi->now = now;
	if (!dc_is_up(hfi))
		return;
	hfi->idle = message & 0xffffffffffffull;
	tell_host(hfi, SMA_MESSAGE);
}

void dc_run(struct hfi *hfi)
{
	if (hfi->train_at <= hfi->now)
		verify_cap(hfi);
}
