package timing

import "testing"

// TestCalibration prints what the thesis prints as figures, R11 to R14, R19 and R21
// of docs/TIERS.md (TestVersions has R23), beside those of the model. They are no bounds: the description
// was not fitted to them.
func TestCalibration(t *testing.T) {
	slow(t)
	w := strip
	w.Buffer = 512 << 10
	for _, c := range []struct {
		what   string
		thesis float64
		change func(m *Machine)
	}{
		{"R11: 400 ns of access in place of 600", -6.5, func(m *Machine) { m.Memory.Access = 400e-9 }},
		{"R12: 1000 ns until durable in place of 2000", -2, func(m *Machine) { m.Memory.Persist = 1000e-9 }},
		{"R13: four times the bandwidth", -2.5, func(m *Machine) { m.Memory.Divisor = 1 }},
	} {
		t.Logf("%s: %+.2f %%, %+.1f %% of a filter that computes nothing; thesis %+.1f %%", c.what,
			gain(t, w, func(*Machine) {}, c.change), gain(t, w, func(m *Machine) { m.Pixel = 0 }, c.change), c.thesis)
	}
}

// TestCalibrationFiles prints R14 and R19: closing files behind, and all protection.
func TestCalibrationFiles(t *testing.T) {
	slow(t)
	w := Images{Width: 33_333, Height: 900, Passes: 10, Buffer: 512 << 10}
	seconds := func(w Images, s Setup) float64 { return mustRun(t, w, s).Seconds }
	cached := seconds(w, Setup{Cached: true})
	behind := w
	behind.Overlap = true
	t.Logf("R14: files closed behind the next pass: %+.1f %%; thesis about -10 %%", 100*(seconds(behind, Setup{Cached: true})/cached-1))
	synced := w
	synced.Sync = true
	all := Levels{Records: true, Replicas: 1, Versions: true}
	plain := seconds(w, Setup{})
	protected := seconds(synced, Setup{Cached: true, Levels: all})
	t.Logf("R19: images, all protection: %+.1f %%, plain MPI I/O %+.1f %%; thesis up to +20 %%, and less than plain", 100*(protected/cached-1), 100*(plain/cached-1))
	less(t, "R19: protected, plain", protected, 1, plain)
	long := walk
	long.Steps *= 10
	bare := mustRun(t, long, Setup{Cached: true})
	for _, c := range []struct {
		what   string
		levels Levels
	}{
		{"R19: random walk, records and one journal", Levels{Records: true, Replicas: 1}},
		{"R21: two journals", Levels{Records: true, Replicas: 2}},
		{"R21: four journals", Levels{Records: true, Replicas: 4}},
	} {
		r := mustRun(t, long, Setup{Cached: true, Levels: c.levels})
		t.Logf("%s: %+.1f %% of an iteration; thesis: negligible with one", c.what, 100*(r.Work/bare.Work-1))
	}
}

// gain is the change of time by one change of a machine that has another already.
func gain(t *testing.T, w workload, base, change func(m *Machine)) float64 {
	t.Helper()
	before, after := mustLoad(t, "lap06"), mustLoad(t, "lap06")
	base(before)
	base(after)
	change(after)
	a, b := mustRun(t, w, Setup{Machine: before, Cached: true}), mustRun(t, w, Setup{Machine: after, Cached: true})
	return 100 * (b.Work/a.Work - 1)
}

// TestCalibrationOthers prints R3, R8, R10, R17 and R18: times of other applications, and
// many nodes.
func TestCalibrationOthers(t *testing.T) {
	slow(t)
	shorter := func(what, thesis string, w workload, change func(m *Machine)) {
		m := mustLoad(t, "lap06")
		change(m)
		cached, plain := mustRun(t, w, Setup{Machine: m, Cached: true}), mustRun(t, w, Setup{Machine: m})
		t.Logf("%s: %+.0f %% of the time; thesis %s", what, 100*(cached.Seconds/plain.Seconds-1), thesis)
		less(t, what, cached.Seconds, 1, plain.Seconds)
	}
	as := func(*Machine) {}
	shorter("R3: 512 B read anywhere", "-33 % on average, up to -83 %", Blocks{Requests: 20_000, Bytes: 512}, as)
	shorter("R3: 256 B written nearby", "the same", Blocks{Requests: 20_000, Bytes: 256, Write: true, Place: Own}, as)
	sobel := strip
	sobel.Buffer = 512 << 10
	shorter("R10: Sobel", "more than -50 %", sobel, func(m *Machine) { m.Pixel *= 2 })
	large := Images{Width: 17_320, Height: 1_443, Passes: 1, Buffer: 512 << 10} // a twelfth
	m := mustLoad(t, "lap06")
	m.Pixel *= 2
	t.Logf("R8: Sobel of 300 million pixels: %.0f s; thesis 32 s", 12*mustRun(t, large, Setup{Machine: m, Cached: true}).Seconds)
	shorter("R17: each process scans its part, 512 B at a time", "-75 %", Blocks{Requests: 20_000, Bytes: 512, Place: Own}, as)
	for _, nodes := range []int{12, 96} {
		w := walk
		w.Iterations, w.Remove, w.Size = 10, true, int64(nodes)<<20
		r := mustRun(t, w, Setup{Machine: mustLoad(t, "k2"), Nodes: nodes, Cached: true})
		t.Logf("R18: %d processes: %.2f ms an iteration; thesis: scales well to 672", nodes*7, 100*r.Work)
	}
}
