// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first program of the kernel: loads the modules that the file /modules lists, takes the files of the machine that it
 * runs on for its own, and becomes the agent that starts programs (agent.c). The console then says "opavnic: ready", or
 * "opavnic: " and what failed. A line of /modules is the name of a module and its parameters, in which $name is a
 * variable; a module one of whose variables is not set is left out. Variables of the kernel's command line: wire, the descriptor that
 * leads to the fabric; host, its name, and agent, the descriptor that leads to the agent: without them there is none.
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

#define MODULES "/modules"
#define AGENT "/dev/opa_sim_agent"
#define MACHINE "/host"

/* Virtual switches are separate networks: what arp_ignore and arp_announce say, labs say of all their hosts. */
static const char *const settings[][2] = {
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

static int set_up_loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int sock = socket(AF_INET, SOCK_DGRAM, 0), ret = ioctl(sock, SIOCSIFFLAGS, &request);

	close(sock);
	return ret;
}

/* Put values in the place of variables; return whether each is set. */
static int put_values(char *to, size_t size, const char *from)
{
	char name[32];
	size_t len;

	for (*to = 0; *from; from += len) {
		if (*from == '$') {
			const char *value;

			len = 1 + strcspn(from + 1, " $");
			snprintf(name, sizeof(name), "%.*s", (int)len - 1, from + 1);
			value = getenv(name);
			if (!value)
				return 0;
			strncat(to, value, size - strlen(to) - 1);
		} else {
			len = strcspn(from, "$");
			strncat(to, from, len < size - strlen(to) - 1 ? len : size - strlen(to) - 1);
		}
	}
	return 1;
}

/* Load a module, from a line of the list. */
static int load_module(char *line)
{
	char path[64], parameters[256], *more = line + strcspn(line, " \n");
	int module, ret;

	line[strcspn(line, "\n")] = 0;
	if (*more)
		*more++ = 0;
	if (!put_values(parameters, sizeof(parameters), more))
		return 0;
	snprintf(path, sizeof(path), "/%.56s.ko", line);
	module = open(path, O_RDONLY);
	ret = module < 0 || syscall(SYS_finit_module, module, parameters, 0);
	close(module);
	unlink(path);	/* it is memory */
	return ret;
}

/* Load all; return 0, or the line of the list that could not be. */
static const char *load_modules(void)
{
	static char line[256];
	FILE *list = fopen(MODULES, "r");

	while (list && fgets(line, sizeof(line), list))
		if (load_module(line))
			return line;
	return list ? NULL : MODULES;
}

/* Let the kernel hand out random numbers. On virtual time it would wait for time to pass; it has taken some from the
 * machine when it started.
 */
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
	const char *host = getenv("host"), *agent = getenv("agent"), *module;

	if (mount_all())
		return failed("/proc, /sys, /dev");
	if (have_random())
		return failed("/dev/random");
	for (unsigned int i = 0; i < sizeof(settings) / sizeof(*settings); i++)
		set(settings[i][0], settings[i][1]);
	if (set_up_loopback())
		return failed("lo up");
	module = load_modules();
	if (module)
		return failed(module);
	if (host && sethostname(host, strlen(host)))
		return failed("host name");
	if (agent && enter_machine())
		return failed("files of the machine");
	if (agent && open_wire(AGENT))
		return failed(AGENT);
	printf("opavnic: ready\n");
	fflush(stdout);
	if (agent)
		serve();
	for (;;)
		pause();
}
