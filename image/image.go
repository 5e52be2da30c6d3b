// Package image keeps the checkpoints of parallel jobs on disk: the manifest, and
// the store that commits, lists, loads, verifies and prunes them. Package container
// has the files that a checkpoint consists of.
//
// A coordinator opens the store, takes the lock of its job and sweeps what an
// earlier life may have left. For each checkpoint it calls Begin, has every
// rank process Write its image at the path it is given, and calls Commit:
//
//	store, err := image.CreateStore(vfs.OS{}, dir)
//	job, err := store.CreateJob("bt.S.4", spec)      // or store.Job, then job.Lock
//	removed, err := job.Sweep()
//	tx, err := job.Begin(1)
//	defer tx.Abort()
//	// in each rank process:
//	info, err := container.Write(ctx, vfs.OS{}, tx.RankPath(rank), header, regions, container.WriteOptions{})
//	// in the coordinator again:
//	err = tx.Commit(ctx, manifest)
//
// A rank that restarts reads the manifest and loads its file:
//
//	m, err := job.Manifest(n)
//	err = job.Load(ctx, m, m.Ranks[rank].File, rank, regions)
//
// # Promises
//
//   - When Commit has returned nil, the checkpoint survives a loss of power,
//     complete for all ranks. Until then it does not exist. There is nothing in
//     between, and no other checkpoint is affected.
//   - Every byte of every file is covered by a checksum or must be zero. Load
//     and Verify read all of them; what Load returns is what Write was given.
//   - No length, count or path in a file is believed before it is checked. A
//     damaged file costs an error that names file, offset and reason: never a
//     panic, an endless loop or more memory than the file is long.
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
// A manifest may name files in the directory of an earlier checkpoint, and the
// index of a container may refer to extents in one. The directory of a pruned
// checkpoint therefore stays, without its manifest, as long as something in it
// is used.
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

// The errors that callers tell apart with errors.Is. The text of an error
// names the file or the job; these only name the case.
var (
	// ErrNoStore says that the directory does not hold a checkpoint store.
	ErrNoStore = errors.New("not a checkpoint store")
	// ErrJobExists says that the store has a job of this name already.
	ErrJobExists = errors.New("job exists already")
	// ErrJobNotFound says that the store has no job of this name.
	ErrJobNotFound = errors.New("job not found")
	// ErrInUse says that another coordinator holds the lock of the job.
	ErrInUse = errors.New("job is in use by another coordinator")
	// ErrJobGone says that the directory of a job was removed or renamed while this
	// process had its lock.
	ErrJobGone = errors.New("the directory of the job was removed or renamed while the job runs")
	// ErrCheckpointNotFound says that the job has no committed checkpoint of
	// this number.
	ErrCheckpointNotFound = errors.New("checkpoint not found")
	// ErrRankNotFound says that the checkpoint has no rank of this number.
	ErrRankNotFound = errors.New("no rank")
	// ErrOtherDescription says that a checkpoint was taken under another
	// description of the job than the one that is there. It comes with a
	// durable.DamageError.
	ErrOtherDescription = errors.New("taken under another description of the job")
)

// Manifests and job descriptions are text between a line that says what it is
// and a line with the digest of all before, so that a person can read them and
// any flipped bit is found.
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

// unseal undoes seal. Its errors are durable.DamageError, and durable.ErrNewerVersion if the
// text is sound but not for us.
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
