// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The cable: a SOCK_SEQPACKET socket of the process that is this kernel. At its other end is a fabric, or the virtual HFI of
 * another kernel: both ends speak alike. A datagram is a kind and three zeros, then a packet, the state of the link, or an error of the hardware.
 *
 * On virtual time (time-travel=ext) its interrupts are announced. What the socket has no room for waits here; that it has
 * room again is never announced: it is tried again soon. A socket holds few datagrams (net.unix.max_dgram_qlen, 10), so a
 * tick of the kernel (10 ms) would be long.
 */
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <irq_kern.h>
#include <irq_user.h>
#include <os.h>

#include "machine.h"

#define PACKET_16B	0x10
#define PACKET_9B	0x11
#define LINK		0x25	/* struct link */
#define IDLE		0x26	/* a message of the 8051, 8 bytes */
#define ERROR		0x27	/* struct error: the hardware finds errors of itself */
#define WAITING_MAX	8192	/* datagrams; of more, packets are lost */
#define AT_ONCE		64
#define AGAIN_NS	50000

/* All numbers are big-endian. */
struct link {
	u8 kind, zeros[3];
	__be64 guid;
	u8 port, type, state, reason;
	__be32 phy, fabric, width, device, lni;
} __packed;

struct idle {
	u8 kind, zeros[3];
	__be64 message;
} __packed;

struct error {
	u8 kind, zeros[3];
	u8 block, more_zeros[3];
	__be64 bits;
} __packed;

struct waiting {
	struct list_head list;
	u32 len;
	u8 datagram[];
};

static bool has_left(int fd, const u8 *datagram, u32 len)
{
	int tries = 2, ret;

	do {
		ret = os_write_file(fd, datagram, len);
	} while (ret == -EINTR && --tries);
	return ret != -EAGAIN && ret != -EINTR && ret != -ENOBUFS && ret != -ENOMEM;
}

static bool leave(struct wire *wire, const u8 *datagram, u32 len)
{
	struct waiting *later;

	if (wire->fd < 0 || (list_empty(&wire->waiting) && has_left(wire->fd, datagram, len)))
		return true;
	later = wire->count < WAITING_MAX ? kmalloc(sizeof(*later) + len, GFP_ATOMIC) : NULL;
	if (!later)
		return false;
	later->len = len;
	memcpy(later->datagram, datagram, len);
	list_add_tail(&later->list, &wire->waiting);
	if (!wire->count++)
		hrtimer_start(&wire->again, AGAIN_NS, HRTIMER_MODE_REL);
	return true;
}

static enum hrtimer_restart try_again(struct hrtimer *timer)
{
	struct machine *machine = container_of(timer, struct machine, wire.again);
	struct wire *wire = &machine->wire;
	struct waiting *first;
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	while ((first = list_first_entry_or_null(&wire->waiting, struct waiting, list)) &&
	       has_left(wire->fd, first->datagram, first->len)) {
		list_del(&first->list);
		kfree(first);
		wire->count--;
	}
	if (first)
		hrtimer_forward_now(timer, AGAIN_NS);
	spin_unlock_irqrestore(&machine->lock, flags);
	return first ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

bool wire_send(struct machine *machine, const u8 *packet, u32 len, bool bypass)
{
	static u8 out[WIRE_MAX];	/* there is one processor, and interrupts are off */
	u32 all = HEAD_LEN + len + (bypass ? 0 : ICRC_LEN);

	if (all > sizeof(out))
		return false;
	memset(out, 0, all);
	out[0] = bypass ? PACKET_16B : PACKET_9B;
	memcpy(out + HEAD_LEN, packet, len);
	return leave(&machine->wire, out, all);
}

void wire_tell_link(struct machine *machine, struct hfi_end end)
{
	struct link link = {
		.kind = LINK,
		.guid = cpu_to_be64(end.guid),
		.port = end.port,
		.type = end.type,
		.state = end.state,
		.reason = end.reason,
		.phy = cpu_to_be32(end.phy),
		.fabric = cpu_to_be32(end.fabric),
		.width = cpu_to_be32(end.width),
		.device = cpu_to_be32(end.device),
		.lni = cpu_to_be32(end.lni),
	};

	leave(&machine->wire, (const u8 *)&link, sizeof(link));
}

void wire_tell_idle(struct machine *machine, u64 message)
{
	struct idle idle = { .kind = IDLE, .message = cpu_to_be64(message) };

	leave(&machine->wire, (const u8 *)&idle, sizeof(idle));
}

static void take_link(struct machine *machine, const struct link *link)
{
	struct hfi_end end = {
		.guid = be64_to_cpu(link->guid),
		.port = link->port,
		.type = link->type,
		.state = link->state,
		.reason = link->reason,
		.phy = be32_to_cpu(link->phy),
		.fabric = be32_to_cpu(link->fabric),
		.width = be32_to_cpu(link->width),
		.device = be32_to_cpu(link->device),
		.lni = be32_to_cpu(link->lni),
	};

	machine_neighbour(machine, &end);
}

/* Return whether a packet has to wait. */
static bool receive(struct machine *machine, const u8 *datagram, u32 len)
{
	u8 kind = datagram[0];

	if (kind == LINK && len == sizeof(struct link))
		take_link(machine, (const struct link *)datagram);
	else if (kind == IDLE && len == sizeof(struct idle))
		machine_idle(machine, be64_to_cpu(((const struct idle *)datagram)->message));
	else if (kind == ERROR && len == sizeof(struct error))
		machine_fail(machine, ((const struct error *)datagram)->block, be64_to_cpu(((const struct error *)datagram)->bits));
	else if ((kind == PACKET_16B || kind == PACKET_9B) && len > HEAD_LEN)
		return machine_receive(machine, datagram + HEAD_LEN, len - HEAD_LEN, kind == PACKET_16B) == HFI_FULL;
	return false;
}

static void take(struct tasklet_struct *tasklet)
{
	struct machine *machine = container_of(tasklet, struct machine, wire.arrivals);
	struct wire *wire = &machine->wire;
	int left = AT_ONCE, len = 0;

	while (left-- && (len = wire->kept ? wire->kept : os_read_file(wire->fd, wire->in, sizeof(wire->in))) > 0) {
		wire->kept = receive(machine, wire->in, len) ? len : 0;
		if (wire->kept) {
			hrtimer_start(&wire->room, AGAIN_NS, HRTIMER_MODE_REL);
			return;
		}
	}
	if (!len)
		machine_neighbour(machine, NULL);	/* the other end is gone */
	else if (len > 0 || len == -EINTR)
		tasklet_schedule(tasklet);
}

static enum hrtimer_restart look_for_room(struct hrtimer *timer)
{
	tasklet_schedule(&container_of(timer, struct machine, wire.room)->wire.arrivals);
	return HRTIMER_NORESTART;
}

static irqreturn_t has_come(int irq, void *id)
{
	struct machine *machine = id;

	tasklet_schedule(&machine->wire.arrivals);
	return IRQ_HANDLED;
}

static void announced(int irq, int number, void *id, struct time_travel_event *event)
{
	time_travel_add_irq_event(event);
}

int wire_open(struct machine *machine, int fd)
{
	struct wire *wire = &machine->wire;
	int ret;

	wire->fd = fd;
	INIT_LIST_HEAD(&wire->waiting);
	hrtimer_init(&wire->again, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	wire->again.function = try_again;
	hrtimer_init(&wire->room, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	wire->room.function = look_for_room;
	tasklet_setup(&wire->arrivals, take);
	if (fd < 0)
		return 0;
	ret = um_request_irq_tt(UM_IRQ_ALLOC, fd, IRQ_READ, has_come, 0, "opa_virtual_hfi", machine, announced);
	tasklet_schedule(&wire->arrivals);	/* what came before tells no more */
	return ret < 0 ? ret : 0;
}
