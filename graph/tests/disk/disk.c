/* A disk that can be watched, can fail and can be full.
 *
 * Loaded before libc, it sees every write, truncation, sync, rename and removal of files below
 * PLEACH_DISK_FOLDER, and logs each of them to PLEACH_DISK_LOG in the order of their effect.
 *
 * One line per event, words separated by one blank. The name of a folder ends with a slash.
 *   "write NAME OFFSET BYTES"   the bytes follow
 *   "zeros NAME OFFSET BYTES"   the bytes do not follow
 *   "truncate NAME BYTES"
 *   "sync NAME"
 *   "lost NAME"                 a sync that failed
 *   "remove NAME"
 *   "rename NAME NEW"
 *
 * A write to a file named `faults` in the folder is a command and reaches no disk:
 *   "fail N ERRNO COUNT"  fail COUNT calls, beginning with the Nth from now on (0: all of them)
 *   "die N"               fail the Nth sync from now on and end the process there
 *   "room BYTES"          limit the total size of the files below the folder; a write that does
 *                         not fit is shortened, then fails
 *   "heal"                end all of this
 *   "hit?"                fails unless a call has failed since the last command to fail
 * Files named `acknowledged` are logged and never fail. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static int log_file = -1;

static long calls_left = -1, failures_left, syncs_left = -1;
static int error, was_hit;
static long long room = -1, used;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *log_name = getenv("PLEACH_DISK_LOG");
    folder = getenv("PLEACH_DISK_FOLDER");
    if (log_name) log_file = open(log_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* The part of a path after the folder, or NULL if the path is outside of it. */
static const char *below_folder(const char *path) {
    size_t length = folder ? strlen(folder) : 0;
    if (!length || strncmp(path, folder, length)) return NULL;
    if (!path[length]) return path + length;
    return path[length] == '/' ? path + length + 1 : NULL;
}

static const char *name_of(int file, char path[PATH_MAX]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    return below_folder(path);
}

static int is_called(const char *name, const char *word) {
    const char *last = strrchr(name, '/');
    return !strcmp(last ? last + 1 : name, word);
}

static void put(const void *bytes, size_t count) {
    while (count) {
        ssize_t done = REAL(write)(log_file, bytes, count);
        if (done <= 0) abort();
        bytes = (const char *)bytes + done;
        count -= done;
    }
}

static void note(const char *kind, const char *name, const char *numbers) {
    char line[PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "%s %s%s\n", kind, name, numbers);
    if (log_file >= 0) put(line, length);
}

static void note_write(const char *name, const void *bytes, size_t count, long long offset) {
    char numbers[64];
    snprintf(numbers, sizeof numbers, " %lld %zu", offset, count);
    const char *first = bytes;
    if (!*first && !memcmp(first, first + 1, count - 1)) return note("zeros", name, numbers);
    note("write", name, numbers);
    if (log_file >= 0) put(bytes, count);
}

/* Whether this call must fail. Sets errno. */
static int fails(const char *name) {
    if (is_called(name, "acknowledged") || calls_left < 0) return 0;
    if (calls_left > 1) {
        calls_left--;
        return 0;
    }
    was_hit = 1;
    calls_left = 1;
    if (failures_left && !--failures_left) calls_left = -1;
    errno = error;
    return 1;
}

static int add_size(const char *path, const struct stat *status, int kind, struct FTW *at) {
    (void)path, (void)at;
    if (kind == FTW_F) used += status->st_size;
    return 0;
}

/* The number of bytes that fit. */
static size_t fitting(int file, size_t count, long long offset) {
    struct stat status;
    if (room < 0 || fstat(file, &status) || offset + (long long)count <= status.st_size) return count;
    used = 0;
    nftw(folder, add_size, 8, FTW_PHYS);
    long long end = status.st_size + (room > used ? room - used : 0);
    return end <= offset ? 0 : end - offset < (long long)count ? (size_t)(end - offset) : count;
}

static ssize_t obey(const void *bytes, size_t count) {
    char order[64] = "";
    int code;
    memcpy(order, bytes, count < sizeof order ? count : sizeof order - 1);
    if (sscanf(order, "fail %ld %d %ld", &calls_left, &code, &failures_left) == 3) {
        error = code;
        was_hit = 0;
    } else if (sscanf(order, "die %ld", &syncs_left) == 1) {
        return count;
    } else if (!strncmp(order, "heal", 4)) {
        calls_left = room = -1;
    } else if (sscanf(order, "room %lld", &room) != 1 && !was_hit) {
        errno = ENODATA;
        return -1;
    }
    return count;
}

static ssize_t write_at(int file, const void *bytes, size_t count, long long offset, int is_positioned) {
    char path[PATH_MAX];
    const char *name = name_of(file, path);
    if (!name) return is_positioned ? REAL(pwrite64)(file, bytes, count, offset) : REAL(write)(file, bytes, count);
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    size_t fit = count;
    if (is_called(name, "faults")) {
        done = obey(bytes, count);
    } else if (!fails(name)) {
        struct stat status;
        if (!is_positioned && !fstat(file, &status))
            offset = fcntl(file, F_GETFL) & O_APPEND ? status.st_size : lseek64(file, 0, SEEK_CUR);
        fit = is_called(name, "acknowledged") ? count : fitting(file, count, offset);
        if (!fit && count) {
            errno = ENOSPC;
        } else {
            done = is_positioned ? REAL(pwrite64)(file, bytes, fit, offset) : REAL(write)(file, bytes, fit);
            if (done > 0) note_write(name, bytes, done, offset);
        }
    }
    pthread_mutex_unlock(&lock);
    return done;
}

static int truncate_to(int file, long long length) {
    char path[PATH_MAX], number[32];
    const char *name = name_of(file, path);
    if (!name) return REAL(ftruncate64)(file, length);
    pthread_mutex_lock(&lock);
    int result = fails(name) ? -1 : REAL(ftruncate64)(file, length);
    snprintf(number, sizeof number, " %lld", length);
    if (!result) note("truncate", name, number);
    pthread_mutex_unlock(&lock);
    return result;
}

static int sync_with(int (*real)(int), int file) {
    char path[PATH_MAX];
    const char *name = name_of(file, path);
    if (!name) return real(file);
    pthread_mutex_lock(&lock);
    int result = fails(name) ? -1 : real(file), code = errno;
    struct stat status;
    int dies = syncs_left > 0 && !--syncs_left;
    note(result || dies ? "lost" : "sync", name, !fstat(file, &status) && S_ISDIR(status.st_mode) ? "/" : "");
    if (dies) _exit(0);
    pthread_mutex_unlock(&lock);
    errno = code;
    return result;
}

ssize_t write(int file, const void *bytes, size_t count) { return write_at(file, bytes, count, 0, 0); }
ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) { return write_at(file, bytes, count, offset, 1); }
ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) { return write_at(file, bytes, count, offset, 1); }
int ftruncate(int file, off_t length) { return truncate_to(file, length); }
int ftruncate64(int file, off64_t length) { return truncate_to(file, length); }
int fsync(int file) { return sync_with(REAL(fsync), file); }
int fdatasync(int file) { return sync_with(REAL(fdatasync), file); }

int unlink(const char *path) {
    const char *name = below_folder(path);
    if (!name) return REAL(unlink)(path);
    pthread_mutex_lock(&lock);
    int result = REAL(unlink)(path);
    if (!result) note("remove", name, "");
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *from, const char *to) {
    const char *old = below_folder(from), *new = below_folder(to);
    if (!old || !new) return REAL(rename)(from, to);
    char name[PATH_MAX + 1];
    pthread_mutex_lock(&lock);
    int result = fails(old) ? -1 : REAL(rename)(from, to);
    snprintf(name, sizeof name, " %s", new);
    if (!result) note("rename", old, name);
    pthread_mutex_unlock(&lock);
    return result;
}
