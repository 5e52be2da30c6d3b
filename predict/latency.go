package predict

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"ckpt/dataset"
)

// A latencyFit is the time of a coordinated checkpoint on nodes like that of
// Tables 5.3-5.6 (64 cores, one local disk under ext3):
//
//	latency = coordination·np + management·stored + stored / (rate·ppn^γ)
//
// The thesis gives every process the same rate, which its own tables refute: the rate
// of the node rises from 142 MiB/s with 16 writers to 310 with 64, in every class.
// Management is the time that a codec adds. Under gzip it follows the bytes left after
// compression: zeros cost next to nothing.
type latencyFit struct {
	// Gamma is the exponent of concurrency.
	Gamma float64 `json:"gamma"`
	// linear has the coefficients of latencyRow, in seconds.
	linear
	// Low and High are the range of processes per node, LowMiB and HighMiB that
	// of the bytes stored by a node.
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	LowMiB  float64 `json:"low_mib"`
	HighMiB float64 `json:"high_mib"`
	// Gzip is the compression ratio of a data zone, GzipShared that of a shared zone
	// by MPI library.
	Gzip       linear            `json:"gzip"`
	GzipShared map[string]linear `json:"gzip_shared"`
}

// latencyPrior is the relative standard deviation of a latency between equal runs: ten
// runs of Table 5.22 vary by 2 to 17 %.
const (
	latencyPrior       = 0.12
	latencyPriorPoints = 3
	latencyDrift       = 0.15
)

func latencyRow(np int, storedMiB, ppn, gamma float64, codec string) []float64 {
	row := []float64{float64(np), storedMiB / math.Pow(ppn, gamma), 0}
	if codec != "none" {
		row[2] = storedMiB
	}
	return row
}

func fitLatency(rows []dataset.Latency) (*latencyFit, error) {
	fitAt := func(gamma float64) (*latencyFit, error) {
		f := &latencyFit{Gamma: gamma, Low: math.Inf(1), LowMiB: math.Inf(1)}
		var basis [][]float64
		var values []float64
		for _, l := range rows {
			basis = append(basis, latencyRow(l.NP, l.StoredMiB, float64(l.NP), gamma, l.Codec))
			values = append(values, l.Seconds)
			f.Low, f.High = min(f.Low, float64(l.NP)), max(f.High, float64(l.NP))
			f.LowMiB, f.HighMiB = min(f.LowMiB, l.StoredMiB), max(f.HighMiB, l.StoredMiB)
		}
		lin, err := fitLinear(basis, values, values, nil)
		if err != nil {
			return nil, err
		}
		f.linear = *lin
		return f, nil
	}
	var best *latencyFit
	for g := 0; g <= 100; g++ { // hundredths are finer than the precision of the data
		f, err := fitAt(float64(g) / 100)
		if err == nil && (best == nil || f.RSS < best.RSS) {
			best = f
		}
	}
	if best == nil {
		return nil, refuse("check the table", "no law fits the latencies")
	}
	best.K++ // gamma
	return best, best.fitGzip(rows)
}

// fitGzip finds the compression ratios of the zones.
func (f *latencyFit) fitGzip(rows []dataset.Latency) error {
	f.GzipShared = map[string]linear{}
	var all []float64
	for _, mpi := range []string{"mpich", "openmpi"} {
		var basis [][]float64
		var values []float64
		for _, l := range rows {
			if l.Codec == "gzip" && l.MPI == mpi {
				basis, values = append(basis, []float64{l.DataMiB, l.SharedMiB}), append(values, l.StoredMiB)
			}
		}
		if len(values) == 0 {
			continue
		}
		lin, err := fitLinear(basis, values, values, nil)
		if err != nil {
			return err
		}
		f.GzipShared[mpi] = *lin
		all = append(all, lin.Coef[0])
	}
	f.Gzip = linear{Coef: []float64{mean(all)}, Gram: []float64{0}, N: len(all), K: 1}
	return nil
}

func (f *latencyFit) check() error {
	if err := f.valid(3, 4); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	if !(f.Gamma >= 0 && f.Gamma <= 2 && f.Low >= 1 && f.High >= f.Low && f.LowMiB > 0 && f.HighMiB >= f.LowMiB && f.High < 1e9 && f.HighMiB < 1e15) {
		return errors.New("latency: impossible range")
	}
	for mpi, lin := range f.GzipShared {
		if err := lin.valid(2, 2); err != nil {
			return fmt.Errorf("gzip of %s: %w", mpi, err)
		}
	}
	return nil
}

// A codecModel has the compression ratios of a codec and its cost.
type codecModel struct {
	data, shared float64 // stored bytes per raw byte
	// assumed codecs were not measured by the thesis: secondsPerMiB is the time of one
	// process for a MiB of raw data.
	assumed       bool
	secondsPerMiB float64
	doubt         float64 // relative standard deviation of the stored bytes
}

// Codecs lists the codecs that times can be predicted for.
func Codecs() []string { return []string{"none", "gzip", "zstd", "s2"} }

func (f *latencyFit) codec(name, mpi string) (codecModel, error) {
	switch name {
	case "", "none":
		return codecModel{data: 1, shared: 1}, nil
	case "gzip":
		if g, ok := f.GzipShared[mpi]; ok {
			return codecModel{data: g.Coef[0], shared: g.Coef[1], doubt: math.Sqrt(g.RSS / float64(max(1, g.N-g.K)))}, nil
		}
		return codecModel{data: 0.87, shared: 0.1, doubt: 0.2}, nil
	case "zstd": // measured on live solvers with byte shuffling: 1.44 times
		return codecModel{data: 1 / 1.44, shared: 0.1, assumed: true, secondsPerMiB: 1. / 250, doubt: 0.2}, nil
	case "s2": // 1.38 times, at GB/s
		return codecModel{data: 1 / 1.38, shared: 0.12, assumed: true, secondsPerMiB: 1. / 1000, doubt: 0.2}, nil
	}
	if slices.Contains([]string{"auto"}, name) {
		return f.codec("none", mpi)
	}
	return codecModel{}, refuse("known codecs: none, gzip, zstd, s2", "codec %q is unknown", name)
}

// A Probe is the result of a short write test on a file system.
type Probe struct {
	// MiBPerS is the rate of all Writers together, RelativeSD its scatter
	// between repetitions.
	MiBPerS    float64
	RelativeSD float64
	Writers    int
	Dir        string
}

// A nodeLoad is what one node of a job writes, in MiB.
type nodeLoad struct {
	ppn               int
	data, rest, total float64
}

// parts are the three terms of a latency in seconds.
type parts struct {
	Coordination float64 `json:"coordination"`
	Management   float64 `json:"management"`
	Storage      float64 `json:"storage"`
	Total        float64 `json:"total"`
}

// predict returns the latency of a checkpoint in seconds, which is that of the slowest
// node. It also returns the bytes stored by all nodes, in MiB.
func (f *latencyFit) predict(np int, nodes []nodeLoad, c codecModel, name string, probe *Probe, sizeDoubt float64) (parts, estimated, float64) {
	var worst parts
	var stored, slowest float64
	load := nodeLoad{ppn: 1}
	for _, n := range nodes {
		s := n.data*c.data + n.rest*c.shared
		stored += s
		row := latencyRow(np, s, float64(n.ppn), f.Gamma, name)
		p := parts{Coordination: f.Coef[0] * row[0], Storage: f.Coef[1] * row[1], Management: f.Coef[2] * row[2]}
		if c.assumed {
			p.Management = c.secondsPerMiB * n.total / float64(n.ppn)
		}
		if probe != nil {
			p.Storage = s / probe.MiBPerS
		}
		p.Total = p.Coordination + p.Management + p.Storage
		if p.Total > worst.Total || load.total == 0 {
			worst, slowest, load = p, s, n
		}
	}
	row := latencyRow(np, slowest, float64(load.ppn), f.Gamma, name)
	dof := float64(max(0, f.N-f.K) + latencyPriorPoints)
	variance := (latencyPriorPoints*latencyPrior*latencyPrior + f.RSS) / dof
	factor := max(beyond(float64(load.ppn), f.Low, f.High), beyond(slowest, f.LowMiB, f.HighMiB))
	drift := latencyDrift * math.Log(factor)
	if probe != nil {
		factor, drift = 1, 0
		variance = math.Hypot(latencyPrior, probe.RelativeSD) * math.Hypot(latencyPrior, probe.RelativeSD)
	}
	relative := math.Sqrt(variance*(1+f.leverage(row, max(worst.Total, 1e-9))) + drift*drift + c.doubt*c.doubt + sizeDoubt*sizeDoubt)
	return worst, estimate(worst.Total, student(dof)*relative*worst.Total, factor), stored
}
