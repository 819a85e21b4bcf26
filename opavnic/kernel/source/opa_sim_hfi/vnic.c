// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * Netdevs of VNICs: what hfi1 does beneath opa_vnic. Each has one queue.
 */
#include <linux/etherdevice.h>
#include <linux/if_vlan.h>

#include "opa_sim_hfi.h"

struct vnic {
	struct hfi *hfi;
	struct net_device *netdev;
	struct mutex lock;	/* up, vesw */
	bool up;
	u16 vesw;
	struct opa_vnic_stats stats;
};

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

static void count_sent(struct opa_vnic_stats *stats, struct sk_buff *skb, bool sent)
{
	stats->netstats.tx_packets++;
	stats->netstats.tx_bytes += skb->len + ETH_FCS_LEN;
	count(&stats->tx_grp, skb, eth_hdr(skb)->h_dest, sent);
}

static netdev_tx_t vnic_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	struct vnic *vnic = opa_vnic_dev_priv(netdev);
	struct opa_vnic_stats *stats = &vnic->stats;
	struct opa_vnic_skb_mdata *mdata = (struct opa_vnic_skb_mdata *)skb->data;
	u32 frame_len = skb->len - sizeof(*mdata) - OPA_VNIC_HDR_LEN;
	enum drop why;

	if (!netif_oper_up(netdev)) {
		stats->tx_drop_state++;
		why = DROP_TX_STATE;
		goto drop;
	}
	skb_pull(skb, sizeof(*mdata));
	if (mdata->flags & OPA_VNIC_SKB_MDATA_ENCAP_ERR) {
		stats->tx_dlid_zero++;
		why = DROP_TX_DLID;
		goto drop;
	}
	skb_pull(skb, OPA_VNIC_HDR_LEN);
	if (padded(OPA_VNIC_HDR_LEN + frame_len) > PACKET_MAX) {
		stats->netstats.tx_fifo_errors++;
		why = DROP_TX_LONG;
		goto drop;
	}
	count_sent(stats, skb, true);
	skb_push(skb, OPA_VNIC_HDR_LEN);
	wire_send(skb, WIRE_PACKET, netdev);
	return NETDEV_TX_OK;
drop:
	wire_drop(vnic->vesw, why, frame_len);
	count_sent(stats, skb, false);
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

void wake_vnics(struct hfi *hfi)
{
	struct vnic *vnic;
	int i;

	rcu_read_lock();
	for (i = 0; i < VESWS; i++) {
		vnic = rcu_dereference(hfi->vnics[i]);
		if (vnic && vnic->up)
			netif_tx_wake_all_queues(vnic->netdev);
	}
	rcu_read_unlock();
}

/* Give the stack what has come for a VNIC. Segments are not merged: that let some be overtaken, for no more speed. */
static void deliver(struct vnic *vnic, const u8 *ether, u32 len)
{
	struct net_device *netdev = vnic->netdev;
	struct opa_vnic_stats *stats = &vnic->stats;
	enum drop why = DROPS;
	struct sk_buff *skb;

	if (!netif_oper_up(netdev)) {
		stats->rx_drop_state++;
		wire_drop(vnic->vesw, DROP_RX_STATE, len);
		return;
	}
	skb = netdev_alloc_skb_ip_align(netdev, len);
	if (!skb) {
		stats->netstats.rx_fifo_errors++;
		wire_drop(vnic->vesw, DROP_RX_HOST, len);
		return;
	}
	skb_put_data(skb, ether, len);
	if (len > netdev->mtu + VLAN_ETH_HLEN) {
		stats->rx_oversize++;
		why = DROP_RX_OVERSIZE;
	} else if (len < ETH_ZLEN) {
		stats->rx_runt++;
		why = DROP_RX_RUNT;
	}
	stats->netstats.rx_packets++;
	stats->netstats.rx_bytes += len + ETH_FCS_LEN;
	skb_reset_mac_header(skb);
	count(&stats->rx_grp, skb, eth_hdr(skb)->h_dest, why == DROPS);
	if (why != DROPS) {
		wire_drop(vnic->vesw, why, len);
		kfree_skb(skb);
		return;
	}
	skb->protocol = eth_type_trans(skb, netdev);
	netif_receive_skb(skb);
}

void receive_vnic(struct hfi *hfi, const u8 *packet, u32 len)
{
	u32 head = OPA_VNIC_HDR_LEN, rest = head + trailer(packet, len);
	struct vnic *vnic, *first = NULL;
	int i;

	vnic = rcu_dereference(hfi->vnics[packet[18]]);
	if (vnic && len >= rest + ETH_HLEN) {
		deliver(vnic, packet + head, len - rest);
		return;
	}
	for (i = 0; !first && i < VESWS; i++)	/* none of that id: the first one counts it */
		first = rcu_dereference(hfi->vnics[i]);
	if (first && !vnic)
		first->stats.netstats.rx_nohandler++;
	wire_drop((packet[18] | packet[19] << 8) & 0xfff, vnic ? DROP_RX_RUNT : DROP_NO_VESW,
		  len > rest ? len - rest : 0);
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
	wire_tell(WIRE_VNIC, netdev->ifindex, vnic->vesw);
}

static void vnic_free(struct net_device *netdev)
{
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

struct net_device *hfi_alloc_rdma_netdev(struct ib_device *base, u32 port, enum rdma_netdev_t type, const char *name,
					 unsigned char assign, void (*setup)(struct net_device *))
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
	vnic->hfi = TO_HFI(base);
	vnic->netdev = netdev;
	mutex_init(&vnic->lock);
	netdev->features = netdev->hw_features = netdev->vlan_features = NETIF_F_HIGHDMA | NETIF_F_SG;
	netdev->netdev_ops = &vnic_ops;
	return netdev;
}

