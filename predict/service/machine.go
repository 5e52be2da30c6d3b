package service

import (
	"errors"
	"fmt"
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
	// RestartTimes are restarts, with their parts as laws: coordination is the time until the
	// ranks read, storage the reading of a checkpoint by all ranks together.
	RestartTimes *Times `json:"restart_times,omitempty"`
	// FixedS is the time of a restart for any number of ranks, RankS what each rank adds, and
	// ReadMiBPerS the rate of reading, in a model of an older ckpt.
	FixedS      *fit.Range `json:"restart_s,omitempty"`
	RankS       *fit.Range `json:"restart_rank_s,omitempty"`
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

// FitRestarts measures restarts: what they read as a law of the bytes, and the rest as a law of
// the ranks. It takes medians, since other work on a machine delays single restarts by much.
func (m *Machine) FitRestarts(restarts []dataset.JobRestart) {
	var starts, reads []timed
	var speeds []float64
	t := &Times{Storage: Line{Law: ByBytes, Coef: []float64{0, 0}}, Management: Line{Law: Linear, Coef: []float64{0, 0}}}
	for i, r := range restarts {
		row := timed{Load: Load{Ranks: float64(r.Ranks), Bytes: float64(r.ReadBytes)}, job: i, coordination: max(0, r.TotalS-r.ReadS), storage: r.ReadS}
		starts = append(starts, row)
		t.NP.add(row.Ranks)
		if r.ReadS > 0 && r.ReadBytes > 0 {
			reads = append(reads, row)
			t.Bytes.add(row.Bytes)
		}
		if r.ReplayS != nil && *r.ReplayS > 0 && r.LostS > 0 {
			speeds = append(speeds, max(1, r.LostS / *r.ReplayS))
		}
		m.Restarts++
	}
	if len(speeds) > 0 {
		// The time that work took at first includes logs and checkpoints.
		v := min(maxReplay, Median(speeds))
		m.Replay = &fit.Range{Value: v, Low: 1, High: v * restartDoubt}
	}
	if len(starts) == 0 {
		return
	}
	t.Jobs = len(starts)
	t.Coordination = fitTime(starts, rankShapes, func(c *timed) float64 { return c.coordination })
	if len(reads) > 0 {
		t.Storage = fitTime(reads, []shape{{ByBytes, 1}}, func(c *timed) float64 { return c.storage })
	}
	t.Scatter = t.scatter(starts)
	m.RestartTimes = t
}

// maxReplay is the most that work is repeated faster, as package interval takes it.
const maxReplay = 10

// Restart is the time of restarting some ranks that read so much, as far as restarts were
// measured.
func (m *Machine) Restart(ranks int, mib float64) Time {
	if m.RestartTimes == nil {
		return Time{}
	}
	return m.RestartTimes.Of(Load{Ranks: float64(ranks), Bytes: mib * (1 << 20)}, 0, false, 0)
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
	if m.RestartTimes != nil {
		if err := m.RestartTimes.Check(); err != nil {
			return fmt.Errorf("restarts: %w", err)
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
