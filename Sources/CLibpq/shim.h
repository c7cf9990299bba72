#ifndef SUBLEDGER_CLIBPQ_SHIM_H
#define SUBLEDGER_CLIBPQ_SHIM_H

#include <libpq-fe.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/eventfd.h>

/* glibc has these, but declares them only with _GNU_SOURCE, which Swift's Glibc module is built without. They keep
   the embedded server's processes away from our descriptors, our working directory and our terminal. */
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
extern int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);
#define SUBLEDGER_SPAWN_SETSID 0x80

/* prctl takes a variable list, which Swift cannot call. */
static inline void subledger_clear_ambient_capabilities(void) {
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

#endif
