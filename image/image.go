// Package image keeps the checkpoints of parallel jobs on disk: the manifest, and the store
// that commits, lists, loads, verifies and prunes them. Package container has the files of a
// checkpoint.
//
// A coordinator opens the store, takes the lock of its job, sweeps what an earlier life left,
// and for each checkpoint calls Begin, has every rank Write its image, and calls Commit:
//
//	store, err := image.CreateStore(vfs.OS{}, dir)
//	job, err := store.CreateJob("bt.S.4", spec) // or store.Job, then job.Lock
//	removed, err := job.Sweep()
//	tx, err := job.Begin(1)
//	defer tx.Abort()
//	// in each rank process:
//	info, err := container.Write(ctx, vfs.OS{}, tx.RankPath(rank), header, regions, options)
//	// in the coordinator again:
//	err = tx.Commit(ctx, manifest)
//
// A rank that restarts reads the manifest and loads its file:
//
//	m, err := job.Manifest(n)
//	err = job.Load(ctx, m, m.Ranks[rank].File, rank, regions, options)
//
// # Promises
//
//   - Once Commit has returned nil, the checkpoint survives a loss of power, complete for all
//     ranks. Until then it does not exist, and no other checkpoint is affected.
//   - A checksum covers every byte that is not zero. Load and Verify read all of them; Load
//     returns what Write was given.
//   - No length, count or path in a file is believed before it is checked. Damage costs an
//     error with file, offset and reason: never a panic, an endless loop or more memory than
//     the file is long.
//   - A failed Write leaves no file, a failed Commit no checkpoint.
//   - The same regions make the same file, byte for byte.
//
// # Store
//
//	DIR/format                         "ckpt-store 1\n"
//	DIR/jobs/JOB/job                   the caller's description of the job
//	DIR/jobs/JOB/lock                  flock: one writer per job
//	DIR/jobs/JOB/NNNN/manifest         the checkpoint; the rest is what it names
//	DIR/jobs/JOB/NNNN/rank-R.img       container files
//	DIR/jobs/JOB/NNNN/node-K.shared.img
//	DIR/jobs/JOB/NNNN/library.img
//
// A manifest may name files of an earlier checkpoint, and a container may refer to extents
// there. So the directory of a pruned checkpoint stays, without its manifest, as long as
// something in it is used.
package image

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"

	"ckpt/internal/durable"
)

// The cases that callers tell apart with errors.Is. Their texts add the file or the job.
var (
	// ErrNoStore says that the directory does not hold a checkpoint store.
	ErrNoStore = errors.New("not a checkpoint store")
	// ErrSameStore: what is to be another store is this one, under another name.
	ErrSameStore = errors.New("is the store itself")
	// ErrAmongJobs: a directory for a store lies where another store has its jobs.
	ErrAmongJobs = errors.New("lies among the jobs of another store")
	// ErrJobExists says that the store has a job of this name already.
	ErrJobExists = errors.New("job exists already")
	// ErrJobNotFound says that the store has no job of this name.
	ErrJobNotFound = errors.New("job not found")
	// ErrInUse says that another coordinator holds the lock of the job.
	ErrInUse = errors.New("job is in use by another coordinator")
	// ErrJobGone: the directory was removed or renamed while this process had its lock.
	ErrJobGone = errors.New("the directory of the job was removed or renamed while the job runs")
	// ErrCheckpointNotFound: the job has no committed checkpoint of this number.
	ErrCheckpointNotFound = errors.New("checkpoint not found")
	// ErrRankNotFound says that the checkpoint has no rank of this number.
	ErrRankNotFound = errors.New("no rank")
	// ErrOtherDescription: the checkpoint was taken under another description of the job than
	// the one there. It comes with a durable.DamageError.
	ErrOtherDescription = errors.New("taken under another description of the job")
)

// Manifests and descriptions are text between a line that names them and a digest of all
// before, so that a person can read them and any flipped bit is found.
const (
	sumPrefix     = "blake3 "
	formatVersion = 1 // of manifests, descriptions and the store
)

// seal puts body between the two lines; it should end in a newline.
func seal(magic string, body []byte) []byte {
	b := fmt.Appendf(nil, "%s%d\n%s", magic, formatVersion, body)
	return fmt.Appendf(b, "%s%x\n", sumPrefix, blake3.Sum256(b))
}

// sealOf returns the digest in the last line of a sealed text.
func sealOf(b []byte) string { return string(b[len(b)-65 : len(b)-1]) }

// DigestOf returns the digest of the description of a job, as Job.Digest does.
func DigestOf(spec []byte) string { return sealOf(seal(specMagic, spec)) }

// unseal undoes seal. It fails with a durable.DamageError or durable.ErrNewerVersion.
func unseal(path, magic string, b []byte) (body []byte, version int, err error) {
	const sumLine = len(sumPrefix) + 64 + 1
	what := strings.TrimSpace(magic)
	at := len(b) - sumLine
	if at < 0 || !bytes.HasPrefix(b, []byte(magic)) {
		return nil, 0, durable.Damaged(path, 0, "not a %s, or cut short at %d bytes", what, len(b))
	}
	if want := fmt.Sprintf("%s%x\n", sumPrefix, blake3.Sum256(b[:at])); string(b[at:]) != want {
		return nil, 0, durable.Damaged(path, int64(at), "checksum of the %s does not match", what)
	}
	line, body, ok := bytes.Cut(b[len(magic):at], []byte("\n"))
	version, err = strconv.Atoi(string(line))
	if !ok || err != nil || version < 1 {
		return nil, 0, durable.Damaged(path, 0, "version %.20q of the %s is not a number", line, what)
	}
	if version > formatVersion {
		return nil, 0, durable.Op("read", path, -1, fmt.Errorf("%s format %d: %w", what, version, durable.ErrNewerVersion))
	}
	return body, version, nil
}
