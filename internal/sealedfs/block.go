// Package sealedfs is a file system whose files only readers with a key can read. It lies over
// another one, a directory or an object storage, which has the same names and sealed contents.
//
// A sealed file is
//
//	header   64 bytes: magic, length of blocks, random id of the file, CRC-32C
//	blocks   64 KiB of plain text each, the last one shorter: nonce, AES-256-GCM, CRC-32C
//	end      a block that holds the length of the plain text
//
// The key of a file is derived (HKDF-SHA256) from the key of the store, the id and the name of the
// file in the store, so that a file under another name is noticed. Each block is bound to its
// number, and the end to the number of blocks: one that is changed, cut, moved or taken from
// another file is noticed. The CRC-32C of a block covers its sealed bytes and its number: it finds
// damage without the key, and proves nothing against an attacker.
//
// A file is never changed in place: one that is opened to be changed is written anew, under a new
// id, when it is synced or closed. So a crash leaves the old contents or the new ones, and no old
// block fits a new file.
package sealedfs

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"

	"ckpt/internal/durable"
)

const (
	magic      = "ckpt-sealed 1\n"
	headerSize = 64
	idSize     = 32
	nonceSize  = 12
	tagSize    = 16
	sumSize    = 4
	added      = nonceSize + tagSize + sumSize // to a block
	// BlockSize is the length of the plain text of a block.
	BlockSize = 64 << 10
	stride    = BlockSize + added
	endSize   = 8 + added
)

const wrongSum = "checksum of a sealed block does not match"

// A kind of block goes into what binds it.
type kind byte

const (
	data kind = iota
	end
)

// bind returns what binds a block: its number and kind.
func bind(number int64, k kind) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(number)), byte(k))
}

// blocksOf returns how many blocks so much plain text has.
func blocksOf(size int64) int64 { return (size + BlockSize - 1) / BlockSize }

// sealedSize returns the length of a sealed file, and plainSize undoes it.
func sealedSize(size int64) int64 { return headerSize + size + blocksOf(size)*added + endSize }

// plainSize fails for a length that no sealed file has.
func plainSize(sealed int64) (int64, bool) {
	rest := sealed - headerSize - endSize
	if rest < 0 {
		return 0, false
	}
	size := rest/stride*BlockSize + max(rest%stride-added, 0)
	return size, sealedSize(size) == sealed
}

// offsetOf returns where a block begins.
func offsetOf(number int64) int64 { return headerSize + number*stride }

// makeHeader returns the header of a new file, and its random id.
func makeHeader() (header, id []byte) {
	header = make([]byte, headerSize)
	copy(header, magic)
	binary.BigEndian.PutUint32(header[len(magic):], BlockSize)
	id = header[headerSize-sumSize-idSize : headerSize-sumSize]
	rand.Read(id)
	binary.BigEndian.PutUint32(header[headerSize-sumSize:], durable.Sum(header[:headerSize-sumSize]))
	return header, id
}

// readHeader returns the id in a header.
func readHeader(name string, h []byte) (id []byte, err error) {
	body := h[:headerSize-sumSize]
	switch {
	case string(h[:len(magic)]) != magic:
		return nil, durable.Damaged(name, 0, "it is no sealed file, as all files of a sealed store are")
	case durable.Sum(body) != binary.BigEndian.Uint32(h[headerSize-sumSize:]):
		return nil, durable.Damaged(name, 0, "checksum of the header does not match")
	case binary.BigEndian.Uint32(h[len(magic):]) != BlockSize:
		return nil, durable.Op("read", name, -1, durable.ErrNewerVersion)
	}
	return body[len(body)-idSize:], nil
}

// aeadOf returns the cipher of a file.
func aeadOf(key *Key, id []byte, path string) cipher.AEAD {
	k, err := hkdf.Key(sha256.New, key.secret, id, "ckpt sealed file 1\n"+path, 32)
	if err != nil {
		panic(err) // the lengths are constant
	}
	b, err := aes.NewCipher(k)
	if err != nil {
		panic(err)
	}
	aead, err := cipher.NewGCM(b)
	if err != nil {
		panic(err)
	}
	return aead
}

// sealBlock appends a sealed block. Each has a random nonce, so that one may be sealed twice.
func sealBlock(to []byte, aead cipher.AEAD, plain []byte, number int64, k kind) []byte {
	from := len(to)
	to = append(to, make([]byte, nonceSize)...)
	nonce := to[from:]
	rand.Read(nonce)
	bound := bind(number, k)
	to = aead.Seal(to, nonce, plain, bound)
	return binary.BigEndian.AppendUint32(to, sumOf(to[from:], bound))
}

func sumOf(sealed, bound []byte) uint32 { return durable.AddSum(durable.Sum(sealed), bound) }

// soundBlock checks a block as it can be checked without the key.
func soundBlock(b []byte, number int64, k kind) bool {
	at := len(b) - sumSize
	return at >= nonceSize+tagSize && sumOf(b[:at], bind(number, k)) == binary.BigEndian.Uint32(b[at:])
}

// openBlock opens a block in place. Its plain text lies within b.
func openBlock(aead cipher.AEAD, name string, b []byte, number int64, k kind) ([]byte, error) {
	if !soundBlock(b, number, k) {
		return nil, durable.Damaged(name, number*BlockSize, "%s", wrongSum)
	}
	text := b[nonceSize : len(b)-sumSize]
	plain, err := aead.Open(text[:0], b[:nonceSize], text, bind(number, k))
	if err != nil {
		return nil, durable.Damaged(name, number*BlockSize, "the key of the store has sealed no such block here: it was changed, or is from elsewhere")
	}
	return plain, nil
}

// checkedBlocks is how much Check reads at a time.
const checkedBlocks = 16

// ErrIncomplete is the cause of damage that a file has whose writer did not complete it.
var ErrIncomplete = errors.New("not complete")

// Check checks a sealed file as it can be checked without the key: lengths and checksums. It
// returns the damage that it finds, or an error if the file cannot be read.
func Check(r io.ReaderAt, name string, size int64) (damage []*durable.DamageError, err error) {
	note := func(offset int64, reason string) {
		damage = append(damage, &durable.DamageError{File: name, Offset: offset, Reason: reason})
	}
	plain, ok := plainSize(size)
	if !ok {
		note(size, "the sealed file is cut: no sealed file has this length")
		damage[0].Err = ErrIncomplete
		return damage, nil
	}
	b := make([]byte, checkedBlocks*stride)
	if err := durable.ReadAt(r, name, b[:headerSize], 0); err != nil {
		return nil, err
	}
	if _, err := readHeader(name, b[:headerSize]); err != nil {
		d := asDamage(name, err)
		if bytes.Equal(b[:headerSize], make([]byte, headerSize)) {
			d.Err = ErrIncomplete
		}
		return append(damage, d), nil
	}
	all := blocksOf(plain)
	for first := int64(0); first < all; first += checkedBlocks {
		at := offsetOf(first)
		part := b[:min(int64(len(b)), size-endSize-at)]
		if err := durable.ReadAt(r, name, part, at); err != nil {
			return damage, err
		}
		for n := first; len(part) > 0; n++ {
			block := part[:min(stride, len(part))]
			if part = part[len(block):]; !soundBlock(block, n, data) {
				note(offsetOf(n), wrongSum)
			}
		}
	}
	if err := durable.ReadAt(r, name, b[:endSize], size-endSize); err != nil {
		return damage, err
	}
	if !soundBlock(b[:endSize], all, end) {
		note(size-endSize, "the end of the sealed file is missing or damaged")
	}
	return damage, nil
}
