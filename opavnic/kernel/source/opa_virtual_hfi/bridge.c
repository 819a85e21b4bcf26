// SPDX-License-Identifier: GPL-2.0 OR BSD-3-Clause
/* A PCI host bridge, a device for each HFI, and interrupts for them. User-mode Linux has no other bridge here. */
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/module.h>
#include <linux/msi.h>

#include "machine.h"

#define VECTORS		256
#define DOORBELL	0xa0000		/* no memory is there: an address for messages of interrupts */

static unsigned long guid[HFIS] = { 0x0011750101000001ul, 0x0011750101000002ul };
module_param_array(guid, ulong, NULL, 0444);
MODULE_PARM_DESC(guid, "GUID of each HFI's port");
static int wire[HFIS] = { -1, -1 };
static unsigned int hfis = 1;
module_param_array(wire, int, &hfis, 0444);
MODULE_PARM_DESC(wire, "number of the socket that is its cable, for each HFI");

static struct machine machines[HFIS];
static DECLARE_BITMAP(used, VECTORS);
static DEFINE_MUTEX(lock);	/* used */

/* Far above memory: as a part of it, a BAR takes 64 MiB that are aligned so. */
static struct resource memory = {
	.name = "virtual HFI",
	.start = 0x4000000000ull,
	.end = 0x4000000000ull + HFIS * HFI_BAR_SIZE - 1,
	.flags = IORESOURCE_MEM | IORESOURCE_MEM_64,
};
static struct resource buses = { .name = "virtual HFI bus", .flags = IORESOURCE_BUS };

/* Return the HFI of a device number; NULL: none is there. */
static struct machine *device(unsigned int devfn)
{
	return PCI_FUNC(devfn) || PCI_SLOT(devfn) >= hfis ? NULL : &machines[PCI_SLOT(devfn)];
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 *value)
{
	struct machine *machine = device(devfn);

	*value = machine ? machine_config_read(machine, at, size) : ~0u;
	return machine ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 value)
{
	struct machine *machine = device(devfn);

	if (!machine)
		return PCIBIOS_DEVICE_NOT_FOUND;
	machine_config_write(machine, at, size, value);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = { .read = config_read, .write = config_write };

/* --- interrupts: a message of MSI-X has the number of an interrupt ------------------------------------------------- */

static void compose(struct irq_data *data, struct msi_msg *message)
{
	message->address_hi = 0;
	message->address_lo = DOORBELL;
	message->data = data->irq;
}

static struct irq_chip below = { .name = "virtual HFI", .irq_compose_msi_msg = compose };

static int allocate(struct irq_domain *domain, unsigned int irq, unsigned int count, void *args)
{
	unsigned int i;
	int first;

	mutex_lock(&lock);
	first = bitmap_find_next_zero_area(used, VECTORS, 0, count, 0);
	if (first < VECTORS)
		bitmap_set(used, first, count);
	mutex_unlock(&lock);
	if (first >= VECTORS)
		return -ENOSPC;
	for (i = 0; i < count; i++)
		irq_domain_set_info(domain, irq + i, first + i, &below, NULL, handle_simple_irq, NULL, NULL);
	return 0;
}

static void release(struct irq_domain *domain, unsigned int irq, unsigned int count)
{
	mutex_lock(&lock);
	bitmap_clear(used, irq_domain_get_irq_data(domain, irq)->hwirq, count);
	mutex_unlock(&lock);
}

static const struct irq_domain_ops domain_ops = { .alloc = allocate, .free = release };
static struct irq_chip chip = { .name = "virtual HFI MSI-X", .irq_mask = pci_msi_mask_irq, .irq_unmask = pci_msi_unmask_irq };
static struct msi_domain_info messages = {
	.flags = MSI_FLAG_USE_DEF_DOM_OPS | MSI_FLAG_USE_DEF_CHIP_OPS | MSI_FLAG_PCI_MSIX,
	.chip = &chip,
};

static struct irq_domain *make_domain(void)
{
	struct fwnode_handle *node = irq_domain_alloc_named_fwnode("virtual-hfi");
	struct irq_domain *parent = node ? irq_domain_create_linear(node, VECTORS, &domain_ops, NULL) : NULL;

	return parent ? pci_msi_create_irq_domain(node, &messages, parent) : NULL;
}

static int no_line(const struct pci_dev *dev, u8 slot, u8 pin)
{
	return 0;	/* interrupts are messages */
}

static int __init bridge_init(void)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);
	struct irq_domain *domain = make_domain();
	unsigned int i;
	int ret;

	if (!bridge || !domain)
		return -ENOMEM;
	for (i = 0; i < hfis; i++) {
		ret = machine_start(&machines[i], guid[i]);
		if (!ret)
			ret = wire_open(&machines[i], wire[i]);
		if (ret)
			return ret;
	}
	ret = machine_add_region(machines, hfis, &memory);
	if (ret)
		return ret;
	dev_set_msi_domain(&bridge->dev, domain);
	pci_add_resource(&bridge->windows, &memory);
	pci_add_resource(&bridge->windows, &buses);
	bridge->ops = &config_ops;
	bridge->map_irq = no_line;
	return pci_host_probe(bridge);
}

module_init(bridge_init);	/* it stays, as a bridge does */
MODULE_LICENSE("Dual BSD/GPL");
MODULE_DESCRIPTION("Virtual HFI1s on a PCI host bridge of their own");
