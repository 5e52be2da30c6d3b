package export

import (
	"encoding/binary"
	"errors"
)

// A thriftCheck walks over a structure in Thrift's compact protocol, the encoding of
// Parquet's metadata. It stops where a value would need more bytes than there are. The
// decoder that runs afterwards allocates lists of any announced length, which could
// exceed all memory.
type thriftCheck struct {
	b  []byte
	at int
	// least returns the smallest size in bytes of an element in a list of structures,
	// at least 1. The arguments are the depth of nesting and the field.
	least func(depth, field int) int
}

var errThrift = errors.New("damaged metadata")

// Types of the compact protocol.
const (
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftStruct = 12
)

const thriftDepth = 16 // nested structures; Parquet has five

// structure walks over one.
func (c *thriftCheck) structure(depth int) error {
	if depth > thriftDepth {
		return errThrift
	}
	field := 0
	for {
		if c.at >= len(c.b) {
			return errThrift
		}
		h := c.b[c.at]
		c.at++
		if h == 0 {
			return nil
		}
		if delta := int(h >> 4); delta != 0 {
			field += delta
		} else {
			id, err := c.varint()
			if err != nil {
				return err
			}
			field = int(int16(id>>1) ^ -int16(id&1))
		}
		if t := h & 15; t == thriftTrue || t == thriftFalse { // the type is the value
			continue
		} else if err := c.value(int(t), depth, field); err != nil {
			return err
		}
	}
}

func (c *thriftCheck) value(kind, depth, field int) error {
	switch kind {
	case thriftTrue, thriftFalse, thriftByte:
		return c.skip(1)
	case thriftI16, thriftI32, thriftI64:
		_, err := c.varint()
		return err
	case thriftDouble:
		return c.skip(8)
	case thriftBinary:
		n, err := c.varint()
		if err != nil {
			return err
		}
		return c.skip(n)
	case thriftList, thriftSet:
		return c.list(depth, field)
	case thriftStruct:
		return c.structure(depth + 1)
	}
	return errThrift // maps; Parquet has none
}

func (c *thriftCheck) list(depth, field int) error {
	if c.at >= len(c.b) {
		return errThrift
	}
	h := c.b[c.at]
	c.at++
	n := uint64(h >> 4)
	if n == 15 {
		var err error
		if n, err = c.varint(); err != nil {
			return err
		}
	}
	least := 1
	if h&15 == thriftStruct && c.least != nil {
		least = c.least(depth, field)
	}
	if n > uint64(len(c.b)-c.at)/uint64(least) {
		return errThrift
	}
	for range n {
		if err := c.value(int(h&15), depth, field); err != nil {
			return err
		}
	}
	return nil
}

func (c *thriftCheck) skip(n uint64) error {
	if n > uint64(len(c.b)-c.at) {
		return errThrift
	}
	c.at += int(n)
	return nil
}

func (c *thriftCheck) varint() (uint64, error) {
	x, n := binary.Uvarint(c.b[c.at:])
	if n <= 0 {
		return 0, errThrift
	}
	c.at += n
	return x, nil
}
