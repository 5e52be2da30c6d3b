package iotrace

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// The entries of a trace's tables and lists; see the package comment. Each has a
// function that appends it to a block, and a method of the decoder that reads it.

func appendRank(b []byte, r Rank) []byte {
	return appendString(binary.AppendVarint(b, int64(r.Rank)), r.Node)
}

func (d *decoder) rank() Rank { return Rank{Rank: int(d.sum(0)), Node: d.string()} }

func appendWarning(b []byte, w Warning) []byte {
	b = appendString(appendString(b, w.Code), w.Text)
	b = binary.AppendVarint(binary.AppendVarint(b, w.Count), w.Bytes)
	b = binary.AppendUvarint(b, uint64(len(w.Files)))
	for _, f := range w.Files {
		b = binary.AppendVarint(b, int64(f.File))
		b = binary.AppendVarint(binary.AppendVarint(b, f.Count), f.Bytes)
	}
	return b
}

func (d *decoder) warning() Warning {
	w := Warning{Code: d.string(), Text: d.string(), Count: d.sum(0), Bytes: d.sum(0)}
	for range d.length() {
		w.Files = append(w.Files, WarnedFile{File: d.int32(0), Count: d.sum(0), Bytes: d.sum(0)})
	}
	return w
}

// length reads the number of parts that follow, which take at least a byte each.
func (d *decoder) length() int {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return 0
	}
	return int(n)
}

func appendProperty(b []byte, p Property) []byte {
	return appendString(appendString(b, p.Name), p.Value)
}

func (d *decoder) property() Property { return Property{Name: d.string(), Value: d.string()} }

func appendRenaming(b []byte, r Renaming) []byte {
	b = binary.AppendVarint(binary.AppendVarint(b, int64(r.From)), int64(r.To))
	return binary.AppendVarint(b, r.At)
}

func (d *decoder) renaming() Renaming {
	return Renaming{From: d.int32(0), To: d.int32(0), At: d.sum(0)}
}

func appendStriping(b []byte, s Striping) []byte {
	b = binary.AppendVarint(binary.AppendVarint(b, int64(s.File)), s.Size)
	b = binary.AppendVarint(b, int64(s.Count))
	b = binary.AppendVarint(binary.AppendVarint(b, s.Start), s.End)
	b = binary.AppendUvarint(b, uint64(len(s.OSTs)))
	for _, n := range s.OSTs {
		b = binary.AppendVarint(b, n)
	}
	return b
}

func (d *decoder) striping() Striping {
	s := Striping{File: d.int32(0), Size: d.sum(0), Count: d.int32(0), Start: d.sum(0), End: d.sum(0)}
	for range d.length() {
		s.OSTs = append(s.OSTs, d.sum(0))
	}
	return s
}

// numbers lists the whole numbers of counters in the order of the file. New ones come
// last: older files do not have them, and older programs skip them.
func (c *Counters) numbers() []*int64 {
	ns := []*int64{
		&c.Opens, &c.Reads, &c.Writes, &c.Seeks, &c.Stats, &c.Syncs, &c.Maps,
		&c.BytesRead, &c.BytesWritten, &c.LastRead, &c.LastWritten,
		&c.ConsecutiveReads, &c.SequentialReads, &c.ConsecutiveWrites, &c.SequentialWrites, &c.Switches,
		&c.Unaligned, &c.UnalignedMemory, &c.Alignment,
	}
	for i := range c.ReadSizes {
		ns = append(ns, &c.ReadSizes[i])
	}
	for i := range c.WriteSizes {
		ns = append(ns, &c.WriteSizes[i])
	}
	for i := range c.Common {
		ns = append(ns, &c.Common[i].Size, &c.Common[i].Count)
	}
	for i := range c.Strides {
		ns = append(ns, &c.Strides[i].Size, &c.Strides[i].Count)
	}
	return append(ns,
		(*int64)(&c.MaxReadTime), (*int64)(&c.MaxWriteTime),
		&c.CollectiveOpens, &c.IndependentOpens, &c.CollectiveReads, &c.CollectiveWrites,
		&c.IndependentReads, &c.IndependentWrites, &c.SplitReads, &c.SplitWrites,
		&c.NonblockingReads, &c.NonblockingWrites, &c.Hints, &c.Views,
		(*int64)(&c.ReadTime), (*int64)(&c.WriteTime), (*int64)(&c.MetaTime),
		&c.FirstOpen, &c.FirstRead, &c.FirstWrite, &c.FirstClose,
		&c.LastOpen, &c.LastReadEnd, &c.LastWriteEnd, &c.LastClose,
		&c.Fastest.Rank, &c.Fastest.Bytes, (*int64)(&c.Fastest.Time),
		&c.Slowest.Rank, &c.Slowest.Bytes, (*int64)(&c.Slowest.Time),
	)
}

// times are those of the numbers that are points in time.
func (c *Counters) times() [8]*int64 {
	return [...]*int64{&c.FirstOpen, &c.FirstRead, &c.FirstWrite, &c.FirstClose,
		&c.LastOpen, &c.LastReadEnd, &c.LastWriteEnd, &c.LastClose}
}

// fractions lists the other numbers, with the same rule.
func (c *Counters) fractions() []*float64 { return []*float64{&c.VarianceTime, &c.VarianceBytes} }

func appendCounters(b []byte, c Counters) []byte {
	b = append(b, byte(c.Module))
	b = binary.AppendVarint(b, int64(c.Rank))
	b = binary.AppendVarint(b, int64(c.File))
	ns := c.numbers()
	b = binary.AppendUvarint(b, uint64(len(ns)))
	for i := 0; i < len(ns); i++ {
		n := *ns[i]
		b = binary.AppendVarint(b, n)
		if n != 0 && n != None {
			continue
		}
		run := 0
		for i+1 < len(ns) && *ns[i+1] == n {
			run++
			i++
		}
		b = binary.AppendUvarint(b, uint64(run))
	}
	fs := c.fractions()
	b = binary.AppendUvarint(b, uint64(len(fs)))
	for _, f := range fs {
		b = binary.AppendUvarint(b, bits.ReverseBytes64(math.Float64bits(*f)))
	}
	return b
}

// mostNumbers bounds the numbers of counters, with room for those of later versions.
const mostNumbers = 1 << 10

func (d *decoder) counters() Counters {
	c := Counters{Module: Module(d.byte()), Rank: d.int32(0), File: d.int32(0)}
	ns := c.numbers()
	left := d.uvarint()
	if left > mostNumbers {
		d.fail(errRange)
	}
	for d.err == nil && left > 0 {
		n, times := d.sum(0), uint64(1)
		if n == 0 || n == None {
			times += d.uvarint()
		}
		if times > left || times == 0 {
			d.fail(errRange)
			break
		}
		left -= times
		for ; times > 0 && len(ns) > 0; times-- {
			*ns[0] = n
			ns = ns[1:]
		}
	}
	fs := c.fractions()
	left = d.uvarint()
	if left > mostNumbers {
		d.fail(errRange)
	}
	for ; d.err == nil && left > 0; left-- {
		f := math.Float64frombits(bits.ReverseBytes64(d.uvarint()))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(errRange)
		}
		if len(fs) > 0 {
			*fs[0] = f
			fs = fs[1:]
		}
	}
	return c
}
