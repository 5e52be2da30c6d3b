package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
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

// A Basis is the checkpoint in the store that the parts of a version may refer to, Number 0
// for none, and the oldest that they may depend on.
type Basis struct {
	Number int `json:"number,omitempty"`
	Oldest int `json:"oldest,omitempty"`
}

// BasisOf returns what the parts of a version may refer to: the newest checkpoint before it in
// the store that as many ranks have taken.
func (s *Resolved) BasisOf(j *image.Job, m *image.Manifest) (b Basis) {
	numbers, err := j.Checkpoints()
	if !s.Incremental || err != nil {
		return b
	}
	numbers = slices.DeleteFunc(numbers, func(n int) bool { return n >= m.Number })
	for _, n := range slices.Backward(numbers) {
		if is, err := j.Manifest(n); err == nil && is.NP == m.NP && is.Group == m.Group {
			b.Number = n
			break
		}
	}
	if n := len(numbers); n > MaxAge {
		b.Oldest = numbers[n-MaxAge]
	}
	return b
}

// MaxAge bounds the number of earlier checkpoints that one depends on.
const MaxAge = 15

// of returns the file of a rank to refer to; nil if it has none, and its part is stored whole.
func (b Basis) of(j *image.Job, rank int) *container.Base {
	if b.Number == 0 {
		return nil
	}
	m, err := j.Manifest(b.Number)
	if err != nil {
		return nil
	}
	i := slices.IndexFunc(m.Ranks, func(r image.Rank) bool { return r.Rank == rank })
	if i < 0 {
		return nil
	}
	k := slices.IndexFunc(m.Files, func(f container.File) bool { return f.Path == m.Ranks[i].File })
	if k < 0 {
		return nil
	}
	return &container.Base{Place: j.Place(), File: m.Files[k], Number: b.Number, Oldest: b.Oldest}
}

// A Part is the file of a rank in a version on nodes, on its way into the store.
type Part struct {
	Nodes   *nodes.Tier
	Version *image.Manifest
	Rank    int
	Store   *image.Job // the job in the store
	Through vfs.FS     // to the store, as its storage turns have it
	Path    string     // in the store
	Basis   Basis
	Limit   *nodes.Limiter // may be nil
}

// Copied is what has come into the store of a rank's part of a version.
type Copied struct {
	Rank  int              `json:"rank"`
	File  string           `json:"file,omitempty"`  // that holds it; empty: the rank has nothing to store
	Files []container.File `json:"files,omitempty"` // that the rank has completed
}

// Copy stores the part in a file of its own. If its node or its file is lost, it is made anew from
// what protects it.
func (p *Part) Copy(ctx context.Context) (Copied, error) {
	done := Copied{Rank: p.Rank}
	f := p.file()
	if f.Path == "" {
		return done, nil
	}
	how := nodes.DrainOptions{Limit: p.Limit, Since: p.Basis.of(p.Store, p.Rank)}
	copied := func(from *image.Job) (Copied, error) {
		stored, err := nodes.DrainFile(ctx, from, f, p.Through, p.Path, how)
		done.File, done.Files = stored.Path, []container.File{stored}
		return done, err
	}
	local, err := p.Nodes.Job(p.Nodes.Topology().NodeOf[p.Rank])
	if err == nil {
		if done, err = copied(local); err == nil || ctx.Err() != nil {
			return done, err
		}
	}
	from, rerr := p.Nodes.Recover(ctx, p.Version, p.Rank)
	if rerr != nil {
		return done, errors.Join(err, rerr)
	}
	if from.Source == nodes.FromLocal && local != nil {
		return done, err // of the store
	}
	return copied(from.Job)
}

// CopyJoint is Copy into files that the ranks write together, of a kind.
func (p *Part) CopyJoint(ctx context.Context, j container.Joint, kind string) (Copied, error) {
	from := container.JointSource{File: p.file(), Base: p.Basis.of(p.Store, p.Rank), Pace: p.Limit.Wait}
	from.Again = func(ctx context.Context, err error) (container.Place, error) {
		again, rerr := p.Nodes.Recover(ctx, p.Version, p.Rank)
		if rerr != nil {
			return container.Place{}, errors.Join(err, rerr)
		}
		return again.Job.Place(), nil
	}
	local, err := p.Nodes.Job(p.Nodes.Topology().NodeOf[p.Rank])
	if err == nil {
		from.Place = local.Place()
	} else if from.File.Path != "" {
		if from.Place, err = from.Again(ctx, err); err != nil {
			return Copied{}, err
		}
	}
	h := container.Header{Job: p.Store.Name(), Number: p.Version.Number, Kind: kind}
	info, err := container.CopyJoint(ctx, from, p.Through, j, h)
	if err != nil {
		return Copied{}, err
	}
	done := Copied{Rank: p.Rank, File: container.JobPath(info.File)}
	for _, f := range info.Closed {
		done.Files = append(done.Files, container.File{Path: container.JobPath(f.Path), Kind: kind, Node: -1,
			Bytes: f.Bytes, Holes: f.Holes, IndexBlake3: f.IndexBlake3})
	}
	return done, nil
}

// file is the entry of the rank's file on the nodes, without a path if it has none.
func (p *Part) file() container.File {
	if i := partOf(p.Version, p.Rank); i >= 0 {
		return p.Version.Files[i]
	}
	return container.File{}
}

// InStore returns the manifest of a version as the store has it: with the library zone, which
// may be nil, and the files as they were stored.
func InStore(m *image.Manifest, library *container.File, parts []Copied) *image.Manifest {
	in := *m
	in.Files, in.Ranks = nil, slices.Clone(m.Ranks)
	slices.SortFunc(parts, func(a, b Copied) int { return a.Rank - b.Rank })
	at, moved := map[string]int{}, map[string]string{} // places in Files; names of before
	for _, part := range parts {
		for _, f := range part.Files {
			f.Ranks = nil
			at[f.Path] = len(in.Files)
			in.Files = append(in.Files, f)
		}
	}
	for i := range in.Ranks {
		r := &in.Ranks[i]
		k := slices.IndexFunc(parts, func(p Copied) bool { return p.Rank == r.Rank })
		if k < 0 || parts[k].File == "" {
			continue
		}
		moved[r.File], r.File = parts[k].File, parts[k].File
		if f, ok := at[r.File]; ok {
			in.Files[f].Ranks = append(in.Files[f].Ranks, r.Rank)
		}
	}
	for i := range in.Ranks {
		if r := &in.Ranks[i]; r.Shared != "" {
			r.Shared = moved[r.Shared]
		}
	}
	in.AddLibrary(library)
	return &in
}

// digestMember says in a file to which job it belongs: by the digest of the description, since
// another job may have the same name. Files of earlier versions lack it.
type digestMember struct {
	Digest string `json:"job_blake3,omitempty"`
}

func digestOf(j *image.Job) (digestMember, error) {
	digest, err := j.Digest()
	return digestMember{digest}, err
}

func (d digestMember) check(j *image.Job, path string) error {
	if d.Digest == "" {
		return nil
	}
	own, err := digestOf(j)
	if err == nil && d != own {
		err = OfAnother(path)
	}
	return err
}

// OfAnother says that a file is of another job of the same name.
func OfAnother(path string) error {
	return &durable.DamageError{File: path, Reason: "that job had this name, too", Err: durable.ErrOtherJob}
}

// sealOwned returns a struct as a sealed file of a job.
func sealOwned(j *image.Job, v any) ([]byte, error) {
	d, err := digestOf(j)
	if err != nil {
		return nil, err
	}
	head := Encode(d)
	return durable.Sealed(json.RawMessage(slices.Concat(head[:len(head)-1], []byte(","), Encode(v)[1:])))
}

// readOwned reads a file of sealOwned, or of an earlier version, into v. Read is
// durable.ReadSealed, or durable.ReadSealedOrPlain if those had no checksums.
func readOwned(j *image.Job, path string, limit int64, v any, read func(vfs.FS, string, int64, any) error) error {
	var raw json.RawMessage
	if err := read(j.FS(), path, limit, &raw); err != nil {
		return err
	}
	var d digestMember
	for _, into := range []any{v, &d} {
		if err := json.Unmarshal(raw, into); err != nil {
			return durable.Damaged(path, 0, "%v", err)
		}
	}
	return d.check(j, path)
}

// StatePath is where the engine of DMTCP keeps what its next run needs.
func StatePath(j *image.Job) string { return filepath.Join(j.Dir(), stateName) }

const stateName = "dmtcp/state.json"

// ReadState reads that file into v, if it exists. The file names the random id of the
// description, since the first checkpoint of such a job changes the description.
func ReadState(j *image.Job, v any) error {
	var raw json.RawMessage
	err := durable.ReadSealedOrPlain(j.FS(), StatePath(j), 1<<20, &raw)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var owner struct {
		ID string `json:"job_id"`
	}
	for _, into := range []any{v, &owner} {
		if err := json.Unmarshal(raw, into); err != nil {
			return durable.Damaged(StatePath(j), 0, "%v", err)
		}
	}
	// A description that is damaged tells nothing.
	if spec, err := ReadSpec(j); err == nil && owner.ID != "" && owner.ID != spec.ID {
		return OfAnother(StatePath(j))
	}
	return nil
}

// Encode marshals a body of ours, which cannot fail.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return b
}
