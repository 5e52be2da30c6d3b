package predict

import (
	"ckpt/predict/fit"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The tables hold for the machines of the thesis. On another machine sizes differ by more
// than the intervals of one machine, and differently by zone. These are the differences
// between systems that are known.
const (
	// systemsData is that of one job in a cluster and in the cloud (Tables 5.18, 5.19).
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

// around is the estimate of a value with sides.
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
