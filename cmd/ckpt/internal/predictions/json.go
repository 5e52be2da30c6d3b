package predictions

import (
	"math"

	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/plan"
	"ckpt/zones"
)

// Package predict counts in MiB, as its tables do; --json gives bytes, like every
// other command.

// sizeResult is a predict.Size as --json prints it.
type sizeResult struct {
	App           string       `json:"app"`
	NP            int          `json:"np"`
	Mapping       []int        `json:"mapping"`
	MPI           string       `json:"mpi"`
	Engine        string       `json:"engine"`
	Zones         *zones.Sizes `json:"zones,omitempty"` // of the first kind of file; absent if unknown
	Files         []fileKind   `json:"file_kinds"`
	Manager       int64        `json:"manager_bytes"`
	Total         int64        `json:"total_bytes"`
	Low           int64        `json:"low_bytes"`
	High          int64        `json:"high_bytes"`
	Model         string       `json:"model"`
	Basis         string       `json:"basis"`
	Extrapolation float64      `json:"extrapolation"`
	Note          string       `json:"note,omitempty"`
}

// fileKind is a predict.File.
type fileKind struct {
	PPN        int          `json:"ppn"`
	Count      int          `json:"count"`
	Bytes      int64        `json:"file_bytes"`
	Low        int64        `json:"low_bytes"`
	High       int64        `json:"high_bytes"`
	Aggregator bool         `json:"aggregator"`
	Zones      *zones.Sizes `json:"zones,omitempty"`
}

func sizeJSON(s *predict.Size) sizeResult {
	r := sizeResult{App: s.App, NP: s.NP, Mapping: s.Mapping, MPI: s.MPI, Engine: string(dataset.DMTCP), Zones: knownZones(s, s.Zones), Manager: bytesOf(s.ManagerMiB),
		Total: bytesOf(s.TotalMiB), Low: bytesOf(s.LowMiB), High: bytesOf(s.HighMiB), Model: s.Model, Basis: s.Basis,
		Extrapolation: s.Extrapolation, Note: s.Note}
	for _, f := range s.Files {
		r.Files = append(r.Files, fileKind{f.PPN, f.Count, bytesOf(f.MiB), bytesOf(f.Low), bytesOf(f.High), f.Aggregator, knownZones(s, f.Zones)})
	}
	return r
}

// timeResult is a predict.Time.
type timeResult struct {
	sizeResult
	Codec     string       `json:"codec"`
	Stored    int64        `json:"stored_bytes"`
	Latency   any          `json:"latency_s"`
	Low       float64      `json:"low_s"`
	High      float64      `json:"high_s"`
	TimeModel string       `json:"time_model"`
	Valid     string       `json:"valid"`
	Probe     *probeResult `json:"probe,omitempty"`
	Assumed   bool         `json:"assumed"`
}

// probeResult is a predict.Probe.
type probeResult struct {
	Dir        string  `json:"dir"`
	Rate       float64 `json:"bytes_per_s"`
	RelativeSD float64 `json:"relative_sd"`
	Writers    int     `json:"writers"`
}

func timeJSON(t *predict.Time) timeResult {
	r := timeResult{sizeResult: sizeJSON(&t.Size), Codec: t.Codec, Stored: bytesOf(t.StoredMiB), Latency: t.Latency, Low: t.LowS, High: t.HighS,
		TimeModel: t.TimeModel, Valid: t.Valid, Assumed: t.Assumed}
	if p := t.Probe; p != nil {
		r.Probe = &probeResult{p.Dir, p.MiBPerS * mebi, p.RelativeSD, p.Writers}
	}
	return r
}

// optionResult is a predict.Option.
type optionResult struct {
	PPN           int     `json:"ppn"`
	Nodes         int     `json:"nodes"`
	Mapping       []int   `json:"mapping"`
	MPI           string  `json:"mpi"`
	Codec         string  `json:"codec"`
	Aggregators   int     `json:"aggregators"`
	Buffer        int64   `json:"buffer_bytes,omitempty"`
	File          int64   `json:"file_bytes"`
	Stored        int64   `json:"stored_bytes"`
	LowBytes      int64   `json:"low_bytes"`
	HighBytes     int64   `json:"high_bytes"`
	Peak          int64   `json:"peak_bytes"`
	Checkpoint    float64 `json:"checkpoint_s"`
	Low           float64 `json:"low_s"`
	High          float64 `json:"high_s"`
	App           float64 `json:"app_s"`
	Count         int     `json:"count"`
	Interval      float64 `json:"interval_s"`
	Total         float64 `json:"total_s"`
	Lost          float64 `json:"lost_s"`
	Fits          bool    `json:"fits"`
	Guess         bool    `json:"guess"`
	Best          bool    `json:"best"`
	BestMeasured  bool    `json:"best_measured"`
	Extrapolation float64 `json:"extrapolation"`
	Assumed       bool    `json:"assumed"`
}

func optionsJSON(options []plan.Option) []optionResult {
	list := []optionResult{}
	for _, o := range options {
		list = append(list, optionResult{PPN: o.PPN, Nodes: o.Nodes, Mapping: o.Mapping, MPI: o.MPI, Codec: o.Codec,
			Aggregators: o.Aggregators, Buffer: bytesOf(o.BufferMiB), File: bytesOf(o.FileMiB), Stored: bytesOf(o.GstoredMiB),
			LowBytes: bytesOf(o.LowMiB), HighBytes: bytesOf(o.HighMiB), Peak: bytesOf(o.StorageMiB), Checkpoint: o.CheckpointS,
			Low: o.LowS, High: o.HighS, App: o.AppS, Count: o.Count, Interval: o.IntervalS, Total: o.TotalS, Lost: o.LostS,
			Fits: o.Fits, Guess: o.Guess, Best: o.Best, BestMeasured: o.BestMeasured, Extrapolation: o.Extrapolation, Assumed: o.Assumed})
	}
	return list
}

const mebi = 1 << 20

func bytesOf(mib float64) int64 { return int64(math.Round(mib * mebi)) }

func zonesJSON(z predict.ZonesMiB) zones.Sizes {
	return zones.Sizes{Library: bytesOf(z.Library), Data: bytesOf(z.Data), Shared: bytesOf(z.Shared), IOBuffer: bytesOf(z.IOBuffer)}
}

// knownZones returns zones, or nil if the prediction is of whole files.
func knownZones(s *predict.Size, z predict.ZonesMiB) *zones.Sizes {
	if s.ZonesUnknown {
		return nil
	}
	known := zonesJSON(z)
	return &known
}
