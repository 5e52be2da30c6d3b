package fit

import (
	"strings"
	"sync"

	"ckpt/dataset"
)

// A Coefficients pair is one power law of the thesis, a·p^b MiB.
type Coefficients struct{ A, B float64 }

// ThesisCoefficients reads the laws that the thesis uses, printed or recovered
// from its estimates, from the built-in table models_coefficients. Keys are its
// model names without "DTAPP ".
var ThesisCoefficients = sync.OnceValues(func() (map[string]Coefficients, error) {
	t, err := dataset.LoadTable("models_coefficients")
	if err != nil {
		return nil, err
	}
	out := map[string]Coefficients{}
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
		out[name] = Coefficients{a, b}
	}
	return out, nil
})

// ThesisLibrary is the library zone of the thesis in MiB: 2.45 for MPICH, 2.73
// for Open MPI (Tables 4.1-4.3, 5.1).
func ThesisLibrary(mpi string) float64 {
	if mpi == "openmpi" {
		return 2.73
	}
	return 2.45
}

// ThesisShared is the shared zone of the thesis in MiB: Algorithm 2 for MPICH,
// the mean of Table 5.1 for Open MPI.
func ThesisShared(mpi string, pn int) float64 {
	if mpi == "openmpi" {
		return 92.3
	}
	return Algorithm2(pn)
}

// ThesisSeconds is the storage time of the thesis for one process, Eq 5.1-5.3, in
// seconds for zones of so many MiB. The text calls x "the time of each zone", but the
// worked examples (Tables 4.5, 4.6) show that x is the size in bytes.
func ThesisSeconds(dataMiB, libraryMiB, sharedMiB float64) (data, library, shared float64) {
	const b = 1 << 20
	return 1.46041308e-07*dataMiB*b - 0.00404367,
		1.3205654e-07*libraryMiB*b - 0.00014156,
		1.5359626e-07*sharedMiB*b - 0.0109242
}

// Constants of Algorithm 2 (León 2022, s. 4.1.2), in MiB. C1 and C2 are not
// printed; they follow from the printed estimates: C1 = 31.07 from 43.07 at
// four processes (Table 5.10), C1 + C2 = 93.00 from nine estimates of Tables
// 4.1-4.3.
const (
	algorithm2C1 = 31.07
	algorithm2C2 = 61.93
	algorithm2B  = 5
)

// Algorithm2 is Algorithm 2: the shared zone under MPICH with p processes on a
// node, in MiB. The algorithm prints "or" where it must say "and". Its ranges
// end at 63; for 64 the thesis uses the value of 63 (534.00, Table 4.3), while
// the last line would give 547 against 534.6 measured.
func Algorithm2(p int) float64 {
	p = min(p, 63)
	a := float64((p - 1) / 7)
	n := float64(p)
	switch {
	case p <= 7:
		return algorithm2C1 + (algorithm2B-1)*(n-1)
	case p <= 14:
		return algorithm2C2 + (algorithm2B+(a-1))*(n-8*a)
	case p <= 21:
		return algorithm2C1 + algorithm2C2 + (algorithm2B+(a-1))*(n-7*a)
	}
	sum := algorithm2C1 + algorithm2C2 + (algorithm2B+(a-1))*(n-7*a)
	for i := 1.; i <= a-2; i++ {
		sum += 7 * (algorithm2B + i)
	}
	return sum
}

// Eq311 is Eq 3.11: the regression of the shared zone under MPICH, in MiB.
func Eq311(pn int) float64 {
	n := float64(pn)
	return 0.0617*n*n + 3.9983*n + 25.47
}
