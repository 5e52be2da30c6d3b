package replay

import (
	"fmt"
	"math"

	"ckpt/iotrace"
)

// naming passes over a trace once. For each operation it finds the file, the handle,
// and the offset if the trace has none.
type naming struct {
	*plan
	names   []string
	current []int32 // file under each name now, or iotrace.None
	again   []int   // how often each name was reused
	ended   []ending
	open    map[holder]holding
	renames map[int32][]int32 // ranks that have opened a name, of names that files lose
	end     []int64           // lengths, by planned file
	inUse   []int32           // open handles, by planned file
}

// A holder is a rank with a file of the trace.
type holder struct{ rank, file int32 }

// A holding is what a rank has of a file.
type holding struct {
	handles []int32 // the open ones, newest last
	at      int64   // end of the last read, write or seek
}

// An ending is the renaming or removal of a name.
type ending uint8

const (
	stays   ending = iota
	renamed        // to a name that the trace does not tell
	named          // to another name of the trace
	removed
)

// name assigns files and handles, in the order of the trace.
//
// The first data operation of a rank without a handle opens the file, as in traces of
// Darshan and for inherited descriptors. After a file was removed or renamed, its old
// name refers to another file, and ranks that had it open continue with the old file.
func (p *plan) name(files []string) error {
	n := &naming{plan: p, names: flatten(files), current: make([]int32, len(files)), again: make([]int, len(files)),
		ended: make([]ending, len(files)), open: make(map[holder]holding), renames: make(map[int32][]int32)}
	for i := range n.current {
		n.current[i] = iotrace.None
	}
	for i := range p.events {
		if e := &p.events[i]; e.Op == iotrace.Rename && e.Peer != iotrace.None {
			n.renames[e.File] = nil
		}
	}
	for i := range p.events {
		o := p.op(int32(i))
		if o.File == iotrace.None {
			continue
		}
		file := n.one(o)
		if o.Offset > math.MaxInt64-o.Bytes {
			return optionError("%s %s: %d bytes at offset %d, where the one before ended, end beyond what a file can hold", o.Op, files[o.File], o.Bytes, o.Offset)
		}
		o.File = file
	}
	return nil
}

// one returns the planned file of an operation.
func (n *naming) one(o op) (file int32) {
	h := n.open[holder{o.Rank, o.File}]
	switch o.Op {
	case iotrace.Open:
		file = n.file(o)
		o.handle = n.handle(file)
		// Ranks that open a file together may call it made after the first of them wrote.
		if o.Create && n.inUse[file] == 0 {
			o.empties, n.end[file] = n.end[file] > 0, 0
		}
		n.inUse[file]++
		n.hold(o.Rank, o.File, holding{append(h.handles, o.handle), 0})
		return file
	case iotrace.Stat:
		return n.file(o)
	case iotrace.Unlink:
		file = n.file(o)
		n.ended[o.File] = removed
		return file
	case iotrace.Rename:
		return n.rename(o)
	}
	if len(h.handles) == 0 {
		o.opens = true
		h.handles = []int32{n.handle(n.file(o))}
		n.inUse[n.handles[h.handles[0]]]++
	}
	o.handle = h.handles[len(h.handles)-1]
	file = n.handles[o.handle]
	switch o.Op {
	case iotrace.Close:
		h.handles = h.handles[:len(h.handles)-1]
		n.inUse[file]--
	case iotrace.Seek:
		h.at = max(o.Offset, 0)
		o.Offset = h.at
	case iotrace.Truncate:
		n.end[file] = o.Bytes
	case iotrace.Read:
		if o.Offset == iotrace.None {
			o.Offset = h.at
		}
		h.at = endOf(o)
	case iotrace.Write:
		if o.Offset == iotrace.None {
			o.Offset = n.end[file] // appended
		}
		h.at = endOf(o)
		n.end[file] = max(n.end[file], h.at)
	}
	n.hold(o.Rank, o.File, h)
	return file
}

func (n *naming) hold(rank, file int32, h holding) {
	key := holder{rank, file}
	if ranks, ok := n.renames[file]; ok {
		if _, known := n.open[key]; !known {
			n.renames[file] = append(ranks, rank)
		}
	}
	n.open[key] = h
}

// rename gives a file its new name, and returns it. Peer becomes the planned file whose
// place it takes: the one of the new name, or one that never exists.
func (n *naming) rename(o op) (file int32) {
	file = n.file(o)
	to := o.Peer
	n.ended[o.File] = named
	switch {
	case to == iotrace.None:
		n.ended[o.File] = renamed
		o.Peer = n.add(n.files[file].name+"~renamed", false)
	case to == o.File:
		o.Peer = file
		n.ended[to] = stays
	default:
		if o.Peer = n.current[to]; o.Peer == iotrace.None || n.ended[to] != stays {
			o.Peer = n.add(n.next(to), false)
		}
		n.current[to], n.ended[to] = file, stays
		// The trace calls open files by their new name from here on.
		for _, rank := range n.renames[o.File] {
			from := n.open[holder{rank, o.File}]
			delete(n.open, holder{rank, o.File})
			n.hold(rank, to, holding{append(n.open[holder{rank, to}].handles, from.handles...), from.at})
		}
		n.renames[o.File] = nil
	}
	return file
}

func endOf(o op) int64 { return o.Offset + min(o.Bytes, math.MaxInt64-o.Offset) }

// file returns the file under the name of an operation. A file that was renamed keeps
// its old name for operations on open files, and until another one is created if the
// trace does not tell the new name.
func (n *naming) file(o op) int32 {
	made := o.Op == iotrace.Open && o.Create
	looked := o.Op == iotrace.Open || o.Op == iotrace.Stat || o.Op == iotrace.Rename || o.Op == iotrace.Unlink
	ended := n.ended[o.File]
	if n.current[o.File] == iotrace.None || ended == removed || ended == renamed && made || ended == named && looked {
		n.current[o.File] = n.add(n.next(o.File), true)
		n.ended[o.File] = stays
	}
	f := n.current[o.File]
	if made {
		n.files[f].prepared = false // others may have opened it shortly before
	}
	return f
}

// next returns the name of the next file under a name of the trace.
func (n *naming) next(file int32) string {
	name := n.names[file]
	if n.again[file]++; n.again[file] > 1 {
		name = fmt.Sprintf("%s~again%d", name, n.again[file])
	}
	return name
}

// add plans a file.
func (n *naming) add(name string, prepared bool) int32 {
	n.files = append(n.files, plannedFile{name: name, prepared: prepared})
	n.end, n.inUse = append(n.end, 0), append(n.inUse, 0)
	return int32(len(n.files) - 1)
}

func (n *naming) handle(file int32) int32 {
	n.handles = append(n.handles, file)
	return int32(len(n.handles) - 1)
}
