/* Preloaded into the store: notes, for each completed sync of a file, how much of it was there when
 * the sync began. What a power cut may take is whatever lies beyond. SYNC_DELAY_MS plays a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void note(const char *what, double at, int fd, long long size) {
    static int notes = -1;
    char link[64], path[512], line[640];
    if (notes < 0)
        notes = open(getenv("SYNC_NOTES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = 0;
    int wanted = snprintf(line, sizeof line, "%s %.6f %lld %s\n", what, at, size, path);
    if (write(notes, line, wanted) != wanted)
        abort();
}

static int synced(const char *name, int fd) {
    struct stat found;
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *delay = getenv("SYNC_DELAY_MS");
    double began = now(); /* before the look at the size: what is written in between is synced or not */
    if (fstat(fd, &found) != 0)
        return sync(fd);
    note("begun", began, fd, (long long)found.st_size);
    if (delay)
        usleep(1000 * atoi(delay));
    int result = sync(fd);
    if (result == 0)
        note("synced", now(), fd, (long long)found.st_size);
    return result;
}

int fdatasync(int fd) { return synced("fdatasync", fd); }
int fsync(int fd) { return synced("fsync", fd); }
