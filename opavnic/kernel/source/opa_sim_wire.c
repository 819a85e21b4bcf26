// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The wire of a kernel whose time is that of another program (time-travel=ext): an Ethernet device on a socket of the
 * process that is this kernel, in vec0's place and by its name. One datagram is one frame. An interrupt of the socket
 * happens at the time that the program says, and not when the signal is there, as vec0's would.
 *
 * Frames of ethertype 0x88b6 are what the device file opa_sim_agent reads and writes, behind their Ethernet headers:
 * terminals of user-mode Linux are not announced so either, and lose what comes while the kernel waits for its turn.
 */
#include <linux/etherdevice.h>
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <irq_kern.h>
#include <os.h>

#define NAME		"vec0"
#define AGENT		"opa_sim_agent"
#define AGENT_ETHERTYPE	0x88b6
#define FRAME_MAX	12288
#define PIECE_MAX	8192

static int fd = -1;
module_param(fd, int, 0444);
MODULE_PARM_DESC(fd, "number of the socket");

static struct net_device *device;
static struct sk_buff_head for_agent;
static DECLARE_WAIT_QUEUE_HEAD(agent_waits);

/* --- the device -------------------------------------------------------------------------------------------------- */

static netdev_tx_t wire_xmit(struct sk_buff *skb, struct net_device *netdev)
{
	if (!skb_linearize(skb) && os_write_file(fd, skb->data, skb->len) == skb->len) {
		netdev->stats.tx_packets++;
		netdev->stats.tx_bytes += skb->len;
	} else {
		netdev->stats.tx_dropped++;
	}
	consume_skb(skb);
	return NETDEV_TX_OK;
}

static irqreturn_t wire_interrupt(int irq, void *id)
{
	struct sk_buff *skb;
	int len;

	while ((skb = netdev_alloc_skb(device, FRAME_MAX))) {
		len = os_read_file(fd, skb->data, FRAME_MAX);
		if (len < ETH_HLEN) {
			kfree_skb(skb);
			break;
		}
		skb_put(skb, len);
		device->stats.rx_packets++;
		device->stats.rx_bytes += len;
		skb->protocol = eth_type_trans(skb, device);
		if (skb->protocol == htons(AGENT_ETHERTYPE)) {
			skb_queue_tail(&for_agent, skb);
			wake_up(&agent_waits);
		} else {
			netif_rx(skb);
		}
	}
	return IRQ_HANDLED;
}

static void wire_announced(int irq, int number, void *id, struct time_travel_event *event)
{
	time_travel_add_irq_event(event);
}

static const struct net_device_ops wire_ops = {
	.ndo_start_xmit = wire_xmit,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_mac_address = eth_mac_addr,
};

/* --- the device file --------------------------------------------------------------------------------------------- */

static ssize_t agent_read(struct file *file, char __user *into, size_t size, loff_t *at)
{
	struct sk_buff *skb;
	size_t len;

	if (wait_event_interruptible(agent_waits, !skb_queue_empty(&for_agent)))
		return -ERESTARTSYS;
	skb = skb_dequeue(&for_agent);
	if (!skb)
		return -EAGAIN;
	len = min_t(size_t, size, skb->len);
	if (copy_to_user(into, skb->data, len)) {
		kfree_skb(skb);
		return -EFAULT;
	}
	skb_pull(skb, len);
	if (skb->len)
		skb_queue_head(&for_agent, skb);
	else
		consume_skb(skb);
	return len;
}

static ssize_t agent_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	size_t len = min_t(size_t, size, PIECE_MAX);
	struct ethhdr *eth = kzalloc(sizeof(*eth) + len, GFP_KERNEL);
	ssize_t ret = -EFAULT;

	if (!eth)
		return -ENOMEM;
	eth_broadcast_addr(eth->h_dest);
	eth->h_proto = htons(AGENT_ETHERTYPE);
	if (!copy_from_user(eth + 1, from, len))
		ret = os_write_file(fd, eth, sizeof(*eth) + len) == sizeof(*eth) + len ? len : -EIO;
	kfree(eth);
	return ret;
}

static __poll_t agent_poll(struct file *file, poll_table *table)
{
	poll_wait(file, &agent_waits, table);
	return EPOLLOUT | EPOLLWRNORM | (skb_queue_empty(&for_agent) ? 0 : EPOLLIN | EPOLLRDNORM);
}

static const struct file_operations agent_file = {
	.owner = THIS_MODULE,
	.read = agent_read,
	.write = agent_write,
	.poll = agent_poll,
};

static struct miscdevice agent = { .minor = MISC_DYNAMIC_MINOR, .name = AGENT, .fops = &agent_file };

static int __init wire_init(void)
{
	static const u8 address[ETH_ALEN] = { 0x02, 0x00, 0x5e, 0x00, 0x00, 0x02 };
	int ret;

	skb_queue_head_init(&for_agent);
	device = alloc_netdev(0, NAME, NET_NAME_UNKNOWN, ether_setup);
	if (!device)
		return -ENOMEM;
	device->netdev_ops = &wire_ops;
	device->max_mtu = FRAME_MAX - ETH_HLEN;
	eth_hw_addr_set(device, address);
	ret = register_netdev(device);
	if (ret)
		goto free;
	ret = misc_register(&agent);
	if (ret)
		goto unregister;
	ret = um_request_irq_tt(UM_IRQ_ALLOC, fd, IRQ_READ, wire_interrupt, IRQF_SHARED, "opa_sim_wire", device,
				wire_announced);
	if (ret >= 0)
		return 0;
	misc_deregister(&agent);
unregister:
	unregister_netdev(device);
free:
	free_netdev(device);
	return ret;
}

module_init(wire_init);	/* it stays: nothing else leads out of the kernel */
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Wire of a kernel on virtual time");
