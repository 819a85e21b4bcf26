/* A kernel that lies: once the file $LYING_READ exists, each read of a frame says that it has brought 16 MiB.
 *
 * Preloaded into a lab with the native datapath, it makes a worker's thread panic in the middle of its work, under its
 * lock, as a bug of ours would.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ARGUMENTS = 6, FRAME = 60000, TOO_MUCH = 16 << 20 };

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    va_list list;
    va_start(list, number);
    long value[ARGUMENTS];
    for (int at = 0; at < ARGUMENTS; at++)
        value[at] = va_arg(list, long);
    va_end(list);
    long result = real(number, value[0], value[1], value[2], value[3], value[4], value[5]);
    const char *file = getenv("LYING_READ");
    int is_frame = number == SYS_read && result > 0 && value[2] > FRAME;
    return is_frame && file && access(file, F_OK) == 0 ? TOO_MUCH : result;
}
