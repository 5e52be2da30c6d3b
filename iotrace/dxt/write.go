package dxt

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"ckpt/iotrace"
)

// Write prints the reads and writes of a trace like darshan-dxt-parser 3.4, the
// version that most tools read. The format has no place for other events and for
// events without a file; left is their number.
//
// Reads and writes of MPI-IO without an offset have -1 there, as in Darshan. Those of
// POSIX, whose offset Darshan always knows, are in separate records without the
// column. Records are sorted by module, path, rank and node.
//
// File ids are FNV-1a hashes of the path, not the numbers that Darshan uses. Beyond
// the trace, Write takes four bytes of memory for each event.
func Write(w io.Writer, t *iotrace.Trace) (left int64, err error) {
	if uint64(len(t.Events)) > math.MaxUint32 {
		return 0, errors.New("too many events")
	}
	g := group(t)
	back := secondsBack(t)
	bw := bufio.NewWriterSize(w, 1<<16)
	writeHead(bw, t, back)
	module := -1
	var b []byte
	for i := range g.records {
		r := &g.records[i]
		if int(r.module) != module {
			module = int(r.module)
			const stars = "***************************************************"
			fmt.Fprintf(bw, "\n# %s\n# DXT_%s module data\n# %s\n", stars, r.module, stars)
		}
		rank := iotrace.Rank{Rank: iotrace.None}
		if r.rank != iotrace.None {
			rank = t.Ranks[r.rank]
		}
		layout, offset := layouts[0], "          Offset"
		if r.noOffset {
			layout, offset = layouts[2], ""
		}
		name := t.Files[r.file]
		id := fnv.New64a()
		io.WriteString(id, name)
		fmt.Fprintf(bw, "\n# DXT, file_id: %d, file_name: %s\n", id.Sum64(), oneLine(name))
		fmt.Fprintf(bw, "# DXT, rank: %d, hostname: %s\n", rank.Rank, oneLine(rank.Node))
		fmt.Fprintf(bw, "# DXT, write_count: %d, read_count: %d\n", r.writes, r.reads)
		fmt.Fprintf(bw, "# DXT, mnt_pt: UNKNOWN, fs_type: UNKNOWN\n")
		fmt.Fprintf(bw, "# Module    Rank  Wt/Rd  Segment%s       Length    Start(s)      End(s)\n", offset)
		for k, at := range g.order[r.first : r.first+r.writes+r.reads] {
			e := &t.Events[at]
			s := segment{module: r.module, rank: int64(rank.Rank), write: e.Op == iotrace.Write, index: int64(k),
				offset: e.Offset, length: e.Bytes, start: e.Start + back, end: e.End + back}
			if !s.write {
				s.index -= int64(r.writes)
			}
			b = append(s.append(b[:0], layout), '\n')
			if _, err := bw.Write(b); err != nil {
				return 0, err
			}
		}
	}
	return int64(len(t.Events) - len(g.order)), bw.Flush()
}

// secondsBack returns by how many seconds the job must begin earlier, so that it
// begins with a whole second and before all events: the format has no other times.
func secondsBack(t *iotrace.Trace) (ns int64) {
	begun := int64(0)
	if !t.Origin.IsZero() {
		begun = int64(t.Origin.Nanosecond())
	}
	first := -begun
	for i := range t.Events {
		if hasPlace(&t.Events[i]) {
			first = min(first, t.Events[i].Start)
		}
	}
	return begun + (-begun-first+1e9-1)/1e9*1e9
}

// sourceLine marks the output of Write.
const sourceLine = "# metadata: source = "

// oneLine removes line ends from a name.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// writeHead writes the properties of the job. Errors of a bufio.Writer persist, so the
// caller sees them.
func writeHead(w *bufio.Writer, t *iotrace.Trace, back int64) {
	const asci = "Mon Jan _2 15:04:05 2006" // sic; of ctime, here always UTC
	end := int64(0)
	for i := range t.Events {
		if hasPlace(&t.Events[i]) {
			end = max(end, round(t.Events[i].End+back)*tick)
		}
	}
	ranks := 0
	for _, r := range t.Ranks {
		if r.Rank >= 0 { // others are unknown, or the coordinator
			ranks++
		}
	}
	first := t.Origin
	if first.IsZero() {
		first = time.Unix(0, 0)
	} else {
		first = first.Add(-time.Duration(back))
	}
	last := first.Add(time.Duration(end)).UTC()
	fmt.Fprintf(w, "# darshan log version: 3.41\n# compression method: NONE\n# exe: %s\n# uid: 0\n# jobid: 0\n", oneLine(t.Job))
	fmt.Fprintf(w, "# start_time: %d\n# start_time_asci: %s\n", first.Unix(), first.UTC().Format(asci))
	fmt.Fprintf(w, "# end_time: %d\n# end_time_asci: %s\n", last.Unix(), last.Format(asci))
	fmt.Fprintf(w, "# nprocs: %d\n# run time: %.4f\n%s%s\n", ranks, time.Duration(end).Seconds(), sourceLine, oneLine(t.Source))
	fmt.Fprintf(w, "\n# mounted file systems (mount point and fs type)\n# -------------------------------------------------------\n")
}

// groups are the events by record.
type groups struct {
	records []written
	order   []uint32 // events in the order of writing
}

// A written record.
type written struct {
	key
	writes, reads int
	first         int // index of its first event in order
}

type key struct {
	module     iotrace.Module
	file, rank int32
	noOffset   bool
}

func keyOf(e *iotrace.Event) key {
	return key{e.Module, e.File, e.Rank, e.Offset == iotrace.None && e.Module != iotrace.MPIIO}
}

// hasPlace reports whether the format can hold an event.
func hasPlace(e *iotrace.Event) bool { return e.Op.Data() && e.File != iotrace.None }

// compareRanks puts events without a rank first, and sorts ranks by number, as after
// reading the text back.
func compareRanks(t *iotrace.Trace, a, b int32) int {
	if a < 0 || b < 0 {
		return cmp.Compare(a, b)
	}
	x, y := t.Ranks[a], t.Ranks[b]
	return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Node, y.Node))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// group sorts the events by record, writes before reads, otherwise in the order of the
// trace. It counts first, then distributes.
func group(t *iotrace.Trace) groups {
	var g groups
	at := make(map[key]int)
	total := 0
	for i := range t.Events {
		e := &t.Events[i]
		if !hasPlace(e) {
			continue
		}
		k := keyOf(e)
		n, ok := at[k]
		if !ok {
			n = len(g.records)
			at[k] = n
			g.records = append(g.records, written{key: k})
		}
		if e.Op == iotrace.Write {
			g.records[n].writes++
		} else {
			g.records[n].reads++
		}
		total++
	}
	slices.SortFunc(g.records, func(a, b written) int {
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(t.Files[a.file], t.Files[b.file]), compareRanks(t, a.rank, b.rank),
			compareBools(a.noOffset, b.noOffset))
	})
	first := 0
	next := make([][2]int, len(g.records)) // index of the next write and read
	for n := range g.records {
		r := &g.records[n]
		r.first = first
		at[r.key] = n
		next[n] = [2]int{first, first + r.writes}
		first += r.writes + r.reads
	}
	g.order = make([]uint32, total)
	for i := range t.Events {
		e := &t.Events[i]
		if !hasPlace(e) {
			continue
		}
		n := &next[at[keyOf(e)]][0]
		if e.Op == iotrace.Read {
			n = &next[at[keyOf(e)]][1]
		}
		g.order[*n] = uint32(i)
		*n++
	}
	return g
}
