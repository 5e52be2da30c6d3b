package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
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
	// Taken is, by group, the newest checkpoint when this was written, so that
	// somebody notices if it goes.
	Taken []int `json:"taken,omitempty"`
	// Unlogged says that the job resumes from Base and nothing else: newer
	// checkpoints and what the logs hold are to be removed.
	Unlogged bool `json:"unlogged,omitempty"`
}

// A sealedLine is a groupLine as it is stored: a number that is another one would have
// logs and checkpoints taken for what they are not.
type sealedLine struct {
	groupLine
	Sum uint32 `json:"crc32c"`
}

// sum is the CRC-32C of the content.
func (l groupLine) sum() uint32 {
	return crc32.Checksum(encode(l), crc32.MakeTable(crc32.Castagnoli))
}

// same reports whether nothing was removed between the two: that is noted first.
func (l *groupLine) same(now *groupLine) bool {
	return slices.Equal(l.Base, now.Base) && slices.Equal(l.Taken, now.Taken)
}

// incarnationsPerRun separates the incarnations of one run from those of the next,
// which does not know how many there were.
const incarnationsPerRun = 1 << 20

// readLine returns what the job has noted. A job that has checkpoints of several
// groups has noted something.
func readLine(job *image.Job, groups int) (l groupLine, err error) {
	path := filepath.Join(job.Dir(), lineName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, missingLine(job, path)
	}
	if err != nil {
		return l, err
	}
	var s sealedLine
	if err := json.Unmarshal(b, &s); err != nil {
		return l, &durable.DamageError{File: path, Reason: "it is not what ckpt writes there"}
	}
	if s.Sum != s.groupLine.sum() {
		return l, &durable.DamageError{File: path, Reason: "its checksum is not that of its content"}
	}
	if err := s.check(groups); err != nil {
		return l, &durable.DamageError{File: path, Reason: err.Error()}
	}
	return s.groupLine, nil
}

// check refuses what a job of so many groups does not note.
func (l *groupLine) check(groups int) error {
	if l.Incarnation < 0 || l.Incarnation > 1<<52 {
		return fmt.Errorf("incarnation %d is out of range", l.Incarnation)
	}
	if n := len(l.Base); n != 0 && n != groups {
		return fmt.Errorf("base is of %d groups, the job has %d", n, groups)
	}
	if n := len(l.Taken); n != 0 && n != groups {
		return fmt.Errorf("taken is of %d groups, the job has %d", n, groups)
	}
	of := func(g, n int) bool { return n == 0 || n > 0 && (n-1)%groups == g }
	for g, n := range l.Base {
		if !of(g, n) && !(n == -1 && l.anew()) || l.anew() != (n == -1) {
			return fmt.Errorf("base %v: group %d cannot go back to checkpoint %d", l.Base, g, n)
		}
	}
	if l.Unlogged && (len(l.Base) == 0 || l.anew()) {
		return fmt.Errorf("it is to resume from base %v without logs", l.Base)
	}
	for g, n := range l.Taken {
		if !of(g, n) {
			return fmt.Errorf("taken %v: checkpoint %d is not of group %d", l.Taken, n, g)
		}
	}
	return nil
}

// missingLine is the error of a job that has to have its lineName, and has not.
func missingLine(job *image.Job, path string) error {
	numbers, err := job.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(numbers) {
		if m, err := job.Manifest(n); err == nil && m.Groups > 1 {
			return &missingError{what: fmt.Sprintf("%s, which says which checkpoints and logs are needed", path)}
		}
	}
	return nil
}

// writeLine replaces it, durably.
func writeLine(job *image.Job, l groupLine) error {
	path := filepath.Join(job.Dir(), lineName)
	if err := writeDurably(path, append(encode(sealedLine{l, l.sum()}), '\n')); err != nil {
		return &durable.OpError{Op: "write", Path: path, Offset: -1, Err: err}
	}
	return nil
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
	if err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return syncDir(filepath.Dir(path))
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
	if cfg.Printed, d.output, err = openOutput(d.fs, d.job, d.spec.NP); err != nil {
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
	if d.line, err = readLine(d.job, len(d.groups)); err != nil {
		return cfg, err
	}
	cfg.Base, cfg.Incarnation = d.line.Base, d.line.Incarnation
	stored, err := readStored(d.fs, d.job, &d.spec, d.spec.groups(d.mapping), d.line.Base)
	if err != nil {
		return cfg, err
	}
	if !d.line.anew() {
		if cfg.Known, err = knownOf(stored.found); err != nil {
			return cfg, err
		}
		if err := d.forgoLogs(cfg); err != nil {
			return cfg, err
		}
	}
	stored.miss(&d.line)
	if len(d.line.Taken) != len(d.groups) {
		d.line.Taken = make([]int, len(d.groups))
	}
	for _, err := range stored.passed {
		d.out.Warn(err.Error())
	}
	d.passed = stored.why()
	cfg.Base = d.line.Base
	switch {
	case d.line.anew():
		cfg.Known = nil
		return cfg, nil
	case d.line.Unlogged:
		if err := d.line.checkUnlogged(d.job, cfg); err != nil {
			return cfg, err
		}
		cfg.Known = d.line.only(cfg.Known)
		return cfg, nil
	case !cfg.Log.Logs():
		return cfg, nil
	}
	for g, found := range stored.found {
		if err := checkLogs(d.job, &d.spec, d.groups[g].ranks, found); err != nil {
			return cfg, offerLine(d.job.Name(), cfg, err)
		}
	}
	if cfg.Log == channel.Optimistic {
		cfg.Logged, err = d.logged(cfg.Known)
	}
	return cfg, err
}

// takeOver makes sure that no process of this run is taken for one of an earlier
// run. It is the first thing that changes a stored job.
func (d *driver) takeOver() error {
	if err := d.output.cut(); err != nil {
		return err
	}
	if d.spec.Residuals > 0 {
		_ = d.output.reserve(0) // if it fails, lines will tell
	}
	if !d.several() {
		return nil
	}
	if err := os.Mkdir(logsDir(d.job), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.line.Incarnation += incarnationsPerRun
	err := d.noteLine()
	if derr := d.dropBelow(d.line.Base); derr != nil {
		d.out.Warn(notRemoved + derr.Error())
	}
	if !errors.Is(err, durable.ErrStorageFull) {
		return err
	}
	// There may be room now.
	if _, serr := d.job.Sweep(); serr != nil {
		return errors.Join(err, serr)
	}
	if err := d.noteLine(); err != nil {
		return d.cannotGoOn(err)
	}
	return nil
}

// notRemoved begins the warning of what only costs room.
const notRemoved = "what is not needed any more was not removed: "

// logged returns, by rank and checkpoint, the states in its message log.
func (d *driver) logged(known []supervisor.Stored) ([]map[int][]channel.Vector, error) {
	all := make([]map[int][]channel.Vector, d.spec.NP)
	for rank := range all {
		all[rank] = make(map[int][]channel.Vector)
		group := d.groupOf[rank]
		numbers := []int{}
		if len(d.line.Base) == 0 || d.line.Base[group] == 0 {
			numbers = append(numbers, 0)
		}
		for _, k := range known {
			if k.Group == group {
				numbers = append(numbers, k.Number)
			}
		}
		for _, n := range numbers {
			states, err := loggedStates(context.Background(), d.fs, d.job, &d.spec, rank, n)
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
		for _, n := range a.Numbers {
			states, err := g.examineLog(a.Rank, n)
			if err != nil {
				g.out.Warn(fmt.Sprintf("rank %d does not go back to checkpoint %d, 0 the beginning: %v", a.Rank, n, err))
				continue
			}
			ev.States[n] = states
		}
		g.post(func() { g.stepJob(ev) })
	})
}

// examineLog returns the states behind a checkpoint. What cannot be examined is not
// gone back to, and may be given up for good: that descriptors or memory are short is
// no reason, and it tries again, as often as a group is restarted, with growing pauses.
func (g *group) examineLog(rank, number int) ([]channel.Vector, error) {
	pause := 10 * time.Millisecond
	for try := 0; ; try++ {
		states, err := loggedStates(context.Background(), g.fs, g.job, &g.spec, rank, number)
		if err == nil || !mpi.Shortage(err) || try == g.limits.Restarts {
			return states, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		case <-g.done:
			return nil, err
		}
	}
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
	// What is noted tells, should they be missing, that this is as it should be. It
	// can follow if there is no room for it before they are removed.
	late := false
	if g.several() && g.driver.line.Taken[g.id] > a.After {
		g.driver.line.Taken[g.id] = a.After
		err := writeLine(g.job, g.driver.line)
		if late = errors.Is(err, durable.ErrStorageFull); err != nil && !late {
			return err
		}
	}
	for _, n := range slices.Backward(numbers) {
		if n > a.After && n%len(g.groups) == (g.id+1)%len(g.groups) {
			if err := g.forget([]int{n}); err != nil {
				return err
			}
		}
	}
	if late && g.backlog.owed == nil && !g.driver.line.anew() { // else it comes next
		return g.collect(protocol.Collect{Base: g.driver.line.Base})
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

// dropBelow removes the checkpoints of each group that are older than its base: all
// that there are. The protocol does not know those that cannot be read, nor those
// that an earlier run has not come to remove.
func (d *driver) dropBelow(base []int) error {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return err
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool {
		g := (n - 1) % len(d.groups)
		return g >= len(base) || n >= base[g]
	})
	return d.forget(numbers)
}

// collect removes what no recovery can need any more. On a full disk, nothing is
// removed until it can be noted: whoever takes the job over would miss it.
func (d *driver) collect(a protocol.Collect) error {
	d.line.Base, d.backlog.owed = slices.Clone(a.Base), nil
	err := writeLine(d.job, d.line)
	if err != nil && slices.Contains(a.Base, -1) {
		return err // next, the rest of the history goes
	}
	if errors.Is(err, durable.ErrStorageFull) {
		d.backlog.owed = &a
		return d.postpone("what is not needed any more is kept until that can be noted", err)
	}
	if err != nil {
		return err
	}
	// From here on it is only about room.
	if err := d.free(a); err != nil {
		d.out.Warn(notRemoved + err.Error())
	}
	return nil
}

// free removes what nobody needs.
func (d *driver) free(a protocol.Collect) error {
	if err := d.dropBelow(a.Base); err != nil {
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

// recovered notes what a recovery of several groups takes.
func (d *driver) recovered(a protocol.Recovery) {
	for i, id := range a.RolledBack {
		d.outages.restarts(id, a.Failed, len(d.groups[id].ranks), a.Iterations[i])
	}
	d.event(&RecoveryEvent{Type: "recovery", Failed: a.Failed, RolledBack: a.RolledBack, From: a.From, Ranks: a.Ranks,
		Iterations: a.Iterations, Seconds: a.Decided.Seconds()})
}
