package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// TierExample is a directory of each node, as hints name it.
const TierExample = "'/nvme/{node}'"

// checkTier refuses what does not go together with directories of the nodes.
func (s *Resolved) checkTier() error {
	t := s.Tier
	if t == nil {
		return nil
	}
	err := t.Check(len(s.Mapping))
	if err == nil {
		err = t.Protect.Fits(s.TierTopology())
	}
	if err != nil {
		return Clash(ClashProtect, wording.Sprintf("{local} %s: %v", t.Dir, err), tierFix(t, len(s.Mapping)))
	}
	return nil
}

// tierFix says what to do about a setting that so many nodes cannot have.
func tierFix(t *nodes.Setting, count int) string {
	if t.Protect.Kind() != nodes.None && t.Protect.Check(count) != nil {
		return wording.Sprintf("more {nodes}, or {protect} none")
	}
	if len(t.Domains) > 0 && len(t.Domains) != count {
		return wording.Sprintf("{domains} takes %d numbers here, one for each node", count)
	}
	return wording.Sprintf("{local} %s {protect} partner {drain} behind", TierExample)
}

func (s *Resolved) TierTopology() nodes.Topology {
	top := nodes.Topology{NodeOf: s.Nodes}
	if s.Tier != nil && len(s.Tier.Domains) > 0 {
		top.Domains = s.Tier.Domains
	}
	return top
}

// WithoutNodes returns the description for a check before the nodes of a program are known.
func (s Spec) WithoutNodes() Spec {
	if s.Tier != nil {
		t := *s.Tier
		t.Protect, t.Domains = nodes.Scheme{}, nil
		s.Tier = &t
	}
	return s
}

// CheckNodes fails with image.ErrJobExists if nodes have checkpoints of a job, as far as is
// known. The store may have no job yet.
func CheckNodes(j *image.Job) error {
	l, err := ReadLevels(context.Background(), j)
	if err != nil && !Unrestorable(err) { // a damaged description says nothing, the record does
		return err
	}
	_, err = l.Find(0)
	if unseen := (*UnseenError)(nil); errors.As(err, &unseen) {
		return fmt.Errorf("%w: %s, and %v", image.ErrJobExists, j.Dir(), unseen)
	}
	if errors.Is(err, image.ErrCheckpointNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s, with checkpoints on its nodes", image.ErrJobExists, j.Dir())
}

// OpenTier opens the directories of the nodes under a mapping of its ranks. Where is the file
// system of each node.
func (s *Resolved) OpenTier(j *image.Job, where func(node int) vfs.FS, mapping Mapping) (*nodes.Tier, error) {
	return OpenTier(j, *s.Tier, mapping, where)
}

// OpenTier opens them under a setting that may differ from the description's: the record of the
// nodes has setting and mapping as they were last.
func OpenTier(j *image.Job, setting nodes.Setting, mapping Mapping, where func(node int) vfs.FS) (*nodes.Tier, error) {
	text, err := j.Spec()
	if err != nil {
		return nil, err
	}
	list := make([]nodes.Node, len(mapping))
	for i := range list {
		list[i] = nodes.Node{ID: i, FS: where(i), Dir: setting.NodeDir(i)}
	}
	t, err := nodes.Open(j.Name(), text, setting, mapping.Nodes(), list)
	if err == nil {
		t.For(j.Store())
	}
	return t, err
}

// PartBytes is the length of a rank's file in a version, 0 without one.
func PartBytes(m *image.Manifest, rank int) int64 {
	if i := partOf(m, rank); i >= 0 {
		return m.Files[i].Bytes
	}
	return 0
}

// partOf finds a rank's file in a version, −1 without one.
func partOf(m *image.Manifest, rank int) int {
	return slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == nodes.RankFile(m.Number, rank) })
}

// StorePart copies a rank's file of a version from its node to a path in the store, and returns
// its length. If the node or its file is lost, it is made anew from what protects it.
func StorePart(ctx context.Context, store vfs.FS, t *nodes.Tier, m *image.Manifest, rank int, path string, limit *nodes.Limiter) (int64, error) {
	i := partOf(m, rank)
	if i < 0 {
		return 0, nil // it has nothing to store
	}
	f := m.Files[i]
	local, err := t.Job(t.Topology().NodeOf[rank])
	if err == nil {
		err = nodes.DrainFile(ctx, local, f, store, path, limit)
	}
	if err == nil || ctx.Err() != nil {
		return f.Bytes, err
	}
	from, rerr := t.Recover(ctx, m, rank)
	if rerr != nil {
		return 0, errors.Join(err, rerr)
	}
	if from.Source == nodes.FromLocal && local != nil {
		return 0, err // of the store
	}
	return f.Bytes, nodes.DrainFile(ctx, from.Job, f, store, path, limit)
}

// A TierRun is what a journal tells of checkpoints that went to nodes first. Times are in
// seconds.
type TierRun struct {
	Pauses   []float64     // of checkpoints on the nodes, oldest first
	Drains   []float64     // times of copying one into the store
	Failures []TierFailure // that the job was restarted after
}

// A TierFailure says where the ranks found their parts of a checkpoint after a failure, and how
// long the restart took. If restarts failed, too, it has the furthest level that one of them
// needed.
type TierFailure struct {
	Local, Copied, Rebuilt, Stored int // ranks
	RestartS                       float64
}

// NeedsStore says that the nodes lacked parts of the checkpoint.
func (f *TierFailure) NeedsStore() bool { return f.Stored > 0 }

// NeedsNodes says that some ranks found their parts on other nodes.
func (f *TierFailure) NeedsNodes() bool { return f.Stored == 0 && f.Copied+f.Rebuilt > 0 }

// MeasureTier reads what the journal of a job tells of its nodes, as far as it is sound.
func MeasureTier(j *image.Job) (*TierRun, error) {
	r := &tierReader{}
	err := readJournal(j, 0, r.line)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return &r.run, err
}

type tierReader struct {
	run TierRun
	// found is where ranks found their parts since the last restart that succeeded.
	found *TierFailure
}

type tierLine struct {
	Type    string  `json:"type"`
	Level   string  `json:"storage_level"`
	Pause   float64 `json:"pause_s"`
	Copy    float64 `json:"copy_s"`
	Waited  float64 `json:"turn_wait_s"`
	Local   int     `json:"local_ranks"`
	Copied  int     `json:"copied_ranks"`
	Rebuilt int     `json:"rebuilt_ranks"`
	Stored  int     `json:"stored_ranks"`
	Failed  bool    `json:"after_failure"`
	Restart float64 `json:"restart_s"`
}

func (r *tierReader) line(line []byte) {
	var ev tierLine
	if json.Unmarshal(line, &ev) != nil {
		return
	}
	switch ev.Type {
	case "start":
		r.found = nil // a run that ended before its ranks computed tells of no failure
	case "checkpoint":
		if ev.Level != "" && ev.Pause > 0 {
			r.run.Pauses = append(r.run.Pauses, ev.Pause)
		}
	case "storage_level":
		if ev.Level == "stored" && ev.Copy > 0 {
			r.run.Drains = append(r.run.Drains, max(0, ev.Copy-ev.Waited))
		}
	case "recovered":
		found := &TierFailure{Local: ev.Local, Copied: ev.Copied, Rebuilt: ev.Rebuilt, Stored: ev.Stored}
		if r.found == nil || found.NeedsStore() || found.NeedsNodes() && !r.found.NeedsStore() {
			r.found = found
		}
	case "restarted":
		if r.found != nil && ev.Failed {
			r.found.RestartS = max(0, ev.Restart-ev.Waited)
			r.run.Failures = append(r.run.Failures, *r.found)
		}
		r.found = nil
	}
}
