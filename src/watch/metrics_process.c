/* SPDX-License-Identifier: MIT
 *
 * metrics_process -- what the system knows of this process, by the names that every exporter uses.
 * What it does not tell (no /proc) is left out.
 */
#include "watch/metrics_internal.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_FOLDER "/proc/self/fd"

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void add_cpu(struct sheet *sheet)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        sheet_one(sheet, "process_cpu_seconds_total", "counter",
                  "Processor time spent, by the program and for it by the kernel.",
                  seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime));
    }
}

static void add_memory(struct sheet *sheet)
{
    FILE *file = fopen("/proc/self/statm", "re");
    uint64_t pages = 0, resident = 0;

    if (file == NULL) {
        return;
    }
    if (fscanf(file, "%" SCNu64 " %" SCNu64, &pages, &resident) == 2) {
        double page_bytes = (double)sysconf(_SC_PAGESIZE);
        sheet_one(sheet, "process_virtual_memory_bytes", "gauge", "Address space.",
                  (double)pages * page_bytes);
        sheet_one(sheet, "process_resident_memory_bytes", "gauge", "Memory in use.",
                  (double)resident * page_bytes);
    }
    (void)fclose(file); /* it was only read */
}

/* One by one, for kernels that do not tell their number. */
static bool count_entries(uint64_t *ret_count)
{
    DIR *folder = opendir(FILES_FOLDER);
    uint64_t count = 0;

    if (folder == NULL) {
        return false;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);                  /* it was only read */
    *ret_count = count >= 3 ? count - 3 : 0; /* . and .. and that of the folder */
    return true;
}

/* Linux 6.2 and later tell their number as the size of the folder. To read the folder costs some
 * microseconds for each descriptor, on the thread that serves them: with ten thousand connections that
 * is a standstill at every scrape. */
static bool count_files(uint64_t *ret_count)
{
    struct stat folder;

    if (stat(FILES_FOLDER, &folder) == 0 && folder.st_size > 0) {
        *ret_count = (uint64_t)folder.st_size;
        return true;
    }
    return count_entries(ret_count);
}

static void add_files(struct sheet *sheet)
{
    struct rlimit limit;
    uint64_t count;

    if (count_files(&count)) {
        sheet_one(sheet, "process_open_fds", "gauge", "File descriptors that are open.",
                  (double)count);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        sheet_one(sheet, "process_max_fds", "gauge", "File descriptors that may be open.",
                  (double)limit.rlim_cur);
    }
}

void metrics_add_process(struct sheet *sheet, int64_t started_at_ms)
{
    add_cpu(sheet);
    add_memory(sheet);
    add_files(sheet);
    sheet_one(sheet, "process_start_time_seconds", "gauge",
              "When the process began, in seconds since 1970.", (double)started_at_ms / 1000);
}
