package dataset

import (
	"math"
	"testing"
)

// measured are the DTAPP columns of León (2022): the data zone of a rank in
// MiB, under MPICH, without compression. A value that several tables print is
// listed once per table, as the tables differ in the last digits.
//
// Left out: BT under Open MPI (Table 5.1), whose data zone holds 1.1 to 2.2 MiB
// more because that library keeps more on the heap; Lulesh (Table 5.2), of which
// no arrays are known.
var measured = []struct {
	table string
	app   string
	class string
	np    int
	mib   float64
}{
	{"4.1", "bt", "D", 16, 1626.72}, {"4.1", "bt", "D", 25, 1042.88}, {"4.1", "bt", "D", 36, 757.08},
	{"4.1", "bt", "D", 49, 560.93}, {"4.1", "bt", "D", 64, 445.39},
	{"4.2", "sp", "B", 4, 94.30}, {"4.2", "sp", "B", 16, 28.46}, {"4.2", "sp", "B", 25, 19.29},
	{"4.2", "sp", "B", 36, 16.55}, {"4.2", "sp", "B", 49, 11.46},
	{"4.3", "bt", "D", 16, 1626.86}, {"4.3", "bt", "D", 25, 1043.04}, {"4.3", "bt", "D", 36, 757.07},
	{"4.3", "bt", "D", 49, 560.93}, {"4.3", "bt", "D", 64, 445.39}, {"4.3", "bt", "D", 81, 352.63},
	{"4.3", "bt", "D", 100, 282.16}, {"4.3", "bt", "D", 121, 249.99}, {"4.3", "bt", "D", 196, 163.68},
	{"4.3", "bt", "D", 256, 125.77}, {"4.3", "bt", "D", 324, 100.90},
	{"5.1", "bt", "B", 4, 109.94}, {"5.1", "bt", "B", 36, 17.49}, {"5.1", "bt", "B", 64, 9.911},
	{"5.1", "bt", "C", 16, 112.09}, {"5.1", "bt", "C", 25, 75.91}, {"5.1", "bt", "C", 36, 57.61},
	{"5.1", "bt", "C", 49, 43.95}, {"5.1", "bt", "C", 64, 35.02},
	{"5.1", "bt", "D", 16, 1626.72}, {"5.1", "bt", "D", 25, 1042.88}, {"5.1", "bt", "D", 36, 756.92},
	{"5.1", "bt", "D", 49, 561.09}, {"5.1", "bt", "D", 64, 445.39},
	{"5.2", "sp", "B", 4, 94.30}, {"5.2", "sp", "B", 25, 19.29}, {"5.2", "sp", "B", 36, 16.55},
	{"5.2", "lu", "B", 4, 49.55}, {"5.2", "lu", "B", 25, 10.37}, {"5.2", "lu", "B", 36, 7.39},
	{"5.2", "cg", "B", 4, 116.59}, {"5.2", "cg", "B", 16, 34.62}, {"5.2", "cg", "B", 32, 18.61},
	{"5.16", "bt", "B", 4, 109.94}, {"5.16", "bt", "B", 9, 53.63}, {"5.16", "bt", "B", 16, 31.35},
	{"5.16", "bt", "B", 25, 21.97}, {"5.16", "bt", "B", 36, 17.50}, {"5.16", "bt", "B", 49, 12.65},
	{"5.16", "bt", "C", 16, 112.09}, {"5.16", "bt", "C", 36, 57.61}, {"5.16", "bt", "C", 64, 35.01},
	{"5.16", "bt", "C", 100, 24.99}, {"5.16", "bt", "C", 144, 18.14}, {"5.16", "bt", "C", 196, 14.75},
	{"5.16", "sp", "B", 4, 94.30}, {"5.16", "sp", "B", 9, 45.45}, {"5.16", "sp", "B", 16, 28.30},
	{"5.16", "sp", "B", 25, 19.21}, {"5.16", "sp", "B", 36, 16.45}, {"5.16", "sp", "B", 49, 11.38},
	{"5.16", "sp", "C", 16, 95.66}, {"5.16", "sp", "C", 36, 52.53}, {"5.16", "sp", "C", 64, 31.06},
	{"5.16", "sp", "C", 100, 22.44}, {"5.16", "sp", "C", 144, 17.74}, {"5.16", "sp", "C", 196, 14.30},
	{"5.16", "lu", "B", 4, 49.55}, {"5.16", "lu", "B", 9, 23.70}, {"5.16", "lu", "B", 16, 14.82},
	{"5.16", "lu", "B", 25, 10.37}, {"5.16", "lu", "B", 36, 7.39}, {"5.16", "lu", "B", 49, 6.11},
	{"5.16", "lu", "C", 16, 51.78}, {"5.16", "lu", "C", 36, 24.77}, {"5.16", "lu", "C", 64, 16.17},
	{"5.16", "lu", "C", 100, 11.52}, {"5.16", "lu", "C", 144, 8.59}, {"5.16", "lu", "C", 196, 6.89},
}

// tolerance is the worst relative residual allowed per application, in percent.
// One constant per application was fitted (the structure has no free number).
// For BT two small rows pull in opposite directions, B.64 and C.196 (2.95 and
// 2.96 %): no constant does better. All other rows of BT stay below 1.2 %.
var tolerance = map[string]float64{"bt": 3.0, "sp": 0.7, "lu": 1.2, "cg": 0.03}

func TestMeasuredSizes(t *testing.T) {
	worst := map[string]float64{}
	for _, m := range measured {
		w, err := LoadWorkload(m.app)
		if err != nil {
			t.Fatal(err)
		}
		inst, err := w.Instance(m.class, m.np)
		if err != nil {
			t.Fatal(err)
		}
		got := float64(inst.DataBytes()) / (1 << 20)
		pct := 100 * (got - m.mib) / m.mib
		t.Logf("Table %-4s %-10v %9.3f MiB measured, %9.3f structural (%+.2f %%)", m.table, inst, m.mib, got, pct)
		worst[m.app] = max(worst[m.app], math.Abs(pct))
		if math.Abs(pct) > tolerance[m.app] {
			t.Errorf("%v: %.3f MiB, table %s says %.3f (%+.2f %%)", inst, got, m.table, m.mib, pct)
		}
		if m.np == 4 && math.Abs(pct) > 0.1 {
			t.Errorf("%v: four processes must agree within 0.1 %%, not %+.2f %%", inst, pct)
		}
	}
	for _, app := range []string{"bt", "sp", "lu", "cg"} {
		t.Logf("%s: worst residual %.2f %%", app, worst[app])
	}
}

// Tables 4.7-4.9: an application-level checkpoint of MiniGhost is the five
// variables of all processes and 3 to 5 kB.
func TestMiniGhostSizes(t *testing.T) {
	for _, c := range []struct {
		class string
		np    int
		mib   float64
		tol   float64 // relative: class C is printed as rounded GiB
	}{
		{"B", 4, 152.591, 2e-4}, {"B", 8, 305.179, 2e-4}, {"B", 16, 610.356, 2e-4},
		{"C", 4, 1218.56, 3e-3}, {"C", 8, 2437.12, 3e-3}, {"C", 16, 4884.48, 1e-3},
	} {
		inst := mustApp(t, "minighost."+c.class, c.np)
		got := float64(int64(c.np)*inst.DataBytes()) / (1 << 20)
		if math.Abs(got-c.mib)/c.mib > c.tol {
			t.Errorf("%v: %.3f MiB, table says %.3f", inst, got, c.mib)
		}
	}
}

func mustApp(t testing.TB, s string, np int) *Instance {
	t.Helper()
	inst, err := ParseApp(s, np)
	if err != nil {
		t.Fatal(err)
	}
	return inst
}
