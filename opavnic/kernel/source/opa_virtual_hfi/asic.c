// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the HFIs of a chip share. There is one HFI and no module in the cage: nearly all is memory, the SBus, which leads
 * to serdes, answers each read at once, and each signature of firmware holds.
 *
 * Source: firmware.c run_rsa.
 */
#include "parts.h"

#define EXECUTE		1

WRITE(sbus_execute)
{
	write_stored(hfi, reg, index, value & ~(u64)EXECUTE);	/* done at once */
}

#define RSA_START	2
#define RSA_STATUS	0xcull
#define RSA_DONE	0x8ull

WRITE(rsa_command)
{
	V(hfi, MISC_CFG_FW_CTRL, 0) = (V(hfi, MISC_CFG_FW_CTRL, 0) & ~RSA_STATUS) | (value & RSA_START ? RSA_DONE : 0);
}
