package job

import (
	"encoding/json"
	"fmt"
	"sync"

	"ckpt/coordinator/mpi"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/internal/wording"
)

// Resolve reads the texts of a Spec once, and refuses what cannot run. Nothing of an
// imported job runs: it has its ranks in one group, and no settings.
func (s Spec) Resolve() (*Resolved, error) {
	r := &Resolved{Spec: s, Nodes: s.Mapping.Nodes(), instance: sync.OnceValues(s.evaluate)}
	if s.Origin != "" {
		r.divide()
		return r, nil
	}
	var err error
	if r.Implementation, err = mpi.ParseImplementation(s.MPI); err != nil && s.Program == nil {
		return nil, &UsageError{fmt.Sprintf("mpi %q is unknown", s.MPI), wording.Sprintf("{mpi} takes mpich or openmpi")}
	}
	if s.Program != nil && s.Mode != Coordinated {
		return nil, &UsageError{wording.Sprintf("{mode} %s: the ranks of a program take checkpoints together", s.Mode), wording.Sprintf("leave {mode} out")}
	}
	if err := r.resolveMode(); err != nil {
		return nil, err
	}
	if r.Codec, err = parseOr(s.Codec, codec.UseNone, codec.ParseSetting); err != nil {
		return nil, &UsageError{err.Error(), wording.Sprintf("{codec} takes %s", codec.Choices())}
	}
	if err := s.StorageTurns.Check(); err != nil {
		return nil, err
	}
	if err := s.checkNumbers(); err != nil {
		return nil, err
	}
	r.divide()
	if s.Keep > 0 && r.Several() {
		return nil, &UsageError{fmt.Sprintf("keep of %d checkpoints: %d groups take checkpoints apart from each other, and remove at once those that no recovery needs",
			s.Keep, len(r.Groups)), wording.Sprintf("leave {keep} out: such a job keeps few checkpoints by itself")}
	}
	if s.Tuning != nil && (r.Several() || s.Program != nil || s.SavesArrays()) {
		return nil, &UsageError{wording.Sprintf("{tune}: only a simulated job of one group that stores all its memory can be tuned"), wording.Sprintf("leave {tune} out, or {mode} and {level}")}
	}
	if err := r.checkTier(); err != nil {
		return nil, err
	}
	if err := r.resolveLayouts(); err != nil {
		return nil, err
	}
	return r, s.checkCount()
}

// decodeSpec is the inverse of Encode.
func decodeSpec(b []byte) (*Resolved, error) {
	var s Spec
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	if s.NP < 1 || s.NP > maxNP || len(s.Mapping) == 0 && s.Origin == "" {
		return nil, fmt.Errorf("np %d, mapping %q: not a job", s.NP, s.Mapping)
	}
	sum := 0
	for _, n := range s.Mapping {
		if n < 1 || n > s.NP-sum {
			return nil, fmt.Errorf("mapping %q is malformed", s.Mapping)
		}
		sum += n
	}
	switch {
	case s.Origin != "" && (len(s.Mapping) == 0 || sum == s.NP) && s.Mode == Coordinated:
		return s.Resolve() // nothing of it will run
	case s.Origin != "":
		return nil, fmt.Errorf("mode %q, mapping %q of %d ranks: not an imported job", s.Mode, s.Mapping, s.NP)
	case sum != s.NP:
		return nil, fmt.Errorf("mapping %q does not place %d ranks", s.Mapping, s.NP)
	}
	return s.Resolve()
}

// ReadSpec reads the description of a job.
func ReadSpec(job *image.Job) (*Resolved, error) {
	text, err := job.Spec()
	if err != nil {
		return nil, err
	}
	spec, err := decodeSpec(text)
	if err != nil {
		return nil, senseless(job, err)
	}
	return spec, nil
}
