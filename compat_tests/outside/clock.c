/* A wall clock that can be moved: what a process is told of the time of day is wrong by as many nanoseconds as the file named by
 * OUTSIDE_CLOCK says (eight bytes, in the order of this machine). The monotonic clock stays as it is, as on a machine whose clock
 * is set. To be loaded before the C library (LD_PRELOAD); clocks.py compiles it and moves the clock.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile int64_t none = 0;
static volatile int64_t *offset = &none;

__attribute__((constructor)) static void find_offset(void)
{
    const char *name = getenv("OUTSIDE_CLOCK");
    int file = name == NULL ? -1 : open(name, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *place = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED)
        offset = place;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t moved = now->tv_sec * SECOND + now->tv_nsec + *offset;
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *place)
{
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (place != NULL)
        *place = found.tv_sec;
    return found.tv_sec;
}
