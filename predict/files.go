package predict

import (
	"ckpt/dataset"
	"ckpt/predict/fit"
	"fmt"
	"math"
	"slices"
	"strings"
)

// kinds lists the different kinds of files of a job, with their numbers: one per size
// of node, with separate kinds for aggregators. Aggregators are spread evenly over
// nodes, on the first ranks of each (cb_config_list *:1).
func kinds(r Request) []File {
	var out []File
	next := 0 // rank
	held := unequal(r.App.Inst)
	count := func(ppn, n int, aggregator, first bool) {
		f := File{PPN: ppn, Count: n, Aggregator: aggregator, First: first}
		if held == nil {
			out = addFile(out, f)
			return
		}
		for range n {
			f.Count, f.share, f.runs = 1, held[next], []dataset.RankRun{{First: next, Last: next}}
			out = addFile(out, f)
			next++
		}
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
		// Under Open MPI the first aggregator of several nodes is larger.
		if a > 0 && i == 0 && r.MPI == "openmpi" && len(r.Mapping) > 1 && r.Law != fit.Thesis {
			count(ppn, 1, true, true)
			count(ppn, a-1, true, false)
		} else {
			count(ppn, a, true, false)
		}
		count(ppn, ppn-a, false, false)
	}
	for i := range out {
		out[i].Ranks = rankNames(out[i].runs)
	}
	slices.SortStableFunc(out, func(a, b File) int {
		if a.PPN != b.PPN {
			return b.PPN - a.PPN
		}
		return rankOf(a) - rankOf(b)
	})
	return out
}

// addFile adds files to a list of kinds.
func addFile(list []File, f File) []File {
	if f.Count == 0 {
		return list
	}
	for i := range list {
		k := &list[i]
		if k.PPN == f.PPN && k.Aggregator == f.Aggregator && k.First == f.First && k.held() == f.held() {
			k.Count += f.Count
			if k.share != f.share {
				both := *k.share
				both.Low, both.High = min(both.Low, f.share.Low), max(both.High, f.share.High)
				k.share = &both
			}
			for _, r := range f.runs {
				k.runs = extended(k.runs, r)
			}
			return list
		}
	}
	return append(list, f)
}

// held is what each of the ranks holds, 0 where all hold the same.
func (k *File) held() int64 {
	if k.share == nil {
		return 0
	}
	return k.share.Bytes
}

// unequal returns the share of each rank, nil where all hold equally much.
func unequal(inst *dataset.Instance) []*dataset.RankShare {
	if inst == nil || len(inst.Shares()) < 2 {
		return nil
	}
	held := make([]*dataset.RankShare, inst.NP)
	shares := inst.Shares()
	for i := range shares {
		for _, run := range shares[i].Ranks {
			for rank := run.First; rank <= run.Last; rank++ {
				held[rank] = &shares[i]
			}
		}
	}
	return held
}

// data is the data zone of such a file, where the one of a rank on average is known.
func (k *File) data(inst *dataset.Instance, mean fit.Estimate) fit.Estimate {
	if inst == nil {
		return mean
	}
	s := k.share
	if s == nil {
		s = &inst.Shares()[0]
	}
	average := float64(inst.TotalBytes()) / float64(inst.NP) / mebi
	stored := 1.0 // the share of the arrays that is stored
	if average > 0 {
		stored = min(1, mean.Value/average)
	}
	of := func(bytes int64) float64 { return stored * float64(bytes) / mebi }
	more := of(s.Bytes) - stored*average
	mean.Low = max(0, mean.Low+more-of(s.Bytes-s.Low))
	mean.High += more + of(s.High-s.Bytes)
	mean.Value += more
	return mean
}

func rankOf(f File) int {
	switch {
	case f.First:
		return 2
	case f.Aggregator:
		return 1
	}
	return 0
}

// file predicts one kind of file.
func (m *Model) file(r Request, k File, data fit.Estimate) (File, error) {
	library := m.Library[r.MPI]
	if library == nil {
		return k, fit.Refuse("measure it, or use the built-in model", "the library zone of %s was never measured", r.MPI)
	}
	lib := library.Predict()
	if m.Shared[r.MPI] == nil {
		return k, fit.Refuse("measure it, or use the built-in model", "the shared zone of %s was never measured", r.MPI)
	}
	shared := m.SharedZone(r.MPI, r.App.Name, k.PPN)
	switch r.IO {
	case SimpleIO:
		lib = withROMIO(lib)
		data = fit.Around(data.Value+simpleData, math.Hypot(data.Half(), simpleDoubt), data.Extrapolation)
		shared = fit.Around(shared.Value+simpleShared, math.Hypot(shared.Half(), simpleDoubt), shared.Extrapolation)
	case FullIO:
		return m.fullFile(r, k, data, lib, shared)
	}
	k.Estimate = fit.Independent(lib, data, shared)
	k.Zones = ZonesMiB{Library: MiB(lib.Value), Data: MiB(data.Value), Shared: MiB(shared.Value)}
	k.Sides = [3]side{sides(data).with(sides(lib)), sides(shared)}
	return k, nil
}

// withROMIO is the library zone of a build with ROMIO, where the one that was measured is
// of a build without it.
func withROMIO(lib fit.Estimate) fit.Estimate {
	if lib.Value >= romioLibrary {
		return lib
	}
	return fit.Around(romioLibrary, 0.3, 1)
}

// fullFile predicts a file of a job that writes collectively.
func (m *Model) fullFile(r Request, k File, data, lib, shared fit.Estimate) (File, error) {
	f := m.IO[r.MPI]
	if f == nil {
		return k, fit.Refuse("use the built-in model", "collective I/O under %s was never measured", r.MPI)
	}
	c := IOCase{r.MPI, r.App.NP, len(r.Mapping), r.Aggregators, r.BufferMiB, CollectiveWrite(r.App.Inst)}
	plain := f.File(c, data, shared)
	if f.Zones {
		if r.MPI == "mpich" {
			lib = withROMIO(lib)
		}
		plain = fit.Independent(lib, data, shared)
		k.Zones = ZonesMiB{Library: MiB(lib.Value), Data: MiB(data.Value), Shared: MiB(shared.Value)}
		k.Sides = [3]side{sides(data).with(sides(lib)), sides(shared)}
	} else {
		if r.MPI == "mpich" {
			lib.Value = max(lib.Value, romioLibrary)
		}
		rest := max(0, plain.Value-lib.Value)
		k.Zones = ZonesMiB{Library: MiB(min(lib.Value, plain.Value)), Data: MiB(min(data.Value, rest)), Shared: MiB(rest - min(data.Value, rest))}
		// The calibration of I/O covers library and shared zones, too.
		k.Sides = [3]side{sides(plain)}
	}
	k.Estimate = plain
	if k.Aggregator {
		excess := f.Aggregator(c, k.First)
		k.Estimate = fit.Independent(plain, excess)
		k.Estimate.Extrapolation = max(plain.Extrapolation, shared.Extrapolation)
		k.Zones.IOBuffer = MiB(excess.Value)
		k.Sides[2] = sides(excess)
	}
	return k, nil
}

// ThesisFile predicts one kind of file with the thesis's method, Algorithm 1 with
// constants. Only its data zone has intervals.
func ThesisFile(r Request, k File, data fit.Estimate) File {
	lib, shared, buffer := fit.ThesisLibrary(r.MPI), fit.ThesisShared(r.MPI, k.PPN), 0.
	if r.IO != NoIO {
		lib = max(lib, romioLibrary)
	}
	if k.Aggregator {
		buffer = r.BufferMiB
	}
	k.Zones = ZonesMiB{Library: MiB(lib), Data: MiB(data.Value), Shared: MiB(shared), IOBuffer: MiB(buffer)}
	half := 0.03 * shared // claimed: 0 to 3 %
	k.Estimate = fit.Around(float64(k.Zones.Total()), math.Hypot(data.Half(), half), data.Extrapolation)
	k.Sides = [3]side{sides(data), {half, half}}
	return k
}

// The tables hold for the machines of the thesis. On another machine sizes differ by more
// than the intervals of one machine, and differently by zone. These are the differences
// between systems that are known.
const (
	// systemsData is the data of one job in a cluster and in the cloud (Tables 5.18, 5.19).
	// systemsRuntime is what a runtime of today may add to a process, in MiB.
	systemsData    = 0.06
	systemsRuntime = 3
	// systemsLibrary is the largest library zone that was measured, in MiB: 2.45 in the
	// tables, 7.8 with ROMIO, 86.4 under MPICH 4.0.2 (docs/ZONES.md).
	systemsLibrary      = 86.4
	systemsLibraryBelow = 0.2
	// MPICH 4 over UCX has 12.6 MiB for 2 processes on a node and 19.0 for 64
	// (docs/ZONES.md), where the tables have 34 and 534.
	systemsSegment       = 11
	systemsSegmentDouble = 1.3
	// Files of DMTCP 5 under an Open MPI of today are 27 % off, by their shared zones.
	// systemsOpenMPI bounds such a file, systemsOpenMPISegment the zone.
	systemsOpenMPI        = 0.3
	systemsOpenMPISegment = 0.65
)

// A side is how far a size may lie below and above its value, in MiB.
type side struct{ below, above float64 }

func sides(e fit.Estimate) side { return side{e.Value - e.Low, e.High - e.Value} }

// with adds an independent error.
func (s side) with(o side) side {
	return side{math.Hypot(s.below, o.below), math.Hypot(s.above, o.above)}
}

func (s side) times(n float64) side { return side{n * s.below, n * s.above} }

// Around is the estimate of a value with sides.
func (s side) Around(value, extrapolation float64) fit.Estimate {
	return fit.Between(value, max(0, value-s.below), value+s.above, max(1, extrapolation))
}

// elsewhere returns the zones of a request that were measured on another machine.
func (m *Model) elsewhere(mpi string) (zones []string) {
	for _, z := range []string{"library", "data", "shared"} {
		if slices.Contains(m.Elsewhere, z) || slices.Contains(m.Elsewhere, z+" "+mpi) {
			zones = append(zones, z)
		}
	}
	return zones
}

// abroad widens the intervals of a file by what zones may differ between machines.
func (k *File) abroad(mpi string, zones []string) {
	for _, z := range zones {
		i, s := 0, side{}
		switch z {
		case "library":
			library := float64(k.Zones.Library)
			s = side{systemsLibraryBelow * library, max(0, systemsLibrary-library)}
		case "data":
			data := float64(k.Zones.Data)
			s = side{systemsData * data, systemsData*data + systemsRuntime}
		case "shared":
			i = 1
			s = segmentAbroad(mpi, float64(k.Zones.Shared), float64(k.MiB), k.PPN)
		}
		k.Sides[i] = k.Sides[i].with(s)
		k.Estimate = sides(k.Estimate).with(s).Around(k.Estimate.Value, k.Estimate.Extrapolation)
	}
	k.Low, k.High = MiB(k.Estimate.Low), MiB(k.Estimate.High)
}

// segmentAbroad is what the shared zone of a file may differ by.
func segmentAbroad(mpi string, mib, file float64, pn int) side {
	if mpi != "mpich" {
		v := max(systemsOpenMPI*file, systemsOpenMPISegment*mib)
		return side{v, v}
	}
	small := systemsSegment + systemsSegmentDouble*math.Log2(float64(pn))
	return side{max(systemsData*mib, mib-small), systemsData * mib}
}

// abroad widens the intervals of a checkpoint, and says why.
func (s *Size) abroad(r Request, zones []string) {
	if len(zones) == 0 {
		return
	}
	for i := range s.Files {
		s.Files[i].abroad(s.MPI, zones)
	}
	s.add(r)
	what := "sizes differ between machines"
	switch len(zones) {
	case 1:
		what = fmt.Sprintf("the zone %s was measured on another machine", zones[0])
	case 2:
		what = fmt.Sprintf("the zones %s were measured on another machine", strings.Join(zones, " and "))
	default:
		s.Basis += ", measured on another machine"
	}
	s.Note = fit.Join(s.Note, what+": one run of yours makes the interval narrow")
}
