// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The cable: a SOCK_SEQPACKET socket of the process that is this kernel. At its other end is a fabric, or the virtual HFI of
 * another kernel: both ends speak alike. A datagram is a kind and three zeros, then a packet, or the state of the link.
 *
 * On virtual time (time-travel=ext) its interrupts are announced. What the socket has no room for waits here; that it has
 * room again is never announced: it is tried again after a tick.
 */
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/timer.h>
#include <irq_kern.h>
#include <irq_user.h>
#include <os.h>

#include "machine.h"

#define HEAD_LEN	4
#define PACKET_16B	0x10
#define PACKET_9B	0x11
#define LINK		0x25	/* GUID of the port (8 bytes), its number, type of its node, the physical state */
#define LINK_LEN	(HEAD_LEN + 11)
#define ICRC_LEN	4	/* of a 9B packet; room for it */
#define POLLING		0x20
#define LINKUP		0x50
#define WAITING_MAX	8192	/* datagrams; of more, packets are lost */
#define AT_ONCE		64

struct waiting {
	struct list_head list;
	u32 len;
	u8 datagram[];
};

static struct machine *machine;
static int fd = -1;
static LIST_HEAD(waiting);	/* with the lock of the machine */
static u32 count;
static u8 out[HEAD_LEN + HFI_PACKET_MAX + ICRC_LEN];

static void try_again(struct timer_list *timer);
static DEFINE_TIMER(again, try_again);
static void take(struct tasklet_struct *tasklet);
static DECLARE_TASKLET(arrivals, take);

static bool has_left(const u8 *datagram, u32 len)
{
	int tries = 2, ret;

	do {
		ret = os_write_file(fd, datagram, len);
	} while (ret == -EINTR && --tries);
	return ret != -EAGAIN && ret != -EINTR && ret != -ENOBUFS && ret != -ENOMEM;
}

static bool leave(const u8 *datagram, u32 len)
{
	struct waiting *later;

	if (fd < 0 || (list_empty(&waiting) && has_left(datagram, len)))
		return true;
	later = count < WAITING_MAX ? kmalloc(sizeof(*later) + len, GFP_ATOMIC) : NULL;
	if (!later)
		return false;
	later->len = len;
	memcpy(later->datagram, datagram, len);
	list_add_tail(&later->list, &waiting);
	count++;
	mod_timer(&again, jiffies + 1);
	return true;
}

static void try_again(struct timer_list *timer)
{
	struct waiting *first;
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	while ((first = list_first_entry_or_null(&waiting, struct waiting, list)) && has_left(first->datagram, first->len)) {
		list_del(&first->list);
		kfree(first);
		count--;
	}
	if (first)
		mod_timer(&again, jiffies + 1);
	spin_unlock_irqrestore(&machine->lock, flags);
}

bool wire_send(const u8 *packet, u32 len, bool bypass)
{
	u32 all = HEAD_LEN + len + (bypass ? 0 : ICRC_LEN);

	if (all > sizeof(out))
		return false;
	memset(out, 0, all);
	out[0] = bypass ? PACKET_16B : PACKET_9B;
	memcpy(out + HEAD_LEN, packet, len);
	return leave(out, all);
}

void wire_tell_link(u64 guid, u32 state)
{
	u8 datagram[LINK_LEN] = { LINK };
	__be64 be = cpu_to_be64(guid);

	memcpy(datagram + HEAD_LEN, &be, sizeof(be));
	datagram[HEAD_LEN + 8] = 1;
	datagram[HEAD_LEN + 10] = state;
	leave(datagram, sizeof(datagram));
}

static void receive(const u8 *datagram, u32 len)
{
	if (datagram[0] == LINK && len == LINK_LEN) {
		struct hfi_neighbour neighbour = {
			.port = datagram[HEAD_LEN + 8],
			.type = datagram[HEAD_LEN + 9],
		};
		u8 state = datagram[HEAD_LEN + 10];
		__be64 guid;

		memcpy(&guid, datagram + HEAD_LEN, sizeof(guid));
		neighbour.guid = be64_to_cpu(guid);
		machine_neighbour(machine, state == POLLING || state == LINKUP ? &neighbour : NULL);
	} else if ((datagram[0] == PACKET_16B || datagram[0] == PACKET_9B) && len > HEAD_LEN) {
		machine_receive(machine, datagram + HEAD_LEN, len - HEAD_LEN, datagram[0] == PACKET_16B);
	}
}

static void take(struct tasklet_struct *tasklet)
{
	static u8 in[sizeof(out)];
	int left = AT_ONCE, len = 0;

	while (left-- && (len = os_read_file(fd, in, sizeof(in))) > 0)
		receive(in, len);
	if (!len)
		machine_neighbour(machine, NULL);	/* the other end is gone */
	else if (len > 0 || len == -EINTR)
		tasklet_schedule(tasklet);
}

static irqreturn_t has_come(int irq, void *id)
{
	tasklet_schedule(&arrivals);
	return IRQ_HANDLED;
}

static void announced(int irq, int number, void *id, struct time_travel_event *event)
{
	time_travel_add_irq_event(event);
}

int wire_open(struct machine *its, int number)
{
	int ret;

	machine = its;
	if (number < 0)
		return 0;
	fd = number;
	ret = um_request_irq_tt(UM_IRQ_ALLOC, fd, IRQ_READ, has_come, 0, "opa_virtual_hfi", machine, announced);
	tasklet_schedule(&arrivals);	/* what came before tells no more */
	return ret < 0 ? ret : 0;
}
