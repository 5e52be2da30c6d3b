package predict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/zones"
)

// IO says how an application writes its own files, which shows in its images.
type IO string

// The ways.
const (
	NoIO     IO = "none"
	SimpleIO IO = "simple" // each process for itself, with data sieving
	FullIO   IO = "full"   // collectively, through aggregators
)

// A Request is a job whose images are to be predicted.
type Request struct {
	App App
	// Mapping is the number of processes of each node; all on one by default.
	Mapping []int
	MPI     string // mpich (default) or openmpi
	IO      IO
	// Aggregators is how many processes write for the others under FullIO; one
	// per node by default. BufferMiB is their collective buffer, that of the
	// library by default.
	Aggregators int
	BufferMiB   float64
	Law         Law
	// ManagerFiles adds the images of the processes that manage the job (ssh,
	// mpiexec, proxies) to the total: Table 3.1.
	ManagerFiles bool
}

// A Size is the predicted size of one checkpoint.
type Size struct {
	App     string `json:"app"`
	NP      int    `json:"np"`
	Mapping []int  `json:"mapping"`
	MPI     string `json:"mpi"`
	// Zones is the first file's, in MiB.
	Zones ZonesMiB `json:"zones_mib"`
	Files []File   `json:"files"`
	// ManagerMiB is what manager processes add, 0 unless asked for.
	ManagerMiB float64 `json:"manager_mib,omitempty"`
	TotalMiB   float64 `json:"total_mib"`
	LowMiB     float64 `json:"low_mib"`
	HighMiB    float64 `json:"high_mib"`
	Model      string  `json:"model"`
	Basis      string  `json:"basis"`
	// Extrapolation is by what factor the job lies outside the points fitted,
	// 1 inside; Note says so in words.
	Extrapolation float64 `json:"extrapolation"`
	Note          string  `json:"note,omitempty"`
}

// ZonesMiB are sizes by zone in MiB.
type ZonesMiB struct {
	Library  float64 `json:"library"`
	Data     float64 `json:"data"`
	Shared   float64 `json:"shared"`
	IOBuffer float64 `json:"iobuffer"`
}

func (z ZonesMiB) total() float64 { return z.Library + z.Data + z.Shared + z.IOBuffer }

// Bytes returns the sizes in bytes.
func (z ZonesMiB) Bytes() zones.Sizes {
	b := func(mib float64) int64 { return int64(math.Round(mib * (1 << 20))) }
	return zones.Sizes{Library: b(z.Library), Data: b(z.Data), Shared: b(z.Shared), IOBuffer: b(z.IOBuffer)}
}

// A File is one kind of image file: all processes of nodes with PPN processes
// that are, or are not, aggregators.
type File struct {
	PPN        int      `json:"ppn"`
	Count      int      `json:"count"`
	MiB        float64  `json:"file_mib"`
	Low        float64  `json:"low_mib"`
	High       float64  `json:"high_mib"`
	Aggregator bool     `json:"aggregator"`
	Zones      ZonesMiB `json:"zones_mib"`
	first      bool
	half       [3]float64 // of data and library, shared, I/O
	estimate   Estimate
}

// normal checks a request and fills in what was left out.
func (r Request) normal() (Request, error) {
	if r.App.NP < 1 {
		return r, refuse("write it as in bt.B.4, or give --np", "%s.%s: the number of processes is missing", r.App.Name, r.App.Class)
	}
	if len(r.Mapping) == 0 {
		r.Mapping = []int{r.App.NP}
	}
	sum := 0
	for _, n := range r.Mapping {
		if n < 1 {
			return r, refuse("give every node at least one process", "mapping %s: a node without processes", mappingText(r.Mapping))
		}
		sum += n
	}
	if sum != r.App.NP {
		return r, refuse("the processes of all nodes must add up", "mapping %s places %d processes, the job has %d", mappingText(r.Mapping), sum, r.App.NP)
	}
	if r.MPI == "" {
		r.MPI = "mpich"
	}
	if r.MPI != "mpich" && r.MPI != "openmpi" {
		return r, refuse("write mpich or openmpi", "MPI library %q is unknown", r.MPI)
	}
	switch r.IO {
	case "":
		r.IO = NoIO
	case NoIO, SimpleIO, FullIO:
	default:
		return r, refuse("write none, simple or full", "I/O %q is unknown", r.IO)
	}
	if r.IO != FullIO && (r.Aggregators != 0 || r.BufferMiB != 0) {
		return r, refuse("add --io full", "aggregators and buffers exist only for collective I/O")
	}
	if r.Aggregators < 0 || r.Aggregators > r.App.NP || math.IsNaN(r.BufferMiB) || r.BufferMiB < 0 || r.BufferMiB > 1<<20 {
		return r, refuse("between 1 and the number of processes, and a buffer below 1 TiB", "%d aggregators with buffers of %g MiB are impossible", r.Aggregators, r.BufferMiB)
	}
	if r.IO == FullIO && r.Aggregators == 0 {
		r.Aggregators = len(r.Mapping) // ROMIO's cb_nodes
	}
	if r.BufferMiB == 0 {
		r.BufferMiB = BufferMiB(r.MPI)
	}
	return r, nil
}

func mappingText(m []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(m), " ", ","), "[]")
}

// Size predicts the images of one checkpoint of a job: Algorithm 1 of the
// thesis, each zone by its own law.
func (m *Model) Size(r Request) (*Size, error) {
	r, err := r.normal()
	if err != nil {
		return nil, err
	}
	data, err := m.data(r.App, r.MPI, r.Law, len(r.Mapping))
	if err != nil {
		return nil, err
	}
	return m.assemble(r, data)
}

// assemble adds the other zones to a known data zone.
func (m *Model) assemble(r Request, data zoneEstimate) (*Size, error) {
	s := &Size{App: r.App.String(), NP: r.App.NP, Mapping: r.Mapping, MPI: r.MPI, Model: data.law, Basis: data.basis}
	for _, k := range kinds(r) {
		var err error
		if r.Law == Thesis {
			k = thesisFile(r, k, data.Estimate)
		} else if k, err = m.file(r, k, data.Estimate); err != nil {
			return nil, err
		}
		k.MiB, k.Low, k.High = k.estimate.Value, k.estimate.Low, k.estimate.High
		s.Files = append(s.Files, k)
		s.Extrapolation = max(s.Extrapolation, k.estimate.Extrapolation)
	}
	s.Zones = s.Files[0].Zones
	s.add(r)
	if s.Extrapolation > 1.0001 {
		s.Note = fmt.Sprintf("extrapolated by a factor of %.2g beyond the points fitted", s.Extrapolation)
	}
	return s, nil
}

// add sums up. The data zone of all files is wrong in the same direction, and so
// are shared zones of one law; zones are independent of each other.
func (s *Size) add(r Request) {
	var half [3]float64
	for _, f := range s.Files {
		n := float64(f.Count)
		s.TotalMiB += n * f.MiB
		for i := range half {
			half[i] += n * f.half[i]
		}
	}
	width := math.Sqrt(half[0]*half[0] + half[1]*half[1] + half[2]*half[2])
	if r.ManagerFiles {
		s.ManagerMiB = managerMiB(len(s.Mapping))
		s.TotalMiB += s.ManagerMiB
		width = math.Hypot(width, 0.15*s.ManagerMiB)
	}
	s.LowMiB, s.HighMiB = max(0, s.TotalMiB-width), s.TotalMiB+width
}

// managerMiB is what the processes that manage a job store under MPICH, in MiB:
// mpiexec, the proxy of the first node, the restart script, and for every other
// node ssh, sshd and a proxy (Table 3.1).
func managerMiB(nodes int) float64 {
	if nodes == 1 {
		return 18.69 + 19.18 + 0.01
	}
	return 18.69 + 18.89 + 0.01 + float64(nodes-1)*(17.24+2.5+2.7)
}

// kinds lists the different files of a job, with their number: per size of
// node, and there aggregators apart. Aggregators are spread evenly over nodes,
// on the first ranks of each (cb_config_list *:1).
func kinds(r Request) []File {
	var out []File
	count := func(ppn, n int, aggregator, first bool) {
		if n == 0 {
			return
		}
		for i := range out {
			if out[i].PPN == ppn && out[i].Aggregator == aggregator && out[i].first == first {
				out[i].Count += n
				return
			}
		}
		out = append(out, File{PPN: ppn, Count: n, Aggregator: aggregator, first: first})
	}
	left := r.Aggregators
	perNode := make([]int, len(r.Mapping))
	for left > 0 {
		placed := false
		for i := range perNode {
			if left > 0 && perNode[i] < r.Mapping[i] {
				perNode[i]++
				left--
				placed = true
			}
		}
		if !placed {
			break
		}
	}
	for i, ppn := range r.Mapping {
		a := perNode[i]
		count(ppn, ppn-a, false, false)
		if a > 0 {
			// Under Open MPI the first aggregator of several nodes is larger.
			first := i == 0 && r.MPI == "openmpi" && len(r.Mapping) > 1 && r.Law != Thesis
			if first {
				count(ppn, 1, true, true)
				a--
			}
			count(ppn, a, true, false)
		}
	}
	slices.SortStableFunc(out, func(a, b File) int {
		if a.PPN != b.PPN {
			return b.PPN - a.PPN
		}
		return rankOf(a) - rankOf(b)
	})
	return out
}

func rankOf(f File) int {
	switch {
	case f.first:
		return 2
	case f.Aggregator:
		return 1
	}
	return 0
}

// file predicts one kind of file.
func (m *Model) file(r Request, k File, data Estimate) (File, error) {
	library := m.Library[r.MPI]
	if library == nil {
		return k, refuse("measure it, or use the built-in model", "the library zone of %s was never measured", r.MPI)
	}
	lib := library.predict()
	if m.Shared[r.MPI] == nil {
		return k, refuse("measure it, or use the built-in model", "the shared zone of %s was never measured", r.MPI)
	}
	shared := m.shared(r.MPI, r.App.Name, k.PPN)
	switch r.IO {
	case SimpleIO:
		lib = estimate(max(lib.Value, romioLibrary), 0.3, 1)
		data = estimate(data.Value+simpleData, math.Hypot(data.half(), simpleDoubt), data.Extrapolation)
		shared = estimate(shared.Value+simpleShared, math.Hypot(shared.half(), simpleDoubt), shared.Extrapolation)
	case FullIO:
		return m.fullFile(r, k, data, lib, shared)
	}
	k.estimate = independent(lib, data, shared)
	k.Zones = ZonesMiB{Library: lib.Value, Data: data.Value, Shared: shared.Value}
	k.half = [3]float64{math.Hypot(data.half(), lib.half()), shared.half(), 0}
	return k, nil
}

// fullFile predicts a file of a job that writes collectively.
func (m *Model) fullFile(r Request, k File, data, lib, shared Estimate) (File, error) {
	f := m.IO[r.MPI]
	if f == nil {
		return k, refuse("use the built-in model", "collective I/O under %s was never measured", r.MPI)
	}
	c := ioCase{r.MPI, r.App.NP, len(r.Mapping), r.Aggregators, r.BufferMiB, collectiveWrite(r.App.inst)}
	plain := f.plain(c, data, shared)
	k.estimate = plain
	if r.MPI == "mpich" {
		lib.Value = max(lib.Value, romioLibrary)
	}
	rest := max(0, plain.Value-lib.Value)
	k.Zones = ZonesMiB{Library: min(lib.Value, plain.Value), Data: min(data.Value, rest), Shared: rest - min(data.Value, rest)}
	// The calibration of I/O covers library and shared zones, too.
	k.half = [3]float64{plain.half(), 0, 0}
	if k.Aggregator {
		excess := f.excess(c, k.first)
		k.estimate = independent(plain, excess)
		k.estimate.Extrapolation = max(plain.Extrapolation, shared.Extrapolation)
		k.Zones.IOBuffer = excess.Value
		k.half[2] = excess.half()
	}
	return k, nil
}

// thesisFile predicts one kind of file as the thesis does, Algorithm 1 with
// constants. It gives no intervals; those of its data zone are kept.
func thesisFile(r Request, k File, data Estimate) File {
	lib, shared, buffer := thesisLibrary(r.MPI), thesisShared(r.MPI, k.PPN), 0.
	if r.IO != NoIO {
		lib = max(lib, romioLibrary)
	}
	if k.Aggregator {
		buffer = r.BufferMiB
	}
	k.Zones = ZonesMiB{Library: lib, Data: data.Value, Shared: shared, IOBuffer: buffer}
	half := 0.03 * shared // claimed: 0 to 3 %
	k.estimate = estimate(k.Zones.total(), math.Hypot(data.half(), half), data.Extrapolation)
	k.half = [3]float64{data.half(), half, 0}
	return k
}
