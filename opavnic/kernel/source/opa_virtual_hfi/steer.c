// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Which context receives a packet: VL15 has its own, 9B packets that of a map of QP numbers, 16B packets one of their own,
 * unless a rule of receive side mapping (RSM) matches: it makes a number of two fields, and a map has the context.
 *
 * Source: chip.c init_qos, init_qpmap_table, hfi1_init_vnic_rsm, add_rsm_rule.
 */
#include "parts.h"

#define RSM_ENABLE	0x20ull
#define RULES		4
#define TYPE_9B		2
#define TYPE_BYPASS	4

/* Return bits of a header: an offset counts quadwords above bit 6, and bits of them, the highest of each first in 9B. */
static u32 field(const u8 *packet, u32 len, bool bypass, u32 offset, u32 width)
{
	u32 at = offset >> 6 & 31, bit = offset & 63, i;
	u64 value = 0;

	if (8 * at + 8 > len)
		return 0;
	for (i = 0; i < 8; i++)
		value |= (u64)packet[8 * at + i] << 8 * (bypass ? i : 7 - i);
	return value >> bit & ((1u << width) - 1);
}

static int byte_of(u64 value, u32 which)
{
	return value >> 8 * (which % 8) & 0xff;
}

static int match_rule(const struct hfi *hfi, u32 rule, const u8 *packet, u32 len, bool bypass)
{
	u64 how = V(hfi, RCV_RSM_CFG, rule), select = V(hfi, RCV_RSM_SELECT, rule), match = V(hfi, RCV_RSM_MATCH, rule);
	u32 entry;

	if (!(how >> rule & 1) || (how >> 60 & 7) != (bypass ? TYPE_BYPASS : TYPE_9B))
		return -1;
	if ((field(packet, len, bypass, select & 0x1ff, 8) & match & 0xff) != (match >> 8 & 0xff) ||
	    (field(packet, len, bypass, select >> 16 & 0x1ff, 8) & match >> 16 & 0xff) != (match >> 24 & 0xff))
		return -1;
	entry = (how >> 32 & 0xff) + (field(packet, len, bypass, select >> 32 & 0x1ff, select >> 44 & 15) ^
				      field(packet, len, bypass, select >> 48 & 0x1ff, select >> 60 & 15));
	return byte_of(V(hfi, RCV_RSM_MAP_TABLE, (entry & 0xff) / 8), entry);
}

/* Return the virtual lane: by the service channel, which it has the number of. */
u32 vl_of(const u8 *packet, bool bypass)
{
	return bypass ? packet[6] >> 4 : packet[0] >> 4;
}

int steer(const struct hfi *hfi, const u8 *packet, u32 len, bool bypass, bool *by_rule)
{
	u32 bth, qpn;
	int context = -1, rule;

	*by_rule = false;
	if (len < 20)
		return -1;
	if (vl_of(packet, bypass) == 15) {
		context = V(hfi, RCV_VL15, 0) & 0xff;
		return context < CONTEXTS ? context : -1;
	}
	for (rule = 0; V(hfi, RCV_CTRL, 0) & RSM_ENABLE && context < 0 && rule < RULES; rule++)
		context = match_rule(hfi, rule, packet, len, bypass);
	*by_rule = context >= 0;
	if (context < 0 && bypass) {
		context = V(hfi, RCV_BYPASS, 0) & 0xff;
	} else if (context < 0) {
		bth = (packet[1] & 3) == 3 ? 48 : 8;
		if (len < bth + 12)
			return -1;
		qpn = packet[bth + 5] << 16 | packet[bth + 6] << 8 | packet[bth + 7];
		context = byte_of(V(hfi, RCV_QP_MAP_TABLE, (qpn >> 1 & 0xff) / 8), qpn >> 1);
	}
	return context < CONTEXTS ? context : -1;
}
