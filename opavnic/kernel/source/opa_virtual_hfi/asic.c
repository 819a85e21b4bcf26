// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the HFIs of a chip share. There is one HFI, no firmware and no module in the cage: nearly all is memory, and the
 * SBus, which leads to serdes, answers each read at once.
 */
#include "parts.h"

#define EXECUTE		1

WRITE(sbus_execute)
{
	write_stored(hfi, reg, index, value & ~(u64)EXECUTE);	/* done at once */
}
