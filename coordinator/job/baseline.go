package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
)

// FromScratch reports whether the job begins again, without its checkpoints and logs: their
// removal has begun.
func (l *Baseline) FromScratch() bool { return slices.Contains(l.Base, -1) }

// baselineName is the file from which the next coordinator of a job of several groups learns
// which checkpoints it needs, and how many incarnations there have been.

const (
	baselineName = "line.json"
	maxBaseline  = 64 << 20 // of two numbers for each group
)

// Baseline is the content of baselineName.
type Baseline struct {
	Base        []int `json:"base"`        // by group
	Incarnation int   `json:"incarnation"` // exceeds those of all processes
	// Taken is, by group, the newest checkpoint when this was written, so that its loss is
	// noticed.
	Taken []int `json:"taken,omitempty"`
	// Unlogged says that the job resumes from Base alone: newer checkpoints and the content of
	// the logs are to be removed.
	Unlogged bool `json:"unlogged,omitempty"`
	// Recut has the ranks with which the job goes on; nil: the ranks of its launch.
	Recut *Recut `json:"dealt,omitempty"`
	// Left are the checkpoints that groups have gone back behind: nodes may still have some.
	Left []LeftSpan `json:"left,omitempty"`
}

// A LeftSpan is the checkpoints of a group after one and up to another.
type LeftSpan struct {
	Group int `json:"group"`
	After int `json:"after"`
	UpTo  int `json:"up_to"`
}

// Leave notes that a group goes back to checkpoint after, and that it has begun none after upTo.
// It reports whether that is news.
func (l *Baseline) Leave(group, after, upTo int) bool {
	if after >= upTo || slices.Contains(l.Left, LeftSpan{group, after, upTo}) {
		return false
	}
	l.Left = slices.DeleteFunc(l.Left, func(s LeftSpan) bool {
		needed := group < len(l.Base) && s.UpTo >= l.Base[group]
		return s.Group == group && (s.After >= after || !needed)
	})
	l.Left = append(l.Left, LeftSpan{group, after, upTo})
	return true
}

// Leaves reports whether a job of so many groups has no use for a checkpoint: it is older than
// those that are needed, or the job has gone back behind it.
func (l *Baseline) Leaves(number, groups int) bool {
	g := (number - 1) % groups
	return l.FromScratch() || g < len(l.Base) && number < l.Base[g] ||
		slices.ContainsFunc(l.Left, func(s LeftSpan) bool { return s.Group == g && s.After < number && number <= s.UpTo })
}

// A sealedBaseline is a Baseline as it is stored. Without the checksum, a damaged number would
// make a run mistake logs and checkpoints for others.
type sealedBaseline struct {
	ownedBaseline
	Sum uint32 `json:"crc32c"`
}

type ownedBaseline struct {
	digestMember
	Baseline
}

func (l ownedBaseline) sum() uint32 {
	return durable.Sum(Encode(l))
}

// same reports whether nothing was removed between the two: a removal is noted first.
func (l *Baseline) same(now *Baseline) bool {
	return l.Recut.same(now.Recut) && slices.Equal(l.Base, now.Base) && slices.Equal(l.Taken, now.Taken) && slices.Equal(l.Left, now.Left)
}

// ReadBaseline returns what the job has noted. A job with checkpoints of several groups has noted
// something.
func ReadBaseline(job *image.Job, groups int) (l Baseline, err error) {
	l, err = readBaseline(job)
	if err == nil {
		if err := l.check(groups); err != nil {
			return Baseline{}, &durable.DamageError{File: filepath.Join(job.Dir(), baselineName), Reason: err.Error()}
		}
	}
	return l, err
}

func readBaseline(job *image.Job) (l Baseline, err error) {
	path := filepath.Join(job.Dir(), baselineName)
	b, err := durable.ReadFile(job.FS(), path, maxBaseline)
	if errors.Is(err, fs.ErrNotExist) {
		return l, missingBaseline(job, path)
	}
	if err != nil {
		return l, err
	}
	var s sealedBaseline
	if err := json.Unmarshal(b, &s); err != nil {
		return l, &durable.DamageError{File: path, Reason: "it is not what ckpt writes there"}
	}
	if s.Sum != s.sum() {
		return l, &durable.DamageError{File: path, Reason: "its checksum is not that of its content"}
	}
	if err := s.digestMember.check(job, path); err != nil {
		return l, err
	}
	return s.Baseline, nil
}

// check refuses what a job of so many groups does not write.
func (l *Baseline) check(groups int) error {
	if err := l.Recut.check(); err != nil {
		return err
	}
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
		if !of(g, n) && !(n == -1 && l.FromScratch()) || l.FromScratch() != (n == -1) {
			return fmt.Errorf("base %v: group %d cannot go back to checkpoint %d", l.Base, g, n)
		}
	}
	if l.Unlogged && (len(l.Base) == 0 || l.FromScratch()) {
		return fmt.Errorf("it is to resume from base %v without logs", l.Base)
	}
	for g, n := range l.Taken {
		if !of(g, n) {
			return fmt.Errorf("taken %v: checkpoint %d is not of group %d", l.Taken, n, g)
		}
	}
	return nil
}

// missingBaseline is the error of a job that needs its baseline and lacks it.
func missingBaseline(job *image.Job, path string) error {
	numbers, err := job.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range slices.Backward(numbers) {
		if m, err := job.Manifest(n); err == nil && m.Groups > 1 {
			return &MissingError{What: fmt.Sprintf("%s, which says which checkpoints and logs are needed", path)}
		}
	}
	return nil
}

func WriteBaseline(job *image.Job, l Baseline) error {
	path := filepath.Join(job.Dir(), baselineName)
	d, err := digestOf(job)
	if err != nil {
		return err
	}
	owned := ownedBaseline{d, l}
	err = durable.Replace(job.FS(), path, append(Encode(sealedBaseline{owned, owned.sum()}), '\n'))
	return durable.Op("write", path, -1, err)
}

// CheckUnlogged checks that the checkpoints to resume from fit together by themselves.
func (l *Baseline) CheckUnlogged(job *image.Job, cfg supervisor.Config) error {
	cfg.Known = l.Only(slices.Clone(cfg.Known))
	line, err := supervisor.LineWithoutLogs(cfg)
	if err == nil && slices.EqualFunc(line, l.Base, func(k supervisor.Stored, n int) bool { return k.Number == n }) {
		return nil
	}
	return &durable.DamageError{File: filepath.Join(job.Dir(), baselineName),
		Reason: fmt.Sprintf("checkpoints %v, from which the job is to resume without logs, do not fit together", l.Base)}
}

// Only returns the checkpoints that the job resumes from.
func (l *Baseline) Only(known []supervisor.Stored) []supervisor.Stored {
	return slices.DeleteFunc(known, func(k supervisor.Stored) bool { return k.Number != l.Base[k.Group] })
}

// ChooseCheckpoint reads the manifest of checkpoint n, 0 for the newest, damaged or not. With
// several groups it returns the newest that can be read, or nil: the recovery line tells more. So
// it does with passed, which is told why newer ones are passed over.
func ChooseCheckpoint(job *image.Job, spec *Resolved, n int, passed func(error)) (*image.Manifest, error) {
	if spec.Several() {
		return newestReadable(job, spec, func(error) {})
	}
	if n == 0 && passed != nil {
		m, err := newestReadable(job, spec, passed)
		if m != nil || err != nil {
			return m, err
		}
	}
	if n == 0 {
		numbers, err := job.Checkpoints()
		if err != nil {
			return nil, err
		}
		if later := spec.Later(numbers); len(later) > 0 {
			n = slices.Max(later)
		} else if spec.Recut != nil {
			return nil, nil
		} else {
			return nil, &noCheckpointError{job.Name()}
		}
	}
	m, err := job.Manifest(n)
	if err != nil {
		return nil, err
	}
	return m, spec.CheckTaken(job, m)
}

// newestReadable returns nil if every manifest is damaged.
func newestReadable(job *image.Job, spec *Resolved, passed func(error)) (*image.Manifest, error) {
	numbers, err := job.Checkpoints()
	numbers = spec.Later(numbers)
	var skipped []error
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil {
			err = spec.CheckTaken(job, m)
		}
		if err == nil {
			for i, err := range skipped {
				passed(fmt.Errorf("checkpoint %d is passed over: %w", numbers[len(numbers)-1-i], err))
			}
		}
		if err == nil || !Unrestorable(err) {
			return m, err
		}
		skipped = append(skipped, err)
	}
	return nil, err
}

// Take locks a job to continue it, and reads its description. The caller unlocks it.
func Take(store *image.Store, name string) (*image.Job, *Resolved, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, nil, err
	}
	_, err = store.Own()
	var spec *Resolved
	if err == nil {
		spec, err = readChecked(j)
	}
	if err != nil {
		j.Unlock()
		return nil, nil, err
	}
	return j, spec, nil
}

// readChecked reads a description and checks that the checkpoints were taken under it.
func readChecked(j *image.Job) (*Resolved, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return nil, err
	}
	return spec, checkDescription(j)
}

// checkDescription checks that the newest checkpoint that names a description names this one.
func checkDescription(job *image.Job) error {
	numbers, err := job.Checkpoints()
	if err != nil {
		return err
	}
	var other error
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil && m.Description != "" {
			return nil
		}
		if errors.Is(err, image.ErrOtherDescription) && other == nil {
			other = err
		}
	}
	return other
}
