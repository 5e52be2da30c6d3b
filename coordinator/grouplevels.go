package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/tune"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
)

// A leveled is a group, and its driver, as its levels see them.
type leveled struct {
	*group
	*driver
}

// openLevels makes the nodes of the run, if they have directories, the first level. It
// returns the checkpoint to begin with, as it is to be read.
func (d *driver) openLevels(ctx context.Context, from *image.Manifest) (*image.Manifest, error) {
	setting := func(g *group) levels.Setting {
		return levels.Setting{ID: g.id, Ranks: g.ranks, Spec: d.spec, Job: d.job, Silence: d.limits.Silence,
			Listen: d.listen, Token: d.socket.Token}
	}
	if d.spec.Several() && d.inventory != nil {
		noted, err := job.ReadBaseline(d.job, len(d.groups))
		if err != nil {
			return nil, err
		}
		d.inventory.Leave(func(m *image.Manifest) bool { return noted.Leaves(m.Number, len(d.groups)) }, d.Warn)
	}
	on, from, err := levels.Open(ctx, setting(d.groups[0]), leveled{d.groups[0], d}, d.inventory, from)
	if err != nil {
		return from, err
	}
	first := 0
	if from != nil && !d.spec.Several() { // else the recovery line says where each group begins
		first = from.Number
	}
	for _, g := range d.groups {
		if on != nil {
			g.level = &storeLevel{g: g, under: true}
		}
		if g.level, err = levels.OpenNext(setting(g), leveled{g, d}, g.level, d.disk); on != nil {
			g.level = on.Tier(setting(g), leveled{g, d}, g.level, first)
		}
	}
	return from, err
}

// Reads returns the job through which a checkpoint is read, on whatever level it is.
func (d *driver) Reads(number int) (*image.Job, *image.Manifest, error) {
	return d.groups[(number-1)%len(d.groups)].level.Reads(number)
}

// begin begins a checkpoint on the first level.
func (g *group) begin(number int) {
	g.begun = max(g.begun, number)
	g.attempt = attempt{exchange: wire.NewExchange(number, g.ranks), turn: g.turn}
	if g.spec.Trace {
		g.recorded = job.NewRecording(g.job.Name())
	}
	if err := g.level.Prepare(number); err != nil {
		g.Later(commitFailed(number, err))
	}
}

// Committed takes over a version that exists on a level of nodes.
func (g *group) Committed(cp protocol.Checkpoint, m *image.Manifest, state string, passing bool) {
	committed := protocol.Committed{Number: cp.Number}
	if g.spec.Several() {
		var err error
		if committed.Vectors, err = job.VectorsOf(m); err != nil {
			g.d.Fail(err) // the manifest was made of what the ranks said
			return
		}
		committed.Passing = passing
		g.d.baseline.Taken[g.id] = m.Number
	}
	g.committing, g.complete = false, false
	g.taken, g.landed, g.late = m, state, 0
	g.lineage.committed(m.Number)
	if recorded := g.recorded; recorded != nil {
		g.d.Go(func() { g.d.keepTrace(m, recorded, cp.Bodies) })
	}
	g.d.step(g.id, committed)
}

// Failed aborts a version that a level could not make.
func (g *group) Failed(number int, err error) {
	g.committing = false
	g.Later(commitFailed(number, err))
}

// Stored notes that a level has copied a version into the store.
func (g *group) Stored(c levels.Copied) {
	number := c.Manifest.Number
	g.level.InStore(number)
	g.d.hasTurns(c.Passed)
	g.d.crowded = g.spec.Keep > 0
	g.d.step(g.id, protocol.Settled{Number: number})
	g.d.startPrunes()
	if c.Seconds > 0 {
		g.adaptTo(c.Manifest, tune.Taken{Full: c.Full, Bytes: c.Bytes, Seconds: c.Seconds, Pause: c.Seconds})
	}
}

// Way is how the ranks of the group write a checkpoint, nil for the description's way.
func (g *group) Way(number int) *job.Way {
	if g.ways != nil {
		g.way = g.ways(number)
	}
	return g.way
}

// Passed notes that a version has left the nodes, and that the store lacks it.
func (g *group) Passed(number int) { g.d.step(g.id, protocol.Passed{Number: number}) }

// Postponed records since when a version has waited.
func (g *group) Postponed(number int, since time.Time) {
	if g.recorded != nil {
		g.recorded.Waited(g.job, number, since)
	}
}

// Library returns the library zone in the store, which it writes if it must; nil
// if the ranks have their own. No checkpoint has been begun in the store.
func (g *group) Library(number int) (*container.File, error) {
	if !g.spec.LibraryOnce || g.spec.Program != nil || g.spec.SavesArrays() {
		return nil, nil
	}
	if f := g.libraryFile(); f != nil {
		return f, nil
	}
	f, _, err := g.d.writeLibrary(context.Background(), number, nil)
	if errors.Is(err, fs.ErrExist) { // of an attempt before
		_, _ = g.job.Sweep() // if it fails, the next line tells
		f, _, err = g.d.writeLibrary(context.Background(), number, nil)
	}
	return &f, err
}

// Thin removes what the store need not keep.
func (g *group) Thin() {
	g.d.crowded = true
	g.d.thin()
}

// Turns is the client of the coordinator, or nil.
func (d *driver) Turns() *turns.Client { return d.turns.client }

// Life is the present incarnation.
func (g *group) Life() levels.Life {
	return levels.Life{Incarnation: g.incarnation, From: g.spawned.From, Restored: g.restored.number, Started: g.started, Computed: g.computed}
}

// Host is where a rank runs.
func (g *group) Host(rank int) levels.Host {
	m := g.d.members[rank]
	return levels.Host{ID: m.host, Name: m.hostName, Remote: g.d.remote(m)}
}

// SomeGone reports whether a rank has ended, or gives no sign of life.
func (g *group) SomeGone() bool {
	for _, rank := range g.ranks {
		m := g.d.members[rank]
		if m == nil || m.lost || m.closed || g.d.now()-time.Duration(m.signs.heard.Load()) > g.limits.Silence {
			return true
		}
	}
	return false
}

// End says how the run ends, as far as that is known.
func (d *driver) End() levels.End {
	is := func(r protocol.Result) bool { return d.outcome != nil && d.outcome.Result == r }
	return levels.End{Broken: d.broken != nil, Failed: is(protocol.Failed), Completed: is(protocol.Completed), Hurried: d.hurried}
}

// lookAgain is how often what is waited for is looked at.
const lookAgain = time.Second

// Await does what has been posted, and what is posted while busy. An interrupt ends it.
func (d *driver) Await(busy func() bool) {
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for posted := true; posted || busy() && !d.hurried; {
		if posted {
			select {
			case <-d.ready:
				d.take()()
			default:
				posted = false
			}
			continue
		}
		select {
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
		case <-look.C:
		}
	}
}

// Interruptible does what may take long after the loop has ended. An interrupt ends it, and
// those who wait for answers get them meanwhile.
func (d *driver) Interruptible(do func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan error, 1)
	d.Go(func() { over <- do(ctx) })
	for {
		select {
		case err := <-over:
			return err
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
			cancel()
		}
	}
}
