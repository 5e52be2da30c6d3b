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
	open    map[holder][]int32 // open handles, newest last
	at      map[holder]int64   // end of a rank's last read, write or seek
	end     []int64            // lengths, by planned file
}

// A holder is a rank with a file of the trace.
type holder struct{ rank, file int32 }

// An ending is the renaming or removal of a name.
type ending uint8

const (
	stays ending = iota
	renamed
	removed
)

// name assigns files and handles, in the order of the trace.
//
// The first data operation of a rank without a handle opens the file, as in traces of
// Darshan and for inherited descriptors. After a file was removed, or renamed and
// created again, its name refers to another file, and ranks that had it open continue
// with the old file.
func (p *plan) name(files []string) error {
	n := &naming{plan: p, names: flatten(files), current: make([]int32, len(files)), again: make([]int, len(files)),
		ended: make([]ending, len(files)), open: make(map[holder][]int32), at: make(map[holder]int64)}
	for i := range n.current {
		n.current[i] = iotrace.None
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
	h := holder{o.Rank, o.File}
	handles := n.open[h]
	switch o.Op {
	case iotrace.Open:
		file = n.file(o)
		o.handle = n.handle(file)
		n.open[h] = append(handles, o.handle)
		n.at[h] = 0
		return file
	case iotrace.Stat, iotrace.Rename, iotrace.Unlink:
		file = n.file(o)
		switch o.Op {
		case iotrace.Rename:
			n.ended[o.File] = renamed
		case iotrace.Unlink:
			n.ended[o.File] = removed
		}
		return file
	}
	if len(handles) == 0 {
		o.opens = true
		handles = []int32{n.handle(n.file(o))}
		n.open[h] = handles
	}
	o.handle = handles[len(handles)-1]
	file = n.handles[o.handle]
	switch o.Op {
	case iotrace.Close:
		n.open[h] = handles[:len(handles)-1]
	case iotrace.Seek:
		n.at[h] = max(o.Offset, 0)
		o.Offset = n.at[h]
	case iotrace.Truncate:
		n.end[file] = o.Bytes
	case iotrace.Read:
		if o.Offset == iotrace.None {
			o.Offset = n.at[h]
		}
		n.at[h] = endOf(o)
	case iotrace.Write:
		if o.Offset == iotrace.None {
			o.Offset = n.end[file] // appended
		}
		n.at[h] = endOf(o)
		n.end[file] = max(n.end[file], n.at[h])
	}
	return file
}

func endOf(o op) int64 { return o.Offset + min(o.Bytes, math.MaxInt64-o.Offset) }

// file returns the file under the name of an operation.
func (n *naming) file(o op) int32 {
	made := o.Op == iotrace.Open && o.Create
	if n.current[o.File] == iotrace.None || n.ended[o.File] == removed || n.ended[o.File] == renamed && made {
		name := n.names[o.File]
		if n.again[o.File]++; n.again[o.File] > 1 {
			name = fmt.Sprintf("%s~again%d", name, n.again[o.File])
		}
		n.current[o.File] = int32(len(n.files))
		n.ended[o.File] = stays
		n.files = append(n.files, plannedFile{name: name, prepared: true})
		n.end = append(n.end, 0)
	}
	f := n.current[o.File]
	if made {
		n.files[f].prepared = false // others may have opened it shortly before
	}
	return f
}

func (n *naming) handle(file int32) int32 {
	n.handles = append(n.handles, file)
	return int32(len(n.handles) - 1)
}
