package replay

import (
	"fmt"
	"hash/fnv"
	"math"
	"path"
	"strings"

	"ckpt/iotrace"
)

// naming passes over a trace once. For each operation it finds the file, the handle,
// and the offset if the trace lacks it.
type naming struct {
	*plan
	taken   map[string]bool // names in the directory
	current []int32         // file under each name now, or iotrace.None
	again   []int           // how often each name was reused
	ended   []ending
	open    map[holder]holding
	opened  []int32 // the last file that was opened by each name, or iotrace.None
	gone    []int32 // the operation that removed or replaced it, or iotrace.None; by planned file
	end     []int64 // lengths, by planned file
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
// Traces name an open file as it was opened, whatever became of it since. So after a
// file was removed or renamed, ranks that had it open continue with the old file, and
// others that open its old name find another one. The first data operation of a rank
// without a handle opens the file that was opened last by that name, since it has an
// inherited descriptor, or else, as in traces of Darshan, the one that has it.
func (p *plan) name(files []string) error {
	n := &naming{plan: p, taken: make(map[string]bool, len(files)), current: make([]int32, len(files)), opened: make([]int32, len(files)), again: make([]int, len(files)),
		ended: make([]ending, len(files)), open: make(map[holder]holding)}
	p.names = flatten(files)
	p.before = make(map[int32][]int32)
	for i, name := range p.names {
		n.taken[name] = true
		n.current[i], n.opened[i] = iotrace.None, iotrace.None
	}
	for i := range p.events {
		o := p.op(int32(i))
		if o.File == iotrace.None {
			continue
		}
		o.name = o.File
		if renames(o.Event) {
			o.to = o.Peer
		}
		file := n.one(o, int32(i))
		if o.Offset > math.MaxInt64-o.Bytes {
			return optionError("%s %s: %d bytes at offset %d, where the one before ended, end beyond what a file can hold", o.Op, files[o.File], o.Bytes, o.Offset)
		}
		o.File = file
	}
	p.last = n.current
	for i, e := range n.ended {
		if e != stays {
			p.last[i] = iotrace.None
		}
	}
	return nil
}

// one returns the planned file of operation i.
func (n *naming) one(o op, i int32) (file int32) {
	switch o.Op {
	case iotrace.Open:
		file = n.file(o)
		key := holder{o.Rank, o.File}
		h := n.open[key]
		o.handle = n.handle(file)
		if o.Create {
			o.empties, n.end[file] = n.end[file] > 0, 0
		}
		n.open[key] = holding{append(h.handles, o.handle), 0}
		n.opened[o.File] = file
		return file
	case iotrace.Stat:
		return n.file(o)
	case iotrace.Unlink:
		file = n.file(o)
		n.gone[file] = i
		n.ended[o.File] = removed
		return file
	case iotrace.Rename:
		return n.rename(o, i)
	case carried, exchanged:
		n.exchange(o)
		return iotrace.None
	}
	key := holder{o.Rank, o.File}
	h := n.open[key]
	if len(h.handles) == 0 {
		file := n.file(o)
		if opened := n.opened[o.File]; opened != iotrace.None && o.Op != iotrace.Truncate {
			file = opened // as an inherited descriptor
		}
		h.handles = []int32{n.handle(file)}
		if end := n.gone[file]; end != iotrace.None {
			n.before[end] = append(n.before[end], h.handles[0])
		} else {
			o.opens = true
		}
	}
	o.handle = h.handles[len(h.handles)-1]
	file = n.handles[o.handle]
	switch o.Op {
	case iotrace.Close:
		h.handles = h.handles[:len(h.handles)-1]
	case iotrace.Seek:
		h.at = max(o.Offset, 0)
		o.Offset = h.at
	case iotrace.Truncate:
		n.end[file] = o.Bytes
		if len(n.open[key].handles) == 0 { // by name: the rank does not have it open
			return file
		}
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
	n.open[key] = h
	return file
}

// rename gives a file its new name, and returns it. Peer becomes the planned file whose
// place it takes: the one of the new name, or one that never exists.
func (n *naming) rename(o op, i int32) (file int32) {
	file = n.file(o)
	to := o.Peer
	switch {
	case to == iotrace.None:
		n.ended[o.File] = renamed
		o.Peer = n.add(n.unique(n.files[file].name+"~renamed"), false)
	case to == o.File:
		o.Peer = file
	default:
		if o.Peer = n.current[to]; o.Peer == iotrace.None || n.ended[to] != stays {
			o.Peer = n.add(n.next(to), false)
		}
		n.gone[o.Peer] = i
		n.current[to], n.ended[to] = file, stays
		n.ended[o.File] = named
	}
	return file
}

// exchange gives a name to another file, without an operation.
func (n *naming) exchange(o op) {
	from, to := o.File, o.Peer
	file, other, ended := n.current[from], n.current[to], n.ended[to]
	if file == iotrace.None || n.ended[from] != stays {
		file = n.add(n.next(from), true)
	}
	n.current[to], n.ended[to] = file, stays
	n.ended[from] = named
	if o.Op == exchanged {
		n.current[from], n.ended[from] = other, ended
	}
	o.Peer = iotrace.None
}

func endOf(o op) int64 { return o.Offset + min(o.Bytes, math.MaxInt64-o.Offset) }

// file returns the file under the name of an operation. A file that was renamed or
// removed keeps its old name for operations on open files, and if the trace does not
// tell the new name, until another one is created.
func (n *naming) file(o op) int32 {
	made := o.Op == iotrace.Open && o.Create
	looked := o.Op == iotrace.Open || o.Op == iotrace.Stat || o.Op == iotrace.Rename || o.Op == iotrace.Unlink
	ended := n.ended[o.File]
	if n.current[o.File] == iotrace.None || ended == renamed && made || (ended == named || ended == removed) && looked {
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
	if n.again[file]++; n.again[file] == 1 {
		return n.names[file]
	}
	return n.unique(fmt.Sprintf("%s~again%d", n.names[file], n.again[file]))
}

// unique returns a name that no other file has.
func (n *naming) unique(name string) string {
	free := name
	for k := 2; n.taken[free]; k++ {
		free = fmt.Sprintf("%s~%d", name, k)
	}
	n.taken[free] = true
	return free
}

// add plans a file.
func (n *naming) add(name string, prepared bool) int32 {
	n.files = append(n.files, plannedFile{name: name, prepared: prepared})
	n.end, n.gone = append(n.end, 0), append(n.gone, iotrace.None)
	return int32(len(n.files) - 1)
}

func (n *naming) handle(file int32) int32 {
	n.handles = append(n.handles, file)
	return int32(len(n.handles) - 1)
}

// maxName bounds file names; file systems allow 255 bytes.
const maxName = 200

// flatten returns a file name for each path. It drops the directories that all paths
// share, and makes the others part of the name. Names are unique and never lead out of
// the directory of the replay.
func flatten(paths []string) []string {
	clean := make([]string, len(paths))
	for i, p := range paths {
		// Rooted, so that a leading .. has no effect.
		clean[i] = strings.TrimPrefix(path.Clean("/"+p), "/")
	}
	common := commonDir(clean)
	names := make([]string, len(paths))
	taken := make(map[string]bool, len(paths))
	for i, p := range clean {
		name := plain(strings.TrimPrefix(p, common))
		names[i] = name
		for n := 2; taken[names[i]]; n++ {
			names[i] = fmt.Sprintf("%s~%d", name, n)
		}
		taken[names[i]] = true
	}
	return names
}

// commonDir returns the directories that all paths share, with a slash at the end
// unless it is empty.
func commonDir(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	dir := paths[0][:strings.LastIndexByte(paths[0], '/')+1]
	for _, p := range paths[1:] {
		for dir != "" && !strings.HasPrefix(p, dir) {
			dir = dir[:strings.LastIndexByte(strings.TrimSuffix(dir, "/"), '/')+1]
		}
	}
	return dir
}

// plain turns a path into a file name: characters other than letters, digits and
// -.+=@, as well as a leading dot, become underscores.
func plain(p string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("-.+=@,", r):
			return r
		}
		return '_'
	}, p)
	if name == "" || name[0] == '.' || name[0] == '-' {
		name = "_" + name
	}
	if len(name) > maxName {
		h := fnv.New64a()
		h.Write([]byte(p)) // never fails
		name = fmt.Sprintf("%s~%016x", name[:maxName-17], h.Sum64())
	}
	return name
}
