/* The public structures of o2iblnd and LNet as a C compiler lays them out, filled with known values.
 *
 * Prints a line for each: its name and its bytes in hex. ORDER is the byte order of the sender ("little-endian" or
 * "big-endian"); the LNet header is little-endian always. Compiled with -fsigned-char or -funsigned-char, which decides
 * the checksum. Written from the published layouts for this test.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifndef ORDER
#define ORDER "little-endian"
#endif
#define SENDER __attribute__((packed, scalar_storage_order(ORDER)))
#define LITTLE __attribute__((packed, scalar_storage_order("little-endian")))

struct handle { uint64_t interface_cookie, object_cookie; } LITTLE;
struct put { struct handle ack_wmd; uint64_t match_bits, hdr_data; uint32_t ptl_index, offset; } LITTLE;
struct get { struct handle return_wmd; uint64_t match_bits; uint32_t ptl_index, src_offset, sink_length; } LITTLE;
struct lnet_hdr {
	uint64_t dest_nid, src_nid;
	uint32_t dest_pid, src_pid, type, payload_length;
	union { struct put put; struct get get; } msg;
} LITTLE;

struct connparams { uint16_t queue_depth, max_frags; uint32_t max_msg_size; } SENDER;
struct frag { uint32_t nob; uint64_t addr; } SENDER;
struct desc { uint32_t key, nfrags; struct frag frags[2]; } SENDER;
struct immediate { struct lnet_hdr hdr; char payload[8]; } SENDER;
struct putreq { struct lnet_hdr hdr; uint64_t cookie; } SENDER;
struct putack { uint64_t src_cookie, dst_cookie; struct desc desc; } SENDER;
struct getreq { struct lnet_hdr hdr; uint64_t cookie; struct desc desc; } SENDER;
struct completion { uint64_t cookie; int32_t status; } SENDER;
struct msg {
	uint32_t magic;
	uint16_t version;
	uint8_t type, credits;
	uint32_t nob, cksum;
	uint64_t srcnid, srcstamp, dstnid, dststamp;
	union {
		struct connparams connparams;
		struct immediate immediate;
		struct putreq putreq;
		struct putack putack;
		struct getreq getreq;
		struct completion completion;
	} u;
} SENDER;
struct rej {
	uint32_t magic;
	uint16_t version;
	uint8_t why, padding;
	uint64_t incarnation;
	struct connparams params;
} SENDER;
struct ni_status { uint64_t nid; uint32_t status, unused; } SENDER;
struct ping_info { uint32_t magic, features, pid, nnis; struct ni_status ni[3]; } SENDER;

static uint32_t sum_of(const void *start, size_t count)
{
	const char *at = start;
	uint32_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum = ((sum << 1) | (sum >> 31)) + at[i];
	return sum ? sum : 1;
}

static void show(const char *name, const void *start, size_t count)
{
	const uint8_t *at = start;

	printf("%s ", name);
	for (size_t i = 0; i < count; i++)
		printf("%02x", at[i]);
	printf("\n");
}

static void fill_header(struct lnet_hdr *hdr, uint32_t type)
{
	memset(hdr, 0, sizeof(*hdr));
	hdr->dest_nid = 0x000500000a010105;
	hdr->src_nid = 0x000500000a010102;
	hdr->dest_pid = 12345;
	hdr->src_pid = 12345;
	hdr->type = type;
	hdr->payload_length = type == 1 ? 8 : 0;
	hdr->msg.put.ack_wmd.interface_cookie = 0xf1f2f3f4f5f6f7f8;
	hdr->msg.put.ack_wmd.object_cookie = 0x8102030405060708;
	hdr->msg.put.match_bits = 0x99aabbccddeeff00;
	if (type == 1) {
		hdr->msg.put.hdr_data = 0x0123456789abcdef;
		hdr->msg.put.ptl_index = 21;
		hdr->msg.put.offset = 0x80000001;
	} else {
		hdr->msg.get.ptl_index = 21;
		hdr->msg.get.src_offset = 0x80000001;
		hdr->msg.get.sink_length = 0x00100000;
	}
}

static void fill_desc(struct desc *desc)
{
	desc->key = 0xdeadbeef;
	desc->nfrags = 2;
	for (int i = 0; i < 2; i++) {
		desc->frags[i].nob = 4096 + i;
		desc->frags[i].addr = 0xffff888000001000 + 0x1000 * i;
	}
}

static void show_message(const char *name, uint8_t type, struct msg *msg, size_t body)
{
	size_t count = sizeof(*msg) - sizeof(msg->u) + body;

	msg->magic = 0x0be91b91;
	msg->version = 0x12;
	msg->type = type;
	msg->credits = 200;
	msg->nob = count;
	msg->cksum = 0;
	msg->srcnid = 0x000500000a010102;
	msg->srcstamp = 0xf1f2f3f4f5f6f7f8;
	msg->dstnid = 0x000500000a010105;
	msg->dststamp = 0x00060a0b0c0d0e0f;
	show(name, msg, count);
	msg->cksum = sum_of(msg, count);
	printf("cksum ");
	show(name, msg, count);
}

int main(void)
{
	struct msg msg;
	struct rej rej;
	struct ping_info info;
	struct lnet_hdr hdr;

	fill_header(&hdr, 1);
	show("lnet_put", &hdr, sizeof(hdr));
	fill_header(&hdr, 2);
	show("lnet_get", &hdr, sizeof(hdr));

	memset(&msg, 0, sizeof(msg));
	show_message("NOOP", 0xd0, &msg, 0);
	msg.u.connparams.queue_depth = 8;
	msg.u.connparams.max_frags = 256;
	msg.u.connparams.max_msg_size = 4096;
	show_message("CONNREQ", 0xc0, &msg, sizeof(msg.u.connparams));
	show_message("CONNACK", 0xc1, &msg, sizeof(msg.u.connparams));
	fill_header(&msg.u.immediate.hdr, 1);
	for (int i = 0; i < 8; i++)
		msg.u.immediate.payload[i] = (char)(0x7c + i);
	show_message("IMMEDIATE", 0xd1, &msg, sizeof(msg.u.immediate));
	fill_header(&msg.u.putreq.hdr, 1);
	msg.u.putreq.cookie = 0xc001d00d00000001;
	show_message("PUT_REQ", 0xd2, &msg, sizeof(msg.u.putreq));
	msg.u.putack.src_cookie = 0xc001d00d00000001;
	msg.u.putack.dst_cookie = 0xc001d00d00000002;
	fill_desc(&msg.u.putack.desc);
	show_message("PUT_ACK", 0xd4, &msg, sizeof(msg.u.putack));
	fill_header(&msg.u.getreq.hdr, 2);
	msg.u.getreq.cookie = 0xc001d00d00000001;
	fill_desc(&msg.u.getreq.desc);
	show_message("GET_REQ", 0xd6, &msg, sizeof(msg.u.getreq));
	msg.u.completion.cookie = 0xc001d00d00000002;
	msg.u.completion.status = -5;
	show_message("PUT_NAK", 0xd3, &msg, sizeof(msg.u.completion));
	show_message("PUT_DONE", 0xd5, &msg, sizeof(msg.u.completion));
	show_message("GET_DONE", 0xd7, &msg, sizeof(msg.u.completion));

	memset(&rej, 0, sizeof(rej));
	rej.magic = 0x0be91b91;
	rej.version = 0x12;
	rej.why = 9;
	rej.incarnation = 0xf1f2f3f4f5f6f7f8;
	rej.params.queue_depth = 8;
	rej.params.max_frags = 256;
	rej.params.max_msg_size = 4096;
	show("rej", &rej, sizeof(rej));

	memset(&info, 0, sizeof(info));
	info.magic = 0x70696e67;
	info.features = 0x1b;
	info.pid = 12345;
	info.nnis = 3;
	info.ni[0].nid = (uint64_t)9 << 48;
	info.ni[0].status = 7;
	info.ni[1].nid = 0x000500000a010102;
	info.ni[1].status = 0x15aac0de;
	info.ni[2].nid = 0x001000000000002a;
	info.ni[2].status = 0xdeadface;
	show("ping", &info, sizeof(info));
	return 0;
}
