package plan

import (
	"ckpt/predict"
	"slices"
)

// storedOptions predicts one job of ckpt under every codec.
func storedOptions(m *predict.Model, p *Planning, r predict.Request, app float64) ([]Option, error) {
	r.Aggregators, r.BufferMiB = 0, 0 // those of the I/O of an application
	codecs := p.Codecs
	if len(codecs) == 0 {
		measured := m.Service.App(r.App.Name, r.App.Class).Codec()
		if r.App.Instance() != nil || measured == "" {
			codecs = append(codecs, "none") // else only the law of what jobs stored is known
		}
		if measured != "" && !slices.Contains(codecs, measured) {
			codecs = append(codecs, measured)
		}
	}
	var out []Option
	for _, codec := range codecs {
		how := p.Storing
		how.Codec = codec
		s, err := m.Stored(r, how, p.Probe)
		if err == nil && p.Storage != nil {
			err = p.Storage.Stored(m, r, s)
		}
		if err != nil {
			return nil, err
		}
		o := Option{PPN: slices.Max(r.Mapping), Nodes: len(r.Mapping), Mapping: r.Mapping, MPI: r.MPI, Codec: s.Codec, AppS: app,
			Extrapolation: max(1, s.Extrapolation, s.FullTime.Extrapolation), Assumed: s.Assumed || s.FullTime.Default}
		if err := o.scheduleStored(p, s); err != nil {
			return nil, err
		}
		o.Guess = o.LowS <= 0 || o.Extrapolation >= farOut
		o.Fits = o.Count > 0 && (p.CapacityMiB == 0 || o.StorageMiB <= p.CapacityMiB)
		out = append(out, o)
	}
	return out, nil
}

// scheduleStored fills in the checkpoints of an option. Their mean cost depends on their
// number, since the first one is the dearest.
func (o *Option) scheduleStored(p *Planning, s *predict.Stored) error {
	const mib = 1 << 20
	o.FileMiB = s.Full.Total.Value / float64(s.Full.Files) / mib
	n := max(1, p.Checkpoints)
	for range meanRounds {
		cost := s.MeanCost(n)
		o.CheckpointS, o.LowS, o.HighS = cost.Value, cost.Low, cost.High
		if err := o.schedule(p); err != nil {
			return err
		}
		n = max(1, o.Count)
	}
	o.GstoredMiB = s.Mean(n) / mib
	share := s.Mean(n) / s.Next.Total.Value
	o.LowMiB, o.HighMiB = s.Next.Total.Low*share/mib, s.Next.Total.High*share/mib
	// Kept checkpoints refer to a full one, and a new one is complete before an old
	// one goes.
	o.StorageMiB = (s.Library.Value + s.Full.Total.Value + float64(p.Keep)*s.Next.Total.Value) / mib
	return nil
}

// meanRounds is how often the number of checkpoints is found again from their mean cost.
const meanRounds = 4

// Affordable returns how many checkpoints an overhead pays for. Their mean cost depends on
// that number, so it is found by rounds.
func Affordable(s *predict.Stored, overhead, app float64) (n int, err error) {
	n = 1
	for range meanRounds {
		if n, _, _, err = budget(overhead, app, s.MeanCost(n).Value); err != nil {
			return 0, err
		}
	}
	return n, nil
}
