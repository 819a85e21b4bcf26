// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The wire of the HFI: a SOCK_SEQPACKET socket of the process that is this kernel. Nothing is lost on it: what the socket
 * has no room for waits here, and stops the netdevs it comes from; what is not read waits in the socket.
 *
 * On virtual time (time-travel=ext) its interrupts are announced, and happen when the other program says so. That a
 * socket has room again is never announced: it is tried again after a tick.
 */
#include <linux/interrupt.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/timer.h>
#include <irq_kern.h>
#include <irq_user.h>
#include <os.h>

#include "opa_sim_hfi.h"

#define HEAD_LEN	4	/* kind, three zeros */
#define AT_ONCE		64	/* datagrams that are taken before others have their turn */

struct drops {
	struct list_head list;
	u16 vesw;
	u32 frames[DROPS], bytes[DROPS];	/* that the other end has not been told of */
};

/* What skb->cb holds of a frame that waits. */
struct leaving {
	enum wire_kind kind;
	struct ib_qp *qp;	/* with cqe: the queue pair's work that this completes; NULL: none's */
	struct ib_cqe *cqe;
};

static struct hfi *hfi;
static int fd;
static DEFINE_SPINLOCK(lock);	/* what follows */
static struct sk_buff_head waiting;
static bool stopped;		/* netdevs wait */
static struct drops drops = { .list = LIST_HEAD_INIT(drops.list) };	/* the first, of no virtual switch */
static u8 out[HEAD_LEN + PACKET_MAX];

static void try_again(struct timer_list *timer);
static DEFINE_TIMER(again, try_again);
static void take(struct tasklet_struct *tasklet);
static DECLARE_TASKLET(arrivals, take);

static struct leaving *leaving(struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct leaving) > sizeof(skb->cb));
	return (struct leaving *)skb->cb;
}

/* --- out --------------------------------------------------------------------------------------------------------- */

static bool has_left(enum wire_kind kind, u32 len)
{
	int tries = 2, ret;

	out[0] = kind;
	do {	/* twice: only a socket that was tried and found full says when it has room */
		ret = os_write_file(fd, out, HEAD_LEN + len);
	} while ((ret == -EAGAIN || ret == -EINTR) && --tries);
	return ret != -EAGAIN && ret != -EINTR && ret != -ENOBUFS && ret != -ENOMEM;
}

static bool skb_has_left(struct sk_buff *skb)
{
	enum wire_kind kind = leaving(skb)->kind;
	u32 len = skb->len, all = kind == WIRE_PACKET ? padded(len) : len;

	skb_copy_bits(skb, 0, out + HEAD_LEN, len);
	memset(out + HEAD_LEN + len, 0, all - len);
	if (kind == WIRE_PACKET)
		out[HEAD_LEN + all - 1] = all - len - OPA_VNIC_ICRC_TAIL_LEN;
	return has_left(kind, all);
}

static bool drops_have_left(struct drops *of)
{
	__be16 *ids = (__be16 *)(out + HEAD_LEN);
	__be32 *counts = (__be32 *)(ids + 2);
	int why;

	for (why = 0; why < DROPS; why++) {
		if (!of->frames[why])
			continue;
		ids[0] = cpu_to_be16(of->vesw);
		ids[1] = cpu_to_be16(why);
		counts[0] = cpu_to_be32(of->frames[why]);
		counts[1] = cpu_to_be32(of->bytes[why]);
		if (!has_left(WIRE_DROPS, 12))
			return false;
		of->frames[why] = of->bytes[why] = 0;
	}
	return true;
}

/* Send what waits, while there is room. */
static bool go_on(void)
{
	struct sk_buff *skb;

	while ((skb = skb_peek(&waiting))) {
		if (!skb_has_left(skb))
			return false;
		__skb_unlink(skb, &waiting);
		if (leaving(skb)->qp)
			complete_send(leaving(skb)->qp, leaving(skb)->cqe);
		dev_consume_skb_any(skb);
	}
	if (stopped) {
		stopped = false;
		wake_vnics(hfi);
	}
	return true;
}

static void try_again(struct timer_list *timer)
{
	struct drops *of = &drops;
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&lock, flags);
	done = go_on() && drops_have_left(&drops);
	if (done)
		list_for_each_entry(of, &drops.list, list)
			if (!(done = drops_have_left(of)))
				break;
	if (!done)
		mod_timer(&again, jiffies + 1);
	spin_unlock_irqrestore(&lock, flags);
}

static irqreturn_t has_room(int irq, void *id)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	go_on();
	spin_unlock_irqrestore(&lock, flags);
	return IRQ_HANDLED;
}

static void send(struct sk_buff *skb, struct net_device *from)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	__skb_queue_tail(&waiting, skb);
	if (waiting.qlen == 1 && !go_on())
		mod_timer(&again, jiffies + 1);
	if (waiting.qlen && from) {
		netif_tx_stop_all_queues(from);
		stopped = true;
	}
	spin_unlock_irqrestore(&lock, flags);
}

void wire_send(struct sk_buff *skb, enum wire_kind kind, struct net_device *from)
{
	*leaving(skb) = (struct leaving){ .kind = kind };
	send(skb, from);
}

void wire_send_mad(struct sk_buff *skb, struct ib_qp *qp, struct ib_cqe *cqe)
{
	*leaving(skb) = (struct leaving){ .kind = WIRE_PACKET, .qp = qp, .cqe = cqe };
	send(skb, NULL);
}

void wire_tell(enum wire_kind kind, u32 first, u32 second)
{
	__be32 said[] = { cpu_to_be32(first), cpu_to_be32(second) };
	u32 len = kind == WIRE_VNIC ? 8 : 4;
	struct sk_buff *skb = alloc_skb(len, GFP_ATOMIC);

	if (!skb) {
		pr_err("opa_sim_hfi: no memory to tell %#x\n", kind);
		return;
	}
	skb_put_data(skb, said, len);
	wire_send(skb, kind, NULL);
}

static struct drops *drops_of(u16 vesw)
{
	struct drops *of;

	list_for_each_entry(of, &drops.list, list)
		if (of->vesw == vesw)
			return of;
	of = kzalloc(sizeof(*of), GFP_ATOMIC);
	if (!of)
		return &drops;
	of->vesw = vesw;
	list_add(&of->list, &drops.list);
	return of;
}

void wire_drop(u16 vesw, enum drop why, u32 len)
{
	struct drops *of;
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	of = drops_of(vesw);
	of->frames[why]++;
	of->bytes[why] += len;
	if (!timer_pending(&again))
		mod_timer(&again, jiffies + 1);
	spin_unlock_irqrestore(&lock, flags);
}

/* --- in ---------------------------------------------------------------------------------------------------------- */

static void receive(const u8 *datagram, u32 len)
{
	const u8 *body = datagram + HEAD_LEN;

	if (len < HEAD_LEN)
		return;
	len -= HEAD_LEN;
	if (datagram[0] == WIRE_STATE)
		receive_state(hfi, body, len);
	else if (datagram[0] == WIRE_HELLO)
		wire_tell(WIRE_HELLO, hfi->caps, 0);
	else if (datagram[0] == WIRE_PACKET && len >= 2 * LRH_LEN && body[8] == OPA_VNIC_L4_ETHR)
		receive_vnic(hfi, body, len);
	else if (datagram[0] == WIRE_PACKET && len >= 2 * LRH_LEN && body[8] == L4_FM)
		receive_mad(hfi, body, len);
}

static void take(struct tasklet_struct *tasklet)
{
	static u8 in[HEAD_LEN + PACKET_MAX];
	int count = 0, len = 0;

	rcu_read_lock();
	while (count++ < AT_ONCE && (len = os_read_file(fd, in, sizeof(in))) > 0)
		receive(in, len);
	rcu_read_unlock();
	if (len > 0 || len == -EINTR)
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

void wire_open(struct hfi *its, int number)
{
	hfi = its;
	fd = number;
	skb_queue_head_init(&waiting);
}

int wire_receive(void)
{
	int ret = um_request_irq_tt(UM_IRQ_ALLOC, fd, IRQ_READ, has_come, 0, "opa_sim_hfi", hfi, announced);

	if (ret >= 0 && time_travel_mode == TT_MODE_OFF)
		ret = um_request_irq(UM_IRQ_ALLOC, fd, IRQ_WRITE, has_room, 0, "opa_sim_hfi", hfi);
	tasklet_schedule(&arrivals);	/* what came before tells no more */
	return ret < 0 ? ret : 0;
}
