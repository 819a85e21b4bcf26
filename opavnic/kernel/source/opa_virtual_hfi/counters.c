// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* Counters of packets. Source: chip_registers.h ..._CNT, which are places in the counter arrays; chip.c dev_cntrs. */
#include "parts.h"

enum { DATA_PKT = 0, DWORD = 1, DROPPED = 5, DATA_VL0 = 3, DATA_PKT_VL0 = 12, BUF_OVFL = 10 };

/* Data is counted in flits of 8 bytes, and in words of 4. */
void count_sent(struct hfi *hfi, u32 len, u32 vl)
{
	u32 place = vl == 15 ? 8 : vl & 7, flits = (len + 4) / 8;	/* with the ICRC that is added */

	V(hfi, DCC_PRF_PORT_XMIT_PKTS_CNT, 0)++;
	V(hfi, DCC_PRF_PORT_XMIT_DATA_CNT, 0) += flits;
	V(hfi, SEND_COUNTER_ARRAY64, DATA_PKT)++;
	V(hfi, SEND_COUNTER_ARRAY64, DWORD) += len / 4;
	V(hfi, SEND_COUNTER_ARRAY64, DATA_VL0 + place) += flits;
	V(hfi, SEND_COUNTER_ARRAY64, DATA_PKT_VL0 + place)++;
}

void count_received(struct hfi *hfi, u32 len, u32 vl)
{
	u32 place = vl == 15 ? 8 : vl & 7;

	V(hfi, DCC_PRF_PORT_RCV_PKTS_CNT, 0)++;
	V(hfi, DCC_PRF_PORT_RCV_DATA_CNT, 0) += len / 8;
	V(hfi, DCC_PRF_PORT_VL_RCV_PKTS_CNT, place)++;
	V(hfi, DCC_PRF_PORT_VL_RCV_DATA_CNT, place) += len / 8;
	V(hfi, RCV_COUNTER_ARRAY64, DATA_PKT)++;
	V(hfi, RCV_COUNTER_ARRAY64, DWORD) += len / 4;
}

/* One that left while the link was down, or that the cable had no room for. */
void count_dropped(struct hfi *hfi)
{
	V(hfi, SEND_COUNTER_ARRAY32, DROPPED)++;
}

/* One that found no eager buffer. */
void count_overflow(struct hfi *hfi)
{
	V(hfi, RCV_COUNTER_ARRAY32, BUF_OVFL)++;
}
