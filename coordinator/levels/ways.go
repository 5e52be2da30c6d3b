package levels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
)

// nodeWays are how this process reaches the directories of the nodes when those are on several
// hosts: through the first rank of each. No ranks, no way.
type nodeWays struct {
	to      []*wire.Way // by node
	clients []*wire.PeerClient
	lost    map[int]bool // nodes that are to lose their directories before they are served again
}

func newNodeWays(count int) *nodeWays {
	w := &nodeWays{lost: map[int]bool{}}
	for range count {
		w.to = append(w.to, wire.NewWay(nodes.ErrUnreachable))
	}
	return w
}

// of returns the file system of a node.
func (w *nodeWays) of(node int) vfs.FS { return w.to[node] }

// serves reports whether the ranks serve each other the directories of their nodes.
func (t *Tier) serves() bool { return t.ways != nil || t.Spec.Tier.Protect.Coded() }

// Begin has the ranks begin, once the nodes can be reached.
func (t *Tier) Begin(from int) {
	t.met = make([]meeting, t.Spec.NP)
	if t.ways == nil {
		t.Level.Begin(from)
	}
}

// Hear takes what ranks say of the directories that they serve, of the copies that they make,
// and of where they have found their parts.
func (t *Tier) Hear(rank int, msg protocol.Message) protocol.Message {
	switch msg := msg.(type) {
	case protocol.Stored, protocol.StoreFailed:
		t.answered(rank, msg)
	case protocol.Share:
		if t.tells(rank, msg) {
			return nil
		}
	case protocol.Restored:
		var r wire.RestoreReport
		if err := json.Unmarshal(msg.Body, &r); err == nil && r.Source != "" {
			t.noteSource(rank, r.Source, r.Passed)
		}
	}
	if t.serves() {
		return t.meet(rank, msg)
	}
	return msg
}

// Unreached removes the directories that failures were to take, now that no rank runs.
func (t *Tier) Unreached(lose []int) {
	t.loseNodes(lose)
	if t.ways != nil {
		t.ways.end()
	}
}

// Close writes the last record, and leaves the directories to the next run.
func (t *Tier) Close() {
	t.Level.Close()
	t.record.wait()
	t.nodes.Release()
}

// Facts implements [Level].
func (t *Tier) Facts() Facts {
	f := t.Level.Facts()
	f.UnderWay, f.Busy, f.Lag, f.Behind = t.attempt.number, f.Busy || t.copying != nil, t.last, true
	if f.Keep == 0 { // the store has what the nodes could not take, and is not to have all checkpoints
		f.Keep, f.Of = nodes.Slots, t.refusal.stored
	}
	f.Remedy = "free space in " + t.nodes.Setting().Dir + ", which holds two checkpoints of a node's ranks and what protects those of others"
	return f
}

// A meeting is a rank that serves the directory of its node before it takes part.
type meeting struct {
	first  protocol.Message // that it said, until it serves
	served *wire.Served
}

// meet has a rank serve the directory of its node before anything else happens with it. It
// returns the message to go on with, nil if that is still to come.
func (t *Tier) meet(rank int, msg protocol.Message) protocol.Message {
	m := &t.met[rank]
	switch msg := msg.(type) {
	case protocol.Hello:
		m.first = msg
		t.askToServe(rank)
		return nil
	case protocol.Serving:
		if m.first == nil {
			return nil
		}
		if err := t.serving(rank, msg); err != nil {
			t.g.Fail(err)
			return nil
		}
		first := m.first
		m.first = nil
		return first
	}
	return msg
}

// askToServe asks a rank that has come to serve the directory of its node.
func (t *Tier) askToServe(rank int) {
	node := t.Spec.Nodes[rank]
	o := wire.ServeOrder{Dir: t.Spec.Tier.NodeDir(node), Job: t.Job.Name()}
	if w := t.ways; w != nil && t.g.Leads(rank) && w.lost[node] {
		o.Lose = true
		delete(w.lost, node)
	}
	t.g.Send(rank, protocol.Serve{Body: job.Encode(o)})
}

// serving takes note of a rank that serves. Once all do, the checkpoint to restore is looked
// for.
func (t *Tier) serving(rank int, msg protocol.Serving) error {
	node, host := t.Spec.Nodes[rank], t.g.Host(rank)
	if msg.Text != "" {
		return fmt.Errorf("node %d on host %s: %w", node, host.Name, wire.DecodeError(msg.Body, msg.Text))
	}
	t.met[rank].served = &wire.Served{Address: msg.Address, Host: host.ID, HostName: host.Name}
	if t.ways == nil {
		return nil
	}
	if t.g.Leads(rank) {
		if err := t.reach(node, rank, host, msg.Address); err != nil {
			return err
		}
	}
	for _, rank := range t.Ranks {
		if t.met[rank].served == nil {
			return nil
		}
	}
	if from := t.g.Life().From; from > 0 {
		t.beginWith(from)
	} else {
		t.takeNodes()
	}
	return nil
}

// takeNodes makes the directories of the nodes, which another job may have.
func (t *Tier) takeNodes() {
	life := t.g.Life()
	t.beside(func() error {
		return takeDirectories(t.nodes, t.Job.Name(), func(err error) error {
			if life.Computed {
				return nil // the node was lost in this run
			}
			return err
		})
	}, func(err error) {
		switch {
		case life.Incarnation != t.g.Life().Incarnation || t.g.Over():
		case err != nil && !unreachable(err): // else a rank was lost, and they start again
			t.g.Fail(err)
		default:
			t.g.Examine(0)
			t.g.Welcome()
		}
	})
}

// reach opens the way to a node through one of its ranks.
func (t *Tier) reach(node, rank int, host Host, address string) error {
	if !host.Remote {
		t.ways.to[node].Lead(t.Job.FS())
		return nil
	}
	here, _, err := net.SplitHostPort(t.Listen)
	if err != nil {
		return err
	}
	network, err := wire.EncryptedPeers(here, t.Token)
	if err != nil {
		return err
	}
	c := wire.NewPeerClient(wire.Self{Rank: wire.FromCoordinator, Token: t.Token, Network: network},
		wire.Peer{Rank: rank, Host: host.Name, Address: address, Dir: t.Spec.Tier.NodeDir(node), Job: t.Job.Name(), Silence: t.Silence})
	t.ways.clients = append(t.ways.clients, c)
	t.ways.to[node].Lead(c.FS(context.Background()))
	return nil
}

// end closes the ways when the ranks have gone.
func (w *nodeWays) end() {
	for _, to := range w.to {
		to.Lead(nil)
	}
	for _, c := range w.clients {
		c.Close()
	}
	w.clients = nil
}

// Served says where the ranks serve the directories of their nodes; nil if they do not.
func (t *Tier) Served() []wire.Served {
	if !t.serves() {
		return nil
	}
	all := make([]wire.Served, len(t.met))
	for rank, m := range t.met {
		if m.served != nil {
			all[rank] = *m.served
		}
	}
	return all
}

// unreachable reports whether an error only says that no ranks run on a node.
func unreachable(err error) bool {
	return errors.Is(err, nodes.ErrUnreachable) || errors.Is(err, wire.ErrGone)
}

// PruneOptions say what Prune is to keep.
type PruneOptions struct {
	image.Retention
	Force  bool // remove all of a running job, if the retention keeps none
	DryRun bool // change nothing, only say what would be removed
}

// Prune removes all checkpoints of a job that the retention does not keep, and the files that
// only they need. If the job is running, its coordinator does it.
func Prune(ctx context.Context, j *image.Job, opt PruneOptions) (*job.Pruned, error) {
	keep := opt.Last
	if opt.Periods() {
		keep = max(1, keep) // the newest is the newest of its hour and day
	}
	spec, err := job.ReadSpec(j)
	// Jobs that cannot be restarted can still be pruned.
	several := err == nil && spec.Several()
	if several && keep > 0 {
		return nil, &job.UsageError{Text: "the ranks of job " + j.Name() + " take checkpoints apart from each other: those that no recovery needs are removed at once",
			Fix: wording.Sprintf("{prune JOB} {keep} 0 gives the job up: it can only begin again then")}
	}
	client, err := wire.Contact(ctx, j)
	running := err == nil
	if running {
		defer client.Close()
		if several {
			return nil, &job.UsageError{Text: "job " + j.Name() + " is running, and its recovery needs the checkpoints that are there",
				Fix: wording.Sprintf("{stop %[1]s}, then {prune %[1]s} {keep} 0 gives the job up", j.Name())}
		}
		if keep == 0 && !opt.Force {
			return nil, &job.UsageError{Text: "job " + j.Name() + " is running: without a checkpoint a failure costs all of its work",
				Fix: wording.Sprintf("{prune %s} {keep} 1 keeps the newest; {force} removes all", j.Name())}
		}
	} else if !errors.Is(err, wire.ErrNotRunning) {
		return nil, err
	} else if err = j.Lock(); err == nil {
		defer j.Unlock()
	} else if !opt.DryRun { // which also looks at a store that can only be read
		return nil, err
	}
	retained, err := j.Retained(opt.Retention, nil)
	if err != nil {
		return nil, err
	}
	if spec != nil && keep > 0 {
		held, err := Held(j, spec)
		if err != nil {
			return nil, err
		}
		for _, n := range held {
			retained = append(retained, image.Reason{Number: n, Reason: "to be copied on into a next store"})
		}
	}
	also := image.Numbers(retained)
	var p *job.Pruned
	switch {
	case running && opt.DryRun:
		p, err = client.PreviewPrune(keep, also...)
	case running:
		p, err = client.Prune(keep, also...)
	case opt.DryRun:
		p, err = job.PreviewPrune(j, keep, also...)
	default:
		p, err = job.Prune(j, keep, also...)
		if err == nil && several {
			err = job.BeginAgain(j, spec)
		}
	}
	if err != nil {
		return p, err
	}
	p.Retained = retained
	if running {
		return p, nil
	}
	return p, pruneNodes(ctx, j, p, keep, opt.DryRun)
}

// pruneNodes removes from the nodes of a job what a prune does not keep. A running job
// does that by itself: it has two versions on its nodes at most.
func pruneNodes(ctx context.Context, j *image.Job, p *job.Pruned, keep int, dryRun bool) error {
	levels, unread := job.ReadLevels(ctx, j)
	if levels == nil {
		return unread
	}
	sound := slices.DeleteFunc(slices.Clone(p.Kept), func(n int) bool { return slices.Contains(p.Damaged, n) })
	removed, freed, err := levels.Prune(keep, sound, dryRun)
	p.FromNodes, p.Freed = removed, p.Freed+freed
	for _, k := range levels.Unseen() {
		p.Kept = append(p.Kept, k.Number)
	}
	for _, v := range levels.Versions {
		if !slices.Contains(removed, v.Number) && !slices.Contains(p.Kept, v.Number) {
			p.Kept = append(p.Kept, v.Number)
		}
	}
	slices.Sort(p.Kept)
	return errors.Join(unread, err)
}

// Removed says what went with a job.
type Removed struct {
	Job     string `json:"job"`
	Removed []int  `json:"removed"` // numbers of checkpoints
	Freed   int64  `json:"freed_bytes"`
	// Left are the nodes that may still have files of the job, and Wrong says why.
	Left   []int   `json:"left_on_nodes,omitempty"`
	Wrong  []error `json:"-"`
	DryRun bool    `json:"dry_run,omitempty"` // nothing was removed
}

// Remove removes a job with all its files, also those on nodes, unless it runs. The nodes
// come first: what is left there would be of no job, and nothing would say where it is.
func Remove(j *image.Job) (*Removed, error) {
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	// Were this cut short, a part of the logs would pass for the whole.
	if spec, err := job.ReadSpec(j); err == nil && spec.Several() {
		if err := job.BeginAgain(j, spec); err != nil {
			return nil, err
		}
	}
	r := &Removed{Job: j.Name()}
	r.fromNodes(j, false)
	if err := dmtcp.Remove(j); err != nil {
		return nil, err
	}
	numbers, freed, err := j.Remove()
	r.Removed, r.Freed = merged(r.Removed, numbers), r.Freed+freed
	return r, err
}

// PreviewRemove says what Remove would remove.
func PreviewRemove(j *image.Job) (*Removed, error) {
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	r := &Removed{Job: j.Name(), DryRun: true}
	r.fromNodes(j, true)
	size, err := j.Size()
	r.Removed, r.Freed = merged(r.Removed, numbers), r.Freed+size
	return r, err
}

// fromNodes removes the job from its nodes, as far as they can be reached. A job whose
// description cannot be read can still be removed from the store.
func (r *Removed) fromNodes(j *image.Job, dryRun bool) {
	levels, err := job.ReadLevels(context.Background(), j)
	if err != nil {
		r.Wrong = append(r.Wrong, err)
	}
	if levels == nil {
		return
	}
	for _, v := range levels.Versions {
		r.Removed = append(r.Removed, v.Number)
	}
	freed, left, err := levels.Remove(dryRun)
	r.Freed, r.Left = freed, left
	if err != nil {
		r.Wrong = append(r.Wrong, err)
	}
}

// merged returns the numbers that are in a or b, in order, each once.
func merged(a, b []int) []int {
	all := slices.Concat([]int{}, a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
