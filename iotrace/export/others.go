package export

import (
	"strings"

	"ckpt/iotrace"
)

// othersNames are the names that programs give to the columns of a CSV, the best first:
// those of CSV, of Parquet of ckpt, and of Recorder, which WisIO reads.
var othersNames = [numCols][]string{
	colOp:         {"op", "func_id"},
	colModule:     {"module", "ckpt_module", "cat"},
	colZone:       {"zone", "ckpt_zone"},
	colCreate:     {"create", "ckpt_create"},
	colRank:       {"rank", "proc"},
	colNode:       {"node", "hostname"},
	colFile:       {"file", "file_name"},
	colPeer:       {"peer"},
	colPeerNode:   {"peer_node"},
	colCheckpoint: {"checkpoint", "ckpt_checkpoint"},
	colRound:      {"round", "ckpt_round"},
	colOffset:     {"offset", "ckpt_offset"},
	colBytes:      {"bytes", "ckpt_bytes", "size"},
	colStart:      {"start_ns", "ckpt_start_ns", "tstart"},
	colEnd:        {"end_ns", "ckpt_end_ns", "tend"},
}

// other makes an event of a row of another program, or counts it if it is no I/O. It returns
// what is wrong with the row.
func (c *rows) other(rep *iotrace.Report) (reason string) {
	call := string(c.fields[colOp])
	if _, ok := c.op(c.fields[colOp]); !ok {
		op, module := calledOp(call)
		if op == 0 && call != "" {
			rep.Other(call)
			return ""
		}
		if op != 0 {
			c.fields[colOp] = append(c.fields[colOp][:0], op.String()...)
			c.fields[colModule] = append(c.fields[colModule][:0], module.String()...)
		}
	}
	// An event of no rank has -1 as its number, and no node.
	if string(c.fields[colRank]) == "-1" && len(c.fields[colNode]) == 0 {
		c.fields[colRank] = c.fields[colRank][:0]
	}
	e, reason := c.event()
	if reason == "" {
		c.t.Events = append(c.t.Events, e)
	}
	return reason
}

// calledOp returns what a function of C or MPI does to a file, 0 if it is no operation of a
// trace, and the interface it belongs to.
func calledOp(name string) (iotrace.Op, iotrace.Module) {
	if call, ok := strings.CutPrefix(name, "MPI_File_"); ok {
		return mpiOp(call), iotrace.MPIIO
	}
	call := strings.TrimSuffix(strings.TrimLeft(name, "_"), "64")
	if op, ok := stdioCalls[call]; ok {
		return op, iotrace.STDIO
	}
	return posixCalls[call], iotrace.POSIX
}

func mpiOp(call string) iotrace.Op {
	call = strings.TrimPrefix(call, "i")
	for _, kind := range []struct {
		begin string
		op    iotrace.Op
	}{{"read", iotrace.Read}, {"write", iotrace.Write}, {"open", iotrace.Open}, {"close", iotrace.Close}, {"sync", iotrace.Sync},
		{"seek", iotrace.Seek}, {"set_size", iotrace.Truncate}, {"delete", iotrace.Unlink}} {
		if strings.HasPrefix(call, kind.begin) && !strings.HasSuffix(call, "_end") {
			return kind.op
		}
	}
	return 0
}

var posixCalls = map[string]iotrace.Op{
	"open": iotrace.Open, "openat": iotrace.Open, "creat": iotrace.Open, "close": iotrace.Close,
	"read": iotrace.Read, "pread": iotrace.Read, "readv": iotrace.Read, "preadv": iotrace.Read,
	"write": iotrace.Write, "pwrite": iotrace.Write, "writev": iotrace.Write, "pwritev": iotrace.Write,
	"fsync": iotrace.Sync, "fdatasync": iotrace.Sync, "msync": iotrace.Sync,
	"lseek": iotrace.Seek, "truncate": iotrace.Truncate, "ftruncate": iotrace.Truncate,
	"stat": iotrace.Stat, "fstat": iotrace.Stat, "lstat": iotrace.Stat, "fstatat": iotrace.Stat,
	"xstat": iotrace.Stat, "fxstat": iotrace.Stat, "lxstat": iotrace.Stat, "fxstatat": iotrace.Stat,
	"rename": iotrace.Rename, "unlink": iotrace.Unlink, "unlinkat": iotrace.Unlink, "remove": iotrace.Unlink,
	"mmap": iotrace.Mmap,
}

var stdioCalls = map[string]iotrace.Op{
	"fopen": iotrace.Open, "fdopen": iotrace.Open, "fclose": iotrace.Close, "fread": iotrace.Read, "fwrite": iotrace.Write,
	"fseek": iotrace.Seek, "fseeko": iotrace.Seek, "rewind": iotrace.Seek, "fflush": iotrace.Sync,
	"fprintf": iotrace.Write, "vfprintf": iotrace.Write, "fputs": iotrace.Write, "fgets": iotrace.Read,
}

// warnOffsets warns of reads and writes that have no offset.
func warnOffsets(t *iotrace.Trace) {
	w := iotrace.Warning{Code: iotrace.WarnNoOffsets,
		Text: "Reads and writes have no offset in the trace: their order in the file, and patterns, are unknown."}
	for i := range t.Events {
		if e := &t.Events[i]; e.Op.Data() && e.Offset == iotrace.None {
			w.Count++
		}
	}
	if w.Count > 0 {
		t.Warnings = append(t.Warnings, w)
	}
}
