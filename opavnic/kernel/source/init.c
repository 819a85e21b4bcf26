// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first program of the kernel: loads opa_sim_hfi, takes the files of the machine that it runs on for its own, and
 * becomes the agent that starts programs (agent.c). The console then says "opavnic: ready", or "opavnic: " and what
 * failed. Variables of the kernel's command line: host, its name; agent, the terminal that leads to the agent; wire, the
 * descriptor of the wire of a kernel on virtual time.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent.h"

#define MODULE "/opa_sim_hfi.ko"
#define VIRTUAL_WIRE "/opa_sim_wire.ko"
#define WIRE "vec0"
#define WIRE_MTU 12000
#define MACHINE "/host"

/* Virtual switches are separate networks: what arp_ignore and arp_announce say, labs say of all their hosts. */
static const char *const settings[][2] = {
	{ "/proc/sys/net/ipv6/conf/" WIRE "/disable_ipv6", "1" },
	{ "/proc/sys/net/ipv4/conf/all/arp_ignore", "1" },
	{ "/proc/sys/net/ipv4/conf/all/arp_announce", "2" },
	{ "/proc/sys/net/ipv4/conf/default/arp_notify", "1" },
	{ "/proc/sys/net/ipv6/conf/default/ndisc_notify", "1" },
	{ "/proc/sys/kernel/printk", "7" },
};

static int failed(const char *what)
{
	printf("opavnic: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}

static void set(const char *path, const char *value)
{
	int file = open(path, O_WRONLY);

	if (file < 0)
		return;
	if (write(file, value, strlen(value)) < 0)
		perror(path);
	close(file);
}

static int set_up(const char *interface, int mtu)
{
	struct ifreq request = { .ifr_mtu = mtu };
	int sock = socket(AF_INET, SOCK_DGRAM, 0), ret;

	strcpy(request.ifr_name, interface);
	ret = mtu ? ioctl(sock, SIOCSIFMTU, &request) : 0;
	request.ifr_flags = IFF_UP;
	ret = ret || ioctl(sock, SIOCSIFFLAGS, &request);
	close(sock);
	return ret;
}

static int load(const char *path, const char *parameters)
{
	int module = open(path, O_RDONLY);
	int ret = module < 0 || syscall(SYS_finit_module, module, parameters, 0);

	close(module);
	return ret;
}

/* Load the wire of a kernel on virtual time, which has no other. */
static int load_wire(const char *number)
{
	char parameters[32];

	snprintf(parameters, sizeof(parameters), "fd=%s", number);
	return load(VIRTUAL_WIRE, parameters);
}

/* Let a kernel on virtual time hand out random numbers: to wait for more of them, it would wait for time to pass. */
static int have_random(void)
{
	struct {
		struct rand_pool_info info;
		char bytes[32];
	} pool = { .info = { .entropy_count = 256, .buf_size = 32 } };
	int file = open("/dev/random", O_RDWR);
	int ret = file < 0 || ioctl(file, RNDADDENTROPY, &pool);

	close(file);
	return ret;
}

static int mount_all(void)
{
	static const char *const mounts[][2] = { { "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" } };

	for (int i = 0; i < 3; i++) {
		mkdir(mounts[i][1], 0755);
		if (mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL) && errno != EBUSY)
			return -1;
	}
	return 0;
}

/* Take the files of the machine, but for what a kernel has of its own. */
static int enter_machine(void)
{
	mkdir(MACHINE, 0755);
	if (mount("hostfs", MACHINE, "hostfs", 0, "/") || chdir(MACHINE) || mount(".", "/", NULL, MS_MOVE, NULL) ||
	    chroot(".") || mount_all())
		return -1;
	mkdir("/dev/pts", 0755);
	mkdir("/dev/shm", 01777);
	symlink("/proc/self/fd", "/dev/fd");
	mount("devpts", "/dev/pts", "devpts", 0, "ptmxmode=0666,mode=0620,gid=5");
	mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
	return 0;
}

int main(void)
{
	const char *host = getenv("host"), *terminal = getenv("agent"), *wire = getenv("wire");

	if (mount_all())
		return failed("/proc, /sys, /dev");
	if (wire && (load_wire(wire) || have_random()))
		return failed(VIRTUAL_WIRE);
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		set(settings[i][0], settings[i][1]);
	if (set_up("lo", 0) || set_up(WIRE, WIRE_MTU))
		return failed(WIRE " up");
	if (load(MODULE, "wire=" WIRE))
		return failed(MODULE);
	if (host && sethostname(host, strlen(host)))
		return failed("host name");
	if (terminal && enter_machine())
		return failed("files of the machine");
	if (terminal && open_wire(terminal))
		return failed(terminal);
	printf("opavnic: ready\n");
	fflush(stdout);
	if (terminal)
		serve();
	for (;;)
		pause();
}
