package export

import (
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/line"
)

// event reads a row.
func (c *csvReader) event() (e iotrace.Event, reason string) {
	f := c.fields
	var ok bool
	if e.Op, ok = c.op(f[colOp]); !ok {
		return e, "the operation is unknown"
	}
	switch string(f[colModule]) {
	case "POSIX":
	case "MPIIO":
		e.Module = iotrace.MPIIO
	default:
		return e, "the module is neither POSIX nor MPIIO"
	}
	if e.Zone, ok = c.zone(f[colZone]); !ok {
		return e, "the zone is unknown"
	}
	switch string(f[colCreate]) {
	case "":
	case "1":
		e.Create = true
	default:
		return e, "create is neither 1 nor empty"
	}
	if e.Rank, ok = c.rankField(f[colRank], f[colNode]); !ok {
		return e, "invalid rank"
	}
	e.File = iotrace.None
	if len(f[colFile]) > 0 {
		e.File = c.tables.FileBytes(f[colFile])
	}
	if e.Peer, ok = c.rankField(f[colPeer], f[colPeerNode]); !ok {
		return e, "invalid peer"
	}
	n, ok := line.Int(f[colCheckpoint])
	if !ok || n > math.MaxInt32 || n < 0 {
		return e, "invalid checkpoint"
	}
	e.Checkpoint = int32(n)
	n, ok = line.Int(f[colRound])
	if !ok || n > math.MaxInt32 || n < 0 {
		return e, "invalid round"
	}
	e.Round = int32(n)
	e.Offset = iotrace.None
	if len(f[colOffset]) > 0 {
		if e.Offset, ok = line.Int(f[colOffset]); !ok {
			return e, "invalid offset"
		}
		if e.Offset < 0 {
			return e, "the offset is negative"
		}
	}
	if e.Bytes, ok = line.Int(f[colBytes]); !ok {
		return e, "invalid bytes"
	}
	if e.Start, ok = line.Int(f[colStart]); !ok {
		return e, "invalid start"
	}
	if e.Start < 0 && !c.tagged { // ckpt itself may record events before the origin
		return e, "the start is negative"
	}
	if e.End, ok = line.Int(f[colEnd]); !ok {
		return e, "invalid end"
	}
	if err := e.Check(len(c.t.Ranks), len(c.t.Files)); err != nil {
		return e, err.Error()
	}
	return e, ""
}

// op and zone remember the last value, so that equal text need not become a string
// each time.

func (c *csvReader) op(name []byte) (iotrace.Op, bool) {
	if op, ok := c.ops[string(name)]; ok {
		return op, true
	}
	op, err := iotrace.ParseOp(string(name))
	if err == nil {
		c.ops[op.String()] = op
	}
	return op, err == nil
}

func (c *csvReader) zone(name []byte) (iotrace.Zone, bool) {
	if z, ok := c.zones[string(name)]; ok {
		return z, true
	}
	z, err := iotrace.ParseZone(string(name))
	if err == nil {
		c.zones[z.String()] = z
	}
	return z, err == nil
}

func (c *csvReader) rankField(number, node []byte) (int32, bool) {
	if len(number) == 0 {
		return iotrace.None, len(node) == 0
	}
	n, ok := line.Int(number)
	if !ok {
		return 0, false
	}
	return c.rank(n, node), true
}
