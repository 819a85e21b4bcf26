/* The client of mad_client.py in C: which agents are there, and is the Ethernet link of their vport 1 up?
 *
 *   cc -o mad_client examples/mad_client.c && ./mad_client /run/opavnic/two-hosts/mad.sock
 *
 * docs/reference/mad-socket.md describes the messages: length, LID, P_Key, service level, outcome, then the MAD; big-endian.
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { HEADER = 12, MAD = 2048, DATA = 40, EMA_CLASS = 0x34, GET = 1, VESW_PORT_INFO = 0x11 };

/* Send one message and receive its answer into `answer`; return the bytes of MAD in it, or -1. */
static int exchange(int fd, uint32_t lid, const uint8_t *mad, uint32_t size, uint8_t answer[MAD])
{
    uint8_t message[HEADER + MAD] = {0};
    uint32_t word = htonl(8 + size);

    memcpy(message, &word, 4);
    word = htonl(lid);
    memcpy(message + 4, &word, 4);
    if (size > 0)
        memcpy(message + HEADER, mad, size);
    if (send(fd, message, HEADER + size, 0) != (ssize_t)(HEADER + size))
        return -1;
    if (recv(fd, message, HEADER, MSG_WAITALL) != HEADER)
        return -1;
    memcpy(&word, message, 4);
    size = ntohl(word) - 8;
    if (size > MAD || (size > 0 && recv(fd, answer, size, MSG_WAITALL) != (ssize_t)size))
        return -1;
    return message[11] == 0 ? (int)size : -1; /* an outcome other than 0: no response */
}

int main(int argc, char **argv)
{
    static const char *const link_names[] = {"-", "up", "down"};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    uint8_t lids[MAD], answer[MAD];
    uint8_t get[DATA] = {0x80, EMA_CLASS, 0x80, GET};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    int size;

    if (argc != 2 || strlen(argv[1]) >= sizeof(address.sun_path)) {
        fprintf(stderr, "usage: mad_client SOCKET\n");
        return 2;
    }
    strcpy(address.sun_path, argv[1]);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        perror(argv[1]);
        return 1;
    }
    get[15] = 1;              /* transaction id */
    get[17] = VESW_PORT_INFO; /* attribute */
    get[23] = 1;              /* attribute modifier: the vport */
    memcpy(get + 37, "\x00\x06\x6a", 3);
    size = exchange(fd, 0, NULL, 0, lids); /* no MAD: which ports have an agent? */
    for (int at = 0; at + 4 <= size; at += 4) {
        uint32_t lid;
        const uint8_t *info = answer + DATA;

        memcpy(&lid, lids + at, 4);
        lid = ntohl(lid);
        if (exchange(fd, lid, get, sizeof(get), answer) != MAD)
            printf("LID %u: no answer\n", lid);
        else
            printf("LID %u: virtual switch %d, link %s\n", lid, info[2] << 8 | info[3],
                   info[156] < 3 ? link_names[info[156]] : "?");
    }
    return size < 0;
}
