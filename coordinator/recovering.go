package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
)

// What a job of several groups keeps beside its checkpoints, so that whoever
// coordinates it next knows: the oldest checkpoint of each group that is needed,
// how many processes there have been, and what its ranks have put out.
const (
	lineName   = "line.json"
	outputName = "output.jsonl"
)

// groupLine is the content of lineName.
type groupLine struct {
	Base        []int `json:"base"`        // by group
	Incarnation int   `json:"incarnation"` // exceeds those of all processes
}

// incarnationsPerRun separates the incarnations of one run from those of the next,
// which does not know how many there were.
const incarnationsPerRun = 1 << 20

func readLine(job *image.Job) (l groupLine, err error) {
	b, err := os.ReadFile(filepath.Join(job.Dir(), lineName))
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		return l, fmt.Errorf("%s: %w", lineName, err)
	}
	return l, nil
}

// writeLine replaces it, durably.
func (d *driver) writeLine() error {
	return writeDurably(filepath.Join(d.job.Dir(), lineName), append(encode(d.line), '\n'))
}

func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// supervisorConfig describes the job to its protocol.
func (d *driver) supervisorConfig(from *image.Manifest) (supervisor.Config, error) {
	one, err := d.protocolConfig(from)
	if err != nil {
		return supervisor.Config{}, err
	}
	cfg := supervisor.Config{Iterations: one.Iterations, Schedule: one.Schedule, Jitter: d.spec.Jitter, Seed: d.spec.Seed,
		Limits: one.Limits, AutoRestart: one.AutoRestart, Async: one.Async, Cost: one.Cost, From: one.From, Next: one.Next, Keep: 2}
	for _, g := range d.groups {
		cfg.Groups = append(cfg.Groups, g.ranks)
	}
	if cfg.Printed, err = printed(d.job, d.spec.NP); err != nil {
		return cfg, err
	}
	if len(d.groups) == 1 {
		for _, n := range slices.Sorted(maps.Keys(one.Known)) {
			cfg.Known = append(cfg.Known, supervisor.Stored{Number: n, Iter: one.Known[n]})
		}
		return cfg, nil
	}
	if cfg.Log, err = d.spec.log(); err != nil {
		return cfg, err
	}
	if cfg.Stagger, err = d.spec.stagger(); err != nil {
		return cfg, err
	}
	cfg.From = 0
	if err := os.Mkdir(logsDir(d.job), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return cfg, err
	}
	if d.line, err = readLine(d.job); err != nil {
		return cfg, err
	}
	cfg.Base, cfg.Incarnation = d.line.Base, d.line.Incarnation
	d.line.Incarnation += incarnationsPerRun
	if err := d.writeLine(); err != nil {
		return cfg, err
	}
	if cfg.Known, err = d.stored(); err != nil {
		return cfg, err
	}
	if err := d.checkLogs(cfg); err != nil {
		return cfg, err
	}
	if cfg.Log == channel.Optimistic {
		cfg.Logged, err = d.logged(cfg.Known, cfg.Log)
	}
	return cfg, err
}

// stored lists the checkpoints of all groups that can be read.
func (d *driver) stored() ([]supervisor.Stored, error) {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return nil, err
	}
	var list []supervisor.Stored
	for _, n := range numbers {
		m, err := d.job.Manifest(n)
		if err != nil {
			d.out.Warn(fmt.Sprintf("checkpoint %d is passed over: %v", n, err))
			continue
		}
		if m.Groups != len(d.groups) || m.Group >= m.Groups {
			return nil, fmt.Errorf("checkpoint %d is of group %d of %d, the job has %d now", n, m.Group, m.Groups, len(d.groups))
		}
		v, err := vectorsOf(m)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %d: %w", n, err)
		}
		list = append(list, supervisor.Stored{Group: m.Group, Number: n, Iter: int(m.Iteration), Vectors: v})
	}
	return list, nil
}

// checkLogs verifies the message log of every rank from its newest checkpoint on,
// before anything is changed.
func (d *driver) checkLogs(cfg supervisor.Config) error {
	if !cfg.Log.Logs() || len(cfg.Known) == 0 {
		return nil
	}
	newest := make(map[int]int) // by group
	for _, k := range cfg.Known {
		newest[k.Group] = max(newest[k.Group], k.Number)
	}
	for _, n := range newest {
		m, err := d.job.Manifest(n)
		if err != nil {
			return err
		}
		for _, r := range m.Ranks {
			if err := checkLog(d.job, r.Rank, msglog.LSN(r.LogFrom)); err != nil {
				return err
			}
		}
	}
	return nil
}

// logged returns, by rank and checkpoint, the states in its message log.
func (d *driver) logged(known []supervisor.Stored, kind channel.Kind) ([]map[int][]channel.Vector, error) {
	all := make([]map[int][]channel.Vector, d.spec.NP)
	for rank := range all {
		all[rank] = make(map[int][]channel.Vector)
		group := d.groupOf[rank]
		numbers := []int{}
		if len(d.line.Base) == 0 || d.line.Base[group] <= 0 {
			numbers = append(numbers, 0)
		}
		for _, k := range known {
			if k.Group == group {
				numbers = append(numbers, k.Number)
			}
		}
		for _, n := range numbers {
			states, err := loggedStates(context.Background(), d.fs, d.job, rank, d.spec.NP, n, kind)
			if err != nil {
				return nil, fmt.Errorf("message log of rank %d: %w", rank, err)
			}
			all[rank][n] = states
		}
	}
	return all, nil
}

// examineLogs answers what can be rebuilt from the log of a rank, after the
// processes of its group have ended.
func (g *group) examineLogs(a protocol.Examine) {
	if err := g.endGeneration(); err != nil {
		g.broken = err
		return
	}
	g.helpers.Go(func() {
		ev := protocol.Examined{Round: a.Round, Rank: a.Rank, States: make(map[int][]channel.Vector)}
		kind, err := g.spec.log()
		for _, n := range a.Numbers {
			var states []channel.Vector
			if err == nil {
				states, err = loggedStates(context.Background(), g.fs, g.job, a.Rank, g.spec.NP, n, kind)
			}
			if err == nil {
				ev.States[n] = states
				continue
			}
			g.log.Debug("log", "rank", a.Rank, "checkpoint", n, "error", err)
			err = nil
		}
		g.post(func() { g.stepJob(ev) })
	})
}

// forgetAfter removes the checkpoints of the group from a history that was given
// up, newest first: those that cannot be read too.
func (g *group) forgetAfter(a protocol.Forget) error {
	if err := g.endGeneration(); err != nil {
		return err
	}
	numbers, err := g.job.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(numbers) {
		if n > a.After && n%len(g.groups) == (g.id+1)%len(g.groups) {
			if err := g.forget([]int{n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget removes checkpoints.
func (d *driver) forget(numbers []int) error {
	for _, n := range numbers {
		dropTrace(d.job, n)
	}
	return d.job.Drop(numbers...)
}

// collect removes what no recovery can need any more.
func (d *driver) collect(a protocol.Collect) error {
	d.line.Base = slices.Clone(a.Base)
	if err := d.writeLine(); err != nil {
		return err
	}
	// From here on it is only about room.
	if err := d.free(a); err != nil {
		d.out.Warn("what is not needed any more was not removed: " + err.Error())
	}
	return nil
}

// free removes what nobody needs.
func (d *driver) free(a protocol.Collect) error {
	if err := d.forget(a.Remove); err != nil {
		return err
	}
	if !d.writing() {
		if _, err := d.job.Sweep(); err != nil {
			return err
		}
	}
	for g, base := range a.Base {
		if base <= 0 {
			continue // all of the log is needed, or the job begins anew
		}
		m, err := d.job.Manifest(base)
		if err != nil {
			return err
		}
		for _, r := range m.Ranks {
			if d.groupOf[r.Rank] == g && d.groups[g].started && r.LogFrom > 0 {
				d.send(r.Rank, protocol.Message{Kind: protocol.Truncate, Rank: r.Rank, Progress: r.LogFrom})
			}
		}
	}
	return nil
}

// A RecoveryEvent says what a failure cost in a job of several groups.
type RecoveryEvent struct {
	Type       string  `json:"type"`   // "recovery"
	Failed     []int   `json:"failed"` // groups
	RolledBack []int   `json:"rolled_back"`
	From       []int   `json:"from"`       // their checkpoints, 0 the beginning
	Ranks      int     `json:"ranks"`      // restarted
	Iterations []int   `json:"iterations"` // lost, by group
	Seconds    float64 `json:"decided_s"`  // from the failure to the decision
}

// failed notes when and where a rank died.
func (d *driver) failed(iter int) {
	if d.diedSince == 0 {
		d.diedSince, d.diedAt = d.now(), iter
	}
}

// computesAgain notes that a group has come to compute, perhaps as the last one
// after a failure.
func (d *driver) computesAgain() {
	if d.diedSince == 0 || slices.ContainsFunc(d.groups, func(g *group) bool { return !g.started }) {
		return
	}
	d.result.Recovery = append(d.result.Recovery, (d.now() - d.diedSince).Seconds())
	d.diedSince = 0
}

func (d *driver) recovered(a protocol.Recovery) {
	d.result.Restarts = append(d.result.Restarts, a.Ranks)
	lost := 0
	for g, n := range a.Iterations {
		lost += n * len(d.groups[g].ranks)
	}
	d.result.WorkLost = append(d.result.WorkLost, lost)
	d.event(&RecoveryEvent{Type: "recovery", Failed: a.Failed, RolledBack: a.RolledBack, From: a.From, Ranks: a.Ranks,
		Iterations: a.Iterations, Seconds: a.Decided.Seconds()})
}
