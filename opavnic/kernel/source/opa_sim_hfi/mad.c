// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Queue pairs 0 and 1 of the port, with their completion queues: MADs between ib_core and the wire.
 */
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_mad.h>

#include "opa_sim_hfi.h"

#define TO(type, member) container_of(member, struct type, base)

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

void complete_send(struct ib_qp *base, struct ib_cqe *cqe)
{
	struct ib_wc wc = { .wr_cqe = cqe, .status = IB_WC_SUCCESS, .opcode = IB_WC_SEND, .qp = base };

	complete_on(base->send_cq, &wc);
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
	WRITE_ONCE(TO_HFI(base->device)->qps[base->qp_num], qp);
	return 0;
}

static int hfi_destroy_qp(struct ib_qp *base, struct ib_udata *udata)
{
	struct hfi_qp *qp = TO(hfi_qp, base);

	WRITE_ONCE(TO_HFI(base->device)->qps[base->qp_num], NULL);
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
	struct rdma_ah_attr *to = &TO(hfi_ah, ud_wr(wr)->ah)->attr;
	u32 len = LRH_LEN + FM_LEN, slid, dlid = rdma_ah_get_dlid(to);
	u16 index = ud_wr(wr)->pkey_index, pkey = 0;
	struct sk_buff *skb;
	unsigned long flags;
	__le32 *lrh;
	__be32 *fm;
	u8 sc;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	skb = len > OPA_MGMT_MAD_SIZE + LRH_LEN + FM_LEN ? NULL : alloc_skb(len, GFP_ATOMIC);
	if (!skb)
		return -ENOMEM;
	spin_lock_irqsave(&hfi->lock, flags);
	if (index < hfi->state.pkey_count)
		pkey = be16_to_cpu(hfi->state.pkeys[index]);
	sc = base->qp_num ? hfi->state.sl_to_sc[rdma_ah_get_sl(to) & 31] & 31 : 15;
	slid = be32_to_cpu(hfi->state.lid) | rdma_ah_get_path_bits(to);
	spin_unlock_irqrestore(&hfi->lock, flags);
	lrh = skb_put_zero(skb, LRH_LEN);
	lrh[0] = cpu_to_le32((slid & 0xfffff) | (padded(len) / 8) << 20);
	lrh[1] = cpu_to_le32(0xc0000000 | (dlid & 0xfffff) | (u32)sc << 20);
	lrh[2] = cpu_to_le32(L4_FM | (slid >> 20 & 0xf) << 8 | (dlid >> 20 & 0xf) << 12 | (u32)pkey << 16);
	fm = skb_put(skb, FM_LEN);
	fm[0] = cpu_to_be32(ud_wr(wr)->remote_qpn & 0xffffff);
	fm[1] = cpu_to_be32(base->qp_num);
	for (i = 0; i < wr->num_sge; i++)
		skb_put_data(skb, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
	wire_send_mad(skb, base, wr->wr_cqe);
	return 0;
}

static int hfi_post_send(struct ib_qp *base, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	int ret = 0;

	for (; wr && !ret; wr = wr->next)
		ret = post_mad(TO_HFI(base->device), base, *bad = wr);
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

void receive_mad(struct hfi *hfi, const u8 *packet, u32 len)
{
	u32 h0 = le32_to_cpu(((const __le32 *)packet)[0]), h1 = le32_to_cpu(((const __le32 *)packet)[1]);
	u32 h2 = le32_to_cpu(((const __le32 *)packet)[2]), to = be32_to_cpu(((const __be32 *)packet)[4]) & 0xffffff;
	u32 rest = LRH_LEN + FM_LEN + trailer(packet, len);
	struct ib_wc wc = { .status = IB_WC_SUCCESS, .opcode = IB_WC_RECV, .port_num = 1 };
	struct hfi_room room;
	struct hfi_qp *qp;
	unsigned long flags;
	int index;

	qp = to > 1 ? NULL : READ_ONCE(hfi->qps[to]);
	if (!qp || len < rest + sizeof(struct ib_mad_hdr)) {
		wire_drop(0, DROP_MAD, len);
		return;
	}
	spin_lock_irqsave(&hfi->lock, flags);
	index = pkey_index(hfi, h2 >> 16);
	wc.sl = hfi->state.sc_to_sl[h1 >> 20 & 31];
	wc.dlid_path_bits = h1 & ((1 << hfi->state.lmc) - 1);
	spin_unlock_irqrestore(&hfi->lock, flags);
	wc.byte_len = len - rest + sizeof(struct ib_grh);
	if (index < 0 || !take_room(qp, wc.byte_len, &room)) {
		wire_drop(0, DROP_MAD, len);
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
	int limited = pkey_index(TO_HFI(base), PKEY_LIMITED);

	if (!wc)
		return IB_MAD_RESULT_FAILURE;	/* sysfs asks for counters */
	*index = limited < 0 ? 1 : limited;
	*size = wc->byte_len - sizeof(*grh);
	return IB_MAD_RESULT_SUCCESS;
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

static int hfi_destroy_ah(struct ib_ah *ah, u32 flags)
{
	return 0;
}

const struct ib_device_ops mad_ops = {
	.create_ah = hfi_create_ah,
	.create_cq = (void *)hfi_create_cq,	/* 6.11 has another type for its last argument, which is unused */
	.create_qp = hfi_create_qp,
	.destroy_ah = hfi_destroy_ah,
	.destroy_cq = hfi_destroy_cq,
	.destroy_qp = hfi_destroy_qp,
	.modify_qp = hfi_modify_qp,
	.poll_cq = hfi_poll_cq,
	.post_recv = hfi_post_recv,
	.post_send = hfi_post_send,
	.process_mad = hfi_process_mad,
	.query_ah = hfi_query_ah,
	.query_qp = hfi_query_qp,
	.req_notify_cq = hfi_req_notify_cq,
	INIT_RDMA_OBJ_SIZE(ib_ah, hfi_ah, base),
	INIT_RDMA_OBJ_SIZE(ib_cq, hfi_cq, base),
	INIT_RDMA_OBJ_SIZE(ib_qp, hfi_qp, base),
};
