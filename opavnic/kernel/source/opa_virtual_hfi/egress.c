// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Checks of what leaves, which the driver sets for each send context and each SDMA engine: lanes, P_Key, SLID, opcode. A
 * packet that fails one is dropped, and said in registers that both share; a send context halts, an engine goes on.
 *
 * SLIDs are checked of 9B packets only, as the register has 16 bits; the permissive SLID, of SMPs on directed routes, passes.
 *
 * Source: hfi.h hfi1_pkt_default_send_ctxt_mask; pio.c sc_alloc, init_pervl_scs; chip.c set_lidlmc, handle_egress_err.
 */
#include "parts.h"

#define CHECKS		0x1ull
#define VL		0x2ull
#define PKEY		0x8ull
#define SLID		0x10ull
#define OPCODE		0x20ull
#define PERMISSIVE	0xffff
#define BTH_SIZE	12u
#define OF_ENGINE	16	/* in SEND_EGRESS_ERR_STATUS, the bit of engine 0 */

/* The registers of a context, or an engine. */
enum { ENABLE, LANES, JOB_KEY, PARTITION, SOURCE, OPERATION };

static u32 half(const u8 *at)
{
	return at[0] << 8 | at[1];
}

/* Return which checks a packet fails; `checks` are the six registers, `packet` begins with its LRH. */
static u64 failed(const u64 *checks, const u8 *packet, u32 len, u64 pbc)
{
	bool bypass = pbc >> 28 & 1;
	const u8 *bth = packet + (!bypass && len > 1 && (packet[1] & 3) == 3 ? 48 : 8);
	u64 wrong = 0;
	u32 slid;

	if (checks[LANES] >> (pbc >> 12 & 15) & 1)
		wrong |= VL;
	if (!bypass && (u32)(bth - packet) + BTH_SIZE <= len) {
		slid = half(packet + 6);
		if (slid != PERMISSIVE && (slid & checks[SOURCE] >> 16 & 0xffff) != (checks[SOURCE] & 0xffff))
			wrong |= SLID;
		if (half(bth + 2) != (checks[PARTITION] & 0xffff))
			wrong |= PKEY;
		if ((bth[0] & checks[OPERATION] >> 8 & 0xff) != (checks[OPERATION] & 0xff))
			wrong |= OPCODE;
	}
	return checks[ENABLE] & CHECKS ? wrong & checks[ENABLE] : 0;
}

bool egress_allows(struct hfi *hfi, const u64 *checks, const u8 *packet, u32 len, u64 pbc)
{
	u64 wrong = failed(checks, packet, len, pbc);

	V(hfi, SEND_EGRESS_ERR_INFO, 0) |= wrong;
	return !wrong;
}

void egress_disallows(struct hfi *hfi, u32 engine)
{
	V(hfi, SEND_EGRESS_ERR_STATUS, 0) |= 1ull << (OF_ENGINE + engine);
	if (V(hfi, SEND_EGRESS_ERR_MASK, 0) >> (OF_ENGINE + engine) & 1)
		cce_raise(hfi, SOURCE_EGRESS_ERR);
}
