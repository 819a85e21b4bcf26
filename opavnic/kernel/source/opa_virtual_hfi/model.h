/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * A model of an HFI1: registers, memory of the host and packets in; values, interrupts and packets out. It calls nothing
 * of a kernel and of a C library but memcpy and memset, keeps no time, and has no memory but what it is given: so it is a
 * part of a kernel module (bridge.c), and a library for tests.
 *
 * Registers are rows (registers.def): a row names what a write does. What has no row reads as 0, keeps nothing, and is
 * named once (HFI_NOTE_READ, HFI_NOTE_WRITE).
 *
 * Source of offsets and behaviour: what drivers/infiniband/hw/hfi1 of Linux writes and waits for.
 */
#ifndef OPA_VIRTUAL_HFI_MODEL_H
#define OPA_VIRTUAL_HFI_MODEL_H

#ifdef __KERNEL__
#include <linux/string.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
#endif

#define HFI_BAR_SIZE	(64u << 20)
#define HFI_NEVER	(~0ull)
#define HFI_PACKET_MAX	(10240 + 256)	/* bytes of a packet, with headers */

/* What the model tells of, beside its work. Each with two numbers. */
enum hfi_note {
	HFI_NOTE_READ,		/* offset of a register that is not modelled: read for the first time */
	HFI_NOTE_WRITE,		/* offset of such a register, value: written for the first time */
	HFI_NOTE_DMA,		/* address, length: no memory is there */
	HFI_NOTE_PHYSICAL,	/* physical state of the link, of the driver's PLS_ */
	HFI_NOTE_LOGICAL,	/* logical state: 1 down, 2 INIT, 3 ARMED, 4 ACTIVE */
	HFI_NOTE_RESET,		/* function level reset */
	HFI_NOTE_FREEZE,	/* 1 frozen, 0 no more */
	HFI_NOTE_CONTEXT,	/* send context, its errors: it halts */
	HFI_NOTE_ENGINE,	/* SDMA engine, its errors: it halts */
	HFI_NOTE_ERROR,		/* interrupt source of a block, bits of its error status */
};

/* What the model asks of the machine that it is in. */
struct hfi_host {
	void *context;
	/* Copy from memory or to it; return 0, or -1 where there is none. */
	int (*dma)(void *context, u64 address, void *data, u32 len, bool to_memory);
	/* A message of MSI-X. Called by hfi_run alone. */
	void (*interrupt)(void *context, u64 address, u32 data);
	/* A packet without ICRC leaves; bypass: 16B, else 9B. Return whether there is room for it. */
	bool (*send)(void *context, const u8 *packet, u32 len, bool bypass);
	/* A message for the other end of the link, as the 8051 sends them: 40 bits above a type of 8. */
	void (*idle)(void *context, u64 message);
	void (*note)(void *context, enum hfi_note note, u64 first, u64 second);
};

struct hfi;

/* The memory that a model needs. */
size_t hfi_size(void);
/* Begin in that memory, powered on, without a cable. */
struct hfi *hfi_init(void *memory, const struct hfi_host *host, u64 guid);

/* Registers of BAR 0; size is 1, 2, 4 or 8, and offset a multiple of it. `now` is in ns, and never goes back. */
u64 hfi_read(struct hfi *hfi, u64 now, u32 offset, u32 size);
void hfi_write(struct hfi *hfi, u64 now, u32 offset, u32 size, u64 value);
/* Configuration space, of 4096 bytes. */
u32 hfi_config_read(struct hfi *hfi, u32 at, u32 size);
void hfi_config_write(struct hfi *hfi, u64 now, u32 at, u32 size, u32 value);

enum hfi_taken {
	HFI_DROPPED,
	HFI_TAKEN,
	HFI_FULL,	/* its context has no room and is not to drop: offer it again later, before others */
};

/* A packet with room for its ICRC at the end arrives. Return what a receive context has made of it. */
enum hfi_taken hfi_receive(struct hfi *hfi, u64 now, const u8 *packet, u32 len, bool bypass);
/* An end of a link, as the other end sees it. */
struct hfi_end {
	u64 guid;
	u8 port;
	u8 type;	/* 0 HFI, 1 switch */
	u8 state;	/* physical state; 0: there is no cable */
	u8 reason;	/* why it went offline, of OPA_LINKDOWN_REASON_; 0: not told */
	u32 phy, fabric, width, device, lni;	/* its frames of training: VERIFY_CAP_REMOTE_..., REMOTE_... of the driver */
};

/* The other end of the cable is another one, or in another state; NULL: the cable is pulled. */
void hfi_set_neighbour(struct hfi *hfi, u64 now, const struct hfi_end *end);
/* What the other end is to be told of this one; it changes with HFI_NOTE_PHYSICAL. */
struct hfi_end hfi_own_end(const struct hfi *hfi);
/* A message of the other end comes, as `idle` of struct hfi_host sends it. */
void hfi_idle(struct hfi *hfi, u64 now, u64 message);

/*
 * The hardware finds errors of itself: bits of the error status of a block, which has an interrupt source: 0 core, 1 receive,
 * 2 misc, 4 PIO, 5 SDMA, 6 egress, 7 send. With some of them it freezes, until the driver lets it go on.
 */
void hfi_fail(struct hfi *hfi, u64 now, u32 block, u64 bits);

/* When hfi_run is to be called next; HFI_NEVER: after no time alone. */
u64 hfi_deadline(const struct hfi *hfi);
/* Do what is due, and send interrupts. */
void hfi_run(struct hfi *hfi, u64 now);

#endif
