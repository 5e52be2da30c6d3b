package fit

import (
	"errors"
	"fmt"
	"math"

	"ckpt/dataset"
)

// A Latency is the time of a coordinated checkpoint on nodes like that of
// Tables 5.3-5.6 (64 cores, one local disk under ext3):
//
//	latency = coordination·np + management·stored + stored / (rate·ppn^γ)
//
// The thesis gives every process the same rate, which its own tables refute: the rate
// of the node rises from 142 MiB/s with 16 writers to 310 with 64, in every class.
// Management is the time that a codec adds. Under gzip it follows the bytes left after
// compression: zeros cost next to nothing.
//
// Nodes have a disk each. Where they share a file system, see Server.
type Latency struct {
	// Gamma is the exponent of concurrency.
	Gamma float64 `json:"gamma"`
	// Linear has the coefficients of latencyRow, in seconds.
	Linear
	// Low and High are the range of processes per node, LowMiB and HighMiB that
	// of the bytes stored by a node.
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
	LowMiB  float64 `json:"low_mib"`
	HighMiB float64 `json:"high_mib"`
	// Gzip gives what one process stores under gzip, see gzipRow.
	Gzip Linear `json:"gzip"`
	// Server is the file system that nodes share, for applications that write
	// through it.
	Server *Server `json:"server"`
}

// latencyPrior is the relative standard deviation of a latency between equal runs: ten
// runs of Table 5.22 vary by 2 to 17 %.
const (
	latencyPrior       = 0.12
	LatencyPriorPoints = 3
	latencyDrift       = 0.15
)

func latencyRow(np int, storedMiB, ppn, gamma float64, codec string) []float64 {
	row := []float64{float64(np), storedMiB / math.Pow(ppn, gamma), 0}
	if codec != "none" {
		row[2] = storedMiB
	}
	return row
}

func FitLatency(rows []dataset.Latency) (*Latency, error) {
	fitAt := func(gamma float64) (*Latency, error) {
		f := &Latency{Gamma: gamma, Low: math.Inf(1), LowMiB: math.Inf(1)}
		var basis [][]float64
		var values []float64
		for _, l := range rows {
			basis = append(basis, latencyRow(l.NP, l.StoredMiB, float64(l.NP), gamma, l.Codec))
			values = append(values, l.Seconds)
			f.Low, f.High = min(f.Low, float64(l.NP)), max(f.High, float64(l.NP))
			f.LowMiB, f.HighMiB = min(f.LowMiB, l.StoredMiB), max(f.HighMiB, l.StoredMiB)
		}
		lin, err := LeastSquares(basis, values, values, nil)
		if err != nil {
			return nil, err
		}
		f.Linear = *lin
		return f, nil
	}
	var best *Latency
	for g := 0; g <= 100; g++ { // hundredths are finer than the precision of the data
		f, err := fitAt(float64(g) / 100)
		if err == nil && (best == nil || f.RSS < best.RSS) {
			best = f
		}
	}
	if best == nil {
		return nil, Refuse("check the table", "no law fits the latencies")
	}
	best.K++ // gamma
	var err error
	best.Gzip, err = FitGzip(rows)
	return best, err
}

// gzipRow is the basis of what one process stores under gzip, in MiB.
//
// Of its data a process keeps the same share in every class. Of the segment that the
// ranks of a node share it has written its own cells only: under MPICH a number that
// grows as the ranks of the node, while the segment grows as their square; the pages of
// others were never touched, or hold zeros. So the root of the zone describes both MPI
// libraries, where a share of the zone errs by up to 21 % (Tables 5.3-5.6, each row
// left out; the root by up to 15 %).
func gzipRow(dataMiB, restMiB float64) []float64 { return []float64{dataMiB, math.Sqrt(restMiB)} }

// gzipPrior is the relative standard deviation of a volume under gzip: the contents
// differ between runs and moments.
const gzipPrior = 0.07

// FitGzip finds what processes store under gzip.
func FitGzip(rows []dataset.Latency) (Linear, error) {
	var basis [][]float64
	var values []float64
	for _, l := range rows {
		if n := float64(l.NP); l.Codec == "gzip" {
			basis = append(basis, gzipRow(l.DataMiB/n, (l.RawMiB-l.DataMiB)/n))
			values = append(values, l.StoredMiB/n)
		}
	}
	lin, err := LeastSquares(basis, values, values, nil)
	if err != nil {
		return Linear{}, fmt.Errorf("gzip: %w", err)
	}
	return *lin, nil
}

func (f *Latency) Check() error {
	if err := f.Valid(3, 4); err != nil {
		return fmt.Errorf("latency: %w", err)
	}
	if !(f.Gamma >= 0 && f.Gamma <= 2 && f.Low >= 1 && f.High >= f.Low && f.LowMiB > 0 && f.HighMiB >= f.LowMiB && f.High < 1e9 && f.HighMiB < 1e15) {
		return errors.New("latency: impossible range")
	}
	if err := f.Gzip.Valid(2, 2); err != nil {
		return fmt.Errorf("gzip: %w", err)
	}
	if s := f.Server; s != nil {
		return s.check()
	}
	return nil
}

// A Codec has the compression ratios of a codec and its cost.
type Codec struct {
	data, shared float64 // stored bytes per raw byte
	gzip         *Linear // what a process stores, in place of the two
	// Assumed codecs were not measured by the thesis: secondsPerMiB is the time of one
	// process for a MiB of raw data.
	Assumed       bool
	secondsPerMiB float64
	Doubt         float64 // relative standard deviation of the stored bytes
}

// Stored returns what a node stores, in MiB: never more than it has.
func (c Codec) Stored(n Load) float64 {
	if c.gzip == nil {
		return n.Data*c.data + n.Rest*c.shared
	}
	ranks := float64(n.PPN)
	return min(n.Total, ranks*c.gzip.At(gzipRow(n.Data/ranks, n.Rest/ranks)))
}

// Codecs lists the codecs that times can be predicted for.
func Codecs() []string { return []string{"none", "gzip", "zstd", "s2"} }

func (f *Latency) Codec(name string) (Codec, error) {
	switch name {
	case "", "none", "auto":
		return Codec{data: 1, shared: 1}, nil
	case "gzip":
		g := &f.Gzip
		scatter := (LatencyPriorPoints*gzipPrior*gzipPrior + g.RSS) / float64(LatencyPriorPoints+max(0, g.N-g.K))
		return Codec{gzip: g, Doubt: math.Sqrt(scatter)}, nil
	case "zstd": // measured on live solvers with byte shuffling: 1.44 times
		return Codec{data: 1 / 1.44, shared: 0.1, Assumed: true, secondsPerMiB: 1. / 250, Doubt: 0.2}, nil
	case "s2": // 1.38 times, at GB/s
		return Codec{data: 1 / 1.38, shared: 0.12, Assumed: true, secondsPerMiB: 1. / 1000, Doubt: 0.2}, nil
	}
	return Codec{}, Refuse("known codecs: none, gzip, zstd, s2", "codec %q is unknown", name)
}

// A Probe is the result of a short write test on a file system.
type Probe struct {
	Dir string `json:"dir"`
	// BytesPerS is the rate of all Writers together, RelativeSD its scatter between
	// repetitions.
	BytesPerS  float64 `json:"bytes_per_s"`
	RelativeSD float64 `json:"relative_sd"`
	Writers    int     `json:"writers"`
}

// mib is the rate in MiB/s.
func (p *Probe) mib() float64 { return p.BytesPerS / (1 << 20) }

// Rate is in bytes per second, 0 without a probe.
func (p *Probe) Rate() float64 {
	if p == nil {
		return 0
	}
	return p.BytesPerS
}

// A Load is what one node of a job writes, in MiB.
type Load struct {
	PPN               int
	Data, Rest, Total float64
}

// Parts are the three terms of a latency in seconds.
type Parts struct {
	Coordination float64 `json:"coordination"`
	Management   float64 `json:"management"`
	Storage      float64 `json:"storage"`
	Total        float64 `json:"total"`
}

func (p *Parts) Sum() { p.Total = p.Coordination + p.Management + p.Storage }

// A Writing is one checkpoint to be timed.
type Writing struct {
	NP    int
	Nodes []Load
	Codec Codec
	Name  string // of the codec
	Probe *Probe
	// Doubt is the relative standard deviation of the bytes before compression.
	Doubt float64
	// Shared tells that all nodes write to one file system, of the named system if
	// that is known.
	Shared bool
	System string
}

// Predict returns the latency of a checkpoint in seconds, which the slowest node sets. It
// also returns the bytes stored by all nodes, in MiB.
func (f *Latency) Predict(w Writing) (Parts, Estimate, float64) {
	var worst Parts
	var stored, slowest float64
	load := Load{PPN: 1}
	for _, n := range w.Nodes {
		s := w.Codec.Stored(n)
		stored += s
		row := f.row(w, s, n.PPN)
		p := Parts{Coordination: f.Coef[0] * row[0], Storage: f.Coef[1] * row[1], Management: f.Coef[2] * row[2]}
		if w.Codec.Assumed {
			p.Management = w.Codec.secondsPerMiB * n.Total / float64(n.PPN)
		}
		if w.Probe != nil {
			p.Storage = s / w.Probe.mib()
		}
		if p.Sum(); p.Total > worst.Total || load.Total == 0 {
			worst, slowest, load = p, s, n
		}
	}
	switch {
	case w.Shared && w.Probe != nil:
		worst.Storage = stored / w.Probe.mib()
		worst.Sum()
	case w.Shared && f.Server != nil:
		worst.Storage = f.Server.seconds(stored, slowest, w.System)
		worst.Sum()
		return worst, f.Server.interval(worst, stored, w, f.treeDoubt(worst, w.NP)), stored
	}
	return worst, f.interval(worst, slowest, load, w), stored
}

// TooFar refuses the time of a writing that is far larger than what was measured on the disks of
// nodes. A probe measures the disk, so that only ranks count.
func (f *Latency) TooFar(w Writing) error {
	for _, n := range w.Nodes {
		ranks, mib := float64(n.PPN), w.Codec.Stored(n)
		if err := TooFar(ranks/f.High, fmt.Sprintf("%g ranks of a node", f.High), fmt.Sprintf("%.0f ranks of a node", math.Ceil(ranks/Farthest))); err != nil {
			return err
		}
		if w.Probe != nil {
			continue
		}
		if err := TooFar(mib/f.HighMiB, fmt.Sprintf("%.1f GiB of a node", f.HighMiB/1024), fmt.Sprintf("%.1f GiB of a node", math.Ceil(10*mib/1024/Farthest)/10)); err != nil {
			return err
		}
	}
	return nil
}

// reach is the factor beyond the ranks of the tables up to which coordination stays linear in
// them. From there on it grows as a tree does: the tables end at 64 ranks, and a constant fits
// them as well as any slope (residuals of 0.80 and 0.78).
const reach = 8

// row is a latencyRow of a writing on a node.
func (f *Latency) row(w Writing, storedMiB float64, ppn int) []float64 {
	row := latencyRow(w.NP, storedMiB, float64(ppn), f.Gamma, w.Name)
	if knee := reach * f.High; row[0] > knee {
		row[0] = knee * (1 + math.Log(row[0]/knee))
	}
	return row
}

// treeDoubt is the variance that a latency has beyond the ranks of the tables, since coordination
// may be a tree from there on.
func (f *Latency) treeDoubt(p Parts, np int) float64 {
	if float64(np) <= f.High || f.High < 2 {
		return 0
	}
	tree := f.Coef[0] * f.High * math.Log2(float64(np)) / math.Log2(f.High)
	doubt := math.Log(p.Total/(p.Total-p.Coordination+tree)) / 2
	return doubt * doubt
}

// interval returns a latency's interval on the disks of nodes.
func (f *Latency) interval(p Parts, slowest float64, load Load, w Writing) Estimate {
	row := f.row(w, slowest, load.PPN)
	dof := float64(max(0, f.N-f.K) + LatencyPriorPoints)
	variance := (LatencyPriorPoints*latencyPrior*latencyPrior + f.RSS) / dof
	factor := max(Beyond(float64(load.PPN), f.Low, f.High), Beyond(slowest, f.LowMiB, f.HighMiB))
	drift := latencyDrift * math.Log(factor)
	if w.Probe != nil {
		factor, drift = 1, 0
		variance = math.Hypot(latencyPrior, w.Probe.RelativeSD) * math.Hypot(latencyPrior, w.Probe.RelativeSD)
	}
	relative := math.Sqrt(variance*(1+f.Leverage(row, max(p.Total, 1e-9))) + drift*drift + w.Codec.Doubt*w.Codec.Doubt + w.Doubt*w.Doubt + f.treeDoubt(p, w.NP))
	return Positive(p.Total, relative, dof, factor)
}

// Describe names the method and where it holds.
func (f *Latency) Describe(w Writing) (model, valid string) {
	model = fmt.Sprintf("coordination(np) + management(stored) + stored / (rate · ppn^%.2f)", f.Gamma)
	valid = fmt.Sprintf("%g to %g processes per node and %.1f to %.1f GiB per node, on local disks like that of AFS-1 (Tables 5.3-5.6)",
		f.Low, f.High, f.LowMiB/1024, f.HighMiB/1024)
	if w.Shared {
		model = "coordination(np) + management(stored) + the longer of stored / server and stored of a node / link"
		if f.Server != nil {
			r, _ := f.Server.rate("")
			valid = fmt.Sprintf("a file system that all nodes share, of %.0f MiB/s, and %.0f MiB/s for one node, like that of AFS-1 (Table 5.14)", r.Server, r.Link)
		}
	}
	if w.Probe != nil {
		valid = fmt.Sprintf("the file system of %s: %.0f MiB/s with %d writers, measured now", w.Probe.Dir, w.Probe.mib(), w.Probe.Writers)
		if w.Shared {
			valid += "; all nodes share it"
		}
	}
	return model, valid
}
