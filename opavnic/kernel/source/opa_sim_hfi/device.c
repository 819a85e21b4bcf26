// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The device and its port, as ib_core sees them, and the module that makes them.
 */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>
#include <rdma/opa_port_info.h>
#include <rdma/opa_smi.h>

#include "opa_sim_hfi.h"

struct hfi_pd {
	struct ib_pd base;
};

static int wire = -1;
module_param(wire, int, 0444);
MODULE_PARM_DESC(wire, "number of the socket that leads to the fabric");

/* --- the port ---------------------------------------------------------------------------------------------------- */

static void tell(struct hfi *hfi, bool is_so, enum ib_event_type type)
{
	struct ib_event event = { .device = &hfi->base, .element.port_num = 1, .event = type };

	if (is_so)
		ib_dispatch_event(&event);
}

void receive_state(struct hfi *hfi, const u8 *body, u32 len)
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
	struct hfi *hfi = TO_HFI(base);
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
	struct hfi *hfi = TO_HFI(base);

	if (!(mask & IB_PORT_OPA_MASK_CHG))
		return 0;
	hfi->caps = (hfi->caps | change->set_port_cap_mask) & ~change->clr_port_cap_mask;
	wire_tell(WIRE_CAPS, hfi->caps, 0);
	return 0;
}

static int hfi_query_gid(struct ib_device *base, u32 port, int index, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80000000000000ull);
	gid->global.interface_id = TO_HFI(base)->state.guid;
	return 0;
}

static int hfi_query_pkey(struct ib_device *base, u32 port, u16 index, u16 *pkey)
{
	if (index >= PKEYS)
		return -EINVAL;
	*pkey = be16_to_cpu(TO_HFI(base)->state.pkeys[index]);
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

/* ib_core asks for these before it gives a device to its clients; none of them is called for MADs and VNICs. */
static int hfi_alloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
static int hfi_dealloc_pd(struct ib_pd *pd, struct ib_udata *udata) { return 0; }
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
	.dealloc_pd = hfi_dealloc_pd,
	.dereg_mr = hfi_dereg_mr,
	.get_dma_mr = hfi_get_dma_mr,
	.get_port_immutable = hfi_get_port_immutable,
	.modify_port = hfi_modify_port,
	.query_device = hfi_query_device,
	.query_gid = hfi_query_gid,
	.query_pkey = hfi_query_pkey,
	.query_port = hfi_query_port,
	.reg_user_mr = hfi_reg_user_mr,
	INIT_RDMA_OBJ_SIZE(ib_pd, hfi_pd, base),
};

/* --- the module -------------------------------------------------------------------------------------------------- */

static struct hfi *hfi_make(struct device *parent)
{
	struct hfi *hfi = ib_alloc_device(hfi, base);
	int i;

	if (!hfi)
		return NULL;
	spin_lock_init(&hfi->lock);
	spin_lock_init(&hfi->vesw_lock);
	hfi->state.state = IB_PORT_DOWN;
	hfi->state.pkey_count = 2;	/* as with hfi1 before a subnet manager comes */
	hfi->state.pkeys[0] = cpu_to_be16(0x8001);
	hfi->state.pkeys[1] = cpu_to_be16(PKEY_LIMITED);
	for (i = 0; i < 32; i++)
		hfi->state.sl_to_sc[i] = hfi->state.sc_to_sl[i] = i;
	hfi->base.dev.parent = parent;
	hfi->base.node_type = RDMA_NODE_IB_CA;
	hfi->base.node_guid = cpu_to_be64(0x0011750000000001ull);
	hfi->base.phys_port_cnt = 1;
	hfi->base.num_comp_vectors = 1;
	strscpy(hfi->base.node_desc, "opa_sim_hfi", sizeof(hfi->base.node_desc));
	ib_set_device_ops(&hfi->base, &hfi_ops);
	ib_set_device_ops(&hfi->base, &mad_ops);
	return hfi;
}

/* A kernel whose module does not come up ends: nothing is taken back. */
static int __init hfi_init(void)
{
	struct platform_device *parent = platform_device_register_simple("opa_sim_hfi", PLATFORM_DEVID_NONE, NULL, 0);
	struct hfi *hfi = IS_ERR(parent) ? NULL : hfi_make(&parent->dev);
	int ret;

	if (!hfi)
		return -ENOMEM;
	wire_open(hfi, wire);
	ret = ib_register_device(&hfi->base, "hfi1_%d", NULL);
	if (!ret)
		ret = wire_receive();
	if (!ret)
		wire_tell(WIRE_HELLO, hfi->caps, 0);
	return ret;
}

module_init(hfi_init);	/* it stays: nothing else leads out of the kernel */
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Omni-Path port of a simulated fabric");
