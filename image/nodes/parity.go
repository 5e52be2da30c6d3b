package nodes

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/zeebo/blake3"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A parity file is a header, units, and a table of their checksums. All begin at whole
// pages; integers are little-endian.
//
//	0    magic "ckptpar\n"        48   number of units of the file
//	8    version                  56   place of the table
//	12   length of the header     64   length of the file
//	16   checkpoint               72   CRC-32C of the table
//	24   set                      76   length of the job's name
//	28   position of its node     128  name of the job
//	32   members                  256  members: rank, node, length of the file
//	36   parities in a row        end  CRC-32C of the header
//	40   length of a unit
//
// Unit u begins at the end of the header and u times the length of a unit. It ends, at
// a whole page, where the longest data of its row does. The digest of the file is
// blake3-256 of header and table. The same members' files make the same parity file.
const (
	parityMagic   = "ckptpar\n"
	parityVersion = 1
	page          = vfs.DirectUnit
	jobAt         = 128
	maxJob        = 128
	membersAt     = 256
	memberBytes   = 16
	maxUnit       = 16 << 20
	// maxFile bounds the length of a member's file, and so the table.
	maxFile = 1 << 42
)

// ParityID says which parity file one is.
type ParityID struct {
	Job        string `json:"job"`
	Checkpoint int    `json:"checkpoint"`
	Set        Set    `json:"set"`
	Index      int    `json:"index"` // position of its node in the set
	// Unit is the length of units; 0 means UnitBytes.
	Unit int64 `json:"unit,omitempty"`
}

func (id ParityID) check() error {
	n := len(id.Set.Members)
	if err := id.Set.Check(); err != nil {
		return err
	}
	for i, rank := range id.Set.Members {
		if node := id.Set.Nodes[i]; rank < -1 || node < 0 || rank > math.MaxInt32 || node > math.MaxInt32 {
			return fmt.Errorf("set %d: rank %d on node %d is out of range", id.Set.ID, rank, node)
		}
	}
	switch {
	case len(id.Job) > maxJob || id.Job == "":
		return fmt.Errorf("job name %.40q is %d bytes long, want 1 to %d", id.Job, len(id.Job), maxJob)
	case id.Checkpoint < 0 || int64(id.Checkpoint) > math.MaxUint32 || int64(id.Set.ID) > math.MaxUint32:
		return fmt.Errorf("checkpoint %d or set %d is out of range", id.Checkpoint, id.Set.ID)
	case id.Index < 0 || id.Index >= n:
		return fmt.Errorf("parity %d is out of range: set %d has %d members", id.Index, id.Set.ID, n)
	case id.Unit < page || id.Unit > maxUnit || id.Unit%page != 0:
		return fmt.Errorf("units of %d bytes are out of range", id.Unit)
	}
	return nil
}

// header begins a parity file; all else follows from it.
type header struct {
	id       ParityID
	sizes    []int64 // of the members' files
	tableCRC uint32
	layout   layout
	units    int64
	tableAt  int64
	fileLen  int64
}

func pageRound(n int64) int64 { return (n + page - 1) / page * page }

func headerLen(members int) int64 { return pageRound(int64(membersAt + members*memberBytes + 4)) }

// newHeader finds what follows from the lengths of the members' files.
func newHeader(id ParityID, sizes []int64) (header, error) {
	h := header{id: id, sizes: sizes, layout: layout{len(sizes), id.Set.Parity, id.Unit}}
	for i, size := range sizes {
		if size < 0 || size > maxFile || id.Set.Members[i] < 0 && size > 0 {
			return h, fmt.Errorf("member %d has a file of %d bytes", i, size)
		}
		h.units = max(h.units, h.unitsOf(i, size))
	}
	h.tableAt = headerLen(len(sizes))
	if h.units > 0 {
		h.tableAt = h.unitAt(h.units-1) + h.unitLen(h.units-1)
	}
	h.fileLen = h.tableAt + pageRound(4*h.units)
	return h, nil
}

// unitsOf returns how many units the parity file needs for one member.
func (h *header) unitsOf(member int, size int64) int64 {
	if member == h.id.Index || size == 0 {
		return 0
	}
	last := (size - 1) / h.layout.unit
	for u := last; u >= 0 && u > last-int64(h.layout.n); u-- {
		if row := h.layout.rowOf(member, u); h.layout.place(row, h.id.Index) < h.layout.m {
			return h.layout.parityUnit(h.id.Index, row) + 1
		}
	}
	return 0
}

// unitAt returns where a unit begins.
func (h *header) unitAt(u int64) int64 { return headerLen(h.layout.n) + u*h.layout.unit }

// unitLen returns how long a unit is: as the longest data in its row.
func (h *header) unitLen(u int64) int64 {
	row := h.layout.rowAt(h.id.Index, u)
	var longest int64
	for i, size := range h.sizes {
		if h.layout.place(row, i) >= h.layout.m {
			longest = max(longest, min(h.layout.unit, size-h.layout.dataUnit(i, row)*h.layout.unit))
		}
	}
	return pageRound(longest)
}

func (h *header) encode() []byte {
	le := binary.LittleEndian
	n := len(h.sizes)
	b := vfs.Aligned(int(headerLen(n)))
	copy(b, parityMagic)
	le.PutUint32(b[8:], parityVersion)
	le.PutUint32(b[12:], uint32(len(b)))
	le.PutUint64(b[16:], uint64(h.id.Checkpoint))
	le.PutUint32(b[24:], uint32(h.id.Set.ID))
	le.PutUint32(b[28:], uint32(h.id.Index))
	le.PutUint32(b[32:], uint32(n))
	le.PutUint32(b[36:], uint32(h.id.Set.Parity))
	le.PutUint64(b[40:], uint64(h.id.Unit))
	le.PutUint64(b[48:], uint64(h.units))
	le.PutUint64(b[56:], uint64(h.tableAt))
	le.PutUint64(b[64:], uint64(h.fileLen))
	le.PutUint32(b[72:], h.tableCRC)
	le.PutUint16(b[76:], uint16(len(h.id.Job)))
	copy(b[jobAt:jobAt+maxJob], h.id.Job)
	for i, size := range h.sizes {
		m := b[membersAt+i*memberBytes:]
		le.PutUint32(m, uint32(int32(h.id.Set.Members[i])))
		le.PutUint32(m[4:], uint32(h.id.Set.Nodes[i]))
		le.PutUint64(m[8:], uint64(size))
	}
	le.PutUint32(b[len(b)-4:], durable.Sum(b[:len(b)-4]))
	return b
}

// headerLenOf returns the length of a header that begins with a page.
func headerLenOf(b []byte) (int64, error) {
	if len(b) < page || string(b[:8]) != parityMagic {
		return 0, errors.New("no header of a parity file (wrong magic)")
	}
	n := int64(binary.LittleEndian.Uint32(b[12:]))
	if n < page || n > headerLen(2*maxGroup) || n%page != 0 {
		return 0, fmt.Errorf("header of %d bytes is out of range", n)
	}
	return n, nil
}

// decodeHeader reads a whole header. All that it returns has been checked.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if n, err := headerLenOf(b); err != nil || n != int64(len(b)) {
		return header{}, cmp.Or(err, errors.New("header ends early"))
	}
	if le.Uint32(b[len(b)-4:]) != durable.Sum(b[:len(b)-4]) {
		return header{}, errors.New("header checksum does not match")
	}
	if v := le.Uint32(b[8:]); v > parityVersion {
		return header{}, fmt.Errorf("parity format %d: %w", v, durable.ErrNewerVersion)
	}
	n, job := int64(le.Uint32(b[32:])), int(le.Uint16(b[76:]))
	unit, number := le.Uint64(b[40:]), le.Uint64(b[16:])
	if n > 2*maxGroup || headerLen(int(n)) != int64(len(b)) || job > maxJob || unit > maxUnit || number > math.MaxUint32 {
		return header{}, errors.New("header field is out of range")
	}
	id := ParityID{Job: string(b[jobAt : jobAt+job]), Checkpoint: int(number), Index: int(le.Uint32(b[28:])), Unit: int64(unit),
		Set: Set{ID: int(le.Uint32(b[24:])), Parity: int(le.Uint32(b[36:]))}}
	var sizes []int64
	for m := b[membersAt:][:n*memberBytes]; len(m) > 0; m = m[memberBytes:] {
		id.Set.Members = append(id.Set.Members, int(int32(le.Uint32(m))))
		id.Set.Nodes = append(id.Set.Nodes, int(le.Uint32(m[4:])))
		sizes = append(sizes, int64(le.Uint64(m[8:])))
	}
	if err := id.check(); err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	h, err := newHeader(id, sizes)
	if err != nil {
		return header{}, fmt.Errorf("header: %w", err)
	}
	h.tableCRC = le.Uint32(b[72:])
	// One header has one encoding: what follows from the rest has to agree with it.
	if string(h.encode()) != string(b) {
		return header{}, errors.New("header contradicts itself")
	}
	return h, nil
}

// encodeTable returns the table, in whole pages.
func encodeTable(sums []uint32) []byte {
	b := vfs.Aligned(int(pageRound(int64(4 * len(sums)))))
	for i, sum := range sums {
		binary.LittleEndian.PutUint32(b[4*i:], sum)
	}
	return b
}

// digestOf returns the digest of a parity file.
func digestOf(header, table []byte) string {
	d := blake3.New()
	_, _ = d.Write(header)
	_, _ = d.Write(table)
	return hex.EncodeToString(d.Sum(nil))
}

// Parity is a parity file that is open for reading. Several goroutines may read it.
type Parity struct {
	path   string
	file   vfs.File
	header header
	sums   []uint32
	info   ParityInfo
}

// OpenParity opens a parity file and checks its header and table, not its units.
func OpenParity(fsys vfs.FS, path string) (*Parity, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, durable.ReadError(path, -1, durable.Op("open", path, -1, err))
	}
	p := &Parity{path: path, file: f}
	if err := p.read(); err != nil {
		f.Close()
		return nil, err
	}
	return p, nil
}

func (p *Parity) read() error {
	size, err := p.file.Size()
	if err != nil {
		return durable.Op("read", p.path, -1, err)
	}
	head := vfs.Aligned(page)
	if err := durable.ReadAt(p.file, p.path, head, 0); err != nil {
		return err
	}
	n, err := headerLenOf(head)
	if err == nil && n > page {
		head = vfs.Aligned(int(n))
		if err := durable.ReadAt(p.file, p.path, head, 0); err != nil {
			return err
		}
	}
	if err == nil {
		p.header, err = decodeHeader(head)
	}
	if errors.Is(err, durable.ErrNewerVersion) {
		return durable.Op("read", p.path, 0, err)
	}
	if err != nil {
		return durable.Damaged(p.path, 0, "%v", err)
	}
	h := &p.header
	if size != h.fileLen {
		return durable.Damaged(p.path, min(size, h.fileLen), "file is %d bytes long, its header says %d", size, h.fileLen)
	}
	return p.readTable(head)
}

func (p *Parity) readTable(head []byte) error {
	h := &p.header
	table := vfs.Aligned(int(h.fileLen - h.tableAt))
	if len(table) > 0 {
		if err := durable.ReadAt(p.file, p.path, table, h.tableAt); err != nil {
			return err
		}
	}
	if durable.Sum(table) != h.tableCRC {
		return durable.Damaged(p.path, h.tableAt, "table checksum does not match")
	}
	p.sums = make([]uint32, h.units)
	for i := range p.sums {
		p.sums[i] = binary.LittleEndian.Uint32(table[4*i:])
	}
	p.info = ParityInfo{Set: h.id.Set.ID, Index: h.id.Index, Bytes: h.fileLen, Digest: digestOf(head, table)}
	return nil
}

// Close closes the file.
func (p *Parity) Close() error { return p.file.Close() }

// Info describes the file, as End did when it was written.
func (p *Parity) Info() ParityInfo { return p.info }

// readUnit reads a unit into b, as far as it is stored, and checks it; the rest of b
// becomes zero.
func (p *Parity) readUnit(u int64, b []byte) error {
	n := int64(0)
	if u < p.header.units {
		n = p.header.unitLen(u)
	}
	clear(b[n:])
	if n == 0 {
		return nil
	}
	at := p.header.unitAt(u)
	if err := durable.ReadAt(p.file, p.path, b[:n], at); err != nil {
		return err
	}
	if durable.Sum(b[:n]) != p.sums[u] {
		return durable.Damaged(p.path, at, "checksum of unit %d does not match", u)
	}
	return nil
}

// Check reads all units and compares their checksums.
func (p *Parity) Check(ctx context.Context) error {
	b := vfs.Aligned(int(p.header.layout.unit))
	for u := range p.header.units {
		if err := ctx.Err(); err != nil {
			return durable.Op("read", p.path, -1, err)
		}
		if err := p.readUnit(u, b); err != nil {
			return err
		}
	}
	return nil
}
