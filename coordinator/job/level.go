package job

import (
	"fmt"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// A Level says what the checkpoints of a job hold.
type Level string

const (
	System      Level = "system"      // all of the memory
	Application Level = "application" // what the application needs to continue
)

// LevelOf returns the level of the checkpoints of a job. A program stores what it
// protects, unless another checkpointer takes its memory.
func (s *Spec) LevelOf() Level {
	switch {
	case s.Level != "":
		return s.Level
	case s.Program != nil && s.Origin == "":
		return Application
	}
	return System
}

// SavesArrays reports whether ranks store only the arrays that have to be saved.
func (s *Spec) SavesArrays() bool { return s.Level == Application }

// checkLevel refuses a level that the job cannot have.
func (s *Spec) checkLevel() error {
	switch {
	case s.Level != "" && s.Level != System && s.Level != Application:
		return &UsageError{fmt.Sprintf("level %q is unknown", string(s.Level)), wording.Sprintf("{level} takes system or application")}
	case s.Level != "" && s.Program != nil:
		return &UsageError{wording.Sprintf("{level} %s: a program stores what it protects", s.Level), wording.Sprintf("leave {level} out")}
	}
	return nil
}

// Stores reports whether a rank stores a region of the data zone in a checkpoint after
// iteration iter, and whether the region is the same on all ranks: then the first rank
// of the checkpoint stores it for all. After the last iteration no array is computed
// anew, so that all are stored.
func (r *Resolved) Stores(inst *dataset.Instance, region string, iter int) (stored, replicated bool) {
	for _, a := range inst.Arrays {
		if a.Name == region {
			return a.Save || iter >= r.Iterations, a.Replicated
		}
	}
	return false, false
}

// StoredZones returns the size of regions that are all in the data zone.
func StoredZones(regions []zones.Region) (s zones.Sizes) {
	for _, r := range regions {
		s.Data += r.Size
	}
	return s
}

// Owner returns the rank of a checkpoint that has stored what is the same on all.
func Owner(m *image.Manifest) *image.Rank { return &m.Ranks[0] }
