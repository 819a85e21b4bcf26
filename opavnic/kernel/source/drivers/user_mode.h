/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * What rdmavt takes for granted of x86, and user-mode Linux has not: a field of boot_cpu_data with the KiB of the largest
 * cache, and a copy that passes by the cache. rdmavt asks for either only when a module parameter, sge_copy_mode, says so.
 */
#define x86_cache_size cache_alignment
#define __copy_user_nocache(to, from, n, ...) memcpy(to, (const void __force *)(from), n)
#define copy_to_nontemporal(to, from, n) memcpy(to, from, n)	/* what later kernels call it */
