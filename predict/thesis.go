package predict

import (
	"slices"
	"strings"
	"sync"

	"ckpt/dataset"
)

// A coefficients pair is one power law of the thesis, a·p^b MiB.
type coefficients struct{ a, b float64 }

// thesisCoefficients reads the laws that the thesis uses, printed or recovered
// from its estimates, from the built-in table models_coefficients. Keys are its
// model names without "DTAPP ".
var thesisCoefficients = sync.OnceValues(func() (map[string]coefficients, error) {
	t, err := dataset.LoadTable("models_coefficients")
	if err != nil {
		return nil, err
	}
	out := map[string]coefficients{}
	for i := range t.Rows {
		name, ok := strings.CutPrefix(t.Text(i, "model"), "DTAPP ")
		if !ok || t.Text(i, "variable") != "Npt" {
			continue
		}
		a, err := t.Number(i, "coef_a")
		if err != nil {
			return nil, err
		}
		b, err := t.Number(i, "coef_b")
		if err != nil {
			return nil, err
		}
		out[name] = coefficients{a, b}
	}
	return out, nil
})

// The laws of the thesis by the names of its table of models.
const (
	lawBTB        = "BT class B (Eq 3.10)"
	lawBTDOneNode = "BT class D, 1 node (fig 4.3)"
	lawSPB        = "SP class B, 1 node (fig 4.4)"
	lawBTDNodes   = "BT class D, multi-node (fig 4.5)"
	lawBTDCount   = "BT class D used in tables 4.5/4.6"
)

// thesisLaw is the law that the thesis uses for a series, with its fit points. If it
// uses none, it is the thesis's procedure: the power law through the three smallest
// process counts.
func thesisLaw(s *series, nodes int) (*lawFit, []point, error) {
	printed := map[string]string{"bt.B mpich": lawBTB, "sp.B mpich": lawSPB, "bt.D mpich": lawBTDOneNode}
	chosen := map[string][]float64{"bt.B mpich": {4, 25, 36}, "sp.B mpich": {4, 16, 25}, "bt.D mpich": {16, 25, 36}}
	key := printed[s.name()]
	if nodes > 1 && key == lawBTDOneNode {
		key = lawBTDNodes
	}
	var used []point
	var seen []float64
	points := slices.Clone(s.Points)
	slices.SortStableFunc(points, func(a, b point) int {
		switch {
		case a.P < b.P:
			return -1
		case a.P > b.P:
			return 1
		}
		return 0
	})
	for _, pt := range points {
		if slices.Contains(seen, pt.P) || key != "" && !slices.Contains(chosen[s.name()], pt.P) || len(used) == 3 {
			continue
		}
		used, seen = append(used, pt), append(seen, pt.P)
	}
	if key != "" && len(used) == 3 && s.ofThesis() {
		all, err := thesisCoefficients()
		if err != nil {
			return nil, nil, err
		}
		if c, ok := all[key]; ok {
			return thesisFit(c.a, c.b, used), used, nil
		}
	}
	f, err := fitLaw(Thesis, used)
	return f, used, err
}

// ofThesis tells whether the points of a series are the thesis's own, not a user's
// measurements of the same application.
func (s *series) ofThesis() bool {
	return !slices.ContainsFunc(s.Tables, func(t string) bool { return len(t) == 0 || t[0] < '4' || t[0] > '5' })
}

// thesisLibrary is the library zone of the thesis in MiB: 2.45 for MPICH, 2.73
// for Open MPI (Tables 4.1-4.3, 5.1).
func thesisLibrary(mpi string) float64 {
	if mpi == "openmpi" {
		return 2.73
	}
	return 2.45
}

// thesisShared is the shared zone of the thesis in MiB: Algorithm 2 for MPICH,
// the mean of Table 5.1 for Open MPI.
func thesisShared(mpi string, pn int) float64 {
	if mpi == "openmpi" {
		return 92.3
	}
	return algorithm2(pn)
}

// thesisSeconds is the storage time of the thesis for one process, Eq 5.1-5.3, in
// seconds for zones of so many MiB. The text calls x "the time of each zone", but the
// worked examples (Tables 4.5, 4.6) show that x is the size in bytes.
func thesisSeconds(dataMiB, libraryMiB, sharedMiB float64) (data, library, shared float64) {
	const b = 1 << 20
	return 1.46041308e-07*dataMiB*b - 0.00404367,
		1.3205654e-07*libraryMiB*b - 0.00014156,
		1.5359626e-07*sharedMiB*b - 0.0109242
}
