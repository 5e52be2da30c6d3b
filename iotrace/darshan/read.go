package darshan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"ckpt/iotrace"
)

// maxRanks bounds the list of ranks that a log announces.
const maxRanks = 1 << 20

// Read reads a log of so many bytes. With Lenient it returns the modules in front of the
// damage and behind it.
func Read(r io.ReaderAt, size int64, o iotrace.Options) (*iotrace.Trace, *iotrace.Report, error) {
	rep := &iotrace.Report{}
	head, err := readHeader(r, size)
	if err != nil {
		return nil, rep, noPart(err)
	}
	l := &reading{r: r, size: size, o: o, head: head, rep: rep, files: make(map[uint64]int32), others: make(map[int64]int32),
		t: &iotrace.Trace{Source: "darshan", Events: make([]iotrace.Event, 0, o.Events)}}
	l.tables = iotrace.NewTables(l.t)
	if err := l.readJob(); err != nil {
		return nil, rep, noPart(err)
	}
	if err := l.survive(l.readNames()); err != nil {
		return nil, rep, err
	}
	for i := range head.modules {
		if err := l.survive(l.readModule(i)); err != nil {
			return nil, rep, err
		}
	}
	l.t.Sort()
	l.rename()
	l.warn()
	return l.t, rep, nil
}

// noPart marks an error without which nothing else of the log can be read.
func noPart(err error) error {
	var fe *iotrace.FormatError
	if errors.As(err, &fe) {
		fe.NoPart = true
	}
	return err
}

// A reading is a log that is being read.
type reading struct {
	r    io.ReaderAt
	size int64
	o    iotrace.Options
	head *header
	rep  *iotrace.Report
	done int64 // bytes read

	t      *iotrace.Trace
	tables *iotrace.Tables
	nprocs int64
	names  map[uint64]string
	files  map[uint64]int32 // index by number of the record
	others map[int64]int32  // index of ranks that the job does not announce

	renamed []renamed

	// Reasons for warnings.
	notRead, newer, partial []string
	lost                    []string // not read, and their I/O is in no other module
	nameless, negative      int64
	oldSTDIO, odd, oddTimes tally
}

// tell reports progress.
func (l *reading) tell(n int64) {
	l.done += n
	if l.o.Progress != nil {
		l.o.Progress(min(l.done, l.size))
	}
}

// survive keeps a lenient reading going if a part of the log cannot be read.
func (l *reading) survive(err error) error {
	var fe *iotrace.FormatError
	if !l.o.Lenient || !errors.As(err, &fe) {
		return err
	}
	if l.rep.Cut == nil {
		l.rep.Cut = err
	}
	l.rep.Note(0, "", err.Error())
	return nil
}

// readModule reads the records of a module.
func (l *reading) readModule(i int) error {
	m := l.head.modules[i]
	if m.length == 0 && !m.partial {
		return nil
	}
	name := moduleName(i)
	last, ok := latest[i]
	if m.partial {
		l.partial = append(l.partial, name)
	}
	switch {
	case m.length == 0:
		return nil
	case !ok:
		l.notRead = append(l.notRead, name)
		if !aboveOthers[i] {
			l.lost = append(l.lost, name)
		}
		return nil
	case m.version > last:
		l.newer = append(l.newer, name)
		return nil
	}
	g, err := l.open("data of "+name, m.place)
	if err != nil {
		return err
	}
	if m.version == 0 {
		return damaged(m.off, "the records of %s have version 0", name)
	}
	switch i {
	case lustre:
		return l.readLustre(g, m.version)
	case dxtPOSIX:
		return l.readDXT(g, iotrace.POSIX, m.version > 1, false)
	case dxtMPIIO:
		return l.readDXT(g, iotrace.MPIIO, m.version > 2, m.version == 1)
	}
	return l.readCounters(g, i, m.version)
}

// readNames reads the paths of the records.
func (l *reading) readNames() error {
	l.names = make(map[uint64]string)
	if l.head.names.length == 0 {
		return nil
	}
	g, err := l.open("names", l.head.names)
	if err != nil {
		return err
	}
	var number [8]byte
	for {
		if err := g.fill(number[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		id := l.head.order.Uint64(number[:])
		name, err := l.readName(g)
		if err != nil {
			return err
		}
		if name != "" && l.names[id] == "" {
			l.names[id] = name
		}
	}
}

// readName reads a path.
func (l *reading) readName(g *region) (string, error) {
	if l.head.minor > 0 {
		return g.text()
	}
	var length [4]byte
	if err := g.rest(length[:]); err != nil {
		return "", err
	}
	var name bytes.Buffer
	for n := int64(l.head.order.Uint32(length[:])); n > 0; {
		piece := make([]byte, min(n, 4096))
		if err := g.rest(piece); err != nil {
			return "", err
		}
		name.Write(piece)
		n -= int64(len(piece))
	}
	return strings.TrimRight(name.String(), "\x00"), nil
}

// file returns the index of a record's file.
func (l *reading) file(id uint64) int32 {
	if i, ok := l.files[id]; ok {
		return i
	}
	name := l.names[id]
	if name == "" {
		l.nameless++
		name = fmt.Sprintf("<record %d>", id)
	}
	i := l.tables.File(name)
	l.files[id] = i
	return i
}

// rank returns the index of a rank; None stands for all ranks together.
func (l *reading) rank(n int64, at int64) (int32, error) {
	switch {
	case n == iotrace.None:
		return iotrace.None, nil
	case n < 0 || n > 1<<31-1:
		return 0, damaged(at, "rank %d", n)
	case n < l.nprocs:
		return int32(n), nil
	}
	i, ok := l.others[n]
	if !ok {
		i = l.tables.Rank(iotrace.Rank{Rank: int(n)})
		l.others[n] = i
	}
	return i, nil
}
