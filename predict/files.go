package predict

import (
	"ckpt/predict/fit"
	"math"
	"slices"
)

// kinds lists the different kinds of files of a job, with their numbers: one per size
// of node, with separate kinds for aggregators. Aggregators are spread evenly over
// nodes, on the first ranks of each (cb_config_list *:1).
func kinds(r Request) []File {
	var out []File
	count := func(ppn, n int, aggregator, first bool) {
		if n == 0 {
			return
		}
		for i := range out {
			if out[i].PPN == ppn && out[i].Aggregator == aggregator && out[i].First == first {
				out[i].Count += n
				return
			}
		}
		out = append(out, File{PPN: ppn, Count: n, Aggregator: aggregator, First: first})
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
			first := i == 0 && r.MPI == "openmpi" && len(r.Mapping) > 1 && r.Law != fit.Thesis
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
		lib = fit.Around(max(lib.Value, romioLibrary), 0.3, 1)
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

// fullFile predicts a file of a job that writes collectively.
func (m *Model) fullFile(r Request, k File, data, lib, shared fit.Estimate) (File, error) {
	f := m.IO[r.MPI]
	if f == nil {
		return k, fit.Refuse("use the built-in model", "collective I/O under %s was never measured", r.MPI)
	}
	c := IOCase{r.MPI, r.App.NP, len(r.Mapping), r.Aggregators, r.BufferMiB, CollectiveWrite(r.App.Inst)}
	plain := f.File(c, data, shared)
	k.Estimate = plain
	if r.MPI == "mpich" {
		lib.Value = max(lib.Value, romioLibrary)
	}
	rest := max(0, plain.Value-lib.Value)
	k.Zones = ZonesMiB{Library: MiB(min(lib.Value, plain.Value)), Data: MiB(min(data.Value, rest)), Shared: MiB(rest - min(data.Value, rest))}
	// The calibration of I/O covers library and shared zones, too.
	k.Sides = [3]side{sides(plain)}
	if k.Aggregator {
		excess := f.Aggregator(c, k.First)
		k.Estimate = fit.Independent(plain, excess)
		k.Estimate.Extrapolation = max(plain.Extrapolation, shared.Extrapolation)
		k.Zones.IOBuffer = MiB(excess.Value)
		k.Sides[2] = sides(excess)
	}
	return k, nil
}

// thesisFile predicts one kind of file with the thesis's method, Algorithm 1 with
// constants. It has no intervals except those of its data zone.
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
