// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * An RDMA device with one Omni-Path port on a simulated fabric, in hfi1's place: ib_core gets queue pairs 0 and 1 from
 * it, opa_vnic the netdevs of its VNICs.
 *
 * Its wire is an Ethernet device. Each frame of ethertype 0x88b5 holds, behind the Ethernet header, a kind (1 byte),
 * a zero, the length of what follows (2 bytes, big-endian) and that: a 16B packet whose ICRC is left to the other end,
 * the state of the port (struct wire_state), capability mask 3 of the port (4 bytes, big-endian), or a netdev: its
 * interface index and the id of its virtual switch (4 bytes each, big-endian).
 *
 * Netdevs stop while the wire takes no more, so that frames wait in the queues of the stack.
 *
 * Source of the rules for packets, P_Keys and counters: what hfi1's vnic_main.c and mad.c do where a user can see it.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/workqueue.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>
#include <rdma/opa_port_info.h>
#include <rdma/opa_smi.h>
#include <rdma/opa_vnic.h>

#define WIRE_ETHERTYPE	0x88b5
#define WIRE_HEAD	4	/* kind, 0, length */
#define LRH_LEN		16
#define FM_LEN		8
#define L4_FM		0x08
#define PKEYS		16
#define PKEY_LIMITED	0x7fff
#define PKEY_FULL	0xffff
#define VESWS		256	/* hfi1 looks at the low 8 bits of the id */
#define STOP_AT		256	/* frames that the wire has not taken: netdevs stop, and wake at half of that */
#define RECEIVE_MAX	1024	/* frames that a netdev has not taken in yet, as with hfi1 */

enum wire_kind { WIRE_PACKET = 0x10, WIRE_STATE = 0x20, WIRE_HELLO = 0x21, WIRE_CAPS = 0x22, WIRE_VNIC = 0x23 };

static char *wire = "vec0";
module_param(wire, charp, 0444);
MODULE_PARM_DESC(wire, "Ethernet device that leads to the fabric");
static ulong lost_mads;
module_param(lost_mads, ulong, 0444);
MODULE_PARM_DESC(lost_mads, "MADs that found no room in a queue pair");

struct wire_state {
	__be32 lid;
	__be32 sm_lid;
	__be64 guid;
	u8 state;		/* enum ib_port_state */
	u8 lmc;
	u8 sm_sl;
	u8 pkey_count;
	__be16 pkeys[PKEYS];
	u8 sl_to_sc[32];
	u8 sc_to_sl[32];
} __packed;

struct hfi_cq {
	struct ib_cq base;
	spinlock_t lock;	/* what follows */
	u32 size, head, tail;
	bool armed;
	struct ib_wc *done;
};

struct hfi_room {
	struct ib_cqe *cqe;
	void *at;
	u32 size;
};

struct hfi_qp {
	struct ib_qp base;
	spinlock_t lock;	/* what follows */
	u32 size, head, tail;
	enum ib_qp_state state;
	struct hfi_room *rooms;
};

struct hfi_ah {
	struct ib_ah base;
	struct rdma_ah_attr attr;
};

struct hfi_pd {
	struct ib_pd base;
};

struct hfi {
	struct ib_device base;
	struct platform_device *parent;
	struct net_device *wire;
	struct packet_type tap;
	spinlock_t lock;	/* state, caps; MADs are posted with interrupts off */
	struct wire_state state;
	u32 caps;
	spinlock_t vesw_lock;	/* changes of vnics */
	struct vnic __rcu *vnics[VESWS];
	atomic_t in_flight;	/* frames that the wire has not taken */
	wait_queue_head_t drained;
	struct hfi_qp *qps[2];
	struct sk_buff_head leaving;
	struct work_struct leave;
};

struct vnic {
	struct hfi *hfi;
	struct net_device *netdev;
	struct mutex lock;	/* up, vesw */
	bool up;
	u16 vesw;
	struct napi_struct napi;
	struct sk_buff_head received;
	struct opa_vnic_stats stats;
};

static struct hfi *only;

#define TO(type, member) container_of(member, struct type, base)

/* --- the wire ---------------------------------------------------------------------------------------------------- */

static void wake_vnics(struct hfi *hfi)
{
	struct vnic *vnic;
	int i;

	rcu_read_lock();
	for (i = 0; i < VESWS; i++) {
		vnic = rcu_dereference(hfi->vnics[i]);
		if (vnic)
			netif_tx_wake_all_queues(vnic->netdev);
	}
	rcu_read_unlock();
}

static void frame_left(struct sk_buff *skb)
{
	int left = atomic_dec_return(&only->in_flight);

	if (left == STOP_AT / 2)
		wake_vnics(only);
	if (!left)
		wake_up(&only->drained);
}

static struct sk_buff *wire_frame(struct hfi *hfi, enum wire_kind kind, u32 len, u8 **body)
{
	u32 room = LL_RESERVED_SPACE(hfi->wire);
	struct sk_buff *skb = alloc_skb(room + ETH_HLEN + WIRE_HEAD + len, GFP_ATOMIC);
	struct ethhdr *eth;
	u8 *head;

	if (!skb)
		return NULL;
	skb_reserve(skb, room);
	skb_reset_mac_header(skb);
	eth = skb_put(skb, ETH_HLEN);
	eth_broadcast_addr(eth->h_dest);
	ether_addr_copy(eth->h_source, hfi->wire->dev_addr);
	eth->h_proto = htons(WIRE_ETHERTYPE);
	skb_set_network_header(skb, ETH_HLEN);
	head = skb_put(skb, WIRE_HEAD);
	head[0] = kind;
	head[1] = 0;
	head[2] = len >> 8;
	head[3] = len;
	*body = skb_put_zero(skb, len);
	skb->dev = hfi->wire;
	skb->protocol = htons(WIRE_ETHERTYPE);
	skb->destructor = frame_left;
	atomic_inc(&hfi->in_flight);
	return skb;
}

static void leave_work(struct work_struct *work)
{
	struct hfi *hfi = container_of(work, struct hfi, leave);
	struct sk_buff *skb;

	while ((skb = skb_dequeue(&hfi->leaving)))
		dev_queue_xmit(skb);
}

static void leave_later(struct hfi *hfi, struct sk_buff *skb)
{
	skb_queue_tail(&hfi->leaving, skb);
	schedule_work(&hfi->leave);
}

static void tell_caps(struct hfi *hfi, enum wire_kind kind)
{
	struct sk_buff *skb;
	u8 *body;

	skb = wire_frame(hfi, kind, 4, &body);
	if (!skb)
		return;
	*(__be32 *)body = cpu_to_be32(hfi->caps);
	leave_later(hfi, skb);
}

/* Tell on which virtual switch a netdev is now. */
static void tell_vnic(struct vnic *vnic)
{
	struct sk_buff *skb;
	u8 *body;

	skb = wire_frame(vnic->hfi, WIRE_VNIC, 8, &body);
	if (!skb)
		return;
	((__be32 *)body)[0] = cpu_to_be32(vnic->netdev->ifindex);
	((__be32 *)body)[1] = cpu_to_be32(vnic->vesw);
	leave_later(vnic->hfi, skb);
}

/* Return the length of a packet of `len` bytes with padding, ICRC and tail. */
static u32 padded(u32 len)
{
	return ALIGN(len + OPA_VNIC_ICRC_TAIL_LEN, 8);
}

/* --- completion queues ------------------------------------------------------------------------------------------- */

static int hfi_create_cq(struct ib_cq *base, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
	struct hfi_cq *cq = TO(hfi_cq, base);

	spin_lock_init(&cq->lock);
	cq->size = roundup_pow_of_two(attr->cqe + 1);
	cq->done = kvcalloc(cq->size, sizeof(*cq->done), GFP_KERNEL);
	base->cqe = cq->size - 1;
	return cq->done ? 0 : -ENOMEM;
}

static int hfi_destroy_cq(struct ib_cq *base, struct ib_udata *udata)
{
	kvfree(TO(hfi_cq, base)->done);
	return 0;
}

static void complete_on(struct ib_cq *base, const struct ib_wc *wc)
{
	struct hfi_cq *cq = TO(hfi_cq, base);
	unsigned long flags;
	bool call;

	spin_lock_irqsave(&cq->lock, flags);
	if (cq->head - cq->tail < cq->size)
		cq->done[cq->head++ & (cq->size - 1)] = *wc;
	else
		pr_warn_ratelimited("opa_sim_hfi: a completion queue is full\n");
	call = cq->armed;
	cq->armed = false;
	spin_unlock_irqrestore(&cq->lock, flags);
	if (call && base->comp_handler)
		base->comp_handler(base, base->cq_context);
}

static int hfi_poll_cq(struct ib_cq *base, int count, struct ib_wc *wc)
{
	struct hfi_cq *cq = TO(hfi_cq, base);
	unsigned long flags;
	int found = 0;

	spin_lock_irqsave(&cq->lock, flags);
	while (found < count && cq->tail != cq->head)
		wc[found++] = cq->done[cq->tail++ & (cq->size - 1)];
	spin_unlock_irqrestore(&cq->lock, flags);
	return found;
}

static int hfi_req_notify_cq(struct ib_cq *base, enum ib_cq_notify_flags how)
{
	struct hfi_cq *cq = TO(hfi_cq, base);
	unsigned long flags;
	int missed;

	spin_lock_irqsave(&cq->lock, flags);
	cq->armed = true;
	missed = (how & IB_CQ_REPORT_MISSED_EVENTS) && cq->head != cq->tail;
	spin_unlock_irqrestore(&cq->lock, flags);
	return missed;
}

/* --- queue pairs 0 and 1 ----------------------------------------------------------------------------------------- */

static int hfi_create_qp(struct ib_qp *base, struct ib_qp_init_attr *attr, struct ib_udata *udata)
{
	struct hfi_qp *qp = TO(hfi_qp, base);

	if (udata || (attr->qp_type != IB_QPT_SMI && attr->qp_type != IB_QPT_GSI))
		return -EOPNOTSUPP;
	spin_lock_init(&qp->lock);
	qp->size = roundup_pow_of_two(attr->cap.max_recv_wr + 1);
	qp->rooms = kvcalloc(qp->size, sizeof(*qp->rooms), GFP_KERNEL);
	if (!qp->rooms)
		return -ENOMEM;
	base->qp_num = attr->qp_type == IB_QPT_GSI;
	WRITE_ONCE(container_of(base->device, struct hfi, base)->qps[base->qp_num], qp);
	return 0;
}

static int hfi_destroy_qp(struct ib_qp *base, struct ib_udata *udata)
{
	struct hfi_qp *qp = TO(hfi_qp, base);

	WRITE_ONCE(container_of(base->device, struct hfi, base)->qps[base->qp_num], NULL);
	synchronize_net();	/* packets are received under RCU */
	kvfree(qp->rooms);
	return 0;
}

static bool take_room(struct hfi_qp *qp, u32 size, struct hfi_room *room)
{
	unsigned long flags;
	bool fits;

	spin_lock_irqsave(&qp->lock, flags);
	*room = qp->rooms[qp->tail & (qp->size - 1)];
	fits = qp->tail != qp->head && room->size >= size;
	qp->tail += fits;
	spin_unlock_irqrestore(&qp->lock, flags);
	return fits;
}

static int hfi_modify_qp(struct ib_qp *base, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct ib_wc wc = { .status = IB_WC_WR_FLUSH_ERR, .opcode = IB_WC_RECV, .qp = base };
	struct hfi_qp *qp = TO(hfi_qp, base);
	struct hfi_room room;

	if (!(mask & IB_QP_STATE))
		return 0;
	qp->state = attr->qp_state;
	while (qp->state == IB_QPS_ERR && take_room(qp, 0, &room)) {
		wc.wr_cqe = room.cqe;
		complete_on(base->recv_cq, &wc);
	}
	return 0;
}

static int hfi_query_qp(struct ib_qp *base, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = TO(hfi_qp, base)->state;
	return 0;
}

static int hfi_post_recv(struct ib_qp *base, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct hfi_qp *qp = TO(hfi_qp, base);
	unsigned long flags;

	spin_lock_irqsave(&qp->lock, flags);
	for (; wr && wr->num_sge == 1 && qp->head - qp->tail < qp->size; wr = wr->next)
		qp->rooms[qp->head++ & (qp->size - 1)] = (struct hfi_room){
			wr->wr_cqe, (void *)(uintptr_t)wr->sg_list[0].addr, wr->sg_list[0].length
		};
	spin_unlock_irqrestore(&qp->lock, flags);
	*bad = wr;
	return wr ? -ENOMEM : 0;
}

static int post_mad(struct hfi *hfi, struct ib_qp *base, const struct ib_send_wr *wr)
{
	struct ib_wc wc = { .wr_cqe = wr->wr_cqe, .status = IB_WC_SUCCESS, .opcode = IB_WC_SEND, .qp = base };
	struct rdma_ah_attr *to = &TO(hfi_ah, ud_wr(wr)->ah)->attr;
	u32 len = LRH_LEN + FM_LEN, slid, dlid = rdma_ah_get_dlid(to);
	u16 index = ud_wr(wr)->pkey_index, pkey = 0;
	struct sk_buff *skb;
	unsigned long flags;
	u8 *packet, *at, sc;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	skb = wire_frame(hfi, WIRE_PACKET, padded(len), &packet);
	if (!skb)
		return -ENOMEM;
	spin_lock_irqsave(&hfi->lock, flags);
	if (index < hfi->state.pkey_count)
		pkey = be16_to_cpu(hfi->state.pkeys[index]);
	sc = base->qp_num ? hfi->state.sl_to_sc[rdma_ah_get_sl(to) & 31] & 31 : 15;
	slid = be32_to_cpu(hfi->state.lid) | rdma_ah_get_path_bits(to);
	spin_unlock_irqrestore(&hfi->lock, flags);
	((__le32 *)packet)[0] = cpu_to_le32((slid & 0xfffff) | (padded(len) / 8) << 20);
	((__le32 *)packet)[1] = cpu_to_le32(0xc0000000 | (dlid & 0xfffff) | (u32)sc << 20);
	((__le32 *)packet)[2] = cpu_to_le32(L4_FM | (slid >> 20 & 0xf) << 8 | (dlid >> 20 & 0xf) << 12 | (u32)pkey << 16);
	((__be32 *)packet)[4] = cpu_to_be32(ud_wr(wr)->remote_qpn & 0xffffff);
	((__be32 *)packet)[5] = cpu_to_be32(base->qp_num);
	at = packet + LRH_LEN + FM_LEN;
	for (i = 0; i < wr->num_sge; at += wr->sg_list[i++].length)
		memcpy(at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	packet[padded(len) - 1] = padded(len) - len - OPA_VNIC_ICRC_TAIL_LEN;
	leave_later(hfi, skb);
	complete_on(base->send_cq, &wc);
	return 0;
}

static int hfi_post_send(struct ib_qp *base, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	int ret = 0;

	for (; wr && !ret; wr = wr->next)
		ret = post_mad(container_of(base->device, struct hfi, base), base, *bad = wr);
	return ret;
}

/* Where a P_Key stands in the port's table, as hfi1_lookup_pkey_idx() finds it. */
static int pkey_index(struct hfi *hfi, u16 pkey)
{
	bool management = (pkey | 0x8000) == PKEY_FULL;
	int i, limited = -1;

	for (i = 0; i < hfi->state.pkey_count; i++) {
		u16 entry = be16_to_cpu(hfi->state.pkeys[i]);

		if (entry == pkey || (!management && (entry & 0x7fff) == (pkey & 0x7fff)))
			return i;
		if (entry == PKEY_LIMITED)
			limited = i;
	}
	return pkey == PKEY_FULL ? limited : -1;
}

static void receive_mad(struct hfi *hfi, const u8 *packet, u32 len)
{
	u32 h0 = le32_to_cpu(((const __le32 *)packet)[0]), h1 = le32_to_cpu(((const __le32 *)packet)[1]);
	u32 h2 = le32_to_cpu(((const __le32 *)packet)[2]), to = be32_to_cpu(((const __be32 *)packet)[4]) & 0xffffff;
	u32 rest = LRH_LEN + FM_LEN + (packet[len - 1] & 7) + OPA_VNIC_ICRC_TAIL_LEN;
	struct ib_wc wc = { .status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .port_num = 1 };
	struct hfi_room room;
	struct hfi_qp *qp;
	unsigned long flags;
	int index;

	qp = to > 1 ? NULL : READ_ONCE(hfi->qps[to]);
	if (!qp || len < rest + sizeof(struct ib_mad_hdr))
		return;
	spin_lock_irqsave(&hfi->lock, flags);
	index = pkey_index(hfi, h2 >> 16);
	wc.sl = hfi->state.sc_to_sl[h1 >> 20 & 31];
	wc.dlid_path_bits = h1 & ((1 << hfi->state.lmc) - 1);
	spin_unlock_irqrestore(&hfi->lock, flags);
	wc.byte_len = len - rest + sizeof(struct ib_grh);
	if (index < 0 || !take_room(qp, wc.byte_len, &room)) {
		lost_mads++;
		return;
	}
	memcpy(room.at + sizeof(struct ib_grh), packet + LRH_LEN + FM_LEN, len - rest);
	wc.wr_cqe = room.cqe;
	wc.qp = &qp->base;
	wc.src_qp = be32_to_cpu(((const __be32 *)packet)[5]) & 0xffffff;
	wc.slid = (h0 & 0xfffff) | (h2 >> 8 & 0xf) << 20;
	wc.pkey_index = index;
	complete_on(qp->base.recv_cq, &wc);
}

/* Agents of the port's hardware answer at the other end of the wire. What ib_core answers itself bears the limited
 * P_Key, as with hfi1.
 */
static int hfi_process_mad(struct ib_device *base, int flags, u32 port, const struct ib_wc *wc, const struct ib_grh *grh,
			   const struct ib_mad *in, struct ib_mad *out, size_t *size, u16 *index)
{
	int limited = pkey_index(container_of(base, struct hfi, base), PKEY_LIMITED);

	if (!wc)
		return IB_MAD_RESULT_FAILURE;	/* sysfs asks for counters */
	*index = limited < 0 ? 1 : limited;
	*size = wc->byte_len - sizeof(*grh);
	return IB_MAD_RESULT_SUCCESS;
}

/* --- netdevs of VNICs -------------------------------------------------------------------------------------------- */

static void count(struct opa_vnic_grp_stats *group, struct sk_buff *skb, const u8 *dest, bool whole)
{
	static const u16 ends[] = { 61, 124, 252, 508, 1020, 1515 };	/* without FCS */
	u64 *bins[] = { &group->s_64, &group->s_65_127, &group->s_128_255, &group->s_256_511, &group->s_512_1023,
			&group->s_1024_1518, &group->s_1519_max };
	int bin = 0;
	u16 tci;

	while (bin < ARRAY_SIZE(ends) && skb->len >= ends[bin])
		bin++;
	++*bins[bin];
	if (!whole)
		return;
	if (is_multicast_ether_addr(dest))
		group->mcastbcast++;
	else
		group->unicast++;
	if (__vlan_get_tag(skb, &tci))
		group->untagged++;
	else
		group->vlan++;
}

static netdev_tx_t vnic_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);
	struct opa_vnic_stats *stats = &vnic->stats;
	struct opa_vnic_skb_mdata *mdata = (struct opa_vnic_skb_mdata *)skb->data;
	struct sk_buff *frame = NULL;
	u8 *packet;
	u32 len;
	bool sent = false;

	if (!netif_oper_up(netdev)) {
		stats->tx_drop_state++;
		goto counted;
	}
	skb_pull(skb, sizeof(*mdata));
	if (mdata->flags & OPA_VNIC_SKB_MDATA_ENCAP_ERR) {
		stats->tx_dlid_zero++;
		goto counted;
	}
	len = padded(skb->len);
	frame = wire_frame(vnic->hfi, WIRE_PACKET, len, &packet);
	if (frame) {
		skb_copy_bits(skb, 0, packet, skb->len);
		packet[len - 1] = len - skb->len - OPA_VNIC_ICRC_TAIL_LEN;
		sent = dev_queue_xmit(frame) == NET_XMIT_SUCCESS;
	}
	stats->netstats.tx_fifo_errors += !sent;
	if (atomic_read(&vnic->hfi->in_flight) >= STOP_AT) {
		netif_tx_stop_all_queues(netdev);
		smp_mb();	/* see what has left meanwhile: nothing else would wake the queue */
		if (atomic_read(&vnic->hfi->in_flight) <= STOP_AT / 2)
			netif_tx_wake_all_queues(netdev);
	}
	skb_pull(skb, OPA_VNIC_HDR_LEN);
counted:
	stats->netstats.tx_packets++;
	stats->netstats.tx_bytes += skb->len + ETH_FCS_LEN;
	count(&stats->tx_grp, skb, eth_hdr(skb)->h_dest, sent);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

/* Give the stack what has come for a VNIC. Segments are not merged: that let some be overtaken, for no more speed. */
static int vnic_poll(struct napi_struct *napi, int budget)
{
	struct vnic *vnic = container_of(napi, struct vnic, napi);
	struct net_device *netdev = vnic->netdev;
	struct opa_vnic_stats *stats = &vnic->stats;
	struct sk_buff *skb;
	int done = 0;
	bool whole;

	while (done < budget && (skb = skb_dequeue(&vnic->received))) {
		done++;
		whole = false;
		if (skb->len > netdev->mtu + VLAN_ETH_HLEN)
			stats->rx_oversize++;
		else if (skb->len < ETH_ZLEN)
			stats->rx_runt++;
		else
			whole = true;
		stats->netstats.rx_packets++;
		stats->netstats.rx_bytes += skb->len + ETH_FCS_LEN;
		skb_reset_mac_header(skb);
		count(&stats->rx_grp, skb, eth_hdr(skb)->h_dest, whole);
		if (!whole) {
			kfree_skb(skb);
			continue;
		}
		skb->protocol = eth_type_trans(skb, netdev);
		netif_receive_skb(skb);
	}
	if (done < budget)
		napi_complete_done(napi, done);
	return done;
}

static void deliver(struct vnic *vnic, const u8 *ether, u32 len)
{
	struct net_device *netdev = vnic->netdev;
	struct opa_vnic_stats *stats = &vnic->stats;
	struct sk_buff *skb = NULL;

	if (!netif_oper_up(netdev)) {
		stats->rx_drop_state++;
		return;
	}
	if (skb_queue_len(&vnic->received) < RECEIVE_MAX)
		skb = netdev_alloc_skb_ip_align(netdev, len);
	if (!skb) {
		stats->netstats.rx_fifo_errors++;
		return;
	}
	skb_put_data(skb, ether, len);
	skb_queue_tail(&vnic->received, skb);
	napi_schedule(&vnic->napi);
}

/* The caller reads under RCU, as all that receive frames do. */
static void receive_vnic(struct hfi *hfi, const u8 *packet, u32 len)
{
	u32 rest = OPA_VNIC_HDR_LEN + (packet[len - 1] & 7) + OPA_VNIC_ICRC_TAIL_LEN;
	struct vnic *vnic, *first = NULL;
	int i;

	if (len < rest + ETH_HLEN)
		return;
	vnic = rcu_dereference(hfi->vnics[packet[18]]);
	if (vnic) {
		deliver(vnic, packet + OPA_VNIC_HDR_LEN, len - rest);
		return;
	}
	for (i = 0; !first && i < VESWS; i++)	/* none of that id: the first one counts it */
		first = rcu_dereference(hfi->vnics[i]);
	if (first)
		first->stats.netstats.rx_nohandler++;
}

static void vnic_stats(struct net_device *netdev, struct rtnl_link_stats64 *into)
{
	struct opa_vnic_stats *stats = (struct opa_vnic_stats *)into;
	struct rtnl_link_stats64 *sums = &stats->netstats;

	*stats = ((struct vnic *)opa_vnic_dev_priv(netdev))->stats;
	sums->tx_errors = sums->tx_fifo_errors + sums->tx_carrier_errors + stats->tx_drop_state + stats->tx_dlid_zero;
	sums->tx_dropped = sums->tx_errors;
	sums->rx_errors = sums->rx_fifo_errors + sums->rx_nohandler + stats->rx_drop_state + stats->rx_oversize +
			  stats->rx_runt;
	sums->rx_dropped = sums->rx_errors;
}

static int vnic_enter(struct vnic *vnic)
{
	struct vnic __rcu **place = &vnic->hfi->vnics[vnic->vesw % VESWS];
	bool taken;

	if (!vnic->vesw)
		return -EINVAL;
	spin_lock_bh(&vnic->hfi->vesw_lock);
	taken = rcu_access_pointer(*place);
	if (!taken)
		rcu_assign_pointer(*place, vnic);
	spin_unlock_bh(&vnic->hfi->vesw_lock);
	if (taken)
		return -EBUSY;
	vnic->up = true;
	napi_enable(&vnic->napi);
	netif_carrier_on(vnic->netdev);
	netif_tx_start_all_queues(vnic->netdev);
	return 0;
}

static void vnic_leave(struct vnic *vnic)
{
	vnic->up = false;
	netif_carrier_off(vnic->netdev);
	netif_tx_disable(vnic->netdev);
	spin_lock_bh(&vnic->hfi->vesw_lock);
	RCU_INIT_POINTER(vnic->hfi->vnics[vnic->vesw % VESWS], NULL);
	spin_unlock_bh(&vnic->hfi->vesw_lock);
	synchronize_net();
	napi_disable(&vnic->napi);
	vnic->stats.rx_drop_state += skb_queue_len(&vnic->received);
	skb_queue_purge(&vnic->received);
}

static int vnic_open(struct net_device *netdev)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);
	int ret;

	mutex_lock(&vnic->lock);
	ret = vnic_enter(vnic);
	mutex_unlock(&vnic->lock);
	return ret;
}

static int vnic_stop(struct net_device *netdev)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);

	mutex_lock(&vnic->lock);
	if (vnic->up)
		vnic_leave(vnic);
	mutex_unlock(&vnic->lock);
	return 0;
}

static void vnic_set_vesw(struct net_device *netdev, int id)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);
	bool was_up;

	mutex_lock(&vnic->lock);
	was_up = vnic->up && id != vnic->vesw;
	if (was_up)
		vnic_leave(vnic);
	vnic->vesw = id;
	if (was_up)
		vnic_enter(vnic);
	mutex_unlock(&vnic->lock);
	tell_vnic(vnic);
}

static void vnic_free(struct net_device *netdev)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);

	netif_napi_del(&vnic->napi);
	free_netdev(netdev);
}

static u16 vnic_select_queue(struct net_device *netdev, struct sk_buff *skb, struct net_device *above)
{
	return 0;
}

static const struct net_device_ops vnic_ops = {
	.ndo_open = vnic_open,
	.ndo_stop = vnic_stop,
	.ndo_start_xmit = vnic_xmit,
	.ndo_select_queue = vnic_select_queue,
	.ndo_get_stats64 = vnic_stats,
};

static struct net_device *hfi_alloc_rdma_netdev(struct ib_device *base, u32 port, enum rdma_netdev_t type,
						const char *name, unsigned char assign,
						void (*setup)(struct net_device *))
{
	struct opa_vnic_rdma_netdev *rdma;
	struct net_device *netdev;
	struct vnic *vnic;

	if (type != RDMA_NETDEV_OPA_VNIC)
		return ERR_PTR(-EOPNOTSUPP);
	netdev = alloc_netdev_mqs(sizeof(*rdma) + sizeof(*vnic), name, assign, setup, 1, 1);
	if (!netdev)
		return ERR_PTR(-ENOMEM);
	rdma = netdev_priv(netdev);
	rdma->rn.set_id = vnic_set_vesw;
	rdma->rn.free_rdma_netdev = vnic_free;
	vnic = opa_vnic_dev_priv(netdev);
	vnic->hfi = container_of(base, struct hfi, base);
	vnic->netdev = netdev;
	mutex_init(&vnic->lock);
	skb_queue_head_init(&vnic->received);
	netif_napi_add(netdev, &vnic->napi, vnic_poll);
	netdev->features = netdev->hw_features = netdev->vlan_features = NETIF_F_HIGHDMA | NETIF_F_SG;
	netdev->netdev_ops = &vnic_ops;
	return netdev;
}

/* --- the port ---------------------------------------------------------------------------------------------------- */

static void tell(struct hfi *hfi, bool is_so, enum ib_event_type type)
{
	struct ib_event event = { .device = &hfi->base, .element.port_num = 1, .event = type };

	if (is_so)
		ib_dispatch_event(&event);
}

static void receive_state(struct hfi *hfi, const u8 *body, u32 len)
{
	struct wire_state was, now;
	unsigned long flags;

	if (len < sizeof(now))
		return;
	memcpy(&now, body, sizeof(now));
	now.pkey_count = min_t(u8, now.pkey_count, PKEYS);
	spin_lock_irqsave(&hfi->lock, flags);
	was = hfi->state;
	hfi->state = now;
	spin_unlock_irqrestore(&hfi->lock, flags);
	tell(hfi, was.lid != now.lid, IB_EVENT_LID_CHANGE);
	tell(hfi, was.sm_lid != now.sm_lid, IB_EVENT_SM_CHANGE);
	tell(hfi, memcmp(was.pkeys, now.pkeys, sizeof(was.pkeys)), IB_EVENT_PKEY_CHANGE);
	tell(hfi, was.state != IB_PORT_ACTIVE && now.state == IB_PORT_ACTIVE, IB_EVENT_PORT_ACTIVE);
	tell(hfi, was.state == IB_PORT_ACTIVE && now.state != IB_PORT_ACTIVE, IB_EVENT_PORT_ERR);
}

static int wire_receive(struct sk_buff *skb, struct net_device *from, struct packet_type *tap, struct net_device *orig)
{
	struct hfi *hfi = container_of(tap, struct hfi, tap);
	const u8 *body;
	u32 len;

	if (skb->pkt_type == PACKET_OUTGOING || skb->pkt_type == PACKET_LOOPBACK || skb_linearize(skb))
		goto out;
	if (skb->len < WIRE_HEAD)
		goto out;
	len = skb->data[2] << 8 | skb->data[3];
	body = skb->data + WIRE_HEAD;
	if (skb->len < WIRE_HEAD + len)
		goto out;
	if (skb->data[0] == WIRE_STATE)
		receive_state(hfi, body, len);
	else if (skb->data[0] == WIRE_HELLO)
		tell_caps(hfi, WIRE_HELLO);
	else if (skb->data[0] == WIRE_PACKET && len >= 2 * LRH_LEN && body[8] == OPA_VNIC_L4_ETHR)
		receive_vnic(hfi, body, len);
	else if (skb->data[0] == WIRE_PACKET && len >= 2 * LRH_LEN && body[8] == L4_FM)
		receive_mad(hfi, body, len);
out:
	kfree_skb(skb);
	return 0;
}

static int hfi_query_device(struct ib_device *base, struct ib_device_attr *attr, struct ib_udata *udata)
{
	memset(attr, 0, sizeof(*attr));
	attr->sys_image_guid = base->node_guid;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY | IBK_RDMA_NETDEV_OPA;
	attr->page_size_cap = PAGE_SIZE;
	attr->vendor_id = 0x1175;
	attr->vendor_part_id = 0x24f0;
	attr->hw_ver = 0x10;
	attr->max_qp = 2;
	attr->max_qp_wr = 4096;
	attr->max_send_sge = attr->max_recv_sge = 4;
	attr->max_cq = attr->max_pd = 16;
	attr->max_cqe = attr->max_ah = 65536;
	attr->max_pkeys = PKEYS;
	return 0;
}

static int hfi_query_port(struct ib_device *base, u32 port, struct ib_port_attr *attr)
{
	struct hfi *hfi = container_of(base, struct hfi, base);
	unsigned long flags;

	spin_lock_irqsave(&hfi->lock, flags);
	attr->state = hfi->state.state;
	attr->lid = be32_to_cpu(hfi->state.lid);
	attr->lmc = hfi->state.lmc;
	attr->sm_lid = be32_to_cpu(hfi->state.sm_lid);
	attr->sm_sl = hfi->state.sm_sl;
	spin_unlock_irqrestore(&hfi->lock, flags);
	attr->phys_state = attr->state >= IB_PORT_INIT ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_POLLING;
	attr->max_mtu = attr->active_mtu = IB_MTU_4096;
	attr->phys_mtu = 10240;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = PKEYS;
	attr->max_msg_sz = OPA_MGMT_MAD_SIZE;
	attr->max_vl_num = 8;
	attr->active_width = IB_WIDTH_4X;
	attr->active_speed = IB_SPEED_EDR;
	return 0;
}

static int hfi_modify_port(struct ib_device *base, u32 port, int mask, struct ib_port_modify *change)
{
	struct hfi *hfi = container_of(base, struct hfi, base);

	if (!(mask & IB_PORT_OPA_MASK_CHG))
		return 0;
	hfi->caps = (hfi->caps | change->set_port_cap_mask) & ~change->clr_port_cap_mask;
	tell_caps(hfi, WIRE_CAPS);
	return 0;
}

static int hfi_query_gid(struct ib_device *base, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ull);
	gid->global.interface_id = container_of(base, struct hfi, base)->state.guid;
	return 0;
}

static int hfi_query_pkey(struct ib_device *base, u32 port, u16 index, u16 *pkey)
{
	if (index >= PKEYS)
		return -EINVAL;
	*pkey = be16_to_cpu(container_of(base, struct hfi, base)->state.pkeys[index]);
	return 0;
}

static int hfi_get_port_immutable(struct ib_device *base, u32 port, struct ib_port_immutable *immutable)
{
	immutable->pkey_tbl_len = PKEYS;
	immutable->gid_tbl_len = 1;
	immutable->core_cap_flags = RDMA_CORE_PORT_INTEL_OPA | RDMA_CORE_CAP_OPA_AH;
	immutable->max_mad_size = OPA_MGMT_MAD_SIZE;
	return 0;
}

static int hfi_create_ah(struct ib_ah *base, struct rdma_ah_init_attr *init, struct ib_udata *udata)
{
	TO(hfi_ah, base)->attr = *init->ah_attr;
	return 0;
}

static int hfi_query_ah(struct ib_ah *base, struct rdma_ah_attr *attr)
{
	*attr = TO(hfi_ah, base)->attr;
	return 0;
}

/* ib_core asks for these before it gives a device to its clients; none of them is called for MADs and VNICs. */
static int hfi_alloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
static int hfi_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
static int hfi_destroy_ah(struct ib_ah *ah, u32 flags) { return 0; }
static int hfi_dereg_mr(struct ib_mr *mr, struct ib_udata *udata) { return -EOPNOTSUPP; }
static struct ib_mr *hfi_get_dma_mr(struct ib_pd *pd, int access) { return ERR_PTR(-EOPNOTSUPP); }

static struct ib_mr *hfi_reg_user_mr(struct ib_pd *pd, u64 start, u64 len, u64 virt, int access, struct ib_udata *udata)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static const struct ib_device_ops hfi_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_HFI1,
	.alloc_pd = hfi_alloc_pd,
	.alloc_rdma_netdev = hfi_alloc_rdma_netdev,
	.create_ah = hfi_create_ah,
	.create_cq = (void *)hfi_create_cq,	/* 6.11 has another type for its last argument, which is unused */
	.create_qp = hfi_create_qp,
	.dealloc_pd = hfi_dealloc_pd,
	.dereg_mr = hfi_dereg_mr,
	.destroy_ah = hfi_destroy_ah,
	.destroy_cq = hfi_destroy_cq,
	.destroy_qp = hfi_destroy_qp,
	.get_dma_mr = hfi_get_dma_mr,
	.get_port_immutable = hfi_get_port_immutable,
	.modify_port = hfi_modify_port,
	.modify_qp = hfi_modify_qp,
	.poll_cq = hfi_poll_cq,
	.post_recv = hfi_post_recv,
	.post_send = hfi_post_send,
	.process_mad = hfi_process_mad,
	.query_ah = hfi_query_ah,
	.query_device = hfi_query_device,
	.query_gid = hfi_query_gid,
	.query_pkey = hfi_query_pkey,
	.query_port = hfi_query_port,
	.query_qp = hfi_query_qp,
	.reg_user_mr = hfi_reg_user_mr,
	.req_notify_cq = hfi_req_notify_cq,
	INIT_RDMA_OBJ_SIZE(ib_ah, hfi_ah, base),
	INIT_RDMA_OBJ_SIZE(ib_cq, hfi_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_pd, hfi_pd, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, hfi_qp, base),
};

static int __init hfi_init(void)
{
	struct hfi *hfi = ib_alloc_device(hfi, base);
	int i, ret = -ENODEV;

	if (!hfi)
		return -ENOMEM;
	spin_lock_init(&hfi->lock);
	spin_lock_init(&hfi->vesw_lock);
	skb_queue_head_init(&hfi->leaving);
	INIT_WORK(&hfi->leave, leave_work);
	init_waitqueue_head(&hfi->drained);
	hfi->state.state = IB_PORT_DOWN;
	hfi->state.pkey_count = 2;	/* as with hfi1 before a subnet manager comes */
	hfi->state.pkeys[0] = cpu_to_be16(0x8001);
	hfi->state.pkeys[1] = cpu_to_be16(PKEY_LIMITED);
	for (i = 0; i < 32; i++)
		hfi->state.sl_to_sc[i] = hfi->state.sc_to_sl[i] = i;
	hfi->wire = dev_get_by_name(&init_net, wire);
	if (!hfi->wire) {
		pr_err("opa_sim_hfi: no network device %s\n", wire);
		goto free;
	}
	hfi->parent = platform_device_register_simple("opa_sim_hfi", PLATFORM_DEVID_NONE, NULL, 0);
	ret = PTR_ERR_OR_ZERO(hfi->parent);
	if (ret)
		goto put;
	only = hfi;
	hfi->base.dev.parent = &hfi->parent->dev;
	hfi->base.node_type = RDMA_NODE_IB_CA;
	hfi->base.node_guid = cpu_to_be64(0x0011750000000001ull);
	hfi->base.phys_port_cnt = 1;
	hfi->base.num_comp_vectors = 1;
	strscpy(hfi->base.node_desc, "opa_sim_hfi", sizeof(hfi->base.node_desc));
	ib_set_device_ops(&hfi->base, &hfi_ops);
	ret = ib_register_device(&hfi->base, "hfi1_%d", NULL);
	if (ret)
		goto unregister;
	hfi->tap.type = htons(WIRE_ETHERTYPE);
	hfi->tap.dev = hfi->wire;
	hfi->tap.func = wire_receive;
	dev_add_pack(&hfi->tap);
	tell_caps(hfi, WIRE_HELLO);
	return 0;

unregister:
	platform_device_unregister(hfi->parent);
put:
	dev_put(hfi->wire);
free:
	ib_dealloc_device(&hfi->base);
	return ret;
}

static void __exit hfi_exit(void)
{
	struct hfi *hfi = only;

	dev_remove_pack(&hfi->tap);
	ib_unregister_device(&hfi->base);
	flush_work(&hfi->leave);
	skb_queue_purge(&hfi->leaving);
	wait_event(hfi->drained, !atomic_read(&hfi->in_flight));
	platform_device_unregister(hfi->parent);
	dev_put(hfi->wire);
	ib_dealloc_device(&hfi->base);
}

module_init(hfi_init);
module_exit(hfi_exit);
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Omni-Path port of a simulated fabric");
