package job

import (
	"fmt"

	"ckpt/image"
	"ckpt/internal/wording"
)

// AnyRanks reports whether the ranks of a simulated job hold arrays together, so that it
// may have checkpoints of another number of ranks than it was launched with.
func (s *Resolved) AnyRanks() bool {
	if s.Program != nil || s.Origin != "" || s.Mode != Coordinated {
		return false
	}
	inst, err := s.Instance()
	return err == nil && inst.Global()
}

// OnRanks describes the job on another number of ranks than it was launched with: it
// keeps its arrays.
func (s Spec) OnRanks(np int) Spec {
	if np != s.NP {
		s.Launched, s.NP = s.NP, np
		s.WritePath.Aggregators = min(s.WritePath.Aggregators, np)
	}
	return s
}

// CheckRanks refuses to restart a job of simulated ranks on np others, from a checkpoint of
// another number; m is nil if it was not chosen since that cannot be.
func (s *Resolved) CheckRanks(m *image.Manifest, np int) error {
	as := wording.Sprintf("leave {np} out: the job restarts on %s", plainRanks(s.NP))
	if s.Mode != Coordinated {
		return &UsageError{wording.Sprintf("{np} %d: the job takes %s checkpoints, whose groups are of its %s", np, s.Mode, plainRanks(s.NP)), as}
	}
	inst, err := s.Instance()
	if err != nil {
		return err
	}
	for _, a := range inst.Arrays {
		if a.Layout == nil && !a.Replicated && (a.Save || !s.SavesArrays()) {
			return &UsageError{wording.Sprintf("{np} %d: array %q of %s is neither global nor replicated: it belongs to each of the %s alone", np, a.Name, inst.Name, plainRanks(s.NP)),
				as + "; or describe the array with `global` in the workload of later jobs"}
		}
	}
	if m == nil {
		return nil
	}
	for _, r := range m.Ranks {
		if r.Pending > 0 {
			return &UsageError{wording.Sprintf("{np} %d: checkpoint %d holds messages that rank %d has yet to receive", np, m.Number, r.Rank),
				fmt.Sprintf("restart on %s", plainRanks(m.NP))}
		}
	}
	return nil
}
