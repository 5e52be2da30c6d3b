package nodes

import (
	"context"
	"encoding/binary"
	"errors"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

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
