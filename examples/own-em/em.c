/* An Ethernet Manager of one page, against libibumad: one virtual switch for the ports with the given LIDs.
 *
 *   cc -o em em.c -libumad && opavnic up lab.yaml -d
 *   opavnic exec h1 -- ./em 3 4               # the LIDs of h2 and h3; prints traps until it is ended
 *   opavnic exec h2 -- ping 10.9.2.2
 *
 * It joins each port to a multicast group at the subnet administration, which gives the group its LID, and then
 * configures the agent of the port: the trap sink (ClassPortInfo), and vport 1 (VeswPortInfo). MAC addresses are locally
 * administered and contain the LID, so no MAC tables are needed. All numbers on the wire are big-endian.
 */
#include <infiniband/umad.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMA = 0x34, SA = 0x03, GET = 1, SET = 2, TRAP = 5, MAD = 2048, EMA_DATA = 40, SA_DATA = 56 };
enum { CLASS_PORT_INFO = 0x01, VESW_PORT_INFO = 0x11, NODE_RECORD = 0x11, MC_MEMBER_RECORD = 0x38 };
#define QKEY 0x80010000
enum { FABRIC_ID = 0x301, VESW_ID = 2, PKEY = 0x8002, MTU = 1500, FORWARDING = 3, FULL_MEMBER = 1 };

static int port, ema_agent, sa_agent, pkey_index;
static uint8_t *message; /* the umad header and the MAD, first of the request, then of the answer */

static void put(uint8_t *at, int size, uint64_t value)
{
    while (size-- > 0) {
        at[size] = (uint8_t)value;
        value >>= 8;
    }
}

static uint64_t get(const uint8_t *at, int size)
{
    uint64_t value = 0;

    while (size-- > 0)
        value = value << 8 | *at++;
    return value;
}

static void fail(const char *what)
{
    fprintf(stderr, "em: %s\n", what);
    exit(1);
}

/* Read one MAD. Returns its bytes; says what traps say. */
static uint8_t *receive(void)
{
    int length = MAD;
    uint8_t *mad = umad_get_mad(message);

    if (umad_recv(port, message, &length, -1) < 0)
        fail("the device has gone");
    if (mad[1] == EMA && mad[3] == TRAP) {
        printf("trap of LID %d: opcode %d\n", (int)get(mad + EMA_DATA + 8, 4), mad[EMA_DATA + 43]);
        fflush(stdout);
    }
    return mad;
}

/* Begin a MAD in `message`. Returns where its data begin. */
static uint8_t *begin(int mgmt_class, int method, int attribute, uint32_t modifier)
{
    uint8_t *mad = umad_get_mad(message);

    memset(message, 0, umad_size() + MAD);
    put(mad, 4, (mgmt_class == SA ? 0x01000200 : 0x80008000) | mgmt_class << 16 | method); /* IB's form, and OPA's */
    put(mad + 16, 2, attribute);
    put(mad + 20, 4, modifier);
    if (mgmt_class == EMA)
        put(mad + 37, 3, 0x00066a);
    return mad + (mgmt_class == SA ? SA_DATA : EMA_DATA);
}

/* Send what was begun, and wait for the answer. Returns its data; a refusal ends the program. */
static uint8_t *ask(int lid, const char *what)
{
    static uint32_t tid;
    int is_sa = ((uint8_t *)umad_get_mad(message))[1] == SA;
    uint8_t *mad = umad_get_mad(message);

    put(mad + 12, 4, ++tid);
    umad_set_addr(message, lid, 1, 0, QKEY);
    umad_set_pkey(message, pkey_index);
    if (umad_send(port, is_sa ? sa_agent : ema_agent, message, is_sa ? 256 : MAD, 1000, 3) < 0)
        fail("umad_send");
    do
        mad = receive();
    while (get(mad + 12, 4) != tid || mad[3] == TRAP);
    if (umad_status(message) != 0 || get(mad + 4, 2) != 0) {
        fprintf(stderr, "em: LID %d: %s: error %d, status 0x%04x\n", lid, what, umad_status(message), (int)get(mad + 4, 2));
        exit(1);
    }
    return mad + (is_sa ? SA_DATA : EMA_DATA);
}

/* Let the port with a LID join the group of the virtual switch. Returns the LID of the group, 24 bits. */
static uint32_t join(int sm_lid, int lid)
{
    uint64_t guid;
    uint8_t *record = begin(SA, GET, NODE_RECORD, 0);

    put(record - 8, 8, 1); /* component mask: the LID */
    put(record, 2, lid);
    guid = get(ask(sm_lid, "NodeRecord") + 24, 8);
    record = begin(SA, SET, MC_MEMBER_RECORD, 0);
    put(record - 8, 8, 0x110c7); /* MGID, port GID, Q_Key, traffic class, P_Key, SL, join state */
    put(record, 8, 0xff15000000000000 | (uint64_t)PKEY << 16);
    put(record + 8, 8, VESW_ID);
    put(record + 16, 8, 0xfe80000000000000);
    put(record + 24, 8, guid);
    put(record + 40, 2, PKEY);
    put(record + 48, 1, FULL_MEMBER);
    return 0xf00000 | (get(ask(sm_lid, "MCMemberRecord") + 36, 2) & 0x3fff);
}

static void configure(int own_lid, int lid, uint32_t group_lid)
{
    uint32_t ids = FABRIC_ID | VESW_ID << 10;
    uint8_t info[280], *data;

    begin(EMA, GET, CLASS_PORT_INFO, 0);
    memcpy(info, ask(lid, "Get ClassPortInfo"), 80);
    data = begin(EMA, SET, CLASS_PORT_INFO, 0);
    memcpy(data, info, 80);
    put(data + 60, 4, own_lid); /* traps come here */
    ask(lid, "Set ClassPortInfo");

    begin(EMA, GET, VESW_PORT_INFO, 1);
    memcpy(info, ask(lid, "Get VeswPortInfo"), 280);
    put(info, 2, FABRIC_ID);
    put(info + 2, 2, VESW_ID);
    put(info + 14, 2, PKEY);
    put(info + 20, 4, group_lid);
    put(info + 148, 2, MTU);
    put(info + 152, 4, lid); /* number of the port on the virtual switch */
    info[160] = (ids & 0x3f) << 2 | 2; /* a locally administered address: ids, and the LID little-endian */
    info[161] = ids >> 6;
    info[162] = ids >> 14;
    info[163] = lid;
    info[164] = lid >> 8;
    info[165] = lid >> 16;
    info[166] = FORWARDING;
    put(info + 180, 4, lid); /* source LID of its packets */
    data = begin(EMA, SET, VESW_PORT_INFO, 1);
    memcpy(data, info, 280);
    ask(lid, "Set VeswPortInfo");
    printf("LID %d is on virtual switch %d, broadcast goes to LID 0x%x\n", lid, VESW_ID, group_lid);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct umad_reg_attr ema = {.mgmt_class = EMA, .mgmt_class_version = 0x80, .oui = 0x00066a};
    struct umad_reg_attr sa = {.mgmt_class = SA, .mgmt_class_version = 2};
    uint32_t id;
    umad_port_t own = {0};

    ema.method_mask[0] = 1 << TRAP;
    if (umad_init() < 0 || (port = umad_open_port(NULL, 0)) < 0 || umad_get_port(NULL, 0, &own) < 0)
        fail("no HFI: run this with `opavnic exec HOST -- ...`");
    while (pkey_index < (int)own.pkeys_size && own.pkeys[pkey_index] != 0xffff)
        pkey_index++;
    if (pkey_index == (int)own.pkeys_size)
        fail("this port is no full member of the management partition");
    if (umad_register2(port, &ema, &id) != 0)
        fail("another Ethernet Manager runs here");
    ema_agent = id;
    if (umad_register2(port, &sa, &id) != 0)
        fail("umad_register2");
    sa_agent = id;
    message = umad_alloc(1, umad_size() + MAD);
    for (int i = 1; i < argc; i++) {
        int lid = atoi(argv[i]);

        configure(own.base_lid, lid, join(own.sm_lid, lid));
    }
    for (;;)
        receive();
}
