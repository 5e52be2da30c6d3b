/* veloc.h: VeloC's interface in C on top of ckpt.h.
 *
 *     ckpt sdk c -o ckpt.h && ckpt sdk veloc -o veloc.h
 *     mpicc heat_veloc.c -o heat
 *     ckpt launch --auto-restart -- mpiexec -n 8 ./heat 4096 10000
 *
 * Programs that protect memory by VELOC_Mem_protect, or write files that VELOC_Route_file
 * names, compile unchanged. Names and arguments come from VeloC's public interface; the code
 * is our own.
 *
 * Differences from VeloC:
 *   - The configuration file is not read: the options of "ckpt launch" say where
 *     checkpoints go and how they are written.
 *   - VELOC_Restart_test answers for all ranks: a version counts if all have it.
 *   - VELOC_Checkpoint_end keeps no checkpoint if a rank says that it failed.
 *   - Only the newest checkpoint is offered. It has one name.
 *   - If "ckpt stop" or the end of the walltime stops the job, the program ends inside
 *     VELOC_Checkpoint, after the checkpoint.
 *   - A file of VELOC_Route_file is memory of the process, and a part of the checkpoint: it
 *     has hashes, levels and retention like all others. A restart gives the files
 *     back in the order of the calls. Only the rank itself can open it.
 *   - VELOC_Checkpoint_finished waits. VELOC_Cleanup removes nothing: "ckpt prune" does.
 *   - All regions are saved with each checkpoint, those of VELOC_Region_protect too.
 *   - Parts of the protected memory (the selective calls) and standalone processes
 *     (VELOC_Init_single) are refused with a line on stderr.
 */
#ifndef VELOC_H
#define VELOC_H

#include <mpi.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ckpt.h"

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)
#define VELOC_MAX_NAME (1024)
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)

#ifdef __cplusplus
extern "C" {
#endif

/* Many files of a program may include this header: the linker keeps one copy. */
#define VELOC_ONCE __attribute__((weak))

struct veloc_state {
    MPI_Comm comm; /* our own, so that our messages are not the program's */
    int rank;
    int begun;       /* between VELOC_Init and VELOC_Finalize */
    int saving;      /* between VELOC_Checkpoint_begin and _end */
    int restarting;  /* between VELOC_Restart_begin and _end */
    int failed;      /* the memory of this rank was not saved or recovered */
    int restored;    /* ckpt_restore has filled the memory in this restart */
    int files;       /* routed in this checkpoint or restart */
    int *ids;        /* of regions that VELOC_Mem_clear forgets */
    int id_count;
    long version;    /* of the checkpoint; itself a protected region */
    char label[256]; /* the region's name, with that of the checkpoint */
};

VELOC_ONCE struct veloc_state veloc_state = {MPI_COMM_NULL, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, ""};

VELOC_ONCE int veloc_refuse(const char *call, const char *reason) {
    fprintf(stderr, "ckpt: rank %d: %s: %s\n", veloc_state.rank, call, reason);
    return VELOC_FAILURE;
}

VELOC_ONCE void veloc_region(char *to, size_t room, int id) { snprintf(to, room, "veloc.%d", id); }

/* Name the region that holds the version after the checkpoint. */
VELOC_ONCE int veloc_label(const char *call, const char *name) {
    char label[sizeof veloc_state.label];
    if (!veloc_state.begun) return veloc_refuse(call, "call VELOC_Init first");
    int n = snprintf(label, sizeof label, "veloc:%s", name);
    if (n < 0 || (size_t)n >= sizeof label) return veloc_refuse(call, "the name is longer than 249 bytes");
    if (strcmp(label, veloc_state.label) == 0) return VELOC_SUCCESS;
    if (veloc_state.label[0] != '\0') ckpt_forget(veloc_state.label);
    memcpy(veloc_state.label, label, sizeof label);
    if (ckpt_protect(label, &veloc_state.version, sizeof veloc_state.version, CKPT_INT64) < 0)
        return veloc_refuse(call, ckpt_error());
    return VELOC_SUCCESS;
}

/* Say whether no rank has failed. */
VELOC_ONCE int veloc_all(int good) {
    int all = 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_LAND, veloc_state.comm);
    return all;
}

VELOC_ONCE int VELOC_Init(MPI_Comm comm, const char *cfg_file) {
    int size = 0;
    (void)cfg_file;
    if (veloc_state.begun) return veloc_refuse("VELOC_Init", "called twice");
    MPI_Comm_dup(comm, &veloc_state.comm);
    MPI_Comm_rank(comm, &veloc_state.rank);
    MPI_Comm_size(comm, &size);
    if (ckpt_init(veloc_state.rank, size) < 0) return VELOC_FAILURE;
    veloc_state.begun = 1;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Init_single(unsigned int id, const char *cfg_file) {
    (void)id;
    (void)cfg_file;
    return veloc_refuse("VELOC_Init_single", "processes cannot take checkpoints alone: call VELOC_Init");
}

VELOC_ONCE int VELOC_Finalize(int cleanup) {
    (void)cleanup; /* "ckpt rm" removes the checkpoints of a job */
    if (!veloc_state.begun) return VELOC_FAILURE;
    int status = ckpt_finalize();
    MPI_Comm_free(&veloc_state.comm);
    free(veloc_state.ids);
    veloc_state.ids = NULL;
    veloc_state.id_count = 0;
    veloc_state.begun = 0;
    veloc_state.label[0] = '\0';
    return status < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Mem_unprotect(int id) {
    char region[32];
    veloc_region(region, sizeof region, id);
    return ckpt_forget(region) < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size) {
    char region[32];
    if (count == 0) return VELOC_Mem_unprotect(id);
    if (base_size > (size_t)-1 / count) return veloc_refuse("VELOC_Mem_protect", "the size is too large");
    veloc_region(region, sizeof region, id);
    /* The type only helps to pack; the interface does not tell it. */
    int type = base_size == 8 ? CKPT_FLOAT64 : base_size == 4 ? CKPT_FLOAT32 : CKPT_BYTES;
    if (ckpt_protect(region, ptr, count * base_size, type) < 0)
        return veloc_refuse("VELOC_Mem_protect", ckpt_error());
    for (int i = 0; i < veloc_state.id_count; i++)
        if (veloc_state.ids[i] == id) return VELOC_SUCCESS;
    int *ids = (int *)realloc(veloc_state.ids, (size_t)(veloc_state.id_count + 1) * sizeof *ids);
    if (ids == NULL) return veloc_refuse("VELOC_Mem_protect", "out of memory");
    veloc_state.ids = ids;
    ids[veloc_state.id_count++] = id;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Mem_clear(void) {
    for (int i = 0; i < veloc_state.id_count; i++) {
        char region[32];
        veloc_region(region, sizeof region, veloc_state.ids[i]);
        ckpt_forget(region); /* unless the program has done so */
    }
    veloc_state.id_count = 0;
    return VELOC_SUCCESS;
}

/* Name a region that belongs to one checkpoint, so that its numbers are its own. */
VELOC_ONCE int veloc_region_of(const char *call, char *to, size_t room, int id, const char *name) {
    int n = snprintf(to, room, "veloc:%s.%d", name, id);
    return n < 0 || (size_t)n >= room ? veloc_refuse(call, "the name is too long") : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name) {
    char region[256];
    if (veloc_region_of("VELOC_Region_protect", region, sizeof region, id, name) != VELOC_SUCCESS) return VELOC_FAILURE;
    if (count > 0 && base_size > (size_t)-1 / count) return veloc_refuse("VELOC_Region_protect", "the size is too large");
    if (ckpt_protect(region, ptr, count * base_size, CKPT_BYTES) < 0)
        return veloc_refuse("VELOC_Region_protect", ckpt_error());
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Region_unprotect(int id, const char *name) {
    char region[256];
    if (veloc_region_of("VELOC_Region_unprotect", region, sizeof region, id, name) != VELOC_SUCCESS) return VELOC_FAILURE;
    return ckpt_forget(region) < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Region_clear(const char *name) {
    char first[256];
    if (veloc_region_of("VELOC_Region_clear", first, sizeof first, 0, name) != VELOC_SUCCESS) return VELOC_FAILURE;
    size_t stem = strlen(first) - 1; /* without the number */
    for (struct ckpt_i_region *r = CKPT_I->regions, *next; r != NULL; r = next) {
        next = r->next;
        if (strncmp(r->name, first, stem) == 0) ckpt_forget(r->name);
    }
    return VELOC_SUCCESS;
}

/* A file of VELOC_Route_file is memory without a name, which this process can open. */
#define VELOC_FILES 64
struct veloc_file {
    int fd;
    void *at;
    size_t bytes;
};
VELOC_ONCE struct veloc_file veloc_files[VELOC_FILES];

VELOC_ONCE void veloc_file_region(char *to, size_t room, int i) { snprintf(to, room, "veloc.file.%d", i); }

/* Protect the bytes that a file has now. */
VELOC_ONCE int veloc_file_map(int i) {
    struct veloc_file *f = &veloc_files[i];
    char region[32];
    veloc_file_region(region, sizeof region, i);
    off_t end = lseek(f->fd, 0, SEEK_END);
    if (end < 0) return veloc_refuse("VELOC_Route_file", strerror(errno));
    void *old = f->at;
    size_t had = f->bytes;
    f->at = NULL;
    f->bytes = (size_t)end;
    if (end > 0) {
        f->at = mmap(NULL, f->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
        if (f->at == MAP_FAILED) return f->at = NULL, veloc_refuse("VELOC_Route_file", strerror(errno));
    }
    int status = ckpt_protect(region, f->at, f->bytes, CKPT_BYTES);
    if (old != NULL) munmap(old, had);
    return status < 0 ? veloc_refuse("VELOC_Route_file", ckpt_error()) : VELOC_SUCCESS;
}

/* Make file i, empty or as long as it was. */
VELOC_ONCE int veloc_file_make(int i, long long bytes) {
    struct veloc_file *f = &veloc_files[i];
    if (f->fd == 0) {
        int fd = (int)syscall(SYS_memfd_create, "veloc", 1 /* MFD_CLOEXEC */);
        if (fd < 0) return veloc_refuse("VELOC_Route_file", strerror(errno));
        f->fd = fd;
    }
    if (bytes > 0 && ftruncate(f->fd, bytes) != 0) return veloc_refuse("VELOC_Route_file", strerror(errno));
    return VELOC_SUCCESS;
}

/* Forget files from the i-th on. */
VELOC_ONCE void veloc_files_end(int i) {
    char region[32];
    for (; i < VELOC_FILES && veloc_files[i].fd != 0; i++) {
        veloc_file_region(region, sizeof region, i);
        ckpt_forget(region);
        if (veloc_files[i].at != NULL) munmap(veloc_files[i].at, veloc_files[i].bytes);
        close(veloc_files[i].fd);
        memset(&veloc_files[i], 0, sizeof veloc_files[i]);
    }
}

/* Fill all memory from the checkpoint, its files too. */
VELOC_ONCE int veloc_restore(const char *call) {
    if (veloc_state.restored) return VELOC_SUCCESS;
    for (int i = 0; i < VELOC_FILES; i++) {
        char region[32];
        veloc_file_region(region, sizeof region, i);
        long long bytes = ckpt_query(region);
        if (bytes < 0) break;
        if (veloc_file_make(i, bytes) != VELOC_SUCCESS || veloc_file_map(i) != VELOC_SUCCESS) return VELOC_FAILURE;
    }
    long step = ckpt_restore();
    if (step < 0) return veloc_refuse(call, ckpt_error());
    if (step != veloc_state.version) return veloc_refuse(call, "the version changed meanwhile");
    veloc_state.restored = 1;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Route_file(const char *original, char *routed) {
    int i = veloc_state.files;
    (void)original;
    if (!veloc_state.saving && !veloc_state.restarting)
        return veloc_refuse("VELOC_Route_file", "call VELOC_Checkpoint_begin or VELOC_Restart_begin first");
    if (i == VELOC_FILES) return veloc_refuse("VELOC_Route_file", "more than 64 files");
    if (veloc_state.restarting && veloc_restore("VELOC_Route_file") != VELOC_SUCCESS) return VELOC_FAILURE;
    if (veloc_state.restarting && veloc_files[i].fd == 0)
        return veloc_refuse("VELOC_Route_file", "the checkpoint has fewer files");
    if (veloc_state.saving && veloc_file_make(i, 0) != VELOC_SUCCESS) return VELOC_FAILURE;
    snprintf(routed, VELOC_MAX_NAME, "/proc/self/fd/%d", veloc_files[i].fd);
    veloc_state.files++;
    veloc_state.failed = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_begin(const char *name, int version) {
    if (veloc_state.saving || veloc_state.restarting)
        return veloc_refuse("VELOC_Checkpoint_begin", "another checkpoint or restart has not ended");
    if (version < 0) return veloc_refuse("VELOC_Checkpoint_begin", "the version is negative");
    if (veloc_label("VELOC_Checkpoint_begin", name) != VELOC_SUCCESS) return VELOC_FAILURE;
    veloc_state.saving = veloc_state.failed = 1; /* until VELOC_Checkpoint_mem or _Route_file */
    veloc_state.files = 0;
    veloc_state.version = version;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_selective(int mode, int *ids, int id_count) {
    (void)ids;
    (void)id_count;
    if (!veloc_state.saving) return veloc_refuse("VELOC_Checkpoint_mem", "call VELOC_Checkpoint_begin first");
    if (mode != VELOC_CKPT_ALL)
        return veloc_refuse("VELOC_Checkpoint_selective", "only VELOC_CKPT_ALL: unprotect other memory");
    veloc_state.failed = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_mem(void) { return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0); }

/* The checkpoint is taken here, when all ranks say that it may be kept. */
VELOC_ONCE int VELOC_Checkpoint_end(int success) {
    if (!veloc_state.saving) return veloc_refuse("VELOC_Checkpoint_end", "call VELOC_Checkpoint_begin first");
    veloc_state.saving = 0;
    veloc_files_end(veloc_state.files);
    for (int i = 0; i < veloc_state.files; i++)
        if (veloc_file_map(i) != VELOC_SUCCESS) veloc_state.failed = 1;
    if (!veloc_all(success && !veloc_state.failed)) return VELOC_FAILURE;
    int status = ckpt_save(veloc_state.version);
    if (status == CKPT_STOP) {
        VELOC_Finalize(0);
        MPI_Finalize();
        exit(0);
    }
    return status < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_wait(void) { return ckpt_wait() < 0 ? VELOC_FAILURE : VELOC_SUCCESS; }

VELOC_ONCE int VELOC_Checkpoint_finished(void) { return VELOC_Checkpoint_wait(); }

VELOC_ONCE int VELOC_Cleanup(const char *name) {
    (void)name; /* "ckpt prune" removes checkpoints, and --keep */
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Backend_ready(void) { return VELOC_Checkpoint_wait() == VELOC_SUCCESS ? 1 : VELOC_FAILURE; }

VELOC_ONCE int VELOC_Checkpoint(const char *name, int version) {
    if (VELOC_Checkpoint_wait() != VELOC_SUCCESS) return VELOC_FAILURE;
    if (VELOC_Checkpoint_begin(name, version) != VELOC_SUCCESS) return VELOC_FAILURE;
    return VELOC_Checkpoint_end(VELOC_Checkpoint_mem() == VELOC_SUCCESS);
}

/* Return the version of the newest checkpoint, if it has this name and is not above
 * version (0: any). */
VELOC_ONCE int VELOC_Restart_test(const char *name, int version) {
    if (veloc_label("VELOC_Restart_test", name) != VELOC_SUCCESS) return VELOC_FAILURE;
    if (ckpt_query(veloc_state.label) < 0) return VELOC_FAILURE;
    long long newest = ckpt_query("");
    if (newest < 0 || newest > INT_MAX || (version > 0 && newest > version)) return VELOC_FAILURE;
    return (int)newest;
}

VELOC_ONCE int VELOC_Restart_begin(const char *name, int version) {
    if (veloc_state.saving || veloc_state.restarting)
        return veloc_refuse("VELOC_Restart_begin", "another checkpoint or restart has not ended");
    if (VELOC_Restart_test(name, 0) != version)
        return veloc_refuse("VELOC_Restart_begin", "this version is not the newest: call VELOC_Restart_test");
    veloc_state.restarting = veloc_state.failed = 1; /* until VELOC_Recover_mem or _Route_file */
    veloc_state.restored = veloc_state.files = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Recover_selective(int mode, int *ids, int id_count) {
    (void)ids;
    (void)id_count;
    if (!veloc_state.restarting) return veloc_refuse("VELOC_Recover_mem", "call VELOC_Restart_begin first");
    if (mode != VELOC_RECOVER_ALL)
        return veloc_refuse("VELOC_Recover_selective", "only VELOC_RECOVER_ALL: protect all that was saved");
    if (veloc_restore("VELOC_Recover_mem") != VELOC_SUCCESS) return VELOC_FAILURE;
    veloc_state.failed = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Recover_mem(void) { return VELOC_Recover_selective(VELOC_RECOVER_ALL, NULL, 0); }

VELOC_ONCE int VELOC_Recover_size(int id) {
    char region[32];
    veloc_region(region, sizeof region, id);
    long long bytes = ckpt_query(region);
    return bytes > INT_MAX ? -1 : (int)bytes;
}

VELOC_ONCE int VELOC_Restart_end(int success) {
    if (!veloc_state.restarting) return veloc_refuse("VELOC_Restart_end", "call VELOC_Restart_begin first");
    veloc_state.restarting = 0;
    return veloc_all(success && !veloc_state.failed) ? VELOC_SUCCESS : VELOC_FAILURE;
}

VELOC_ONCE int VELOC_Restart(const char *name, int version) {
    if (VELOC_Restart_begin(name, version) != VELOC_SUCCESS) return VELOC_FAILURE;
    return VELOC_Restart_end(VELOC_Recover_mem() == VELOC_SUCCESS);
}

#ifdef __cplusplus
}
#endif

#endif
