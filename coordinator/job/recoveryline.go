package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/recovery"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// A StoredLine is where the groups of a job resume if all of them fail at once, as far as the
// store tells. A rank of its history stands for a group.
type StoredLine struct {
	Job    string
	Mode   Mode
	Log    channel.Kind // of messages between groups
	Groups [][]int      // the ranks of each
	// History holds the states to go back to. With a pessimistic log no group forces another
	// back: replay takes each on to where it was.
	History *recovery.History
	Line    *recovery.Line
	Garbage *recovery.Garbage // of History
	// Useless are the checkpoints that no line holds, now or ever. With a log all are of use.
	Useless []recovery.Checkpoint
	// Passed says why checkpoints are not in History: damaged, or missing in part.
	Passed []error
	passed error // in short; may be nil
	// Live says that History knows how far the job is: it runs, or it has ended.
	Live bool
}

// Several reports whether the job has more than one group. With one, the line is its newest
// checkpoint.
func (l *StoredLine) Several() bool { return len(l.Groups) > 1 }

// Pessimistic reports whether each group goes back to its newest checkpoint, alone.
func (l *StoredLine) Pessimistic() bool {
	return l.Several() && (l.Log == channel.Receiver || l.Log == channel.Sender)
}

// attempts is how often FindLine reads a running job, which changes meanwhile.
const attempts = 10

// FindLine finds the line of a job; inspect tells whether it runs. It changes nothing. It looks
// at manifests, files and logs, without reading every byte as Verify does. The error names what
// is missing or damaged.
func FindLine(ctx context.Context, job *image.Job, inspect func() (*Status, error)) (*StoredLine, error) {
	spec, err := readChecked(job)
	if err != nil {
		return nil, err
	}
	if spec.Origin != "" {
		return nil, &UsageError{"job " + job.Name() + " was imported: another checkpointer restarts it", "{show " + job.Name() + "} shows its checkpoint"}
	}
	for i := 1; ; i++ {
		before, err := ReadBaseline(job, len(spec.Groups))
		if err != nil {
			return nil, err
		}
		status, err := inspect()
		if err != nil {
			return nil, err
		}
		l, err := findLine(ctx, job, spec, status, &before)
		// A running job removes what it needs no longer, after it has said so.
		if after, again := ReadBaseline(job, len(spec.Groups)); status.State == StateRunning && i < attempts && again == nil &&
			(err != nil || !before.same(&after)) {
			continue
		}
		return l, err
	}
}

func findLine(ctx context.Context, job *image.Job, spec *Resolved, status *Status, noted *Baseline) (*StoredLine, error) {
	l := &StoredLine{Job: job.Name(), Mode: spec.Mode, Log: spec.Log, Groups: spec.Groups}
	levels, err := LevelsOf(ctx, job, spec)
	if err != nil {
		return nil, err
	}
	stored, err := readLevels(levels, job, spec, noted)
	if err != nil {
		return nil, err
	}
	stored.Miss(noted)
	found, anew := stored.Found, noted.FromScratch()
	l.Passed, l.passed = stored.Passed, stored.Reason()
	cfg := supervisor.Config{Groups: l.Groups, Log: l.Log, Base: noted.Base, Start: spec.Recut.At()}
	if !anew {
		if cfg.Known, err = stored.Known(); err != nil {
			return nil, err
		}
		err = l.checkBase(found, noted.Base)
		if l.Several() && l.Log == channel.Optimistic {
			if err == nil {
				cfg.Logged, err = Logged(ctx, levels, job, spec, cfg)
			}
			err = OfferLine(job.Name(), cfg, err)
		}
		if err != nil {
			return nil, err
		}
	}
	line, err := supervisor.FindLine(cfg)
	if errors.Is(err, recovery.ErrNoLine) {
		if lerr := l.checkAllLogs(levels, job, spec, found); lerr != nil {
			return nil, OfferLine(job.Name(), cfg, lerr)
		}
		err = &MissingError{What: err.Error(), Cause: l.passed, OnNodes: spec.Tier != nil}
	}
	if err != nil {
		return nil, err
	}
	l.History, l.Line, l.Garbage = line.History, line.Line, line.Garbage
	if l.Several() && l.Log == channel.None {
		if l.Useless, err = recovery.Useless(l.History); err != nil {
			return nil, err
		}
	}
	for g, p := range l.Line.Places {
		if anew || !l.Several() || !l.Log.Logs() {
			break
		}
		at := l.History.Ranks[g].Checkpoints[p.Load].Number
		upTo := slices.DeleteFunc(slices.Clone(found[g]), func(m *image.Manifest) bool { return m.Number > at })
		if err := CheckLogs(levels, job, spec, g, upTo); err != nil {
			return nil, OfferLine(job.Name(), cfg, err)
		}
	}
	l.addPresent(status)
	return l, nil
}

func (l *StoredLine) checkAllLogs(from Source, job *image.Job, spec *Resolved, found [][]*image.Manifest) error {
	if !l.Log.Logs() {
		return nil
	}
	for g := range found {
		if err := CheckLogs(from, job, spec, g, found[g]); err != nil {
			return err
		}
	}
	return nil
}

func (l *StoredLine) checkBase(found [][]*image.Manifest, base []int) error {
	for g := range base {
		if n := len(found[g]); base[g] > 0 && (n == 0 || found[g][n-1].Number < base[g]) {
			return &MissingError{What: fmt.Sprintf("%s can go back to checkpoint %d or a later one, and none of them is there", l.Name(g), base[g]), Cause: l.passed}
		}
	}
	return nil
}

// addPresent adds how far the groups are, so that their losses can be counted. Groups of unknown
// progress are drawn an iteration further than any checkpoint. A group has sent at least the
// messages that others have stored as received.
func (l *StoredLine) addPresent(status *Status) {
	l.Live = status.State == StateRunning || status.State == StateCompleted
	states := make([]recovery.State, len(l.Groups)) // the newest
	at := status.Iteration
	for g, r := range l.History.Ranks {
		states[g] = r.Checkpoints[len(r.Checkpoints)-1]
		if !l.Live {
			at = max(at, states[g].Iteration+1)
		}
	}
	for g := range l.History.Ranks {
		now := states[g]
		now.Logged, now.Iteration = false, max(now.Iteration, at)
		now.Sent = slices.Clone(now.Sent)
		for p := range states {
			if p == g {
				continue
			}
			l.History.Channels(g, p, func(out, in int) { now.Sent[out] = max(now.Sent[out], states[p].Received[in]) })
		}
		l.History.Ranks[g].Current = &now
		if p := &l.Line.Places[g]; l.Live {
			p.LostIterations = max(0, now.Iteration-p.State.Iteration)
		}
	}
}

func (l *StoredLine) Name(g int) string { return NameRanks(l.Groups[g]) }

// A storedJob is what the store holds of a job of several groups.
type storedJob struct {
	// Found are, by group and oldest first, the manifests that it can go back to.
	Found [][]*image.Manifest
	// Passed says which checkpoints are missing or damaged: each group keeps a spare one.
	Passed     []error
	unreadable []int // their numbers
	passing    []int // numbers of those in Found that are on their way from nodes to the store
}

// Miss adds to Passed the newest checkpoint of each group, if it has gone without a trace. A job
// that restarts from scratch misses nothing, and Found is nil.
func (s *storedJob) Miss(l *Baseline) {
	if l.FromScratch() {
		s.Found = nil
		return
	}
	for g, n := range l.Taken {
		if g >= len(s.Found) || n <= 0 || slices.Contains(s.unreadable, n) ||
			slices.ContainsFunc(s.Found[g], func(m *image.Manifest) bool { return m.Number >= n }) {
			continue
		}
		s.Passed = append(s.Passed, &MissingError{What: fmt.Sprintf("checkpoint %d, which has been taken", n)})
	}
}

// Reason joins what was passed over, the first reason in full.
func (s *storedJob) Reason() error {
	if n := len(s.Passed); n > 2 {
		return fmt.Errorf("%w; and %d more", s.Passed[0], n-1)
	}
	return errors.Join(s.Passed...)
}

// ReadStored reads manifests, lengths of files and the states of channels; ranks read the rest.
// It leaves out checkpoints older than the baseline of their group.
func ReadStored(job *image.Job, spec *Resolved, base []int) (*storedJob, error) {
	numbers, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	s := &storedJob{Found: make([][]*image.Manifest, len(spec.Groups))}
	for _, n := range spec.Later(numbers) {
		if g := (n - 1) % len(spec.Groups); g < len(base) && n < base[g] {
			continue
		}
		m, err := readTaken(job, spec, n)
		if err != nil {
			if _, err := job.Manifest(n); errors.Is(err, image.ErrCheckpointNotFound) {
				continue // removed this moment, its files too
			}
		}
		if err != nil && spec.Several() && Unrestorable(err) && !ofDescription(job, err) {
			s.Passed = append(s.Passed, fmt.Errorf("checkpoint %d is passed over: %w", n, err))
			s.unreadable = append(s.unreadable, n)
			continue
		}
		if err != nil {
			return nil, err
		}
		s.Found[m.Group] = append(s.Found[m.Group], m)
	}
	for g, found := range s.Found {
		s.Found[g] = ascending(found)
	}
	return s, nil
}

// ascending leaves out the checkpoints of a group that it has passed over as damaged, and after
// which it took others of earlier iterations.
func ascending(found []*image.Manifest) []*image.Manifest {
	least := int64(math.MaxInt64)
	var kept []*image.Manifest
	for _, m := range slices.Backward(found) {
		if m.Iteration <= least {
			least, kept = m.Iteration, append(kept, m)
		}
	}
	slices.Reverse(kept)
	return kept
}

// readLevels is ReadStored with the checkpoints that only nodes have. It fails if nodes have all
// of them and none is seen.
func readLevels(l *Levels, job *image.Job, spec *Resolved, noted *Baseline) (*storedJob, error) {
	s, err := ReadStored(job, spec, noted.Base)
	if err != nil || l.Tier == nil {
		return s, err
	}
	all, err := l.Checkpoints()
	if err != nil {
		return nil, err
	}
	seen := false
	versions := map[int]*image.Manifest{}
	for _, c := range all {
		seen = seen || c.Seen()
		if !c.Stored && c.Version != nil {
			versions[c.Number] = c.Version.Manifest
		}
		if !c.Seen() && !noted.Leaves(c.Number, len(spec.Groups)) {
			s.Passed = append(s.Passed, l.Unreached(c.Number))
		}
	}
	if !seen {
		if err := l.Explain(0, image.ErrCheckpointNotFound); err != image.ErrCheckpointNotFound {
			return nil, err
		}
	}
	return s, s.AddNodes(l, spec, noted, versions)
}

// AddNodes adds the versions that nodes have and the store lacks, unless the job has left them.
func (s *storedJob) AddNodes(from Source, spec *Resolved, noted *Baseline, versions map[int]*image.Manifest) error {
	for _, n := range slices.Sorted(maps.Keys(versions)) {
		m := versions[n]
		stored := slices.ContainsFunc(s.Found[m.Group], func(o *image.Manifest) bool { return o.Number == n })
		if stored || noted.Leaves(n, len(spec.Groups)) {
			continue
		}
		at, _, err := from.Reads(n)
		if err == nil {
			err = spec.checkGroup(at, m)
		}
		if err != nil && errors.Is(err, fs.ErrNotExist) {
			err = &MissingError{What: fmt.Sprintf("the part of %s in checkpoint %d, which only nodes had", NameRanks(spec.Groups[m.Group]), n), OnNodes: true}
		}
		if err != nil && spec.Several() && Unrestorable(err) {
			s.Passed = append(s.Passed, fmt.Errorf("checkpoint %d is passed over: %w", n, err))
			s.unreadable = append(s.unreadable, n)
			continue
		}
		if err != nil {
			return err
		}
		s.Found[m.Group] = append(s.Found[m.Group], m)
		if spec.Tier.Drain.Mode != nodes.DrainNone {
			s.passing = append(s.passing, n)
		}
	}
	for g, list := range s.Found {
		slices.SortFunc(list, func(a, b *image.Manifest) int { return a.Number - b.Number })
		s.Found[g] = ascending(list)
	}
	return nil
}

func readTaken(job *image.Job, spec *Resolved, n int) (*image.Manifest, error) {
	m, err := job.Manifest(n)
	if err != nil {
		return nil, err
	}
	if err := spec.CheckTaken(job, m); err != nil {
		return nil, err
	}
	if err := checkFiles(job, m); err != nil {
		return nil, err
	}
	return m, spec.checkGroup(job, m)
}

// checkGroup checks that the job can have taken a checkpoint, and reads the states of channels in
// it.
func (s *Resolved) checkGroup(job *image.Job, m *image.Manifest) error {
	if err := s.CheckTaken(job, m); err != nil || !s.Several() {
		return err // there are no channels
	}
	for i := range m.Ranks {
		if _, err := ReadChannels(context.Background(), job, s, m, m.Ranks[i].Rank); err != nil {
			return err
		}
	}
	return nil
}

// ofDescription reports whether the description of the job is damaged, for which no checkpoint
// makes up.
func ofDescription(job *image.Job, err error) bool {
	d := new(durable.DamageError)
	return errors.As(err, &d) && d.File == job.SpecPath()
}

func checkFiles(job *image.Job, m *image.Manifest) error {
	for _, f := range m.Files {
		path := filepath.Join(job.Dir(), f.Path)
		info, err := job.FS().Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return &MissingError{What: fmt.Sprintf("%s, which checkpoint %d needs", path, m.Number)}
		case err != nil:
			return err
		case info.Size() != f.Bytes:
			return &durable.DamageError{File: path, Offset: min(info.Size(), f.Bytes), Reason: fmt.Sprintf("it has %d bytes, checkpoint %d says %d", info.Size(), m.Number, f.Bytes)}
		}
	}
	return nil
}

// CheckTaken checks that the job can have taken a checkpoint.
func (s *Resolved) CheckTaken(job *image.Job, m *image.Manifest) error {
	if then, err := s.before(m.Number); err != nil {
		return err
	} else if then != s {
		return then.CheckTaken(job, m)
	}
	wrong := func(format string, args ...any) error {
		return &durable.DamageError{File: ManifestPath(job, m.Number), Reason: fmt.Sprintf(format, args...)}
	}
	group := (m.Number - 1) % len(s.Groups)
	ranks := s.Groups[group]
	if s.mayBeDealt(m) {
		ranks = everyRank(m.NP)
	}
	switch {
	case m.App != s.App || m.NP != s.NP && !s.mayBeDealt(m) || m.MPI != s.MPI || Mode(m.Mode) != s.Mode:
		return wrong("it is of %s with %d ranks, %s, %s, the job is %s with %d ranks, %s, %s", m.App, m.NP, m.MPI, m.Mode, s.App, s.NP, s.MPI, s.Mode)
	case m.Level != string(s.Level):
		return wrong("it is at level %q, the job at %q", cmp.Or(m.Level, string(System)), s.LevelOf())
	case max(1, m.Groups) != len(s.Groups) || m.Group != group:
		return wrong("it is of group %d of %d, checkpoint %d of the job is of group %d of %d", m.Group, m.Groups, m.Number, group, len(s.Groups))
	case s.Origin != "":
		// An imported job counts no iterations, and its ranks have no settings.
	case m.Iteration < 1 || s.Program == nil && m.Iteration > int64(s.Iterations):
		return wrong("iteration %d is out of range: the job has %d", m.Iteration, s.Iterations)
	case len(m.Mapping) == 0:
		return wrong("it has no mapping")
	case !slices.EqualFunc(m.Ranks, ranks, func(r image.Rank, rank int) bool { return r.Rank == rank }):
		return wrong("its ranks are not %s, in this order", NameRanks(ranks))
	}
	for i, r := range m.Ranks {
		if r.File == "" && (i == 0 || !s.SavesArrays()) {
			return wrong("rank %d has no file", r.Rank)
		}
	}
	if err := s.checkDescribed(m); err != nil {
		return wrong("%v", err)
	}
	return nil
}
