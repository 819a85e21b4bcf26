// SPDX-License-Identifier: BSD-3-Clause
/*
 * Abuses the model of an HFI with accesses, packets and addresses at random: `hfi_device SEED STEPS`. Built with
 * sanitizers, it ends with an error at the first access outside of what the model may touch. Half of all offsets are those
 * of registers, and values are near what means something, so that engines and contexts run.
 */
#include <stdio.h>
#include <stdlib.h>

#include "parts.h"

#define MEMORY	(1u << 16)

static u8 memory[MEMORY];
static u64 state;
static struct hfi_end neighbour = { .guid = 1, .port = 1, .type = 1, .state = 0x50 };
static unsigned long sent, interrupts, notes, refused, hash = 5381;

static u64 draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static int dma(void *context, u64 address, void *data, u32 len, bool to_memory)
{
	(void)context;
	if (address > MEMORY || len > MEMORY - address) {
		refused++;
		return -1;
	}
	if (to_memory)
		memcpy(memory + address, data, len);
	else
		memcpy(data, memory + address, len);
	return 0;
}

static void interrupt(void *context, u64 address, u32 data)
{
	(void)context;
	hash = hash * 33 + address + data;
	interrupts++;
}

static bool send(void *context, const u8 *packet, u32 len, bool bypass)
{
	u32 i;

	(void)context;
	for (i = 0; i < len; i++)
		hash = hash * 33 + packet[i];
	hash += bypass;
	sent++;
	return draw() % 8;
}

static void idle(void *context, u64 message)
{
	(void)context;
	hash = hash * 33 + message;
}

static void note(void *context, enum hfi_note what, u64 first, u64 second)
{
	(void)context;
	hash = hash * 33 + what + first + second;
	notes++;
}

static u32 some_offset(void)
{
	const struct reg_row *row = &hfi_registers[draw() % REGISTERS];

	if (draw() % 4 == 0)
		return 0x2000000 + (draw() & 1) * 0x1000000 + draw() % 4 * 0x10000 + draw() % 64 * 8;
	if (draw() % 2)
		return draw() % (HFI_BAR_SIZE + 4096);
	return row->offset + draw() % (row->times < 3 ? row->times : 3) * row->stride + draw() % row->values * 8;
}

static u64 some_value(void)
{
	switch (draw() % 6) {
	case 0:
		return draw();
	case 1:
		return 1ull << draw() % 64;
	case 2:
		return draw() % 64;
	case 3:
		return draw() % MEMORY & ~63ull;
	case 4:
		return 16ull << 48 | 1;				/* a send context of 16 blocks */
	default:
		return 3ull << 62 | draw() % 300 << 48 | draw() % MEMORY;	/* a descriptor */
	}
}

/* Write a packet into the blocks of a context, as a driver does; now and then one that ends early. */
static void write_packet(struct hfi *hfi, u64 now)
{
	u32 context = draw() % 3, at = draw() % 16 * 64, dwords = draw() % 200, blocks = (dwords * 4 + 63) / 64, i;

	hfi_write(hfi, now, 0x1800038, 8, (u64)context << 8 | 2);
	for (i = 0; i < 8 * blocks && draw() % 500; i++)
		hfi_write(hfi, now, 0x2000000 + (i < 8) * 0x1000000 + context * 0x10000 + (at + 8 * i) % 1024, 8,
			  i ? draw() : dwords | (draw() & 1) << 28 | draw() % 16 << 12);
}

/* Let an engine take two descriptors, which are a packet more often than not. */
static void ring_packet(struct hfi *hfi, u64 now)
{
	u32 engine = draw() % 3, dwords = draw() % 100 + 2, at = draw() % 8 ? draw() % MEMORY : draw(), i;
	u64 descriptors[4] = { 1ull << 63 | 8ull << 48 | at, draw() & 3, 1ull << 62 | (4ull * dwords - 8) << 48 | at, draw() & 3 };
	u64 pbc = dwords | draw() % 16 << 12;

	if (at < MEMORY - 8)
		memcpy(memory + at, &pbc, 8);
	memcpy(memory, descriptors, sizeof(descriptors));
	hfi_write(hfi, now, 0x1a00000 + 0x100 * engine, 8, 0);
	hfi_write(hfi, now, 0x1a00000 + 0x100 * engine, 8, 4);
	hfi_write(hfi, now, 0x1a00010 + 0x100 * engine, 8, 0);
	hfi_write(hfi, now, 0x1a00000 + 0x100 * engine, 8, 9);
	for (i = 1; i < 3; i++)
		hfi_write(hfi, now, 0x1a00020 + 0x100 * engine, 8, draw() % 8 ? 2 : draw() % 100);
}

/* Give the 8051 a command. */
static void command(struct hfi *hfi, u64 now, u64 type, u64 data)
{
	hfi_write(hfi, now, 0x602028, 8, 0);
	hfi_write(hfi, now, 0x602028, 8, data << 16 | type << 8 | 1);
}

/* The neighbour is in another state; more often than not, the link comes up again. Return the time after that. */
static u64 change_link(struct hfi *hfi, u64 now)
{
	neighbour.guid = draw();
	neighbour.state = "\x20\x46\x48\x50\x50\x50\x90\x13"[draw() % 8];
	hfi_set_neighbour(hfi, now, draw() % 4 ? &neighbour : NULL);
	hfi_idle(hfi, now, draw());
	command(hfi, now, draw() % 4 ? 3 : draw() % 9, "\x20\x50\x50\x50\x90\x30"[draw() % 6]);
	if (draw() % 4 == 0)
		return now;
	neighbour.state = 0x50;
	hfi_set_neighbour(hfi, now, &neighbour);
	command(hfi, now, 3, 0x20);
	hfi_run(hfi, now += 500000000);
	command(hfi, now, 3, 0x50);
	return now;
}

/* Do one thing at random; return the time after it. */
static u64 step(struct hfi *hfi, u64 now)
{
	u32 size = 1u << draw() % 4, at = draw() % 260, i;
	u8 packet[512];

	switch (draw() % 15) {
	case 14:
		hfi_fail(hfi, now, draw() % 9, draw());
		hfi_write(hfi, now, 0x10, 8, draw() % 8 ? 0x200 : 0x100);
		break;
	case 12:
		write_packet(hfi, now);
		break;
	case 13:
		ring_packet(hfi, now);
		break;
	case 0:
		hfi_config_write(hfi, now, at, 1u << draw() % 3, draw() % 8 ? draw() & 0xffff : draw());
		break;
	case 1:
		hash += hfi_config_read(hfi, at, 1u << draw() % 3);
		break;
	case 2:
		for (i = 0; i < sizeof(packet); i++)
			packet[i] = draw();
		hash += hfi_receive(hfi, now, packet, draw() % sizeof(packet), draw() & 1);
		break;
	case 3:
		now = change_link(hfi, now);
		break;
	case 4:
		hfi_run(hfi, now);
		break;
	case 5:
		hash += hfi_read(hfi, now, some_offset() & ~(size - 1), size);
		break;
	case 6:
		memory[draw() % MEMORY] = draw();
		break;
	default:
		hfi_write(hfi, now, some_offset() & ~(size - 1), draw() % 4 ? 8 : size, some_value());
	}
	return now;
}

/* Bring it to a state in which much works: a master, MSI-X on, the link up, contexts and engines enabled. */
static void prepare(struct hfi *hfi, u64 now)
{
	u32 i;

	hfi_config_write(hfi, now, 4, 2, 6);
	hfi_config_write(hfi, now, 0xb2, 2, 0x8000);
	neighbour.state = 0x50;
	hfi_set_neighbour(hfi, now, &neighbour);
	command(hfi, now, 3, 0x20);
	hfi_run(hfi, now + 500000000);
	command(hfi, now, 3, 0x50);
	hfi_write(hfi, now, 0x1800000, 8, 1);
	hfi_write(hfi, now, 0x1000000, 8, 1);
	hfi_write(hfi, now, 0x100008, 8, 0);
	for (i = 0; i < 12; i++)
		hfi_write(hfi, now, 0x110900 + 8 * i, 8, ~0ull);
	for (i = 0; i < 3; i++) {
		hfi_write(hfi, now, 0x1900000 + 0x100 * i, 8, 16ull << 48 | (u64)(16 * i) << 32 | 1);
		hfi_write(hfi, now, 0x1a00018 + 0x100 * i, 8, 64);
		hfi_write(hfi, now, 0x1a00000 + 0x100 * i, 8, 9);
		hfi_write(hfi, now, 0x1100030 + 0x100 * i, 8, 1);
		hfi_write(hfi, now, 0x1100038 + 0x100 * i, 8, 4);
		hfi_write(hfi, now, 0x1100010 + 0x100 * i, 8, 1ull << 32);
		hfi_write(hfi, now, 0x1100000 + 0x100 * i, 8, 1);
	}
}

int main(int count, char **words)
{
	struct hfi_host host = { NULL, dma, interrupt, send, idle, note };
	unsigned long steps = count > 2 ? strtoul(words[2], NULL, 0) : 100000, i;
	struct hfi *hfi = hfi_init(malloc(hfi_size()), &host, 1);
	u64 now = 500000000;

	state = count > 1 ? strtoull(words[1], NULL, 0) * 2654435769u + 1 : 1;
	for (i = 0; i < steps; i++) {
		if (i % 1000 == 0)
			prepare(hfi, now);
		now = step(hfi, now + draw() % 10000);
	}
	printf("steps %lu sent %lu interrupts %lu notes %lu refused %lu hash %lx\n", steps, sent, interrupts, notes, refused, hash);
	free(hfi);
	return 0;
}
