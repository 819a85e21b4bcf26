/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/* The machine around the model: what bridge.c and machine.c know of each other. */
#ifndef OPA_VIRTUAL_HFI_MACHINE_H
#define OPA_VIRTUAL_HFI_MACHINE_H

#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/pci.h>
#include <linux/spinlock.h>

#include "model.h"

#define MESSAGES	256	/* interrupts that wait to be delivered */
#define HFIS		2	/* in one kernel: user-mode Linux has 64 interrupts for messages, and an HFI takes 21 */

#define HEAD_LEN	4		/* of a datagram of the cable */
#define ICRC_LEN	4		/* of a 9B packet; room for it */
#define WIRE_MAX	(HEAD_LEN + HFI_PACKET_MAX + ICRC_LEN)

/* The cable of an HFI (wire.c), all with the lock of its machine. */
struct wire {
	int fd;				/* below 0: there is none */
	struct list_head waiting;	/* what the socket has no room for */
	u32 count;			/* of these */
	struct hrtimer again;
	struct tasklet_struct arrivals;
	struct hrtimer room;		/* looks whether there is room for the packet that is kept */
	u32 kept;			/* bytes of a packet in `in` that waits for room; 0: none. Those behind it stay in the socket */
	u8 in[WIRE_MAX];
};

/* An HFI. */
struct machine {
	struct hfi *hfi;
	spinlock_t lock;		/* the model */
	struct hrtimer timer;		/* calls hfi_run */
	u64 armed;			/* when; HFI_NEVER */
	u32 messages[MESSAGES];
	u32 waiting;
	struct wire wire;
};

/* Make the model. Return 0 or an error. */
int machine_start(struct machine *machine, u64 guid);
/* The BARs of some, as a region of IO memory: accesses are calls of their models. Return 0 or an error. */
int machine_add_region(struct machine *machines, u32 count, struct resource *region);
/* Configuration space. */
u32 machine_config_read(struct machine *machine, u32 at, u32 size);
void machine_config_write(struct machine *machine, u32 at, u32 size, u32 value);
/* The other end of the cable is in another state, or gone (NULL); a message or a packet comes from there. */
void machine_neighbour(struct machine *machine, const struct hfi_end *end);
void machine_idle(struct machine *machine, u64 message);
/* The hardware finds errors: hfi_fail. */
void machine_fail(struct machine *machine, u32 block, u64 bits);
enum hfi_taken machine_receive(struct machine *machine, const u8 *packet, u32 len, bool bypass);

/* wire.c: the cable, a socket of the process; below 0: there is none. Return 0 or an error. */
int wire_open(struct machine *machine, int fd);
/* All with the lock. Return whether there is room. */
bool wire_send(struct machine *machine, const u8 *packet, u32 len, bool bypass);
void wire_tell_link(struct machine *machine, struct hfi_end end);
void wire_tell_idle(struct machine *machine, u64 message);

#endif
