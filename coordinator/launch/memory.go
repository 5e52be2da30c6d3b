package launch

import (
	"bufio"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A MemoryError says that a job does not fit this machine.
type MemoryError struct {
	Need, Have int64
	InFlight   int // copies of the memory among it
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("the job needs %.1f GiB of memory, this machine has %.1f GiB free",
		float64(e.Need)/(1<<30), float64(e.Have)/(1<<30))
}

func (e *MemoryError) Hint() string {
	if e.InFlight > 1 {
		return wording.Sprintf("{async}=%d keeps %d copies of the memory: give it a smaller number; or choose a smaller class, or fewer ranks per node", e.InFlight, e.InFlight)
	}
	return "choose a smaller class, or fewer ranks per node"
}

// A RoomError says that the checkpoints which a job may have at a time surely fit the storage only
// if they pack well.
type RoomError struct {
	Dir        string
	Versions   int
	Need, Have int64
}

func (e *RoomError) Error() string {
	const gib = 1 << 30
	return fmt.Sprintf("%d checkpoints, unpacked, need %.2f GiB in %s, where %.2f GiB are free", e.Versions, float64(e.Need)/gib, e.Dir, float64(e.Have)/gib)
}

func (e *RoomError) Hint() string {
	return wording.Sprintf("give {async} a number below %d, or none; or free some space", e.Versions-1)
}

func (e *RoomError) Is(target error) bool { return target == durable.ErrStorageFull }

// CheckStore refuses what a store in an object storage or a sealed one cannot do: an object and a
// sealed file have one writer, and nothing is added to them. It refuses a store that is not sealed
// where an identity was given, too: somebody may have taken the seal away.
func CheckStore(fsys vfs.FS, store string, spec *job.Spec) error {
	sealed, err := image.IsSealed(fsys, store)
	if err != nil {
		return err
	}
	file, other := "an object", "a directory"
	switch {
	case sealed:
		file, other = "a sealed file", "a directory that is not sealed"
	case image.IdentityGiven():
		return &job.UsageError{Text: fmt.Sprintf("CKPT_IDENTITY names an identity, and the store %s is not sealed: others could read what the job keeps there", store),
			Fix: wording.Sprintf("name a sealed store with {store}, or leave CKPT_IDENTITY away to use this one")}
	case !vfs.Mounted(store):
		return nil
	}
	if l := spec.WritePath.Layout; l != "" && l != plan.PerRank {
		return &job.UsageError{Text: wording.Sprintf("{layout} %s has several ranks write one file, and %s has one writer", l, file),
			Fix: wording.Sprintf("leave {layout} out, or name %s with {store}", other)}
	}
	if spec.Mode != "" && spec.Mode != job.Coordinated && spec.Log != "none" {
		return &job.UsageError{Text: wording.Sprintf("{mode} %s logs messages in files, and nothing is added to %s", spec.Mode, file),
			Fix: wording.Sprintf("add {log} none, or name %s with {store}", other)}
	}
	if sealed && spec.Origin != "" {
		return &job.UsageError{Text: "DMTCP writes its images into the store itself, and does not seal them",
			Fix: wording.Sprintf("name another store with {store}, and seal a copy")}
	}
	return nil
}

// CheckRoom refuses a job with several checkpoints in flight whose storage is too small for them and
// for the one that they follow, or on the nodes for as many as these keep.
func CheckRoom(spec *job.Resolved, fsys vfs.FS, store string) error {
	if spec.Flights() < 2 || spec.Program != nil {
		return nil
	}
	data, _, err := spec.Memory()
	if err != nil {
		return err
	}
	if err := checkFree(fsys, store, data, spec.Flights()+1); err != nil || spec.Tier == nil {
		return err
	}
	for node, ranks := range spec.Mapping {
		if err := checkFree(fsys, spec.Tier.NodeDir(node), data/int64(spec.NP)*int64(ranks), nodes.Slots); err != nil {
			return err
		}
	}
	return nil
}

// checkFree refuses a directory, which may have to be made, with too little space for versions of
// so many bytes each.
func checkFree(fsys vfs.FS, dir string, bytes int64, versions int) error {
	have, err := fsys.Free(dir)
	for at := dir; err != nil && filepath.Dir(at) != at; {
		at = filepath.Dir(at)
		have, err = fsys.Free(at)
	}
	if need := bytes * int64(versions); err == nil && need > have {
		return &RoomError{dir, versions, need, have}
	}
	return nil
}

// CheckMemory refuses a job for which the machine would have to kill processes.
func CheckMemory(spec *job.Resolved) error {
	if spec.Program != nil {
		return nil // it has its memory, here or on other hosts
	}
	const perRank = 24 << 20 // the Go runtime of a rank and its buffers
	data, shared, err := spec.Memory()
	if err != nil {
		return err
	}
	need := data + shared + perRank*int64(spec.NP)
	if spec.Async {
		need += spec.StagingBytes(data/int64(spec.NP)) * int64(spec.NP) * int64(spec.Flights())
	}
	if have, ok := AvailableMemory(); ok && need > have {
		return &MemoryError{Need: need, Have: have, InFlight: spec.Flights()}
	}
	return nil
}

// AvailableMemory reads MemAvailable, what can be had without swapping.
func AvailableMemory() (int64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}
