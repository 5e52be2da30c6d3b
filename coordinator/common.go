package coordinator

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/image/container"
	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/zones"
)

// jointLayout is how the ranks of a job write common files.
type jointLayout struct {
	settings plan.Settings
	ranks    []plan.Source
	files    int
}

// jointLayout returns nil if every rank writes a file of its own.
func (s *Spec) jointLayout(mapping Mapping, ranks []int) (*jointLayout, error) {
	if s.WritePath.Layout == "" || s.WritePath.Layout == plan.PerRank {
		return nil, nil
	}
	g := &jointLayout{settings: s.writePath(ranks), ranks: placesOf(mapping, ranks)}
	var err error
	g.files, err = container.GroupFiles(g.settings, g.ranks)
	return g, err
}

// writePath returns the settings for a group of ranks. A group that is smaller than the
// number of aggregators has as many of them as it can.
func (s *Spec) writePath(ranks []int) plan.Settings {
	if s.WritePath.Aggregators > s.NP {
		return s.WritePath // a mistake, whatever the groups
	}
	return s.WritePath.Fit(len(ranks))
}

// fewerAggregators says so, if some group has fewer aggregators than were asked for;
// else it is empty.
func (s *Spec) fewerAggregators() string {
	groups := s.groups(s.Mapping)
	smallest := groups[0]
	for _, ranks := range groups {
		if len(ranks) < len(smallest) {
			smallest = ranks
		}
	}
	joint, err := s.jointLayout(s.Mapping, smallest)
	if err != nil || joint == nil || joint.settings.Aggregators >= s.WritePath.Aggregators ||
		s.WritePath.Layout == plan.Shared && s.WritePath.Strategy == plan.Individual {
		return "" // it is an error, or no number of aggregators has an effect
	}
	return fmt.Sprintf("--aggregators %d: a group of %s has %s", s.WritePath.Aggregators,
		plural(len(smallest), "rank"), plural(joint.settings.Aggregators, "aggregator"))
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Layout returns the settings of the write path as they take effect; an error may
// be a *plan.SettingError.
func (s *Spec) Layout() (plan.Settings, error) {
	first := s.groups(s.Mapping)[0]
	p, err := plan.New(placesOf(s.Mapping, first), s.writePath(first))
	if err != nil {
		return plan.Settings{}, err
	}
	return p.Settings, nil
}

// placesOf returns ranks and their nodes.
func placesOf(mapping Mapping, ranks []int) []plan.Source {
	nodes := mapping.Nodes()
	var places []plan.Source
	for _, rank := range ranks {
		places = append(places, plan.Source{Rank: rank, Node: nodes[rank]})
	}
	return places
}

// kind returns that of the files.
func (g *jointLayout) kind() string {
	if g.settings.Layout == plan.Shared {
		return container.KindJob
	}
	return container.KindAggregated
}

// exchange collects what the ranks that write a checkpoint together tell each
// other, round after round. It belongs to the driver's loop.
type exchange struct {
	number, round int
	ranks         []int
	told          [][]byte
	left          int
}

func newExchange(number int, ranks []int) *exchange {
	return &exchange{number: number, ranks: ranks, told: make([][]byte, len(ranks)), left: len(ranks)}
}

// add takes what a rank tells and, when it was the last of its round, returns what
// all have told.
func (x *exchange) add(m protocol.Message) (all []byte, complete bool) {
	if x == nil || m.Number != x.number || m.Iter != x.round {
		return nil, false // of a checkpoint that was given up
	}
	i, ok := slices.BinarySearch(x.ranks, m.Rank)
	if !ok || x.told[i] != nil {
		return nil, false
	}
	x.told[i] = append([]byte{}, m.Body...)
	if x.left--; x.left > 0 {
		return nil, false
	}
	for _, b := range x.told {
		all = binary.AppendUvarint(all, uint64(len(b)))
		all = append(all, b...)
	}
	clear(x.told)
	x.left = len(x.told)
	x.round++
	return all, true
}

// split takes apart what all ranks have told.
func split(b []byte, ranks int) ([][]byte, error) {
	all := make([][]byte, 0, ranks)
	for range ranks {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return nil, fmt.Errorf("what %d ranks tell each other ends with rank %d", ranks, len(all))
		}
		all = append(all, b[k:k+int(n)])
		b = b[k+int(n):]
	}
	return all, nil
}

// layoutNetwork connects this rank with the others that write a checkpoint: through
// the coordinator for what all have to know, directly for the bytes.
type layoutNetwork struct {
	*gatherer
	ctx    context.Context // of the writing
	link   *link
	number int
	ranks  int
	round  int
	told   <-chan protocol.Message
}

// layoutNetwork prepares to write checkpoint number with the others. They tell each
// other where to pull; an earlier checkpoint may have ended before all knew.
func (r *rank) layoutNetwork(ctx context.Context, number int) (*layoutNetwork, error) {
	if r.gatherer == nil {
		var err error
		if r.gatherer, err = newGatherer(r.id, r.token); err != nil {
			return nil, err
		}
	}
	n := &layoutNetwork{gatherer: r.gatherer, ctx: ctx, link: r.link, number: number, ranks: len(r.state.joint.ranks), told: r.told}
	all, err := n.Exchange(ctx, []byte(r.gatherer.address()))
	if err != nil {
		return nil, err
	}
	peers := make([]string, r.cfg.Spec.NP)
	for i, b := range all {
		peers[r.state.joint.ranks[i].Rank] = string(b)
	}
	r.gatherer.setPeers(peers)
	return n, nil
}

func (n *layoutNetwork) Serve(piece func(context.Context, int) ([]byte, error)) {
	n.serveFrom(n.ctx, piece)
}

func (n *layoutNetwork) Exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	n.link.send(protocol.Message{Kind: protocol.Share, Number: n.number, Iter: n.round, Body: mine})
	for {
		select {
		case m := <-n.told:
			if m.Number != n.number || m.Iter != n.round {
				continue // of a checkpoint that was given up
			}
			n.round++
			return split(m.Body, n.ranks)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// writeJoint writes the regions of this rank together with the other ranks.
func (s *state) writeJoint(ctx context.Context, number int, order writeOrder, net *layoutNetwork, regions []zones.Region, opt container.WriteOptions, report *writeReport) error {
	// Nobody pulls out of memory that may change again.
	defer net.serveFrom(context.Background(), nil)
	g := container.Group{Settings: s.joint.settings, Ranks: s.joint.ranks, Rank: s.rank, Paths: order.Group, Network: net, Buffers: &s.buffers}
	h := container.Header{Job: s.cfg.Job, Number: number, Rank: -1, Node: -1, Kind: s.joint.kind()}
	info, err := container.WriteGroup(ctx, s.fs, g, h, regions, opt)
	if err != nil {
		return err
	}
	report.File = info.File
	for _, f := range info.Closed {
		report.Files = append(report.Files, writtenFile{s.joint.kind(), f.Path, f.Bytes, f.Holes, f.IndexBlake3})
	}
	report.Management += info.ManagementTime
	report.Storage += info.StorageTime
	return nil
}

var _ exec.BatchPuller = (*layoutNetwork)(nil)
