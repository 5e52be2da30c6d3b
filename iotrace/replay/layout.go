package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"ckpt/iotrace"
)

// A Layout decides which files the writes go to.
type Layout string

// The layouts, named as in ckpt.
const (
	// Traced keeps every write in its file, at its offset.
	Traced Layout = "traced"
	// PerRank gives each rank a file, rank-R.dat, with its writes one after the other
	// without gaps.
	PerRank Layout = "per-rank"
	// Aggregated lets one rank write for several: aggregator-A.dat has the writes of
	// its ranks in the order of the trace without gaps. The first rank does them one
	// at a time; the others write nothing. An aggregator serves the ranks of a node,
	// or consecutive ranks if Options.Aggregators is set.
	Aggregated Layout = "aggregated"
	// Shared lets all ranks write one file, job.dat. Each rank, by number, has a part
	// that begins at a multiple of a MiB and has its writes one after the other.
	Shared Layout = "shared"
)

// ParseLayout reads the name of a layout.
func ParseLayout(name string) (Layout, error) {
	switch l := Layout(name); l {
	case Traced, PerRank, Aggregated, Shared:
		return l, nil
	}
	return "", optionError("layout %q: not traced, per-rank, aggregated or shared", name)
}

// stripe is the alignment of parts of a shared file.
const stripe = 1 << 20

// relayout returns the trace with its writes in other files.
//
// It keeps sizes, the order of a rank's writes, barriers and reads. Reads of a file
// that is no longer written find one that was prepared. The writes of each checkpoint
// go to files in a directory of its number. A writer opens its file before its first
// write and closes it after its last operation. Other operations on files that the
// trace writes are left out, except syncs: a rank syncs its new file, and an
// aggregator syncs once at the end if one of its ranks did.
func relayout(t *iotrace.Trace, to Layout, aggregators int, left leftOuts) (*iotrace.Trace, error) {
	if to != Aggregated && aggregators != 0 {
		return nil, optionError("aggregators are those of the layout %s", Aggregated)
	}
	if to == "" || to == Traced {
		return t, nil
	}
	r := &relaying{in: t, to: to, targets: make(map[target]*targetFile),
		out: &iotrace.Trace{Job: t.Job, Source: t.Source, Origin: t.Origin, Ranks: t.Ranks}}
	r.tables = iotrace.NewTables(r.out)
	if to == Aggregated {
		if err := r.group(aggregators); err != nil {
			return nil, err
		}
	}
	if err := r.lay(); err != nil {
		return nil, err
	}
	written := make([]bool, len(t.Files))
	for i := range t.Events {
		if e := &t.Events[i]; e.Op == iotrace.Write {
			written[e.File] = true
		}
	}
	for i := range t.Events {
		e := t.Events[i]
		switch {
		case e.Op == iotrace.Write:
			r.write(e)
		case e.File == iotrace.None:
			r.out.Events = append(r.out.Events, e)
		case e.Op == iotrace.Sync && written[e.File]:
			if !r.sync(e) {
				left["sync that the layout has no place for"]++
			}
		case e.Op == iotrace.Read || !written[e.File]:
			e.File = r.tables.File(t.Files[e.File])
			if renames(&e) && e.Peer != iotrace.None {
				e.Peer = r.tables.File(t.Files[e.Peer])
			}
			r.out.Events = append(r.out.Events, e)
		case e.Op == carried || e.Op == exchanged: // the choice has counted them
		default:
			left[e.Op.String()+" of a file that the layout replaces"]++
		}
	}
	r.end()
	r.out.Sort()
	return r.out, nil
}

// A target is the file of one writer for a checkpoint.
type target struct {
	writer     int32
	checkpoint int32
}

type targetFile struct {
	file   int32
	next   int64 // offset of the next write
	last   int64 // time of the last operation
	opened bool
	synced bool // the aggregator must sync
}

type relaying struct {
	in, out *iotrace.Trace
	to      Layout
	writers []int32 // the writer of each rank
	numbers []int   // of the aggregators, by rank
	targets map[target]*targetFile
	order   []target
	tables  *iotrace.Tables
}

// group assigns a writer to each rank.
func (r *relaying) group(aggregators int) error {
	r.writers, r.numbers = make([]int32, len(r.in.Ranks)), make([]int, len(r.in.Ranks))
	for i := range r.writers {
		r.writers[i] = int32(i)
	}
	workers := workersOf(r.in)
	if aggregators < 0 || aggregators > len(workers) {
		return optionError("%d aggregators: there are %d ranks", aggregators, len(workers))
	}
	first := make(map[string]int32)
	count := 0
	for i, w := range workers {
		key := r.in.Ranks[w].Node
		if aggregators > 0 {
			key = fmt.Sprint(i * aggregators / len(workers))
		}
		if _, ok := first[key]; !ok {
			first[key] = w
			r.numbers[w] = count
			count++
		}
		r.writers[w] = first[key]
	}
	return nil
}

// lay creates the targets, and places the parts of a shared file.
func (r *relaying) lay() error {
	bytes := make(map[target]int64)
	for i := range r.in.Events {
		e := &r.in.Events[i]
		if e.Op != iotrace.Write {
			continue
		}
		k := r.target(e)
		sum, err := moved(bytes[k], 1, e.Bytes, 0)
		if err != nil {
			return err
		}
		bytes[k] = sum
	}
	keys := make([]target, 0, len(bytes))
	for k := range bytes {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.checkpoint, b.checkpoint), cmp.Compare(r.in.Ranks[a.writer].Rank, r.in.Ranks[b.writer].Rank), cmp.Compare(a.writer, b.writer))
	})
	var at int64
	r.order = keys
	for i, k := range keys {
		f := &targetFile{file: r.tables.File(r.name(k))}
		if r.to == Shared {
			if i == 0 || k.checkpoint != keys[i-1].checkpoint {
				at = 0
			}
			f.next = at
			var err error
			if at, err = moved(at, 1, (bytes[k]+stripe-1)/stripe*stripe, 0); err != nil {
				return err
			}
		}
		r.targets[k] = f
	}
	return nil
}

func (r *relaying) target(e *iotrace.Event) target {
	k := target{e.Rank, e.Checkpoint}
	if r.to == Aggregated {
		k.writer = r.writers[e.Rank]
	}
	return k
}

func (r *relaying) name(k target) string {
	name := "job.dat"
	rank := r.in.Ranks[k.writer]
	switch {
	case r.to == Shared:
	case rank.Rank < 0: // the coordinator, or an unknown process
		name = fmt.Sprintf("%s-%d.dat", rank.Node, k.writer)
	case r.to == PerRank:
		name = fmt.Sprintf("rank-%d.dat", rank.Rank)
	default:
		name = fmt.Sprintf("aggregator-%d.dat", r.numbers[k.writer])
	}
	if k.checkpoint > 0 {
		name = fmt.Sprintf("%04d/%s", k.checkpoint, name)
	}
	return name
}

func (r *relaying) write(e iotrace.Event) {
	k := r.target(&e)
	f := r.targets[k]
	e.Rank, e.File, e.Offset, e.Module = k.writer, f.file, f.next, iotrace.POSIX
	f.next += e.Bytes
	if r.to == Aggregated && e.Start < f.last && f.opened {
		// One rank does one after the other what two ranks did at the same time.
		e.End += f.last - e.Start
		e.Start = f.last
	}
	if !f.opened {
		f.opened = true
		r.out.Events = append(r.out.Events, iotrace.Event{Op: iotrace.Open, Create: true, Rank: e.Rank, File: e.File, Peer: iotrace.None,
			Checkpoint: e.Checkpoint, Offset: iotrace.None, Start: e.Start, End: e.Start})
	}
	f.last = max(f.last, e.End)
	r.out.Events = append(r.out.Events, e)
}

// sync reports whether the target must be synced.
func (r *relaying) sync(e iotrace.Event) bool {
	k := r.target(&e)
	f := r.targets[k]
	if f == nil || !f.opened {
		return false
	}
	if r.to == Aggregated {
		f.synced = true
		return true
	}
	e.File, e.Offset, e.Bytes = f.file, iotrace.None, 0
	f.last = max(f.last, e.End)
	r.out.Events = append(r.out.Events, e)
	return true
}

// end syncs and closes the target.
func (r *relaying) end() {
	for _, k := range r.order {
		f := r.targets[k]
		e := iotrace.Event{Op: iotrace.Sync, Rank: k.writer, File: f.file, Peer: iotrace.None, Checkpoint: k.checkpoint, Offset: iotrace.None,
			Start: f.last, End: f.last}
		if f.synced {
			r.out.Events = append(r.out.Events, e)
		}
		e.Op = iotrace.Close
		r.out.Events = append(r.out.Events, e)
	}
}

// A LeftOut is a kind of event that a replay leaves out, with its count.
type LeftOut struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// leftOuts counts the events left out, by kind.
type leftOuts map[string]int64

func (l leftOuts) list() []LeftOut {
	out := []LeftOut{}
	for _, what := range slices.Sorted(maps.Keys(l)) {
		out = append(out, LeftOut{what, l[what]})
	}
	return out
}

// These events change the names of files, and are no operations of the replay.
const (
	carried   iotrace.Op = 255 - iota // File takes the name Peer, since its directory is renamed
	exchanged                         // File and Peer take each other's name
)

// renames reports whether an event gives File the name Peer.
func renames(e *iotrace.Event) bool {
	return e.Op == iotrace.Rename || e.Op == carried || e.Op == exchanged
}

// choose returns the trace with the events to replay, in the same order, and counts
// the others. The events are a copy, or if the caller allows it the same memory. Peer of
// a renaming becomes the file of the new name, or None if the trace does not tell. After
// the renaming of a directory come events carried for the files below it.
func choose(ctx context.Context, t *iotrace.Trace, inPlace bool) (*iotrace.Trace, leftOuts, error) {
	left := make(leftOuts)
	posix := make([]bool, len(t.Files)) // files with POSIX reads and writes
	for i := range t.Events {
		if e := &t.Events[i]; e.File != iotrace.None && e.Module == iotrace.POSIX && e.Op.Data() {
			posix[e.File] = true
		}
	}
	out := &iotrace.Trace{Job: t.Job, Source: t.Source, Origin: t.Origin, Ranks: t.Ranks, Files: t.Files}
	targets := t.Targets()
	below := t.Below(targets)
	if inPlace && len(below) == 0 {
		out.Events = t.Events[:0]
	} else {
		out.Events = make([]iotrace.Event, 0, len(t.Events))
	}
	nobody := int32(iotrace.None)
	for i := range t.Events {
		if i%(1<<16) == 0 && ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		e := t.Events[i]
		e.Peer = iotrace.None // only gathers have one
		if e.Op == iotrace.Rename {
			if to, ok := targets[i]; ok {
				e.Peer = to.File
			}
		}
		switch {
		case e.Op == iotrace.Barrier:
			e.File = iotrace.None
		case e.Op.Step():
			left[e.Op.String()+": a step of the write path"]++
			continue
		case e.File == iotrace.None:
			left[e.Op.String()+" of no known file"]++
			continue
		case e.Op == iotrace.Mmap:
			left["mmap"]++
			continue
		case e.Module != iotrace.POSIX && posix[e.File]:
			left[e.Op.String()+" through "+e.Module.String()+", which is there as POSIX calls"]++
			continue
		}
		if e.Op == iotrace.Rename && targets[i].Exchange {
			left["rename that exchanges two files"]++ // no operation of the replay's file system does
			e.Op = exchanged
		}
		if e.Rank == iotrace.None {
			if nobody == iotrace.None {
				nobody = int32(len(out.Ranks))
				out.Ranks = append(slices.Clone(out.Ranks), iotrace.Rank{Rank: iotrace.None, Node: "(unknown)"})
			}
			e.Rank = nobody
		}
		out.Events = append(out.Events, e)
		for _, r := range below[i] {
			e.Op, e.File, e.Peer = carried, r.From, r.To
			if targets[i].Exchange {
				e.Op = exchanged
			}
			out.Events = append(out.Events, e)
		}
	}
	return out, left, nil
}
