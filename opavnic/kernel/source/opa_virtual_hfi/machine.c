// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/*
 * What the model needs of user-mode Linux: its IO memory, memory of the host, time, interrupts and a log.
 *
 * An access of the driver is a call of the model. Interrupts are never delivered within one, but by a timer: so they come as
 * from a device, and on virtual time at times that do not depend on the machine.
 */
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/logic_iomem.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "machine.h"

#define AREA	(16u << 20)	/* what lib/logic_iomem.c maps in one piece: its AREA_SHIFT */

/* --- what the model asks for --------------------------------------------------------------------------------------- */

static int host_dma(void *context, u64 address, void *data, u32 len, bool to_memory)
{
	u64 at = address, left = len;

	while (left) {	/* all of it is memory */
		u64 piece = min_t(u64, left, PAGE_SIZE - at % PAGE_SIZE);

		if (!pfn_valid(at >> PAGE_SHIFT))
			return -1;
		at += piece;
		left -= piece;
	}
	if (to_memory)
		memcpy(__va(address), data, len);
	else
		memcpy(data, __va(address), len);
	return 0;
}

static void host_interrupt(void *context, u64 address, u32 data)
{
	struct machine *machine = context;

	if (machine->waiting < MESSAGES)
		machine->messages[machine->waiting++] = data;
}

static bool host_send(void *context, const u8 *packet, u32 len, bool bypass)
{
	return wire_send(context, packet, len, bypass);
}

static void host_idle(void *context, u64 message)
{
	wire_tell_idle(context, message);
}

static void host_note(void *context, enum hfi_note note, u64 first, u64 second)
{
	static const char *const texts[] = {
		[HFI_NOTE_READ] = "register %#llx is not modelled: read\n",
		[HFI_NOTE_WRITE] = "register %#llx is not modelled: written %#llx\n",
		[HFI_NOTE_DMA] = "no memory for DMA at %#llx, %llu bytes\n",
		[HFI_NOTE_PHYSICAL] = "physical state %#llx\n",
		[HFI_NOTE_LOGICAL] = "logical state %llu\n",
		[HFI_NOTE_RESET] = "function level reset\n",
		[HFI_NOTE_FREEZE] = "freeze: %llu\n",
		[HFI_NOTE_CONTEXT] = "send context %llu halts: errors %#llx\n",
		[HFI_NOTE_ENGINE] = "SDMA engine %llu halts: errors %#llx\n",
		[HFI_NOTE_ERROR] = "errors of block %llu: %#llx\n",
	};
	struct machine *machine = context;
	char text[96];

	snprintf(text, sizeof(text), texts[note], first, second);
	if (note == HFI_NOTE_DMA)
		pr_info_ratelimited("opa_virtual_hfi: %s", text);
	else
		pr_info("opa_virtual_hfi: %s", text);
	if (note == HFI_NOTE_PHYSICAL)
		wire_tell_link(machine, hfi_own_end(machine->hfi));
}

/* --- time ---------------------------------------------------------------------------------------------------------- */

/* Let hfi_run be called when the model asks for it. With the lock. */
static void arm(struct machine *machine)
{
	u64 when = hfi_deadline(machine->hfi);

	if (when >= machine->armed)
		return;
	machine->armed = when;
	hrtimer_start(&machine->timer, ns_to_ktime(when), HRTIMER_MODE_ABS_HARD);
}

static enum hrtimer_restart run(struct hrtimer *timer)
{
	struct machine *machine = container_of(timer, struct machine, timer);
	u32 messages[MESSAGES], count, i;
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	machine->armed = HFI_NEVER;
	hfi_run(machine->hfi, ktime_get_ns());
	count = machine->waiting;
	memcpy(messages, machine->messages, count * sizeof(*messages));
	machine->waiting = 0;
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
	for (i = 0; i < count; i++)
		generic_handle_irq(messages[i]);	/* its handler accesses registers */
	return HRTIMER_NORESTART;
}

/* --- registers ----------------------------------------------------------------------------------------------------- */

/* A piece of a mapping: lib/logic_iomem.c maps 16 MiB; of what is longer, other pieces follow. */
struct piece {
	struct machine *machine;
	u32 begin;		/* in the BAR */
	u32 pieces;		/* of its mapping, of which it is the first; 0: it is another */
	struct area *area;
};

/* What lib/logic_iomem.c has of each area. */
struct area {
	const struct logic_iomem_ops *ops;
	void *priv;
};

static unsigned long bar_read(void *priv, unsigned int offset, int size)
{
	struct piece *piece = priv;
	struct machine *machine = piece->machine;
	unsigned long flags;
	u64 value;

	spin_lock_irqsave(&machine->lock, flags);
	value = hfi_read(machine->hfi, ktime_get_ns(), piece->begin + offset, size);
	spin_unlock_irqrestore(&machine->lock, flags);
	return value;
}

static void bar_write(void *priv, unsigned int offset, int size, unsigned long value)
{
	struct piece *piece = priv;
	struct machine *machine = piece->machine;
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	hfi_write(machine->hfi, ktime_get_ns(), piece->begin + offset, size, value);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
}

static void bar_unmap(void *priv)
{
	struct piece *piece = priv;
	u32 i;

	for (i = 1; i < piece->pieces; i++) {	/* the caller frees the first area */
		kfree(piece->area[i].priv);
		piece->area[i] = (struct area){};
	}
	kfree(piece);
}

static const struct logic_iomem_ops bar_ops = { .read = bar_read, .write = bar_write, .unmap = bar_unmap };

/* Whose BARs are in the region. */
static struct machine *mapped;
static u32 all;
static u64 region_start;

/* Return the HFI whose BAR an offset of the region is in, as Linux has placed it, and where the BAR begins. */
static struct machine *machine_at(u64 offset, u64 *begin)
{
	u32 i;

	for (i = 0; i < all; i++) {
		u64 bar = machine_config_read(&mapped[i], PCI_BASE_ADDRESS_0, 4) & (u32)PCI_BASE_ADDRESS_MEM_MASK;

		bar |= (u64)machine_config_read(&mapped[i], PCI_BASE_ADDRESS_1, 4) << 32;
		*begin = bar - region_start;
		if (offset >= *begin && offset - *begin < HFI_BAR_SIZE)
			return &mapped[i];
	}
	return NULL;
}

/* Areas lie in a row, so a mapping of several pieces takes those that follow the one that it is given. */
static long bar_map(unsigned long offset, size_t size, const struct logic_iomem_ops **ops, void **priv)
{
	struct area *area = (struct area *)ops;
	u32 pieces = DIV_ROUND_UP(size, AREA), i;
	u64 begin;
	struct machine *machine = machine_at(offset, &begin);
	struct piece *piece;

	if (WARN_ON((void *)priv != &area->priv) || !machine)
		return -EINVAL;	/* this kernel keeps them otherwise; no BAR is there */
	for (i = 1; i < pieces; i++)
		if (area[i].ops)
			return -ENOSPC;
	for (i = 0; i < pieces; i++) {
		piece = kmalloc(sizeof(*piece), GFP_KERNEL);
		if (!piece)
			return -ENOMEM;
		*piece = (struct piece){ machine, offset - begin + i * AREA, i ? 0 : pieces, area };
		area[i] = (struct area){ &bar_ops, piece };
	}
	return 0;
}

static const struct logic_iomem_region_ops region_ops = { .map = bar_map };

int machine_add_region(struct machine *machines, u32 count, struct resource *region)
{
	mapped = machines;
	all = count;
	region_start = region->start;
	return logic_iomem_add_region(region, &region_ops);
}

u32 machine_config_read(struct machine *machine, u32 at, u32 size)
{
	unsigned long flags;
	u32 value;

	spin_lock_irqsave(&machine->lock, flags);
	value = hfi_config_read(machine->hfi, at, size);
	spin_unlock_irqrestore(&machine->lock, flags);
	return value;
}

void machine_config_write(struct machine *machine, u32 at, u32 size, u32 value)
{
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	hfi_config_write(machine->hfi, ktime_get_ns(), at, size, value);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
}

void machine_neighbour(struct machine *machine, const struct hfi_end *end)
{
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	hfi_set_neighbour(machine->hfi, ktime_get_ns(), end);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
}

void machine_idle(struct machine *machine, u64 message)
{
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	hfi_idle(machine->hfi, ktime_get_ns(), message);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
}

void machine_fail(struct machine *machine, u32 block, u64 bits)
{
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	hfi_fail(machine->hfi, ktime_get_ns(), block, bits);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
}

enum hfi_taken machine_receive(struct machine *machine, const u8 *packet, u32 len, bool bypass)
{
	enum hfi_taken taken;
	unsigned long flags;

	spin_lock_irqsave(&machine->lock, flags);
	taken = hfi_receive(machine->hfi, ktime_get_ns(), packet, len, bypass);
	arm(machine);
	spin_unlock_irqrestore(&machine->lock, flags);
	return taken;
}

int machine_start(struct machine *machine, u64 guid)
{
	struct hfi_host host = { machine, host_dma, host_interrupt, host_send, host_idle, host_note };
	void *memory = vzalloc(hfi_size());

	if (!memory)
		return -ENOMEM;
	spin_lock_init(&machine->lock);
	machine->armed = HFI_NEVER;
	hrtimer_init(&machine->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
	machine->timer.function = run;
	machine->hfi = hfi_init(memory, &host, guid);
	return 0;
}
