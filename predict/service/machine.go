package service

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"ckpt/dataset"
	"ckpt/predict/fit"
)

// A Machine has what the costs of logs and restarts depend on. A quantity that was never
// measured is nil, and assumed.
type Machine struct {
	// CommitS is the time of one commit of a log, CommitsPerFrame how many there are for
	// a frame: frames that wait for the disk together share one.
	CommitS         *fit.Range `json:"commit_s,omitempty"`
	CommitsPerFrame *fit.Range `json:"commits_per_frame,omitempty"`
	// FixedS is the time of a restart for any number of ranks, RankS what each rank adds.
	FixedS *fit.Range `json:"restart_s,omitempty"`
	RankS  *fit.Range `json:"restart_rank_s,omitempty"`
	// ReadMiBPerS is the rate at which all ranks together read a checkpoint.
	ReadMiBPerS *fit.Range `json:"read_mib_per_s,omitempty"`
	// Replay is how many times faster lost work is repeated, since its messages come from
	// logs.
	Replay *fit.Range `json:"replay,omitempty"`
	// LogBytes is what jobs logged in an iteration, in place of the messages of a spec.
	LogBytes []MeasuredLog `json:"log_bytes,omitempty"`
	Restarts int           `json:"restarts,omitempty"` // measured
}

// A MeasuredLog is what a job logged in an iteration, all ranks together.
type MeasuredLog struct {
	App   string  `json:"app"`
	Class string  `json:"class"`
	NP    int     `json:"np"`
	Mode  Mode    `json:"mode"`
	Log   Log     `json:"log"`
	Ranks int     `json:"group_ranks"` // of the largest group
	Bytes float64 `json:"bytes"`
}

// usual are the quantities of a machine that was not measured. Their ranges span what
// local disks, shared file systems and batch systems of today do.
var usual = struct{ commitS, commits, fixedS, rankS, replay fit.Range }{
	commitS: fit.Range{Value: 2e-3, Low: 5e-5, High: 20e-3},
	// Jobs of bt, lu and cg on one machine commit 0.4 to 0.9 times for a message.
	commits: fit.Range{Value: 0.8, Low: 0.3, High: 1},
	fixedS:  fit.Range{Value: 2, Low: 0.2, High: 30},
	rankS:   fit.Range{Value: 0.01, Low: 0.001, High: 0.1},
	replay:  fit.Range{Value: 1, Low: 1, High: 2},
}

// readDoubt is how far the rate of reading may be from the one of writing, which a restart
// is assumed to have (thesis, section 2.4.2: as a checkpoint with reads for writes).
const readDoubt = 3

// commitDoubt and restartDoubt are how far a measured time may be off in another run on
// the same machine.
const (
	commitDoubt  = 1.5
	restartDoubt = 1.25
)

func around(v, factor float64) *fit.Range {
	return &fit.Range{Value: v, Low: v / factor, High: v * factor}
}

// FitMachine measures a machine by jobs that ran on it. It returns nil if they have neither
// logs nor restarts.
func FitMachine(runs []dataset.JobRun) *Machine {
	m := &Machine{}
	m.fitLogs(runs)
	var restarts []dataset.JobRestart
	for _, r := range runs {
		restarts = append(restarts, r.Restarts...)
	}
	m.FitRestarts(restarts)
	if m.CommitS == nil && m.Restarts == 0 && len(m.LogBytes) == 0 {
		return nil
	}
	return m
}

func (m *Machine) fitLogs(runs []dataset.JobRun) {
	var commits, frames, seconds float64
	for i := range runs {
		r := &runs[i]
		l := r.Logs
		if l == nil || l.Iterations == 0 {
			continue
		}
		commits += float64(l.Commits)
		seconds += l.Seconds
		groups, err := Groups(Mode(r.Mode), r.Mapping, r.GroupSize)
		if err != nil {
			continue
		}
		m.LogBytes = append(m.LogBytes, MeasuredLog{App: r.App, Class: r.Class, NP: r.NP, Mode: Mode(r.Mode), Log: Log(r.Log),
			Ranks: slices.Max(sizes(groups)), Bytes: float64(l.Bytes) / l.Iterations})
		if inst, err := dataset.ParseApp(r.App+"."+r.Class, r.NP); err == nil {
			t := CountTraffic(inst, groups)
			frames += t.Logged(Log(r.Log)).Frames * l.Iterations
		}
	}
	if commits > 0 && seconds > 0 {
		m.CommitS = around(seconds/commits, commitDoubt)
	}
	if commits > 0 && frames > 0 {
		m.CommitsPerFrame = around(min(1, commits/frames), commitDoubt)
	}
}

// FitRestarts measures restarts: the rate of reading by what was read, and the rest as a
// time for any restart and a time for each rank. It takes medians, since other work on a
// machine delays single restarts by much.
func (m *Machine) FitRestarts(restarts []dataset.JobRestart) {
	var rates, speeds []float64
	rest := map[int][]float64{} // by the number of ranks, what was not reading
	for _, r := range restarts {
		if r.ReadS > 0 && r.ReadBytes > 0 {
			rates = append(rates, float64(r.ReadBytes)/r.ReadS/(1<<20))
		}
		rest[r.Ranks] = append(rest[r.Ranks], max(0, r.TotalS-r.ReadS))
		if r.ReplayS != nil && *r.ReplayS > 0 && r.LostS > 0 {
			speeds = append(speeds, max(1, r.LostS / *r.ReplayS))
		}
		m.Restarts++
	}
	if len(rates) > 0 {
		m.ReadMiBPerS = around(Median(rates), restartDoubt)
	}
	if len(speeds) > 0 {
		// The time that work took at first includes logs and checkpoints.
		v := min(maxReplay, Median(speeds))
		m.Replay = &fit.Range{Value: v, Low: 1, High: v * restartDoubt}
	}
	if len(rest) == 0 {
		return
	}
	var x, y, w []float64
	for _, ranks := range slices.Sorted(maps.Keys(rest)) {
		s := rest[ranks]
		x, y, w = append(x, float64(ranks)), append(y, Median(s)), append(w, float64(len(s)))
	}
	fixed, each := line(x, y, w)
	m.FixedS, m.RankS = around(fixed, restartDoubt), around(each, restartDoubt)
}

// maxReplay is the most that work is repeated faster, as package interval takes it.
const maxReplay = 10

// Restart is the time of restarting some ranks that read so much.
func (m *Machine) Restart(ranks int, mib float64) fit.Range {
	var out fit.Range
	if m.FixedS != nil {
		out = out.Plus(*m.FixedS)
	}
	if m.RankS != nil {
		out = out.Plus(m.RankS.Scale(float64(ranks)))
	}
	if m.ReadMiBPerS != nil {
		out = out.Plus(fit.Exactly(mib).Over(*m.ReadMiBPerS))
	}
	return out
}

// line fits y ≈ a + b·x by least squares over relative errors, with a and b not negative.
// Points of one x give a proportional part that is assumed: all of the time is fixed.
func line(x, y, w []float64) (a, b float64) {
	var s0, s1, s2, t0, t1 float64
	for i := range x {
		k := w[i] / math.Max(1e-12, y[i]*y[i])
		s0, s1, s2 = s0+k, s1+k*x[i], s2+k*x[i]*x[i]
		t0, t1 = t0+k*y[i], t1+k*x[i]*y[i]
	}
	if d := s0*s2 - s1*s1; d > 1e-9*s0*s2 {
		a, b = (t0*s2-t1*s1)/d, (t1*s0-t0*s1)/d
	} else {
		return t0 / s0, 0
	}
	switch {
	case b < 0:
		return t0 / s0, 0
	case a < 0:
		return 0, t1 / s2
	}
	return a, b
}

// Logged returns what a job logged in an iteration where one like it was measured, else
// nil: the same application on as many ranks, with groups as large.
func (m *Machine) Logged(app, class string, np int, mode Mode, log Log, groups []int) *float64 {
	if m == nil || log == NoGroups || log == None {
		return nil
	}
	ranks := slices.Max(sizes(groups))
	for _, l := range m.LogBytes {
		if l.App == app && l.Class == class && l.NP == np && l.Mode == mode && l.Log == log && l.Ranks == ranks {
			return &l.Bytes
		}
	}
	return nil
}

// Check verifies a machine from a file.
func (m *Machine) Check() error {
	for name, r := range map[string]*fit.Range{"commit": m.CommitS, "commits per frame": m.CommitsPerFrame, "restart": m.FixedS,
		"restart of a rank": m.RankS, "rate of reading": m.ReadMiBPerS, "replay": m.Replay} {
		if r != nil && !r.Valid() {
			return fmt.Errorf("modes: %s of %g, between %g and %g, is impossible", name, r.Value, r.Low, r.High)
		}
	}
	if r := m.ReadMiBPerS; r != nil && r.Low <= 0 {
		return errors.New("modes: nothing is read")
	}
	if r := m.Replay; r != nil && r.Low < 1 {
		return errors.New("modes: repeated work is slower than the first time")
	}
	for _, l := range m.LogBytes {
		if l.NP < 1 || l.Ranks < 1 || !(l.Bytes >= 0 && l.Bytes < 1e18) {
			return fmt.Errorf("modes: log of %s.%s is impossible", l.App, l.Class)
		}
	}
	return nil
}
