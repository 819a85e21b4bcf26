/* SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause */
/*
 * An RDMA device with one Omni-Path port on a simulated fabric, in hfi1's place: ib_core gets queue pairs 0 and 1 from
 * it (mad.c), opa_vnic the netdevs of its VNICs (vnic.c). What it is stands in device.c; wire.c leads to the fabric.
 *
 * Source of the rules for packets, P_Keys and counters: what hfi1's vnic_main.c and mad.c do where a user can see it.
 */
#ifndef OPA_SIM_HFI_H
#define OPA_SIM_HFI_H

#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <rdma/ib_verbs.h>
#include <rdma/opa_vnic.h>

#define LRH_LEN		16
#define FM_LEN		8
#define L4_FM		0x08
#define PKEYS		16
#define PKEY_LIMITED	0x7fff
#define PKEY_FULL	0xffff
#define VESWS		256	/* hfi1 looks at the low 8 bits of the id */
#define PACKET_MAX	12272	/* bytes of the longest 16B packet, and more */

/* What a datagram of the wire holds behind its kind and three zeros. Numbers are big-endian. */
enum wire_kind {
	WIRE_PACKET = 0x10,	/* a 16B packet whose ICRC is left to the other end */
	WIRE_STATE = 0x20,	/* to the kernel: struct wire_state */
	WIRE_HELLO = 0x21,	/* the device has come: its capability mask 3 (4 bytes); to the kernel: say so */
	WIRE_CAPS = 0x22,	/* capability mask 3 is this now (4 bytes) */
	WIRE_VNIC = 0x23,	/* interface index of a netdev, id of its virtual switch (4 bytes each) */
	WIRE_DROPS = 0x24,	/* id of a virtual switch, enum drop (2 bytes each), frames and their bytes (4 each) */
};

/* Why frames end here: see opavnic/kernel/wire.py. */
enum drop {
	DROP_NO_VESW, DROP_RX_STATE, DROP_RX_RUNT, DROP_RX_OVERSIZE, DROP_RX_HOST,
	DROP_TX_STATE, DROP_TX_DLID, DROP_TX_LONG, DROP_MAD,
	DROPS,
};

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

struct hfi_qp;
struct vnic;

struct hfi {
	struct ib_device base;
	spinlock_t lock;	/* state, caps; MADs are posted with interrupts off */
	struct wire_state state;
	u32 caps;
	struct hfi_qp *qps[2];
	spinlock_t vesw_lock;	/* changes of vnics */
	struct vnic __rcu *vnics[VESWS];
};

#define TO_HFI(device)	container_of(device, struct hfi, base)

/* wire.c: one wire, of the only HFI */

/* Send to a socket of the process. */
void wire_open(struct hfi *hfi, int fd);
/* Begin to receive, too. Return 0 or an error. */
int wire_receive(void);
/* Send what a frame holds, in the order of calls. While the socket has no room, frames wait, and the queues of netdevs
 * that have sent are stopped. A packet has no padding yet. May be called anywhere.
 */
void wire_send(struct sk_buff *skb, enum wire_kind kind, struct net_device *from);
/* The same for a packet of a queue pair, whose work it completes. */
void wire_send_mad(struct sk_buff *skb, struct ib_qp *qp, struct ib_cqe *cqe);
/* Tell of a number, or of two where the kind has two. */
void wire_tell(enum wire_kind kind, u32 first, u32 second);
/* Count a frame that ends here, where the fabric counts it too. */
void wire_drop(u16 vesw, enum drop why, u32 len);

/* Return the length of a packet of `len` bytes with padding, ICRC and tail. */
static inline u32 padded(u32 len)
{
	return ALIGN(len + OPA_VNIC_ICRC_TAIL_LEN, 8);
}

/* Return how much of a packet is padding, ICRC and tail. */
static inline u32 trailer(const u8 *packet, u32 len)
{
	return (packet[len - 1] & 7) + OPA_VNIC_ICRC_TAIL_LEN;
}

/* Called under RCU, in a softirq, with whole packets of at least 32 bytes. */
void receive_mad(struct hfi *hfi, const u8 *packet, u32 len);
void receive_vnic(struct hfi *hfi, const u8 *packet, u32 len);
void receive_state(struct hfi *hfi, const u8 *body, u32 len);

/* mad.c */
extern const struct ib_device_ops mad_ops;
void complete_send(struct ib_qp *base, struct ib_cqe *cqe);

/* vnic.c */
struct net_device *hfi_alloc_rdma_netdev(struct ib_device *base, u32 port, enum rdma_netdev_t type, const char *name,
					 unsigned char assign, void (*setup)(struct net_device *));
/* Let the queues of all netdevs go on. */
void wake_vnics(struct hfi *hfi);

#endif
