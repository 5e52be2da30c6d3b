package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"encoding/json"
	"fmt"
	"math"
	"strings"
)

// IO tells how an application writes its own files, because that affects its images.
type IO string

// The kinds of I/O.
const (
	NoIO     IO = "none"
	SimpleIO IO = "simple" // each process for itself, with data sieving
	FullIO   IO = "full"   // collectively, through aggregators
)

// A Request describes a job to predict.
type Request struct {
	App App
	// Mapping is the number of processes of each node; all on one by default.
	Mapping []int
	MPI     string // mpich (default) or openmpi
	IO      IO
	// Aggregators is how many processes write for the others under FullIO; one
	// per node by default. BufferMiB is their collective buffer, the
	// library's by default.
	Aggregators int
	BufferMiB   float64
	Law         fit.Law
	// ManagerFiles adds the images of the processes that manage the job (ssh,
	// mpiexec, proxies) to the total: Table 3.1.
	ManagerFiles bool
}

// A Size is the predicted size of one checkpoint.
type Size struct {
	App     string         `json:"app"`
	NP      int            `json:"np"`
	Mapping []int          `json:"mapping"`
	MPI     string         `json:"mpi"`
	Engine  dataset.Engine `json:"engine"`
	// Zones is the first file's.
	Zones ZonesMiB `json:"zones,omitzero"`
	Files []File   `json:"file_kinds"`
	// Ranks is what each rank holds in its data zone, by the workload spec; empty: all the same.
	Ranks []RankKind `json:"rank_kinds,omitempty"`
	// ManagerMiB is the memory of manager processes, 0 unless asked for.
	ManagerMiB MiB    `json:"manager_bytes"`
	TotalMiB   MiB    `json:"total_bytes"`
	LowMiB     MiB    `json:"low_bytes"`
	HighMiB    MiB    `json:"high_bytes"`
	Model      string `json:"model"`
	Basis      string `json:"basis"`
	// Extrapolation is the factor by which the job lies outside the fitted points, or
	// 1 inside. Note explains it in words.
	Extrapolation float64 `json:"extrapolation"`
	Note          string  `json:"note,omitempty"`
	// ZonesUnknown is set if the model knows whole files only.
	ZonesUnknown bool `json:"-"`
	// here is the relative standard deviation of the total on the machines that were
	// measured.
	here float64
}

// ZonesMiB are sizes by zone.
type ZonesMiB struct {
	Library  MiB `json:"library"`
	Data     MiB `json:"data"`
	Shared   MiB `json:"shared"`
	IOBuffer MiB `json:"iobuffer"`
}

// Total adds the zones up.
func (z ZonesMiB) Total() MiB { return z.Library + z.Data + z.Shared + z.IOBuffer }

// A File is one kind of image file: all processes of nodes with PPN processes
// that are, or are not, aggregators.
type File struct {
	PPN        int      `json:"ppn"`
	Count      int      `json:"count"`
	MiB        MiB      `json:"file_bytes"`
	Low        MiB      `json:"low_bytes"`
	High       MiB      `json:"high_bytes"`
	Aggregator bool     `json:"aggregator"`
	Zones      ZonesMiB `json:"zones,omitzero"`
	// Ranks are the ones of these files, where ranks hold unequally much.
	Ranks string `json:"rank_range,omitempty"`
	First bool   `json:"-"`

	runs     []dataset.RankRun
	share    *dataset.RankShare
	Sides    [3]side      `json:"-"` // of data and library, shared, I/O
	Estimate fit.Estimate `json:"-"`
}

// maxPPN bounds the processes of a node: 16 times what was measured. The shared zone
// of MPICH grows with their square, and beyond that a prediction means nothing.
const maxPPN = 1024

// Normal checks a request and fills in defaults.
func (r Request) Normal() (Request, error) {
	if r.App.NP < 1 {
		return r, fit.RefuseFor(fit.GiveProcs, "%s.%s: the number of processes is missing", r.App.Name, r.App.Class)
	}
	if len(r.Mapping) == 0 {
		r.Mapping = []int{r.App.NP}
	}
	sum := 0
	for _, n := range r.Mapping {
		if n < 1 {
			return r, fit.Refuse("give every node at least one process", "mapping %s: a node without processes", mappingText(r.Mapping))
		}
		if n > maxPPN {
			return r, fit.RefuseFor(fit.GiveNodes, "%d processes on one node: no node runs so many", n)
		}
		sum += n
	}
	if sum != r.App.NP {
		return r, fit.Refuse("the processes of all nodes must add up", "mapping %s places %d processes, the job has %d", mappingText(r.Mapping), sum, r.App.NP)
	}
	if r.MPI == "" {
		r.MPI = "mpich"
	}
	if r.MPI != "mpich" && r.MPI != "openmpi" {
		return r, fit.Refuse("write mpich or openmpi", "MPI library %q is unknown", r.MPI)
	}
	switch r.IO {
	case "":
		r.IO = NoIO
	case NoIO, SimpleIO, FullIO:
	default:
		return r, fit.Refuse("write none, simple or full", "I/O %q is unknown", r.IO)
	}
	if r.IO != FullIO && (r.Aggregators != 0 || r.BufferMiB != 0) {
		return r, fit.RefuseFor(fit.UseCollectiveIO, "aggregators and buffers exist only for collective I/O")
	}
	if r.Aggregators < 0 || r.Aggregators > r.App.NP || math.IsNaN(r.BufferMiB) || r.BufferMiB < 0 || r.BufferMiB > 1<<20 {
		return r, fit.Refuse("between 1 and the number of processes, and a buffer below 1 TiB", "%d aggregators with buffers of %g MiB are impossible", r.Aggregators, r.BufferMiB)
	}
	if r.IO == FullIO && r.Aggregators == 0 {
		r.Aggregators = len(r.Mapping) // ROMIO's cb_nodes
	}
	if r.IO == FullIO && r.BufferMiB == 0 {
		r.BufferMiB = bufferMiB(r.MPI)
	}
	return r, nil
}

func mappingText(m []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(m), " ", ","), "[]")
}

// Size predicts the images of one checkpoint of a job: Algorithm 1 of the
// thesis, each zone by its own law.
func (m *Model) Size(r Request) (*Size, error) {
	r, err := r.Normal()
	if err != nil {
		return nil, err
	}
	if f := m.whole(r.App.Name, r.App.Class, r.MPI); f != nil && (r.Law == "" || r.Law == fit.Auto) {
		return m.wholeSize(r, f)
	}
	data, err := m.DataZone(r.App, r.MPI, r.Law, len(r.Mapping))
	if err != nil {
		return nil, err
	}
	return m.Assemble(r, data)
}

// Assemble adds the other zones to a known data zone.
func (m *Model) Assemble(r Request, data fit.Zone) (*Size, error) {
	s := &Size{App: r.App.String(), NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Engine: dataset.DMTCP, Model: data.Law, Basis: data.Basis}
	s.Ranks, s.Note = RankKinds(r.App.Inst), openNote(r.App.Inst)
	for _, k := range kinds(r) {
		var err error
		data := k.data(r.App.Inst, data.Estimate)
		if r.Law == fit.Thesis {
			k = ThesisFile(r, k, data)
		} else if k, err = m.file(r, k, data); err != nil {
			return nil, err
		}
		k.MiB, k.Low, k.High = MiB(k.Estimate.Value), MiB(k.Estimate.Low), MiB(k.Estimate.High)
		s.Files = append(s.Files, k)
		s.Extrapolation = max(s.Extrapolation, k.Estimate.Extrapolation)
	}
	s.Zones = s.Files[0].Zones
	s.add(r)
	s.here = s.doubt()
	if fit.Far(s.Extrapolation) {
		s.Note = fit.Join(s.Note, "extrapolated by a factor of "+fit.Factor(s.Extrapolation)+" beyond the points fitted")
	}
	if data.Warning != "" {
		s.Note = fit.Join(data.Warning, s.Note)
	}
	if r.Law != fit.Thesis {
		s.abroad(r, m.elsewhere(r.MPI))
	}
	return s, nil
}

// add sums up. Errors of the data zones of all files have the same sign, and so have
// the ones of shared zones of one law; zones are independent of each other.
func (s *Size) add(r Request) {
	var zones [3]side
	s.TotalMiB = 0
	for _, f := range s.Files {
		n := float64(f.Count)
		s.TotalMiB += MiB(n) * f.MiB
		for i := range zones {
			more := f.Sides[i].times(n)
			zones[i] = side{zones[i].below + more.below, zones[i].above + more.above}
		}
	}
	width := zones[0].with(zones[1]).with(zones[2])
	if r.ManagerFiles {
		s.ManagerMiB = MiB(ManagerMiB(len(s.Mapping)))
		s.TotalMiB += s.ManagerMiB
		half := 0.15 * float64(s.ManagerMiB)
		width = width.with(side{half, half})
	}
	s.LowMiB, s.HighMiB = max(0, s.TotalMiB-MiB(width.below)), s.TotalMiB+MiB(width.above)
}

// ManagerMiB is the stored memory of the processes that manage a job under MPICH, in
// MiB: mpiexec, the proxy of the first node, the restart script, and ssh, sshd and a
// proxy for every other node (Table 3.1).
func ManagerMiB(nodes int) float64 {
	if nodes == 1 {
		return 18.69 + 19.18 + 0.01
	}
	return 18.69 + 18.89 + 0.01 + float64(nodes-1)*(17.24+2.5+2.7)
}

// Blocks fills nodes with ppn processes each, the last with the rest.
func Blocks(np, ppn int) []int {
	m := make([]int, 0, np/ppn+1)
	for np > 0 {
		m = append(m, min(ppn, np))
		np -= ppn
	}
	return m
}

// NodesOf divides and rounds up: processes over nodes, or over processes per node.
func NodesOf(np, by int) int { return (np + by - 1) / by }

// StoredParts predicts the time of an incremental checkpoint of ckpt by some of the ranks:
// their share of its bytes and files. The few full ones do not move the mean of a run.
func (m *Model) StoredParts(s *Stored, probe *fit.Probe) service.Storing {
	return func(perNode []int, agree int, keptMiB float64) (fit.Range, float64, error) {
		ranks := 0
		for _, n := range perNode {
			ranks += n
		}
		if ranks == 0 {
			return fit.Range{}, 0, nil
		}
		c := s.Next.Part(float64(ranks) / float64(s.NP))
		c.Total = c.Total.Plus(fit.Exactly(float64(ranks) * keptMiB * mebi))
		t := m.Service.Time(&service.Job{NP: agree, Mapping: perNode, Part: ranks < s.NP}, &c, fit.Range{}, s.Async, probe.Rate())
		return fit.Range{Value: t.Pause.Value, Low: t.Pause.Low, High: t.Pause.High}, c.Total.Value / (1 << 20), nil
	}
}

// MiB is a size in MiB, which JSON has in whole bytes.
type MiB float64

const mebi = 1 << 20

// Bytes rounds a size to bytes.
func (m MiB) Bytes() int64 { return int64(math.Round(float64(m) * mebi)) }

// MarshalJSON writes bytes.
func (m MiB) MarshalJSON() ([]byte, error) { return json.Marshal(m.Bytes()) }

// UnmarshalJSON reads bytes.
func (m *MiB) UnmarshalJSON(b []byte) error {
	var bytes int64
	err := json.Unmarshal(b, &bytes)
	*m = MiB(bytes) / mebi
	return err
}
