package container

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// The codecs of extents that are not packed; package codec has all numbers.
const (
	codecRaw  = uint8(codec.Raw)
	codecZero = uint8(codec.Zero) // a run of zeros, nothing is stored
)

// index is the table of contents of a container file.
type index struct {
	header  [32]byte // blake3-256 of the header block
	regions []regionRec
	files   []fileRec
	extents []extentRec
}

type regionRec struct {
	name    string
	zone    zones.Zone
	elem    zones.Elem
	rank    int32
	size    int64 // what the program asked for; extents cover PageRound(size)
	extents int64
}

// fileRec names a container file of an earlier checkpoint.
type fileRec struct {
	digest [32]byte // of that file's index
	path   string   // relative to the directory of the job
}

type extentRec struct {
	region    uint32
	codec     uint8
	filter    uint8
	flags     uint16
	offset    int64 // in the region
	rawLen    int64
	storedLen int64
	fileRef   uint32 // 0 this file, k the external file k-1
	storedCRC uint32
	fileOff   int64
	id        [16]byte // blake3-128 of the raw bytes, or zero
	rawCRC    uint32
}

func round8(n int) int { return (n + 7) &^ 7 }

func (x *index) encode() []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, x.encodedLen())
	b = append(b, x.header[:]...)
	pad := func(s string) {
		b = append(b, s...)
		b = append(b, make([]byte, round8(len(s))-len(s))...)
	}
	for _, r := range x.regions {
		b = le.AppendUint16(b, uint16(len(r.name)))
		b = append(b, byte(r.zone), byte(r.elem))
		b = le.AppendUint32(b, uint32(r.rank))
		b = le.AppendUint64(b, uint64(r.size))
		b = le.AppendUint64(b, uint64(r.extents))
		pad(r.name)
	}
	for _, f := range x.files {
		b = le.AppendUint16(b, uint16(len(f.path)))
		b = append(b, 0, 0, 0, 0, 0, 0)
		b = append(b, f.digest[:]...)
		pad(f.path)
	}
	for _, e := range x.extents {
		b = le.AppendUint32(b, e.region)
		b = append(b, e.codec, e.filter)
		b = le.AppendUint16(b, e.flags)
		b = le.AppendUint64(b, uint64(e.offset))
		b = le.AppendUint32(b, uint32(e.rawLen))
		b = le.AppendUint32(b, uint32(e.storedLen))
		b = le.AppendUint32(b, e.fileRef)
		b = le.AppendUint32(b, e.storedCRC)
		b = le.AppendUint64(b, uint64(e.fileOff))
		b = append(b, e.id[:]...)
		b = le.AppendUint32(b, e.rawCRC)
		b = le.AppendUint32(b, 0)
	}
	return b
}

// decodeIndex reads the index b, whose checksum is right, and checks that each region is
// covered exactly, and each byte of the payload used once, but for holes where allowed. An
// error's offset is within the index.
func decodeIndex(b []byte, t trailer, holes bool) (*index, int64, error) {
	d := decoder{b: b}
	x := d.records(t.regions, t.files, t.extents)
	if d.err == nil {
		d.off = 0
		d.err = x.checkNames()
	}
	if d.err != nil {
		return nil, int64(d.off), d.err
	}
	first := int64(len(b)) - t.extents*extentSize
	for i, e := range x.extents {
		if err := x.checkExtent(e, t.indexOffset); err != nil {
			return nil, first + int64(i)*extentSize, err
		}
	}
	if err := x.checkCover(); err != nil {
		return nil, 0, err
	}
	return x, 0, x.checkPayload(t.indexOffset, holes)
}

// checkExtent checks one record. The codec comes last: only a record that is otherwise sound is
// called too new.
func (x *index) checkExtent(e extentRec, indexOffset int64) error {
	switch {
	case int(e.region) >= len(x.regions):
		return errBlock(fmt.Sprintf("extent of region %d, but there are %d", e.region, len(x.regions)))
	case int64(e.fileRef) > int64(len(x.files)):
		return errBlock(fmt.Sprintf("extent in file %d, but there are %d", e.fileRef, len(x.files)))
	case e.flags != 0:
		return errBlock("extent has unknown flags")
	case e.rawLen == 0 || e.rawLen > maxExtent || e.storedLen > maxExtent || e.rawLen%zones.PageSize != 0:
		return errBlock("extent length is out of range")
	case e.codec == codecZero:
		if e != (extentRec{region: e.region, codec: codecZero, offset: e.offset, rawLen: e.rawLen}) {
			return errBlock("extent of zeros has fields that are not zero")
		}
		return nil
	case e.fileOff%zones.PageSize != 0 || e.fileOff < BlockSize:
		return errBlock("extent is not at a page of the payload")
	case e.fileRef == 0 && (e.fileOff > indexOffset || zones.PageRound(e.storedLen) > indexOffset-e.fileOff):
		return errBlock("extent ends outside the payload")
	case !codec.ID(e.codec).Valid():
		return fmt.Errorf("codec %d is %w", e.codec, ErrUnsupported)
	case !codec.Filter(e.filter).Valid():
		return fmt.Errorf("filter %d is %w", e.filter, ErrUnsupported)
	case e.codec == codecRaw && (e.filter != 0 || e.storedLen != e.rawLen || e.storedCRC != e.rawCRC):
		return errBlock("raw extent differs from what is stored")
	case e.codec != codecRaw && (e.storedLen == 0 || e.storedLen >= e.rawLen):
		return errBlock("packed extent is not smaller than its contents")
	}
	return nil
}

// checkCover checks that extents, in order, cover each region without gap or overlap.
func (x *index) checkCover() error {
	i := 0
	for r, reg := range x.regions {
		var at, n int64
		for ; i < len(x.extents) && int(x.extents[i].region) == r; i++ {
			if x.extents[i].offset != at {
				return errBlock(fmt.Sprintf("region %q is not covered at offset %d", reg.name, at))
			}
			at += x.extents[i].rawLen
			n++
		}
		if at != zones.PageRound(reg.size) || n != reg.extents {
			return errBlock(fmt.Sprintf("region %q has %d bytes in %d extents, want %d in %d",
				reg.name, at, n, zones.PageRound(reg.size), reg.extents))
		}
	}
	if i != len(x.extents) {
		return errBlock("extents are not in the order of the regions")
	}
	return nil
}

// checkPayload checks that the extents stored here fill the payload exactly, so that no byte
// escapes its checksum; with holes, that they do not overlap. Several may share a range.
func (x *index) checkPayload(indexOffset int64, holes bool) error {
	at := int64(BlockSize)
	for _, e := range x.ownOnce() {
		if e.fileOff < at || e.fileOff > at && !holes {
			return errBlock(fmt.Sprintf("payload is not covered at offset %d", at))
		}
		at = e.fileOff + zones.PageRound(e.storedLen)
	}
	if at > indexOffset || at < indexOffset && !holes {
		return errBlock(fmt.Sprintf("payload is not covered at offset %d", at))
	}
	return nil
}

// A hole is bytes of the payload that are in no extent.
type hole struct{ off, n int64 }

// holes lists the holes of a payload that ends at indexOffset.
func (x *index) holes(indexOffset int64) []hole {
	var list []hole
	at := int64(BlockSize)
	for _, e := range x.ownOnce() {
		if e.fileOff > at {
			list = append(list, hole{at, e.fileOff - at})
		}
		at = e.fileOff + zones.PageRound(e.storedLen)
	}
	if at < indexOffset {
		list = append(list, hole{at, indexOffset - at})
	}
	return list
}

// sameBytes reports whether two extents are stored in the same place, once.
func (e extentRec) sameBytes(f extentRec) bool {
	f.region, f.offset = e.region, e.offset
	return e == f
}

// ownOnce is own with each range of the payload once.
func (x *index) ownOnce() []extentRec { return slices.CompactFunc(x.own(), extentRec.sameBytes) }

// own returns the extents stored in this file, in file order.
func (x *index) own() []extentRec {
	var own []extentRec
	for _, e := range x.extents {
		if e.fileRef == 0 && e.storedLen > 0 {
			own = append(own, e)
		}
	}
	slices.SortStableFunc(own, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
	return own
}

// decoder takes fields off an index. After the first error it yields zeros.
type decoder struct {
	b   []byte
	off int
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = errBlock(fmt.Sprintf(format, args...))
	}
}

func (d *decoder) take(n int) []byte {
	if d.err != nil || n > len(d.b)-d.off {
		d.fail("index ends in the middle of a record")
		return make([]byte, n)
	}
	d.off += n
	return d.b[d.off-n : d.off]
}

func (d *decoder) text(n, limit int, what string) string {
	if n == 0 || n > limit {
		d.fail("%s is %d bytes long (limit %d)", what, n, limit)
		return ""
	}
	b := d.take(round8(n))
	if strings.Trim(string(b[n:]), "\x00") != "" {
		d.fail("%s is padded with other than zeros", what)
	}
	return string(b[:n])
}

func (d *decoder) size(v uint64) int64 {
	if v > math.MaxInt64/2 {
		d.fail("number %d is out of range", v)
		return 0
	}
	return int64(v)
}

// records takes an index of so many records, which fill what there is.
func (d *decoder) records(regions, files, extents int64) *index {
	x := &index{header: [32]byte(d.take(32))}
	for range regions {
		x.regions = append(x.regions, d.region())
	}
	for range files {
		x.files = append(x.files, d.file())
	}
	if rest := int64(len(d.b) - d.off); d.err == nil && rest != extents*extentSize {
		d.fail("index is %d bytes longer or shorter than its records", rest-extents*extentSize)
	}
	if d.err != nil {
		return x
	}
	x.extents = make([]extentRec, 0, extents)
	for range extents {
		if x.extents = append(x.extents, d.extent()); d.err != nil {
			d.off -= extentSize
			return x
		}
	}
	return x
}

func (d *decoder) region() regionRec {
	le := binary.LittleEndian
	b := d.take(regionFixed)
	r := regionRec{
		zone:    zones.Zone(b[2]),
		elem:    zones.Elem(b[3]),
		rank:    int32(le.Uint32(b[4:])),
		size:    d.size(le.Uint64(b[8:])),
		extents: d.size(le.Uint64(b[16:])),
	}
	r.name = d.text(int(le.Uint16(b)), maxName, "region name")
	if !r.zone.Valid() || !r.elem.Valid() || r.rank < -1 {
		d.fail("region %q has zone %d, element %d, rank %d", r.name, b[2], b[3], r.rank)
	}
	return r
}

func (d *decoder) file() fileRec {
	b := d.take(fileFixed)
	if string(b[2:8]) != "\x00\x00\x00\x00\x00\x00" {
		d.fail("file record has unused bytes that are not zero")
	}
	f := fileRec{digest: [32]byte(b[8:40])}
	f.path = d.text(int(binary.LittleEndian.Uint16(b)), maxPath, "file path")
	if d.err == nil && !LocalPath(f.path) {
		d.fail("path %q leaves the directory of the job", f.path)
	}
	return f
}

func (d *decoder) extent() extentRec {
	le := binary.LittleEndian
	b := d.take(extentSize)
	if le.Uint32(b[60:]) != 0 {
		d.fail("extent record has unused bytes that are not zero")
	}
	return extentRec{
		region:    le.Uint32(b),
		codec:     b[4],
		filter:    b[5],
		flags:     le.Uint16(b[6:]),
		offset:    d.size(le.Uint64(b[8:])),
		rawLen:    int64(le.Uint32(b[16:])),
		storedLen: int64(le.Uint32(b[20:])),
		fileRef:   le.Uint32(b[24:]),
		storedCRC: le.Uint32(b[28:]),
		fileOff:   d.size(le.Uint64(b[32:])),
		id:        [16]byte(b[40:56]),
		rawCRC:    le.Uint32(b[56:]),
	}
}

func (x *index) encodedLen() int {
	n := 32 + len(x.extents)*extentSize
	for _, r := range x.regions {
		n += regionFixed + round8(len(r.name))
	}
	for _, f := range x.files {
		n += fileFixed + round8(len(f.path))
	}
	return n
}

// checkNames checks that no region appears twice.
func (x *index) checkNames() error {
	type key struct {
		name string
		rank int32
	}
	seen := make(map[key]bool, len(x.regions))
	for _, r := range x.regions {
		k := key{r.name, r.rank}
		if seen[k] {
			return errBlock(fmt.Sprintf("region %q of rank %d appears twice", r.name, r.rank))
		}
		seen[k] = true
	}
	return nil
}

// A tail is index and trailer, which lie behind the payload of a file.
type tail struct {
	bytes   []byte
	trailer trailer
	holes   int64 // bytes
}

// tail encodes the index of a payload that ends at end, with a copy of it.
func (x *index) tail(end int64) *tail {
	if x.encodedLen() <= copyRoom {
		return x.tailWith(end, inTrailer)
	}
	return x.tailWith(end, inPages)
}

func (x *index) tailWith(end int64, where copies) *tail {
	b := x.encode()
	n := where.pages(int64(len(b)))
	t := &tail{bytes: aligned(int(n) + BlockSize), trailer: trailer{
		indexCRC:    durable.Sum(b),
		indexOffset: end,
		indexLen:    int64(len(b)),
		fileLen:     end + n + BlockSize,
		regions:     int64(len(x.regions)),
		files:       int64(len(x.files)),
		extents:     int64(len(x.extents)),
		digest:      digestOf(b),
		copies:      where,
	}}
	copy(t.bytes, b)
	switch where {
	case inTrailer:
		t.trailer.copied = string(b)
	case inPages:
		copy(t.bytes[n/2:], b)
	}
	t.trailer.encode(t.bytes[n:])
	for _, h := range x.holes(end) {
		t.holes += h.n
	}
	return t
}
