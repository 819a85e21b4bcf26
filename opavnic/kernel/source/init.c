// SPDX-License-Identifier: BSD-3-Clause
/*
 * The first program of the kernel: mounts /proc, /sys and /dev, sets the wire up, loads opa_sim_hfi and waits for the
 * end. The console then says "opavnic: ready", or "opavnic: " and what failed.
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODULE "/opa_sim_hfi.ko"
#define WIRE "vec0"
#define WIRE_MTU 12000

static int failed(const char *what)
{
	printf("opavnic: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	reboot(RB_POWER_OFF);
	return 1;
}

int main(void)
{
	static const char *const mounts[][2] = { { "proc", "/proc" }, { "sysfs", "/sys" }, { "devtmpfs", "/dev" } };
	struct ifreq request = { .ifr_name = WIRE };
	int sock = socket(AF_INET, SOCK_DGRAM, 0), module = open(MODULE, O_RDONLY);

	for (int i = 0; i < 3; i++) {
		mkdir(mounts[i][1], 0755);
		if (mount(mounts[i][0], mounts[i][1], mounts[i][0], 0, NULL) && errno != EBUSY)
			return failed(mounts[i][1]);
	}
	request.ifr_mtu = WIRE_MTU;
	if (sock < 0 || ioctl(sock, SIOCSIFMTU, &request))
		return failed("MTU of " WIRE);
	request.ifr_flags = IFF_UP;
	if (ioctl(sock, SIOCSIFFLAGS, &request))
		return failed(WIRE " up");
	if (module < 0 || syscall(SYS_finit_module, module, "wire=" WIRE, 0))
		return failed(MODULE);
	printf("opavnic: ready\n");
	fflush(stdout);
	for (;;)
		pause();
}
