/* Preloaded with a sanitizer's runtime: forked children write their reports to files of their own. tools/reports.py says why. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

void __sanitizer_set_report_path(const char *path);

static char path[4096];

static void in_child(void) {
    __sanitizer_set_report_path(path);
}

__attribute__((constructor)) static void watch(void) {
    const char *reports = getenv("PINYON_REPORTS");
    int length = reports ? snprintf(path, sizeof path, "%s.forked", reports) : -1;
    if (length > 0 && (size_t)length < sizeof path)
        pthread_atfork(NULL, NULL, in_child);
}
