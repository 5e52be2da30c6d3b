package iotrace

import (
	"encoding/binary"
	"hash/crc32"
)

// The layout of the file; see the package comment.
const (
	magic      = "\x89CKTR\r\n\x1a"
	version    = 1
	headerSize = 16

	blockHeader = 16
	// maxPayload bounds a block, so that its length can be believed.
	maxPayload = 1 << 20
	// blockTarget is the length at which a block of events is full. It is long enough
	// for definitions to cost little, and short enough for damage to lose little.
	blockTarget = 64 << 10

	kindHead   = "HEAD"
	kindTables = "TABL"
	kindEvents = "EVNT"
	kindEnd    = "ENDS"

	endPayload = 24
	// minEvent is the shortest event: kind, start, end.
	minEvent = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the header of a block whose payload begins at blockHeader.
func seal(block []byte, kind string, count int) {
	copy(block, kind)
	binary.LittleEndian.PutUint32(block[4:], uint32(len(block)-blockHeader))
	binary.LittleEndian.PutUint32(block[8:], uint32(count))
	binary.LittleEndian.PutUint32(block[12:], blockSum(block[:12], block[blockHeader:]))
}

func blockSum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// fileHeader returns the first bytes of every file.
func fileHeader() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:12], castagnoli))
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}
