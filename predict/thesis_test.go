package predict

import (
	"math"
	"strings"
	"testing"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// Where the printed law is used, the command's thesis mode is that law.
func TestThesisMode(t *testing.T) {
	m := model(t)
	for _, c := range []struct {
		app     string
		mapping []int
		mib     float64 // est. file of Tables 4.1-4.3
	}{
		{"bt.D.49", []int{49}, 936.57},
		{"sp.B.49", []int{49}, 386.22},
		{"bt.D.64", []int{32, 32}, 654.61},
		{"bt.D.196", []int{49, 49, 49, 49}, 526.91},
		{"bt.D.324", []int{54, 54, 54, 54, 54, 54}, 524.64},
	} {
		s := size(t, m, Request{App: app(t, m, c.app), Mapping: c.mapping, Law: fit.Thesis})
		if math.Abs(float64(s.Files[0].MiB)-c.mib) > 0.05 {
			t.Errorf("%s: %.3f MiB, printed %.2f", c.app, s.Files[0].MiB, c.mib)
		}
	}
}

// Algorithm 2 gives the values that the thesis prints or uses.
func TestAlgorithm2(t *testing.T) {
	for _, c := range []struct {
		pn  int
		mib float64
	}{{4, 43.07}, {16, 105}, {25, 163}, {32, 216}, {36, 249}, {40, 285}, {41, 294}, {49, 373}, {50, 384}, {54, 428}, {60, 498}, {61, 510}, {63, 534}, {64, 534}} {
		if v := fit.Algorithm2(c.pn); math.Abs(v-c.mib) > 0.005 {
			t.Errorf("%d processes: %.3f MiB, want %.2f", c.pn, v, c.mib)
		}
	}
	for pn := 1; pn < 64; pn++ {
		if fit.Algorithm2(pn+1) < fit.Algorithm2(pn) {
			t.Errorf("falls at %d", pn)
		}
	}
}

// Figure 4.2: 18 files of 125.22 MiB, 6 aggregators of 141.22, and one of 129.22
// alone on its node. The data zone behind it is not printed; it follows from the
// first of the three numbers, the other two from Algorithm 1.
func TestUseCase(t *testing.T) {
	m := model(t)
	r, err := Request{App: app(t, m, "bt.C.25"), Mapping: []int{4, 4, 4, 4, 4, 4, 1}, IO: FullIO, Law: fit.Thesis}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	data := 125.22 - romioLibrary - fit.Algorithm2(4)
	want := []struct {
		count int
		mib   float64
	}{{18, 125.22}, {6, 141.22}, {1, 129.22}}
	list := kinds(r)
	if len(list) != len(want) {
		t.Fatalf("%d kinds of files, want %d", len(list), len(want))
	}
	for i, k := range list {
		f := ThesisFile(r, k, fit.Around(data, 1, 1))
		if f.Count != want[i].count || math.Abs(f.Estimate.Value-want[i].mib) > 0.005 {
			t.Errorf("%d files of %.2f MiB, want %d of %.2f", f.Count, f.Estimate.Value, want[i].count, want[i].mib)
		}
	}
}

// Manager files: Table 3.1 adds them up for 1, 2 and 4 nodes.
func TestManagerFiles(t *testing.T) {
	tab, err := dataset.LoadTable("3.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []string{"1", "2", "4"} {
		sum := 0.
		for i := range tab.Rows {
			if tab.Text(i, "n_nodes") == nodes && !strings.HasPrefix(tab.Text(i, "file_type"), "Ckpt") {
				n, err := tab.Number(i, "n_files")
				if err != nil {
					t.Fatal(err)
				}
				v, err := tab.Number(i, "size_per_file_MiB")
				if err != nil {
					t.Fatal(err)
				}
				sum += n * v
			}
		}
		n := map[string]int{"1": 1, "2": 2, "4": 4}[nodes]
		if math.Abs(ManagerMiB(n)-sum) > 0.02 {
			t.Errorf("%s nodes: %.2f MiB, Table 3.1 adds up to %.2f", nodes, ManagerMiB(n), sum)
		}
	}
}
