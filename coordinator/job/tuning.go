package job

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"ckpt/image"
	"ckpt/image/plan"
	"ckpt/internal/durable"
)

// Tuning says that a job looks for the best way to write on a storage.
type Tuning struct {
	Storage   string `json:"storage"`   // the description, as YAML
	Objective string `json:"objective"` // as tune.ParseObjective takes it
	// Before is the way that the user asked for, and Why says what the one found is better
	// at.
	Before      Way    `json:"before"`
	BeforeAsync bool   `json:"before_async,omitempty"`
	Why         string `json:"why"`
}

// A TunedWay is a Way as events tell it.
type TunedWay struct {
	Layout      plan.Layout   `json:"layout"`
	Strategy    plan.Strategy `json:"strategy"`
	Aggregators int           `json:"aggregators"`
	Buffer      int64         `json:"buffer_bytes"`
	StripeSize  int64         `json:"stripe_bytes"`
	StripeCount int           `json:"stripe_count"`
	P1          bool          `json:"p1"`
	P2          bool          `json:"p2"`
	P3          bool          `json:"p3"`
	P4          bool          `json:"p4"`
	Codec       string        `json:"codec"`
	Async       bool          `json:"async"`
}

// A TunedEvent says that checkpoints are written in another way from now on.
type TunedEvent struct {
	Type      string   `json:"type"`             // "tuned"
	After     int      `json:"after_checkpoint"` // 0: when the job starts
	Objective string   `json:"objective"`
	From      TunedWay `json:"from_way"`
	To        TunedWay `json:"to_way"`
	// Measured and Forecast are the latencies of the checkpoint that led to the change, 0
	// when the job starts.
	Measured float64 `json:"measured_s"`
	Forecast float64 `json:"predicted_s"`
	Why      string  `json:"why"`
}

// NewTunedWay describes a way with the settings as they take effect for a job.
func NewTunedWay(w Way, async bool) TunedWay {
	s := w.WritePath
	if s.Layout == "" {
		s.Layout = plan.PerRank
	}
	if s.Layout == plan.PerRank {
		s.Strategy = plan.Individual
	}
	codec := w.Codec
	if codec == "" {
		codec = "none"
	}
	return TunedWay{Layout: s.Layout, Strategy: s.Strategy, Aggregators: s.Aggregators, Buffer: s.Buffer, StripeSize: s.StripeSize,
		StripeCount: s.StripeCount, P1: s.P1, P2: s.P2, P3: s.P3, P4: s.P4, Codec: codec, Async: async}
}

// way is the inverse.
func (t *TunedWay) way(usual Way) Way {
	s := usual.WritePath
	s.Layout, s.Strategy, s.Aggregators, s.Buffer = t.Layout, t.Strategy, t.Aggregators, t.Buffer
	s.StripeSize, s.StripeCount, s.P1, s.P2, s.P3, s.P4 = t.StripeSize, t.StripeCount, t.P1, t.P2, t.P3, t.P4
	return Way{s, t.Codec}
}

// ReadWay returns the way in which a job was last told to write: the one of its description,
// unless the journal has a later one that is possible.
func ReadWay(job *image.Job, spec *Resolved) Way {
	way := spec.Way()
	f, err := job.FS().Open(filepath.Join(job.Dir(), journalName))
	if err != nil {
		return way
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return way
	}
	_, _ = durable.ReadLines(io.NewSectionReader(f, 0, size), func(line []byte) {
		var ev TunedEvent
		if json.Unmarshal(line, &ev) != nil || ev.Type != "tuned" {
			return
		}
		w := ev.To.way(spec.Way())
		if spec.Possible(w) == nil {
			way = w
		}
	})
	return way
}

// Possible refuses a way in which the ranks cannot write.
func (s *Resolved) Possible(w Way) error {
	if _, err := w.CodecOf(); err != nil {
		return err
	}
	for g := range s.Groups {
		if _, err := s.Joint(g, w); err != nil {
			return fmt.Errorf("%s: %w", NameRanks(s.Groups[g]), err)
		}
	}
	return nil
}
