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

// Write prints the reads and writes of a trace as darshan-dxt-parser 3.4 does,
// which is what most tools read. The other events, and those of no file, have no
// place in the format; left is how many they are.
//
// Files are identified by the FNV-1a hash of their path, which is not the number
// that Darshan gives them. Beyond the trace, it takes four bytes of memory for
// each event.
func Write(w io.Writer, t *iotrace.Trace) (left int64, err error) {
	if uint64(len(t.Events)) > math.MaxUint32 {
		return 0, errors.New("too many events")
	}
	g := group(t)
	bw := bufio.NewWriterSize(w, 1<<16)
	writeHead(bw, t)
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
		name := t.Files[r.file]
		id := fnv.New64a()
		io.WriteString(id, name)
		fmt.Fprintf(bw, "\n# DXT, file_id: %d, file_name: %s\n", id.Sum64(), oneLine(name))
		fmt.Fprintf(bw, "# DXT, rank: %d, hostname: %s\n", rank.Rank, oneLine(rank.Node))
		fmt.Fprintf(bw, "# DXT, write_count: %d, read_count: %d\n", r.writes, r.reads)
		fmt.Fprintf(bw, "# DXT, mnt_pt: UNKNOWN, fs_type: UNKNOWN\n")
		fmt.Fprintf(bw, "# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)\n")
		for k, at := range g.order[r.first : r.first+r.writes+r.reads] {
			e := &t.Events[at]
			s := segment{module: r.module, rank: int64(rank.Rank), write: e.Op == iotrace.Write, index: int64(k),
				offset: e.Offset, length: e.Bytes, start: e.Start, end: e.End}
			if !s.write {
				s.index -= int64(r.writes)
			}
			b = append(s.append(b[:0], layouts[0]), '\n')
			if _, err := bw.Write(b); err != nil {
				return 0, err
			}
		}
	}
	return int64(len(t.Events) - len(g.order)), bw.Flush()
}

// oneLine keeps a name on its line.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// writeHead writes what a log says of the job. Errors of a bufio.Writer come
// again.
func writeHead(w *bufio.Writer, t *iotrace.Trace) {
	const asci = "Mon Jan _2 15:04:05 2006" // sic; of ctime, here always UTC
	end := int64(0)
	for i := range t.Events {
		end = max(end, t.Events[i].End)
	}
	first := t.Origin
	if first.IsZero() {
		first = time.Unix(0, 0)
	}
	last := first.Add(time.Duration(end)).UTC()
	fmt.Fprintf(w, "# darshan log version: 3.41\n# compression method: NONE\n# exe: %s\n# uid: 0\n# jobid: 0\n", oneLine(t.Job))
	fmt.Fprintf(w, "# start_time: %d\n# start_time_asci: %s\n", first.Unix(), first.UTC().Format(asci))
	fmt.Fprintf(w, "# end_time: %d\n# end_time_asci: %s\n", last.Unix(), last.Format(asci))
	fmt.Fprintf(w, "# nprocs: %d\n# run time: %.4f\n# metadata: source = %s\n", len(t.Ranks), time.Duration(end).Seconds(), oneLine(t.Source))
	fmt.Fprintf(w, "\n# mounted file systems (mount point and fs type)\n# -------------------------------------------------------\n")
}

// groups are the events by record.
type groups struct {
	records []written
	order   []uint32 // events, in the order in which they are written
}

// A written record.
type written struct {
	key
	writes, reads int
	first         int // in order
}

type key struct {
	module     iotrace.Module
	file, rank int32
}

// group sorts the events by record, of each the writes in front of the reads, as
// they come in the trace: first it counts, then it deals them out.
func group(t *iotrace.Trace) groups {
	var g groups
	at := make(map[key]int)
	total := 0
	for i := range t.Events {
		e := &t.Events[i]
		if !e.Op.Data() || e.File == iotrace.None {
			continue
		}
		k := key{e.Module, e.File, e.Rank}
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
		return cmp.Or(cmp.Compare(a.module, b.module), cmp.Compare(a.file, b.file), cmp.Compare(a.rank, b.rank))
	})
	first := 0
	next := make([][2]int, len(g.records)) // where the next write and read goes
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
		if !e.Op.Data() || e.File == iotrace.None {
			continue
		}
		n := &next[at[key{e.Module, e.File, e.Rank}]][0]
		if e.Op == iotrace.Read {
			n = &next[at[key{e.Module, e.File, e.Rank}]][1]
		}
		g.order[*n] = uint32(i)
		*n++
	}
	return g
}
