/* Preloaded into the store: notes, for each completed sync of a file, how much of it was there when
 * the sync began, and when the last of that was written. What a power cut may take is whatever lies
 * beyond. The store orders a sync and answers on without writing until it is done, so a sync that
 * starts late covers no more than one that starts at once. SYNC_DELAY_MS plays a slow disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static volatile double written; /* when the last write to an append-only file began */

static ssize_t path_of(int fd, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, size - 1);
    if (length >= 0)
        path[length] = 0;
    return length;
}

static void note(const char *what, double at, int fd, long long size) {
    static int notes = -1;
    char path[512], line[640];
    if (notes < 0)
        notes = open(getenv("SYNC_NOTES"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (path_of(fd, path, sizeof path) < 0)
        return;
    int wanted = snprintf(line, sizeof line, "%s %.6f %lld %s\n", what, at, size, path);
    if (write(notes, line, wanted) != wanted)
        abort();
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    struct stat found;
    char path[512];
    if (real == NULL)
        real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && path_of(fd, path, sizeof path) > 0 &&
        strstr(path, ".aof") != NULL)
        written = now();
    return real(fd, bytes, count);
}

static int synced(const char *name, int fd) {
    struct stat found;
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    const char *delay = getenv("SYNC_DELAY_MS");
    double covered = written; /* before the look at the size: what is written between is synced or not */
    if (fstat(fd, &found) != 0)
        return sync(fd);
    note("covers", covered, fd, (long long)found.st_size);
    note("begun", now(), fd, (long long)found.st_size);
    if (delay)
        usleep(1000 * atoi(delay));
    int result = sync(fd);
    if (result == 0)
        note("synced", now(), fd, (long long)found.st_size);
    return result;
}

int fdatasync(int fd) { return synced("fdatasync", fd); }
int fsync(int fd) { return synced("fsync", fd); }
