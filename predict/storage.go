package predict

import (
	"ckpt/predict/fit"
	"strings"
)

// A Storage times checkpoints on a storage that is described, where the nodes of a job
// share what they share. It replaces the times of a prediction, which are those of disks
// that were measured.
type Storage interface {
	// Images times the images of another checkpointer.
	Images(t *Time) error
	// Stored times what ckpt stores of the job that was asked for.
	Stored(m *Model, r Request, s *Stored) error
}

// Simulated has a time come from a storage with a name: storage in seconds, with an
// interval of a factor. The doubt about the bytes is in that factor.
func (t *Time) Simulated(name string, storage, factor float64) {
	t.Latency.Storage = storage
	t.Latency.Sum()
	t.LowS, t.HighS = t.Latency.Total/factor, t.Latency.Total*factor
	t.TimeModel = "coordination(np) + management(stored) + the images, written in virtual time"
	t.Valid = "the storage " + name + ", which all nodes share"
	t.Extrapolation, t.Note = t.of.Extrapolation, t.of.Note
	if t.Assumed {
		t.Note = fit.Join(t.Note, "the ratio and the rate of "+t.Codec+" are assumed")
	}
}

// Doubt is the relative standard deviation of the size.
func (s *Size) Doubt() float64 {
	if s.TotalMiB <= 0 {
		return 0
	}
	return s.doubt()
}

// Simulated notes that the times are those of a storage with a name, of which some things
// are not known.
func (s *Stored) Simulated(name string, unknown []string) {
	s.Note = fit.Join(s.sizeNote, "times on the storage "+name+", which all nodes share")
	if len(unknown) > 0 {
		s.Note = fit.Join(s.Note, "its description does not know: "+strings.Join(unknown, ", "))
	}
}
