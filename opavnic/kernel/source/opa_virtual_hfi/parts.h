/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* What the parts of the model know of each other. */
#ifndef OPA_VIRTUAL_HFI_PARTS_H
#define OPA_VIRTUAL_HFI_PARTS_H

#include "model.h"

enum reg {
#define R(name, offset, times, stride, values, reset, write, what) REG_##name,
#include "registers.def"
#undef R
	REGISTERS,
};

/* Values of all registers. */
enum {
#define R(name, offset, times, stride, values, reset, write, what) VALUES_##name, VALUES_LAST_##name = VALUES_##name + (times) * (values) - 1,
#include "registers.def"
#undef R
	VALUES,
};

struct reg_row {
	const char *name;
	u32 offset, times, stride, values;
	u64 reset;
	void (*write)(struct hfi *hfi, enum reg reg, u32 index, u64 value);
	u32 first;	/* its place among the values */
};

extern const struct reg_row hfi_registers[REGISTERS];

#define CONTEXTS	160
#define ENGINES		16
#define VECTORS		256
#define SOURCES		768
#define PIO_MEMORY	(1u << 20)
#define BLOCK		64u	/* bytes of a credit */
#define NAMED		4096	/* registers without a row that are remembered as named */

/* Interrupt sources. Source: chip.h, IS_..._START. */
enum source {
	SOURCE_CCE_ERR = 0, SOURCE_EGRESS_ERR = 6, SOURCE_ENGINE_ERR = 16, SOURCE_CONTEXT_ERR = 32, SOURCE_SDMA = 192, SOURCE_SDMA_IDLE = 224,
	SOURCE_8051 = 250,
	SOURCE_RECEIVE = 256, SOURCE_CREDIT = 576,
};

struct send_context {
	u32 begin;	/* where in its blocks the packet begins, in bytes */
	u32 written;	/* bytes of it that are there; 0: none has begun */
	u32 wanted;	/* bytes of its blocks */
	u32 returned;	/* blocks that have been given back, modulo 2048 */
};

struct receive_context {
	u32 tail;	/* entry of the header queue that is written next */
	u32 sequence;	/* 0..12, of that entry */
	u32 eager;	/* buffer that is written next */
	u32 offset;	/* where in it, in bytes */
};

struct hfi {
	struct hfi_host host;
	u64 now;
	u64 guid;
	u64 values[VALUES];
	u8 config[256];
	u8 writable[256];
	u64 due[VECTORS / 64];		/* vectors to be sent by hfi_run */
	u64 train_at;			/* when polling becomes training; HFI_NEVER */
	bool taken;			/* the 8051 has begun the command that stands in its register */
	struct hfi_end neighbour;
	u8 reason;			/* why the driver took the link offline */
	u64 idle;			/* the last message of the neighbour */
	u32 fields[1024];		/* data memory of the 8051 */
	struct send_context send[CONTEXTS];
	struct receive_context receive[CONTEXTS];
	u32 named[NAMED];		/* offset + 1 of registers without a row, with bit 31 for writes */
	u8 pio[PIO_MEMORY];
	u8 packet[16384];		/* one that is put together */
};

/* Value of a register, where it is there several times: the index-th, of all its values in a row. */
#define V(hfi, name, index)	((hfi)->values[VALUES_##name + (index)])

/* model.c */
int hfi_dma(struct hfi *hfi, u64 address, void *data, u32 len, bool to_memory);
void hfi_note(struct hfi *hfi, enum hfi_note note, u64 first, u64 second);
void hfi_reset(struct hfi *hfi, bool dc);

/* pci.c */
void pci_power_on(struct hfi *hfi);
void pci_vector(struct hfi *hfi, u32 vector);
void pci_send_due(struct hfi *hfi);

/* cce.c */
void cce_raise(struct hfi *hfi, u32 source);
/* Return whether nothing leaves or arrives until the driver lets it. */
bool cce_is_frozen(const struct hfi *hfi);

/* dc.c */
void dc_power_on(struct hfi *hfi);
void dc_run(struct hfi *hfi);
bool dc_is_up(const struct hfi *hfi);

/* pio.c */
void pio_write(struct hfi *hfi, u32 offset, u32 size, u64 value);
void pio_reset(struct hfi *hfi, u32 context);
/* A packet with its PBC before it leaves, or is dropped where the link is down. */
void packet_leaves(struct hfi *hfi, const u8 *packet, u32 len, u64 pbc);

/* egress.c */
/* Return whether a packet may leave by a context or an engine that has these six registers of checks. */
bool egress_allows(struct hfi *hfi, const u64 *checks, const u8 *packet, u32 len, u64 pbc);
/* Tell the driver that an engine had one that may not. */
void egress_disallows(struct hfi *hfi, u32 engine);

/* sdma.c */
void sdma_freeze(struct hfi *hfi);

/* steer.c */
u32 vl_of(const u8 *packet, bool bypass);
int steer(const struct hfi *hfi, const u8 *packet, u32 len, bool bypass, bool *by_rule);

/* counters.c */
void count_sent(struct hfi *hfi, u32 len, u32 vl);
void count_received(struct hfi *hfi, u32 len, u32 vl);
void count_dropped(struct hfi *hfi);
void count_overflow(struct hfi *hfi);

#define WRITE(what)	void write_##what(struct hfi *hfi, enum reg reg, u32 index, u64 value)
WRITE(constant); WRITE(stored); WRITE(clear); WRITE(clears_itself); WRITE(sc2vlt);
WRITE(cce_ctrl); WRITE(dc_ctrl); WRITE(msix_table); WRITE(int_mask); WRITE(int_force);
WRITE(sbus_execute); WRITE(rsa_command);
WRITE(port_config); WRITE(ram_ctrl); WRITE(host_command); WRITE(reset_8051);
WRITE(rcv_ctxt_ctrl);
WRITE(send_ctrl); WRITE(pio_init); WRITE(credit_force); WRITE(dma_ctrl); WRITE(dma_tail);

#endif
