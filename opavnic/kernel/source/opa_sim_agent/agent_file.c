// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * The device file opa_sim_agent: a stream socket of the process that is this kernel, for the agent that starts programs.
 * A terminal of user-mode Linux would not do: it loses what comes while it is full, and knows no virtual time.
 */
#include <linux/interrupt.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <irq_kern.h>
#include <irq_user.h>
#include <os.h>

#define PIECE	4096

static int agent = -1;
module_param(agent, int, 0444);
MODULE_PARM_DESC(agent, "number of the socket");

static int fd;
static unsigned long is_open;
static DEFINE_MUTEX(one_reader);
static DECLARE_WAIT_QUEUE_HEAD(waits);
static u8 piece[PIECE];		/* read ahead: `left` bytes of it are to be taken, from `at` */
static int at, left;
static bool ended;

/* Return whether something, or the end, can be read. */
static bool readable(void)
{
	int ret;

	if (left || ended)
		return true;
	do {
		ret = os_read_file(fd, piece, PIECE);
	} while (ret == -EINTR);
	at = 0;
	left = max(ret, 0);
	ended = !ret || (ret < 0 && ret != -EAGAIN);
	return left || ended;
}

static ssize_t agent_read(struct file *file, char __user *into, size_t size, loff_t *offset)
{
	size_t len;
	ssize_t ret;

	if (mutex_lock_interruptible(&one_reader))
		return -ERESTARTSYS;
	ret = wait_event_interruptible(waits, readable());
	len = min_t(size_t, size, left);
	if (!ret && copy_to_user(into, piece + at, len))
		ret = -EFAULT;
	if (!ret) {
		at += len;
		left -= len;
	}
	mutex_unlock(&one_reader);
	return ret ? ret : len;
}

static ssize_t agent_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	size_t len = min_t(size_t, size, PIECE);
	u8 *body = memdup_user(from, len);
	ssize_t ret;

	if (IS_ERR(body))
		return PTR_ERR(body);
	while ((ret = os_write_file(fd, body, len)) == -EAGAIN || ret == -EINTR) {
		schedule_timeout_interruptible(1);
		if (signal_pending(current)) {
			ret = -ERESTARTSYS;
			break;
		}
	}
	kfree(body);
	return ret;
}

static __poll_t agent_poll(struct file *file, poll_table *table)
{
	__poll_t mask = EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &waits, table);
	mutex_lock(&one_reader);
	if (readable())
		mask |= EPOLLIN | EPOLLRDNORM;
	mutex_unlock(&one_reader);
	return mask;
}

static int agent_opened(struct inode *inode, struct file *file)
{
	return test_and_set_bit(0, &is_open) ? -EBUSY : 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = agent_opened,	/* once, by the first program */
	.read = agent_read,
	.write = agent_write,
	.poll = agent_poll,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "opa_sim_agent",
	.fops = &operations,
	.mode = 0600,
};

static irqreturn_t has_come(int irq, void *id)
{
	wake_up(&waits);
	return IRQ_HANDLED;
}

static void announced(int irq, int number, void *id, struct time_travel_event *event)
{
	time_travel_add_irq_event(event);
}

static int __init agent_init(void)
{
	int ret;

	fd = agent;
	ret = um_request_irq_tt(UM_IRQ_ALLOC, fd, IRQ_READ, has_come, 0, "opa_sim_agent", &device, announced);
	return ret < 0 ? ret : misc_register(&device);
}

module_init(agent_init);	/* it stays */
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Starts programs in a kernel of a simulated fabric");
