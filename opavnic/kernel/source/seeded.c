// SPDX-License-Identifier: BSD-3-Clause
/*
 * getrandom() of a kernel on virtual time: the same bytes in each run with the same OPAVNIC_SEED. It is preloaded into
 * the process of user-mode Linux, whose only random numbers they are.
 *
 * The generator is SplitMix64 (Steele, Lea and Flood, 2014): fast, and no more than repeatable.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

static uint64_t next(void)
{
	static uint64_t state;
	static int begun;
	const char *seed = getenv("OPAVNIC_SEED");
	uint64_t mixed;

	if (!begun && seed)
		state = strtoull(seed, NULL, 0);
	begun = 1;
	mixed = state += 0x9e3779b97f4a7c15ull;
	mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
	mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
	return mixed ^ mixed >> 31;
}

ssize_t getrandom(void *into, size_t length, unsigned int flags)
{
	uint8_t *bytes = into;
	uint64_t word = 0;

	(void)flags;
	for (size_t i = 0; i < length; i++, word >>= 8) {
		if (i % 8 == 0)
			word = next();
		bytes[i] = word;
	}
	return length;
}
