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
 *   - Only the newest checkpoint is offered, and only before the first checkpoint of a run.
 *     It has one name.
 *   - If "ckpt stop" or the end of the walltime stops the job, the program ends inside
 *     VELOC_Checkpoint, after the checkpoint.
 *   - A file of VELOC_Route_file is memory of the process, and a part of the checkpoint: it
 *     has hashes, levels and retention like all others. A restart gives the files
 *     back in the order of the calls. Only the rank and its children can open it.
 *   - VELOC_Checkpoint_finished waits. VELOC_Cleanup removes nothing: "ckpt prune" does.
 *   - All regions are saved with each checkpoint, those of VELOC_Region_protect too, unless
 *     VELOC_Checkpoint_selective chooses among those of VELOC_Mem_protect.
 *   - Standalone processes (VELOC_Init_single) are refused with a line on stderr.
 */
#ifndef VELOC_H
#define VELOC_H

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)
#define VELOC_MAX_NAME (1024)
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)
#define VELOC_OBSERVE_CKPT_END (0)

#ifdef __cplusplus
extern "C" {
#endif

#define VELOC_ONCE CKPT_SHIM

/* A piece of memory of VELOC_Mem_protect. */
struct veloc_piece {
    int id, type;
    int left_out;  /* of the checkpoint that is being taken */
    int recovered; /* in this restart */
    void *ptr;
    size_t bytes;
};

struct veloc_state {
    int saving;      /* between VELOC_Checkpoint_begin and _end */
    int restarting;  /* between VELOC_Restart_begin and _end */
    int failed;      /* the memory of this rank was not saved or recovered */
    int restored;    /* ckpt_restore has filled the memory in this restart */
    int files;       /* routed in this checkpoint or restart */
    struct veloc_piece *pieces;
    int piece_count;
    long version;    /* of the checkpoint; itself a protected region */
    char label[256]; /* the region's name, with that of the checkpoint */
};

VELOC_ONCE struct veloc_state veloc_state = {0, 0, 0, 0, 0, NULL, 0, 0, ""};

VELOC_ONCE void veloc_region(char *to, size_t room, int id) { snprintf(to, room, "veloc.%d", id); }

/* Name the region that holds the version after the checkpoint. */
VELOC_ONCE int veloc_label(const char *call, const char *name) {
    char label[sizeof veloc_state.label];
    if (!ckpt_shim.begun) return ckpt_shim_refuse(call, "call VELOC_Init first");
    int n = snprintf(label, sizeof label, "veloc:%s", name);
    if (n < 0 || (size_t)n >= sizeof label) return ckpt_shim_refuse(call, "the name is longer than 249 bytes");
    if (strcmp(label, veloc_state.label) == 0) return VELOC_SUCCESS;
    if (veloc_state.label[0] != '\0') ckpt_forget(veloc_state.label);
    memcpy(veloc_state.label, label, sizeof label);
    if (ckpt_protect(label, &veloc_state.version, sizeof veloc_state.version, CKPT_INT64) < 0)
        return ckpt_shim_refuse(call, ckpt_error());
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Init(MPI_Comm comm, const char *cfg_file) {
    (void)cfg_file;
    return ckpt_shim_begin("VELOC_Init", comm);
}

VELOC_ONCE int VELOC_Init_single(unsigned int id, const char *cfg_file) {
    (void)id;
    (void)cfg_file;
    return ckpt_shim_refuse("VELOC_Init_single", "processes cannot take checkpoints alone: call VELOC_Init");
}

VELOC_ONCE int VELOC_Finalize(int cleanup) {
    (void)cleanup; /* "ckpt rm" removes the checkpoints of a job */
    int status = ckpt_shim_end();
    free(veloc_state.pieces);
    veloc_state.pieces = NULL;
    veloc_state.piece_count = 0;
    veloc_state.label[0] = '\0';
    return status;
}

/* The number of a piece, or -1. */
VELOC_ONCE int veloc_find(int id) {
    for (int i = 0; i < veloc_state.piece_count; i++)
        if (veloc_state.pieces[i].id == id) return i;
    return -1;
}

VELOC_ONCE int VELOC_Mem_unprotect(int id) {
    char region[32];
    int i = veloc_find(id);
    veloc_region(region, sizeof region, id);
    if (i >= 0) veloc_state.pieces[i] = veloc_state.pieces[--veloc_state.piece_count];
    return ckpt_forget(region) < 0 ? VELOC_FAILURE : VELOC_SUCCESS;
}

VELOC_ONCE int veloc_protect(const char *call, const struct veloc_piece *p) {
    char region[32];
    veloc_region(region, sizeof region, p->id);
    return ckpt_protect(region, p->ptr, p->bytes, p->type) < 0 ? ckpt_shim_refuse(call, ckpt_error()) : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Mem_protect(int id, void *ptr, size_t count, size_t base_size) {
    struct veloc_piece *list, want = {id, CKPT_BYTES, 0, 0, ptr, count * base_size};
    int i = veloc_find(id);
    if (count == 0) return VELOC_Mem_unprotect(id);
    if (base_size > (size_t)-1 / count) return ckpt_shim_refuse("VELOC_Mem_protect", "the size is too large");
    /* The type only helps to pack; the interface does not tell it. */
    want.type = base_size == 8 ? CKPT_FLOAT64 : base_size == 4 ? CKPT_FLOAT32 : CKPT_BYTES;
    if (i >= 0) want.recovered = veloc_state.pieces[i].recovered;
    if (veloc_protect("VELOC_Mem_protect", &want) != VELOC_SUCCESS) return VELOC_FAILURE;
    if (i < 0) {
        i = veloc_state.piece_count;
        list = (struct veloc_piece *)realloc(veloc_state.pieces, (size_t)(i + 1) * sizeof *list);
        if (list == NULL) return ckpt_shim_refuse("VELOC_Mem_protect", "out of memory");
        veloc_state.pieces = list;
        veloc_state.piece_count++;
    }
    veloc_state.pieces[i] = want;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Mem_clear(void) {
    while (veloc_state.piece_count > 0) VELOC_Mem_unprotect(veloc_state.pieces[0].id);
    return VELOC_SUCCESS;
}

/* Name a region that belongs to one checkpoint, so that its numbers are its own. */
VELOC_ONCE int veloc_region_of(const char *call, char *to, size_t room, int id, const char *name) {
    int n = snprintf(to, room, "veloc:%s.%d", name, id);
    return n < 0 || (size_t)n >= room ? ckpt_shim_refuse(call, "the name is too long") : VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Region_protect(int id, void *ptr, size_t count, size_t base_size, const char *name) {
    char region[256];
    if (veloc_region_of("VELOC_Region_protect", region, sizeof region, id, name) != VELOC_SUCCESS) return VELOC_FAILURE;
    if (count > 0 && base_size > (size_t)-1 / count) return ckpt_shim_refuse("VELOC_Region_protect", "the size is too large");
    if (ckpt_protect(region, ptr, count * base_size, CKPT_BYTES) < 0)
        return ckpt_shim_refuse("VELOC_Region_protect", ckpt_error());
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

VELOC_ONCE void veloc_file_region(char *to, size_t room, int i) { snprintf(to, room, "veloc.file.%d", i); }

/* Make the files of the checkpoint. */
VELOC_ONCE int veloc_files_make(const char *call) {
    for (int i = 0;; i++) {
        char region[32];
        veloc_file_region(region, sizeof region, i);
        long long bytes = ckpt_query(region);
        if (bytes < 0) return VELOC_SUCCESS;
        struct ckpt_shim_file *f = ckpt_shim_file_make(call, region, bytes);
        if (f == NULL || ckpt_shim_file_map(call, f) != 0) return VELOC_FAILURE;
    }
}

/* Fill the memory from the checkpoint, its files too: all of it, or on demand. */
VELOC_ONCE int veloc_restore(const char *call, int all) {
    if (veloc_state.restored) return VELOC_SUCCESS;
    if (veloc_files_make(call) != VELOC_SUCCESS) return VELOC_FAILURE;
    /* "veloc." and a digit are memory, "veloc.file." are files. */
    long step = all ? ckpt_restore() : ckpt_shim_stage(call, "veloc.");
    if (step < 0) return ckpt_shim_refuse(call, ckpt_error());
    if (!all)
        for (int i = 0; i < ckpt_shim.file_count; i++) {
            struct ckpt_shim_file *f = &ckpt_shim.files[i];
            ckpt_shim_take(f->region, f->at, f->bytes);
        }
    if (step != veloc_state.version) return ckpt_shim_refuse(call, "the version changed meanwhile");
    veloc_state.restored = all ? 2 : 1;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Route_file(const char *original, char *routed) {
    char region[32];
    int i = veloc_state.files;
    (void)original;
    if (!veloc_state.saving && !veloc_state.restarting)
        return ckpt_shim_refuse("VELOC_Route_file", "call VELOC_Checkpoint_begin or VELOC_Restart_begin first");
    if (veloc_state.restarting && veloc_restore("VELOC_Route_file", 1) != VELOC_SUCCESS) return VELOC_FAILURE;
    if (veloc_state.restarting && i >= ckpt_shim.file_count)
        return ckpt_shim_refuse("VELOC_Route_file", "the checkpoint has fewer files");
    veloc_file_region(region, sizeof region, i);
    if (i >= ckpt_shim.file_count && ckpt_shim_file_make("VELOC_Route_file", region, 0) == NULL) return VELOC_FAILURE;
    ckpt_shim_path(&ckpt_shim.files[i], routed, VELOC_MAX_NAME);
    veloc_state.files++;
    veloc_state.failed = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_begin(const char *name, int version) {
    if (veloc_state.saving || veloc_state.restarting)
        return ckpt_shim_refuse("VELOC_Checkpoint_begin", "another checkpoint or restart has not ended");
    if (version < 0) return ckpt_shim_refuse("VELOC_Checkpoint_begin", "the version is negative");
    if (veloc_label("VELOC_Checkpoint_begin", name) != VELOC_SUCCESS) return VELOC_FAILURE;
    veloc_state.saving = veloc_state.failed = 1; /* until VELOC_Checkpoint_mem or _Route_file */
    veloc_state.files = 0;
    veloc_state.version = version;
    for (int i = 0; i < veloc_state.piece_count; i++) veloc_state.pieces[i].left_out = 1;
    return VELOC_SUCCESS;
}

/* Whether a mode chooses a number. Modes are the same for checkpoints and restarts. */
VELOC_ONCE int veloc_chosen(int mode, const int *ids, int id_count, int id) {
    for (int i = 0; i < id_count && mode != VELOC_CKPT_ALL; i++)
        if (ids[i] == id) return mode == VELOC_CKPT_SOME;
    return mode != VELOC_CKPT_SOME;
}

VELOC_ONCE int VELOC_Checkpoint_selective(int mode, int *ids, int id_count) {
    if (!veloc_state.saving) return ckpt_shim_refuse("VELOC_Checkpoint_selective", "call VELOC_Checkpoint_begin first");
    if (mode == VELOC_CKPT_SOME)
        for (int i = 0; i < id_count; i++)
            if (veloc_find(ids[i]) < 0) return ckpt_shim_refuse("VELOC_Checkpoint_selective", "a number is not protected");
    for (int i = 0; i < veloc_state.piece_count; i++)
        if (veloc_chosen(mode, ids, id_count, veloc_state.pieces[i].id)) veloc_state.pieces[i].left_out = 0;
    veloc_state.failed = 0;
    return VELOC_SUCCESS;
}

VELOC_ONCE int VELOC_Checkpoint_mem(void) { return VELOC_Checkpoint_selective(VELOC_CKPT_ALL, NULL, 0); }

/* Take the memory that the checkpoint leaves out from the list, or put it back. A checkpoint
   of files alone has all memory, as ever. */
VELOC_ONCE int veloc_leave_out(int put_back) {
    int out = 0, good = 1;
    for (int i = 0; i < veloc_state.piece_count; i++) out += veloc_state.pieces[i].left_out;
    if (out == veloc_state.piece_count && veloc_state.files > 0) return 1;
    for (int i = 0; i < veloc_state.piece_count; i++) {
        char region[32];
        const struct veloc_piece *p = &veloc_state.pieces[i];
        if (!p->left_out) continue;
        veloc_region(region, sizeof region, p->id);
        good &= put_back ? veloc_protect("VELOC_Checkpoint_end", p) == VELOC_SUCCESS : ckpt_forget(region) >= 0;
    }
    return good;
}

/* The checkpoint is taken here, when all ranks say that it may be kept. */
VELOC_ONCE int VELOC_Checkpoint_end(int success) {
    if (!veloc_state.saving) return ckpt_shim_refuse("VELOC_Checkpoint_end", "call VELOC_Checkpoint_begin first");
    veloc_state.saving = 0;
    ckpt_shim_files_end(veloc_state.files);
    for (int i = 0; i < veloc_state.files; i++)
        if (ckpt_shim_file_map("VELOC_Route_file", &ckpt_shim.files[i]) != 0) veloc_state.failed = 1;
    if (!ckpt_shim_all(success && !veloc_state.failed)) return VELOC_FAILURE;
    veloc_leave_out(0);
    int status = ckpt_shim_save(veloc_state.version);
    if (!veloc_leave_out(1)) return VELOC_FAILURE;
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
        return ckpt_shim_refuse("VELOC_Restart_begin", "another checkpoint or restart has not ended");
    if (VELOC_Restart_test(name, 0) != version)
        return ckpt_shim_refuse("VELOC_Restart_begin", "this version is not the newest: call VELOC_Restart_test");
    veloc_state.restarting = veloc_state.failed = 1; /* until VELOC_Recover_mem or _Route_file */
    veloc_state.restored = veloc_state.files = 0;
    for (int i = 0; i < veloc_state.piece_count; i++) veloc_state.pieces[i].recovered = 0;
    return VELOC_SUCCESS;
}

/* Memory that is recovered in several calls may be protected meanwhile: the first call reads
   the whole checkpoint. */
VELOC_ONCE int VELOC_Recover_selective(int mode, int *ids, int id_count) {
    const char *call = "VELOC_Recover_selective";
    if (!veloc_state.restarting) return ckpt_shim_refuse("VELOC_Recover_mem", "call VELOC_Restart_begin first");
    if (mode == VELOC_RECOVER_SOME)
        for (int i = 0; i < id_count; i++)
            if (veloc_find(ids[i]) < 0) return ckpt_shim_refuse(call, "a number is not protected");
    if (veloc_restore(call, mode == VELOC_RECOVER_ALL) != VELOC_SUCCESS) return VELOC_FAILURE;
    for (int i = 0; veloc_state.restored == 1 && i < veloc_state.piece_count; i++) {
        char region[32];
        struct veloc_piece *p = &veloc_state.pieces[i];
        if (p->recovered || !veloc_chosen(mode, ids, id_count, p->id)) continue;
        veloc_region(region, sizeof region, p->id);
        if (ckpt_shim_take(region, p->ptr, p->bytes) < 0)
            return ckpt_shim_refuse(call, "the checkpoint lacks a number, or has more of it than is protected");
        p->recovered = 1;
    }
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
    if (!veloc_state.restarting) return ckpt_shim_refuse("VELOC_Restart_end", "call VELOC_Restart_begin first");
    veloc_state.restarting = 0;
    ckpt_shim_unstage();
    return ckpt_shim_all(success && !veloc_state.failed) ? VELOC_SUCCESS : VELOC_FAILURE;
}

VELOC_ONCE int VELOC_Restart(const char *name, int version) {
    if (VELOC_Restart_begin(name, version) != VELOC_SUCCESS) return VELOC_FAILURE;
    return VELOC_Restart_end(VELOC_Recover_mem() == VELOC_SUCCESS);
}

#ifdef __cplusplus
}
#endif

#endif
